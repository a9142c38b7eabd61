"""Images that are bytes in memory are never taken for floats."""

import os

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nescio
from nescio.core.attacks import attack
from nescio.core.logits import classes
from nescio.data import Samples, load
from nescio.data.known import assemble
from nescio.data.overlap import check_disjoint, same_inputs
from nescio.errors import NescioError
from nescio.methods import Softmax
from nescio.models import mlp


class Takes(nn.Module):
    """A network that takes bytes as readily as floats."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.head = nn.Linear(64, 4)

    def forward(self, x):
        return self.head(x.float().flatten(1))


def images(count=400):
    """Images of four classes, a bright quarter each, as bytes."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % 4
    x = torch.randint(0, 60, (count, 1, 8, 8), generator=generator)
    for label in range(4):
        row, column = 4 * (label // 2), 4 * (label % 2)
        x[labels == label, :, row : row + 4, column : column + 4] += 190
    return Samples(x.byte(), labels)


@pytest.fixture(scope="module")
def known():
    samples = images()
    train, test = (samples.select(part) for part in torch.arange(400).split(200))
    return assemble("quarters", train, test, tuple("abcd"), unseen=["d"])


@pytest.fixture(scope="module")
def model(known):
    torch.manual_seed(0)
    model = Softmax(mlp(64, 3, hidden=(16,)), normalise=known.normalise)
    nescio.train(model, known.train, epochs=5, batch_size=32)
    return model


def test_the_inputs_of_a_known_set_are_those_that_its_parts_give_out(known):
    for part in (known.train, known.test, known.unseen):
        assert part._stored.dtype == torch.uint8  # memory does not grow
        assert torch.equal(part.inputs, part.take(slice(None))[0])
        assert part.inputs.dtype == torch.float32


def test_a_model_answers_inputs_as_it_answers_their_set(known, model):
    logits = nescio.predict(model, known.test)
    assert torch.equal(nescio.predict(model, known.test.inputs), logits)
    assert (classes(logits) == known.test.labels).all()
    detector = nescio.Threshold(model).fit(known.test)
    for ask in (detector.predict, detector.score, detector.p_value, detector.explain):
        by_set, by_inputs = ask(known.unseen), ask(known.unseen.inputs)
        assert by_set == by_inputs if isinstance(by_set, list) else torch.equal(by_set, by_inputs)
    one, same = detector.explain(known.unseen.inputs[0])[0], detector.explain(known.unseen)[0]
    assert (one.answer, one.predicted, one.p_value) == (same.answer, same.predicted, same.p_value)


BYTES = images(40)._stored
DETECTOR = nescio.Threshold(Takes()).fit(torch.rand(50, 1, 8, 8))
ASKED = {
    "predict": lambda x: nescio.predict(Takes(), x),
    "score": DETECTOR.score,
    "detector's predict": DETECTOR.predict,
    "p-value": DETECTOR.p_value,
    "explain": DETECTOR.explain,
    "one input": lambda x: DETECTOR.predict(x[0]),
    "detector's fit": lambda x: nescio.Threshold(Takes()).fit(x),
    "evaluate": lambda x: nescio.evaluate(Takes(), (x, torch.arange(len(x)) % 4)),
    "evaluate, unknown": lambda x: nescio.evaluate(
        Takes(), (torch.rand(40, 1, 8, 8), torch.arange(40) % 4), {"u": x}
    ),
    "fit": lambda x: nescio.train(Takes(), (x, torch.arange(len(x)) % 4), epochs=1),
    "fit, dataset": lambda x: nescio.train(
        Takes(), TensorDataset(x, torch.arange(len(x)) % 4), epochs=1
    ),
    "attack": lambda x: attack(Takes(), x),
    "loader": lambda x: nescio.predict(Takes(), DataLoader(TensorDataset(x), 8)),
    "array": lambda x: nescio.predict(Takes(), x.numpy()),
    "asymptote": lambda x: nescio.audit.asymptote(Takes(), x, x),
    "temperature": lambda x: nescio.TemperatureScaled(Takes()).fit((x, torch.arange(len(x)) % 4)),
}


@pytest.mark.parametrize("kind", [torch.uint8, torch.int64, torch.int32, torch.bool])
@pytest.mark.parametrize("asked", ASKED)
def test_whole_numbers_are_refused_also_for_a_network_that_would_take_them(asked, kind):
    with pytest.raises(
        NescioError, match=r"must be floating point .* divide bytes of images by 255, or call"
    ):
        ASKED[asked](BYTES.to(kind))
    assert nescio.predict(Takes(), BYTES.float()).shape == (1, 40, 4)  # as it is told to do


def test_bytes_and_the_floats_they_are_given_out_as_are_the_same_data(known):
    for floats in (
        known.test.inputs,
        known.test.inputs.double(),
        known.test._stored.numpy() / 255.0,
    ):
        assert same_inputs(known.test, floats)
        assert same_inputs(floats, known.test)
    assert not same_inputs(known.test, known.test._stored.float())
    with pytest.raises(NescioError, match="calibrated on what it learned from"):
        nescio.Mahalanobis(Takes()).fit(known.test.inputs, train=known.test)
    with pytest.raises(NescioError, match="of the calibration inputs are among"):
        check_disjoint(known.test.inputs[10:], known.test)


@pytest.mark.skipif("NESCIO_DATA" not in os.environ, reason="needs real data in NESCIO_DATA")
def test_cifar_as_inputs_is_as_right_as_the_set():
    try:
        known = load("cifar10")
    except NescioError as error:
        pytest.skip(str(error))
    torch.manual_seed(0)
    model = Softmax(
        nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(192, 10)), normalise=known.normalise
    )
    nescio.train(
        model,
        known.train.select(torch.arange(10_000)),
        epochs=2,
        batch_size=100,
        learning_rate=1e-2,
    )
    some = known.test.select(torch.arange(2000))
    right = (classes(nescio.predict(model, some)) == some.labels).double().mean()
    assert right > 0.25
    found = classes(nescio.predict(model, known.test.inputs[:2000]))
    assert (found == some.labels).double().mean() == right
    with pytest.raises(NescioError, match="divide bytes"):
        nescio.predict(model, known.test._stored[:10])
    assert np.isclose(known.test.inputs.max(), 1.0)


def test_bytes_in_a_file_are_refused_unless_they_are_images(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "byte_nets.py").write_text(
        "from torch import nn\ndef make(): return nn.Sequential(nn.Flatten(), nn.Linear(36, 3))\n"
    )
    x = np.random.default_rng(0).integers(0, 256, (60, 6, 6), dtype=np.uint8)
    for kind in (np.uint8, np.int64):
        np.savez("calibration.npz", inputs=x.astype(kind))
        code, _, err = command(
            "fit", "--model", "byte_nets:make", "--data", "calibration.npz", "--score", "max_prob"
        )
        assert (code, "divide bytes of images by 255" in " ".join(err.split())) == (2, True)
    np.savez("calibration.npz", images=x)
    code, _, err = command(
        "fit", "--model", "byte_nets:make", "--data", "calibration.npz", "--score", "max_prob"
    )
    assert code == 0, err
