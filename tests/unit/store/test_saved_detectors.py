"""Detectors as files: over our networks, and over a user's own, which is given again and known by
its weights.
"""

import copy
import hashlib

import pytest
import torch
from torch import nn

import nescio
from feature_data import in_disguise
from nescio.core.tensorfile import read_tensors, write_tensors
from nescio.data import Samples
from nescio.errors import NescioError
from nescio.store.model_file import fingerprint


class Mine(nn.Module):
    """A network of a user's own."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 16), nn.BatchNorm1d(16), nn.ReLU())
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.body(x))


@pytest.fixture
def net():
    torch.manual_seed(0)
    net = Mine().eval()
    net.head.weight.data *= 5
    net.head.bias.data.zero_()
    return net


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    return Samples(torch.randn(400, 2, generator=generator), torch.arange(400) % 3)


@pytest.fixture
def path(net, data, tmp_path):
    nescio.save(nescio.Threshold(net, "energy").fit(data), tmp_path / "d.nescio")
    return tmp_path / "d.nescio"


def exchange(path, name, change):
    """The file with one of its tensors changed."""
    tensors, about = read_tensors(path, "model")
    tensors[name] = change(tensors[name])
    write_tensors(path, "model", tensors, about)


@pytest.mark.parametrize(
    "how", [{}, {"accept": 0.7, "per_class": True}, {"risk": 0.9}, {"balanced": True}]
)
def test_over_a_users_network_it_scores_as_before(net, data, tmp_path, how):
    detector = nescio.Threshold(net, "energy").fit(data, **how)
    nescio.save(detector, tmp_path / "d")
    again = nescio.load(tmp_path / "d", model=copy.deepcopy(net))
    x = 3 * torch.randn(50, 2)
    for ask in ("score", "predict", "p_value"):
        assert torch.equal(getattr(again, ask)(x), getattr(detector, ask)(x))
    assert again.explain(x) == detector.explain(x)


def test_the_users_network_is_not_in_the_file(path):
    assert not [name for name in read_tensors(path, "model")[0] if not name.startswith("detector.")]


def test_asks_for_the_network(path):
    with pytest.raises(NescioError, match=r"network of your own.*nescio\.load\(path, model=net\)"):
        nescio.load(path)
    with pytest.raises(NescioError, match="Module, got a str"):
        nescio.load(path, model="net")


def test_knows_another_network_by_its_weights(net, path):
    for change in (
        lambda other: other.head.weight.data[0].add_(1e-7),
        lambda other: other.body[1].running_mean.add_(1),
        lambda other: other.double(),
        lambda other: setattr(other, "tail", other.head),
        lambda other: setattr(other, "head", nn.Linear(16, 4)),
    ):
        other = copy.deepcopy(net)
        change(other)
        with pytest.raises(NescioError, match="another model than this Mine"):
            nescio.load(path, model=other)


def test_a_fingerprint_is_of_values_not_of_places(net):
    assert fingerprint(net) == fingerprint(copy.deepcopy(net)) == fingerprint(net.train())
    assert len(fingerprint(net)) == 64


def test_a_fingerprint_knows_buffers_that_are_not_persistent(net, data, tmp_path):
    before = fingerprint(net)
    assert (
        before
        == hashlib.sha256(
            b"".join(
                f"{name} {value.dtype} {tuple(value.shape)};".encode() + value.numpy().tobytes()
                for name, value in sorted(net.state_dict().items())
            )
        ).hexdigest()
    )  # as in files of earlier versions
    for module in (net, net.body):
        module.register_buffer("scale", torch.tensor([1.0]), persistent=False)
    other = copy.deepcopy(net)
    other.body.scale += 2
    assert len({before, fingerprint(net), fingerprint(other)}) == 3
    assert fingerprint(copy.deepcopy(net)) == fingerprint(net)
    nescio.save(nescio.Threshold(net).fit(data), tmp_path / "d")
    nescio.load(tmp_path / "d", model=net)
    with pytest.raises(NescioError, match="another model"):
        nescio.load(tmp_path / "d", model=other)


def test_a_file_that_holds_its_model_takes_no_other(net, data, tmp_path):
    model = nescio.methods.Softmax(nescio.models.mlp(2, 3))
    nescio.save(nescio.Threshold(model).fit(data), tmp_path / "d")
    nescio.save(model, tmp_path / "m")
    for name in ("d", "m"):
        with pytest.raises(NescioError, match="holds its own model"):
            nescio.load(tmp_path / name, model=net)


def test_a_network_of_ours_that_was_changed_counts_as_the_users(data, tmp_path):
    net = nescio.models.mlp(2, 3)
    net[2] = nn.Tanh()
    detector = nescio.Threshold(net, "energy").fit(data)
    nescio.save(detector, tmp_path / "d")
    assert torch.equal(nescio.load(tmp_path / "d", model=net).score(data), detector.score(data))


def test_a_bare_network_of_ours_comes_back_bare(data, tmp_path):
    """So that names of layers stay as they were."""
    nescio.save(nescio.Threshold(nescio.models.mlp(2, 3)).fit(data), tmp_path / "d")
    assert isinstance(nescio.load(tmp_path / "d").model, nn.Sequential)


def test_over_a_method_of_ours_on_a_users_network(net, data, tmp_path):
    model = nescio.methods.Softmax(net, nescio.data.Normalise(torch.ones(2), torch.full((2,), 3.0)))
    detector = nescio.Threshold(model, "max_prob").fit(data)
    nescio.save(detector, tmp_path / "d")
    assert torch.equal(nescio.load(tmp_path / "d", model=model).score(data), detector.score(data))
    with pytest.raises(NescioError, match="another model"):
        nescio.load(tmp_path / "d", model=net)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "threshold_",
            lambda v: v.float(),
            r"threshold_ is torch\.float32 \(\); expected torch\.float64",
        ),
        (
            "threshold_",
            lambda v: v[None, None],
            r"threshold_ is torch\.float64 \(1, 1\); expected torch\.float64 \(\)",
        ),
        ("threshold_", lambda v: v * torch.nan, "partly NaN"),
        ("calibration_", lambda v: v[:, None], r"calibration_ is torch\.float64 \(400, 1\)"),
        ("calibration_", lambda v: v.flip(0), "not in order"),
        (
            "calibration_",
            lambda v: v.index_fill(0, torch.tensor([3]), torch.inf),
            "partly NaN or infinite",
        ),
        (
            "calibration_class_",
            lambda v: torch.zeros(3).long(),
            "3 classes for 400 calibration scores",
        ),
        ("input_dims_", lambda v: v.double(), r"input_dims_ is torch\.float64"),
    ],
)
def test_what_no_fit_leaves_is_refused(net, path, name, change, message):
    exchange(path, f"detector.{name}", change)
    with pytest.raises(NescioError, match=message):
        nescio.load(path, model=net)


def test_thresholds_for_other_classes_are_reported(net, data, tmp_path):
    nescio.save(
        nescio.Threshold(net, "energy").fit(data, accept=0.5, per_class=True), tmp_path / "d"
    )
    exchange(tmp_path / "d", "detector.threshold_", lambda v: v[:2])
    with pytest.raises(NescioError, match="classes that have no threshold"):
        nescio.load(tmp_path / "d", model=net)
    detector = nescio.Threshold(net, "energy").fit(data, accept=0.5, per_class=True)
    detector.keep(threshold_=detector.threshold_[:2])
    with pytest.raises(NescioError, match="2 thresholds for a model of 3 classes"):
        detector.predict(data)


def test_more_that_no_fit_leaves_is_refused(net, data, tmp_path):
    nescio.save(
        nescio.Combined(net, ["energy", "knn"]).fit(in_disguise(data), train=data), tmp_path / "c"
    )
    exchange(tmp_path / "c", "detector.members.0.calibration_", lambda v: v.flip(0))
    with pytest.raises(NescioError, match="not in order"):
        nescio.load(tmp_path / "c", model=net)
    nescio.save(nescio.Threshold(net, "energy").fit(data), tmp_path / "e")
    exchange(tmp_path / "e", "detector.calibration_", lambda v: v[:0])
    with pytest.raises(NescioError, match="threshold without calibration scores"):
        nescio.load(tmp_path / "e", model=net)
    model = nescio.models.mlp(2, 3)
    nescio.save(nescio.Threshold(model, "energy").fit(data), tmp_path / "m")
    tensors, about = read_tensors(tmp_path / "m", "model")
    about["plan"]["detector"] = None
    write_tensors(tmp_path / "m", "model", tensors, about)
    with pytest.raises(NescioError, match="says it is none"):
        nescio.load(tmp_path / "m")


def test_features_of_another_width_are_reported(net, data, tmp_path):
    nescio.save(nescio.Mahalanobis(net).fit(in_disguise(data), train=data), tmp_path / "d")
    tensors, about = read_tensors(tmp_path / "d", "model")
    changed = {"centre_": torch.ones(9), "factor_": torch.eye(9), "means_": torch.ones(3, 9)}
    tensors |= {f"detector.{name}": value.double() for name, value in changed.items()}
    write_tensors(tmp_path / "d", "model", tensors, about)
    with pytest.raises(NescioError, match="has learned 9 features, got 16"):
        nescio.load(tmp_path / "d", model=net).predict(data)


def of_duq(length_scale):
    torch.manual_seed(0)
    return nescio.methods.DUQ(
        nn.Sequential(nn.Linear(2, 8), nn.ReLU()), classes=3, length_scale=length_scale
    ).eval()


def of_dropout(samples):
    torch.manual_seed(0)
    return nescio.methods.MCDropout(
        nn.Sequential(nn.Linear(2, 8), nn.Dropout(), nn.Linear(8, 3)), samples=samples
    )


def at_temperature(temperature):
    torch.manual_seed(0)
    return nescio.methods.Softmax(nescio.TemperatureScaled(Mine(), temperature)).eval()


@pytest.mark.parametrize(
    ("make", "one", "other", "message"),
    [
        (of_duq, 0.1, 0.5, "length_scale=0.5"),
        (of_dropout, 20, 3, "samples=3"),
        (at_temperature, 2.0, 9.0, "9.0"),
    ],
)
def test_a_model_with_the_same_weights_that_does_otherwise_with_them_is_refused(
    make, one, other, message, data, tmp_path
):
    detector = nescio.Threshold(make(one)).fit(data)
    nescio.save(detector, tmp_path / "d")
    assert torch.equal(
        nescio.load(tmp_path / "d", model=make(one)).score(data), detector.score(data)
    )
    with pytest.raises(NescioError, match=f"these weights, but is .*not .*{message}"):
        nescio.load(tmp_path / "d", model=make(other))


def test_a_setting_newer_than_a_detector_had_its_default(data, tmp_path):
    detector = nescio.Threshold(of_duq(0.1)).fit(data)
    nescio.save(detector, tmp_path / "d")
    tensors, about = read_tensors(tmp_path / "d", "model")
    del about["plan"]["settings"]["centroid_spread"]
    write_tensors(tmp_path / "d", "model", tensors, about)
    found = nescio.load(tmp_path / "d", model=of_duq(0.1)).score(data)
    assert torch.equal(found, detector.score(data))


def test_a_network_alone_does_not_pass_for_one_that_drops(data, tmp_path):
    nescio.save(nescio.Threshold(of_dropout(20)).fit(data), tmp_path / "d")
    with pytest.raises(NescioError, match=r"another model|these weights"):
        nescio.load(tmp_path / "d", model=of_dropout(20).net)


@pytest.mark.parametrize("extra", range(0, 64, 8))
def test_a_round_trip_keeps_every_bit_wherever_in_the_file_things_lie(extra, tmp_path):
    """Sums over memory that is aligned otherwise round otherwise."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(11, 37), nn.ReLU(), nn.Linear(37, 7))
    x, labels = torch.randn(300, 11), torch.arange(300) % 7
    detector = nescio.detectors.MetaClassifier(net, kind="ridge").fit(
        (x[:150], labels[:150]), train=(x[150:], labels[150:])
    )
    nescio.save(detector, tmp_path / "meta", {"of no matter": "x" * extra})
    assert torch.equal(nescio.load(tmp_path / "meta", model=net).score(x), detector.score(x))


def test_a_network_given_with_a_temperature_is_left_in_its_mode(net, data, tmp_path):
    nescio.save(
        nescio.Threshold(nescio.TemperatureScaled(net, 2.0), "energy").fit(data), tmp_path / "warm"
    )
    for training in (True, False):
        net.train(training)
        net.head.eval()
        found = nescio.load(tmp_path / "warm", model=net)
        assert (net.training, net.body.training, net.head.training) == (training, training, False)
        assert found.model.training == training


def test_a_file_with_fewer_neighbours_than_it_asks_for_is_refused(net, data, tmp_path):
    nescio.save(nescio.KNN(net, k=5).fit(data), tmp_path / "knn")
    for name in ("neighbours_", "squares_"):
        exchange(tmp_path / "knn", f"detector.{name}", lambda value: value[:3])
    with pytest.raises(NescioError, match="kept 3 inputs, which have no 5 nearest"):
        nescio.load(tmp_path / "knn", model=net).score(data)


@pytest.mark.parametrize(
    "rule", [{"accept": 0.9}, {"per_class": True, "accept": 0.5}, {"risk": 0.8}, {"balanced": True}]
)
def test_a_loaded_detector_knows_its_guarantee(net, data, tmp_path, rule):
    detector = nescio.Threshold(net, "energy").fit(data, **rule)
    nescio.save(detector, tmp_path / "d")
    again = nescio.load(tmp_path / "d", model=net)
    assert again.rule == detector.rule
    assert again.controlled == detector.controlled
    assert repr(again) == repr(detector)
    assert nescio.decide(again, data).promise == detector.rule.promise(detector.controlled)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"name": "Accept", "settings": {"accept": 2.0}}, "strictly between 0 and 1"),
        ({"name": "Accept", "settings": {"other": 2.0}}, "no Accept has"),
        ({"name": "AcceptPerClass", "settings": {}}, "AcceptPerClass sets no such thresholds"),
        ({"name": "Anything", "settings": {}}, "unknown rule in .* 'Anything'"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(net, path, rule, message):
    tensors, about = read_tensors(path, "model")
    about["plan"]["rule"] = rule
    write_tensors(path, "model", tensors, about)
    with pytest.raises(NescioError, match=message):
        nescio.load(path, model=net)


def test_a_folder_is_no_file_of_a_detector(path):
    path.rename(path.with_suffix(".safetensors"))
    with pytest.raises(NescioError, match=r"is a folder; .* such as '.*d\.safetensors'"):
        nescio.load(path.parent)
