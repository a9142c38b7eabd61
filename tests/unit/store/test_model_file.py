import json
import struct
from importlib.metadata import version

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import nescio
from nescio.core.tensorfile import _digest, read_tensors, write_tensors
from nescio.data import Normalise
from nescio.errors import NescioError
from nescio.store.model_file import load_about


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nescio.methods.Softmax(
        nescio.models.mlp(4, 3), Normalise(torch.ones(4), torch.full((4,), 2.0))
    )


@pytest.fixture
def path(model, tmp_path):
    nescio.save(model, tmp_path / "m.nescio", {"data": "iris"})
    return tmp_path / "m.nescio"


def rewrite(path, change, digest=True):
    """The file with its plain data changed, its weights as they were and, unless told, a digest
    that fits.
    """
    blob = path.read_bytes()
    size = struct.unpack("<Q", blob[:8])[0]
    header = json.loads(blob[8 : 8 + size])
    about = json.loads(header["__metadata__"]["nescio"])
    about.pop("digest")
    change(about)
    if digest:
        about["digest"] = _digest(load_file(path), about)
    header["__metadata__"]["nescio"] = json.dumps(about)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + blob[8 + size :])


@pytest.fixture
def duq_path(tmp_path):
    torch.manual_seed(0)
    normalise = Normalise(torch.ones(4), torch.full((4,), 2.0))
    nescio.save(
        nescio.methods.DUQ(nescio.models.mlp(4, hidden=(8,)), 3, normalise=normalise),
        tmp_path / "duq",
    )
    return tmp_path / "duq"


def exchange(path, name, change):
    """The file with one of its tensors changed."""
    tensors, about = read_tensors(path, "model")
    tensors[name] = change(tensors[name])
    write_tensors(path, "model", tensors, about)


def test_round_trip_is_exact(model, path):
    x = torch.randn(20, 4)
    again, about = load_about(path)
    assert torch.equal(nescio.predict(again, x), nescio.predict(model, x))
    assert about == {"data": "iris"}
    assert not again.training


def test_keeps_its_floating_type_and_can_be_trained_on(model, tmp_path):
    nescio.save(model.double(), tmp_path / "d")
    again = nescio.load(tmp_path / "d")
    assert all(
        weight.dtype == torch.float64 and weight.requires_grad for weight in again.parameters()
    )
    nescio.train(again, (torch.randn(8, 4), torch.arange(8) % 3), epochs=1)
    assert not torch.equal(again.net[1].weight, model.net[1].weight)


def test_a_bare_network_is_saved_as_softmax(tmp_path):
    net = nescio.models.mlp(4, 3)
    nescio.save(net, tmp_path / "n")
    assert torch.equal(
        nescio.predict(nescio.load(tmp_path / "n"), torch.ones(1, 4)),
        nescio.predict(net, torch.ones(1, 4)),
    )


def test_a_users_own_network_says_it_cannot_be_saved(tmp_path):
    other, shorter = nescio.models.mlp(4, 3), nescio.models.mlp(4, 3)
    other[2] = nn.Tanh()
    shorter[-1] = nn.Linear(100, 2)
    for net in (nn.Linear(4, 3), other, shorter):
        with pytest.raises(NescioError, match=r"nescio\.models"):
            nescio.save(net, tmp_path / "n")

    class Mine(nescio.methods.Softmax):
        name = "mine"

    with pytest.raises(NescioError, match="in no table"):
        nescio.save(Mine(nescio.models.mlp(4, 3)), tmp_path / "n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b"",
        lambda b: b[:100],
        lambda b: b[:-1],
        lambda b: b + b"x",
        lambda b: b"\x80\x04.",
    ],
)
def test_damaged_file_is_refused(path, damage):
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(NescioError, match="not a whole nescio model"):
        nescio.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda about: about.update(format=7), "format 7"),
        (lambda about: about.update(kind="checkpoint"), "not a nescio model"),
        (lambda about: about.pop("plan"), "expected the fields"),
        (
            lambda about: about.update(plam={}),
            "says 'plam', which no model does; expected plan, about",
        ),
        (lambda about: about.update(about=[]), "expected dict"),
        (lambda about: about["plan"].update(method="softmx"), "did you mean 'softmax'"),
        (
            lambda about: about["plan"].update(
                network={"network": "mlp", "inputs": 9, "classes": 3}
            ),
            "another network",
        ),
        (
            lambda about: about["plan"].update(
                network={"network": "mlp", "inputs": 10**8, "classes": 3}
            ),
            "another network",
        ),
        (lambda about: about["plan"].update(network={"network": "os.system"}), "unknown network"),
        (lambda about: about["plan"]["network"].update(dropout=5), "dropout"),
        (lambda about: about["plan"]["network"].update(dropout="x"), "dropout"),
        (lambda about: about["plan"]["network"].update(hidden=5), "hidden"),
        (lambda about: about["plan"]["network"].update(hidden=[10**12, 10**12]), "hidden"),
        (lambda about: about["plan"]["network"].update(hidden=[1] * 200_000), "at most 1000"),
        (lambda about: about["plan"]["network"].update(inputs=None), "cannot be built"),
        (lambda about: about["plan"]["network"].update(network=["mlp"]), "unknown network"),
        (
            lambda about: about["plan"].update(
                detector="threshold", detector_settings={"score": ["a"]}
            ),
            "unknown score",
        ),
        (lambda about: about["plan"].update(network=None), "network: expected dict"),
        (lambda about: about["plan"].update(settings={"evil": 1}), "'softmax' cannot be made"),
        (lambda about: about["plan"].update(detector="oracle"), "unknown detector"),
        (lambda about: about["plan"].update(detector="threshold"), "threshold_"),
        (
            lambda about: about["plan"].update(
                detector="threshold", detector_settings={"score": "x"}
            ),
            "unknown score",
        ),
    ],
)
def test_tampered_file_is_refused(path, change, message):
    rewrite(path, change)
    with pytest.raises(NescioError, match=message):
        nescio.load(path)


def test_a_digest_cannot_be_left_out_and_a_newer_file_says_that_it_is_one(path):
    whole = path.read_bytes()
    for misspelt in (b"digesx", b"Digest"):
        damaged = bytearray(whole.replace(b"digest", misspelt))
        damaged[-3] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(NescioError, match="lacks the digest"):
            nescio.load(path)
    path.write_bytes(whole)
    rewrite(path, lambda about: about.update(digest=None), digest=False)
    with pytest.raises(NescioError, match="lacks the digest"):
        nescio.load(path)
    path.write_bytes(whole)
    rewrite(path, lambda about: about.update(format=2, digest="of a newer kind"), digest=False)
    with pytest.raises(NescioError, match="has format 2; this version of nescio reads format 1"):
        nescio.load(path)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("centroids", lambda v: v * torch.nan, "'centroids' holds NaN or infinite values"),
        ("centroids", lambda v: v.long(), r"'centroids' is torch\.int64, not torch\.float32"),
        (
            "centroids",
            lambda v: v.double(),
            r"'\w+' is torch\.float\d+, its layer holds torch\.float\d+ too",
        ),
        ("counts", lambda v: v / 0, "'counts' holds NaN or infinite values"),
        ("met", lambda v: v.float(), r"'met' is torch\.float32, not torch\.bool"),
        (
            "weight",
            lambda v: v.to(torch.complex64),
            r"'weight' is torch\.complex64, not torch\.float32",
        ),
        (
            "net.1.weight",
            lambda v: v.index_fill(0, torch.tensor([3]), -torch.inf),
            r"'net\.1\.weight' holds NaN or inf",
        ),
        (
            "net.1.bias",
            lambda v: v.to(torch.float8_e4m3fn),
            r"'net\.1\.bias' is torch\.float8_e4m3fn, not torch\.float32",
        ),
        ("normalise.mean", lambda v: v * torch.nan, r"'normalise\.mean' holds NaN"),
        (
            "normalise.std",
            lambda v: v.to(torch.complex64),
            "normalisation of torch.float32 and torch.complex64",
        ),
        ("normalise.std", lambda v: v.long(), "normalisation of torch.float32 and torch.int64"),
    ],
)
def test_a_state_that_no_model_has_is_refused(duq_path, name, change, message):
    first, second, *_ = version("safetensors").split(".")
    if "complex" in message and (int(first), int(second)) < (0, 7):
        pytest.skip("a file of safetensors before 0.7 cannot hold complex numbers")
    exchange(duq_path, f"model.{name}", change)
    with pytest.raises(NescioError, match=message) as told:
        nescio.load(duq_path)
    assert str(duq_path) in str(told.value)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_model_cast_as_a_whole_is_sound(duq_path, tmp_path, kind):
    nescio.save(nescio.load(duq_path).to(kind), tmp_path / "cast")
    again = nescio.load(tmp_path / "cast")
    assert {again.centroids.dtype, again.weight.dtype, again.normalise.mean.dtype} == {kind}
    assert again.met.dtype == torch.bool


def test_what_could_not_be_loaded_is_not_saved(model, tmp_path):
    model.net[1].weight.data[0, 0] = torch.nan
    with pytest.raises(NescioError, match=r"could not be loaded again: 'net\.1\.weight' holds NaN"):
        nescio.save(model, tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_a_detector_that_has_not_been_fitted_keeps_its_nan(model, tmp_path):
    nescio.save(nescio.Threshold(model), tmp_path / "t")
    assert nescio.load(tmp_path / "t").threshold_.isnan()


def test_a_change_of_any_byte_is_reported(path, model):
    """Weights or plain data: nothing that was changed since is taken for what was saved."""
    blob = path.read_bytes()
    generator = torch.Generator().manual_seed(0)
    for place in torch.randint(8, len(blob), (200,), generator=generator).tolist():
        changed = bytearray(blob)
        changed[place] ^= 1 << (place % 8)
        path.write_bytes(bytes(changed))
        try:
            again = nescio.load(path)
        except NescioError:
            continue
        assert torch.equal(
            again.net[1].weight, model.net[1].weight
        )  # as where a blank of the header was changed
        assert torch.equal(again.normalise.mean, model.normalise.mean)


def test_missing_file_is_reported(tmp_path):
    with pytest.raises(NescioError, match="no such file"):
        nescio.load(tmp_path / "none")


def test_tied_weights_and_a_failed_write_lose_nothing(path, model, monkeypatch):
    before = path.read_bytes()
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(NescioError, match=r"m\.nescio' cannot be written: disk full") as caught:
        nescio.save(model, path)
    assert isinstance(caught.value.__cause__, OSError)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["m.nescio"]


def test_a_path_that_cannot_be_written_is_named(model, tmp_path):
    (tmp_path / "file").write_text("")
    for path in ("/proc/no/such/place", tmp_path / "file" / "m", tmp_path / ("m" * 300)):
        with pytest.raises(NescioError, match="cannot be written") as caught:
            nescio.save(model, path)
        assert str(path) in str(caught.value)
