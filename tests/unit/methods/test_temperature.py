import copy
import io

import pytest
import torch
from rich.console import Console
from torch import nn

import nescio
from nescio import TemperatureScaled, Threshold
from nescio.data import Samples
from nescio.errors import NescioError
from nescio.methods import DUQ, MCDropout, Softmax
from nescio.methods.temperature import best_temperature, nll
from nescio.models import mlp
from nescio.records import Temperature
from nescio.report.calibration import temperature_table
from small_nets import Draws


@pytest.fixture(scope="module")
def known():
    return nescio.data.load("digits")


@pytest.fixture(scope="module")
def model(known):
    """Trained on few noisy inputs for long, and so far too sure."""
    torch.manual_seed(0)
    model = Softmax(mlp(64, 10), normalise=known.normalise)
    few = known.train.select(torch.arange(150))
    nescio.train(model, few, epochs=150, batch_size=32, learning_rate=3e-3, seed=0)
    return model.eval()


def drawn(temperature, count=20_000, seed=0):
    """Logits, and labels that follow their softmax at a temperature."""
    generator = torch.Generator().manual_seed(seed)
    z = 4 * torch.randn(1, count, 5, generator=generator, dtype=torch.float64)
    labels = torch.multinomial((z[0] / temperature).softmax(1), 1, generator=generator)[:, 0]
    return z, labels


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5, 40.0])
def test_recovers_the_temperature_of_data_within_its_standard_error(temperature):
    """By the Fisher information of 1/T: the mean variance of the logits under the softmax."""
    z, labels = drawn(temperature)
    p = (z[0] / temperature).softmax(1)
    information = len(labels) * ((p * z[0] ** 2).sum(1) - (p * z[0]).sum(1) ** 2).mean()
    error = 1 / information.sqrt()
    assert abs(1 / best_temperature(z, labels) - 1 / temperature) < 3 * error


@pytest.mark.parametrize("draws", [1, 3])
def test_the_likelihood_is_flat_at_the_temperature_found(draws):
    generator = torch.Generator().manual_seed(1)
    z, labels = drawn(2.0, count=500)
    z = (
        z + torch.randn(draws, 1, 1, generator=generator, dtype=torch.float64)
        if draws == 1
        else z.repeat(draws, 1, 1)
    )
    z = z + 0.5 * torch.randn(z.shape, generator=generator, dtype=torch.float64)
    found = best_temperature(z, labels)
    t = torch.tensor(found, dtype=torch.float64, requires_grad=True)
    loss = -((z / t).softmax(2).mean(0).gather(1, labels[:, None]).log()).mean()
    (slope,) = torch.autograd.grad(loss, t)
    assert abs(slope) < (1e-12 if draws == 1 else 1e-7)
    grid = torch.logspace(-2, 2, 401, dtype=torch.float64)
    assert all(nll(z / found, labels) <= nll(z / other, labels) for other in grid)


def test_scaling_the_logits_scales_the_temperature():
    z, labels = drawn(2.0, count=1000)
    torch.testing.assert_close(best_temperature(1e3 * z, labels), 1e3 * best_temperature(z, labels))


def test_mends_a_model_that_is_too_sure_and_keeps_its_classes(model, known):
    before = copy.deepcopy(model.state_dict())
    some, rest = (
        known.test.select(torch.arange(270)),
        known.test.select(torch.arange(270, len(known.test))),
    )
    scaled = TemperatureScaled(model).fit(some)
    assert scaled.record.temperature == scaled.temperature > 1
    assert scaled.record.nll_after < scaled.record.nll_before
    assert scaled.record.ece_after < scaled.record.ece_before
    sides = [
        nescio.evaluate(one, rest).known for one in (model, scaled)
    ]  # and on what it was not fitted on
    assert sides[1].ece < sides[0].ece
    assert sides[1].nll < sides[0].nll
    assert sides[1].accuracy == sides[0].accuracy
    raw = nescio.predict(model, rest)
    assert torch.equal(nescio.predict(scaled, rest), raw / scaled.temperature)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert not model.training


def test_its_record_says_what_evaluations_say(model, known):
    scaled = TemperatureScaled(model).fit(known.test)
    for one, loss, ece in (
        (model, scaled.record.nll_before, scaled.record.ece_before),
        (scaled, scaled.record.nll_after, scaled.record.ece_after),
    ):
        side = nescio.evaluate(one, known.test).known
        assert (side.nll, side.ece) == pytest.approx((loss, ece), rel=1e-5)
    assert scaled.record.accuracy == side.accuracy
    assert Temperature.from_json(scaled.record.to_json()) == scaled.record
    file = io.StringIO()
    Console(file=file, width=100).print(temperature_table([("digits", scaled.record)]))
    assert f"{scaled.record.ece_after:.1%}" in file.getvalue()
    assert "far away" in file.getvalue()


def test_detectors_stand_on_it(model, known):
    scaled = TemperatureScaled(model).fit(known.test)
    detector = Threshold(scaled, "max_prob").fit(known.test)
    assert torch.equal(
        detector.score(known.test), nescio.scores.max_prob(nescio.predict(scaled, known.test))
    )
    answers = detector.predict(known.test)
    plain = nescio.predict(model, known.test)[0].argmax(1)
    assert torch.equal(answers[answers >= 0], plain[answers >= 0])
    assert (
        nescio.Combined(scaled).fit(known.test).predict(known.test.take(slice(0, 1))[0][0]).shape
        == ()
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda net: Softmax(net, nescio.data.Normalise(torch.ones(64), torch.full((64,), 2.0))),
        lambda net: net,
        lambda net: MCDropout(net, samples=3),
    ],
)
def test_survives_saving_alone_and_under_a_detector(make, known, tmp_path):
    torch.manual_seed(0)
    scaled = TemperatureScaled(make(mlp(64, 10, dropout=0.1)), 1 / 3).eval()
    x = known.test.take(slice(0, 100))[0].flatten(1)
    nescio.save(scaled, tmp_path / "m")
    again = nescio.load(tmp_path / "m")
    assert isinstance(again, TemperatureScaled)
    assert type(again.model) is type(scaled.model)
    assert again.temperature == 1 / 3
    assert torch.equal(nescio.predict(again, x), nescio.predict(scaled, x))
    detector = Threshold(scaled, "entropy").fit(x)
    nescio.save(detector, tmp_path / "d")
    assert torch.equal(nescio.load(tmp_path / "d").score(x), detector.score(x))


def test_a_detector_over_it_over_a_network_of_the_users_asks_for_that_network(known, tmp_path):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    detector = Threshold(TemperatureScaled(net, 0.7), "entropy").fit(known.test)
    nescio.save(detector, tmp_path / "d")
    for given in (net, TemperatureScaled(net, 0.7)):
        assert torch.equal(
            nescio.load(tmp_path / "d", model=given).score(known.test), detector.score(known.test)
        )
    with pytest.raises(NescioError, match="another model"):
        nescio.load(tmp_path / "d", model=TemperatureScaled(net, 0.8))


def test_says_when_there_is_no_best_temperature():
    z, _ = drawn(1.0, count=50)
    with pytest.raises(NescioError, match="largest logit"):
        best_temperature(z, z[0].argmax(1))
    with pytest.raises(NescioError, match="at random"):
        best_temperature(z, z[0].argmin(1))
    for bad in (z[0].argmax(1), z[0].argmin(1)):
        with pytest.raises(NescioError, match="no best temperature"):
            best_temperature(z.repeat(2, 1, 1), bad)


def test_draws_are_averaged_after_the_softmax(blobs):
    torch.manual_seed(0)
    net = mlp(2, 3)
    nescio.train(Softmax(net), blobs, epochs=3, seed=0)
    scaled = TemperatureScaled(Draws(net, mlp(2, 3))).fit(blobs)
    assert scaled.record.draws == 2
    log_p = nescio.predict(scaled, blobs).double().softmax(2).mean(0).log()
    assert scaled.record.nll_after == pytest.approx(
        nescio.metrics.nll(log_p, blobs.labels), rel=1e-6
    )
    assert scaled.record.nll_after < scaled.record.nll_before


def test_refuses_what_it_cannot_scale(known, model):
    torch.manual_seed(0)
    with pytest.raises(NescioError, match="kernel"):
        TemperatureScaled(DUQ(mlp(64, hidden=(8,)), 10))
    with pytest.raises(NescioError, match="labels"):
        TemperatureScaled(model).fit(known.test.inputs)
    with pytest.raises(NescioError, match="lie in 0"):
        TemperatureScaled(model).fit(Samples(known.test.inputs, known.test.labels + 1))
    for bad in (0, -1.0, float("nan"), float("inf"), "warm", True):
        with pytest.raises(NescioError, match="temperature"):
            TemperatureScaled(model, bad)
    with pytest.raises(NescioError, match="Module, got a"):
        TemperatureScaled("digits")


@pytest.mark.parametrize(
    ("scale", "said"),
    [
        (0.0, "all classes have the same logit"),
        (1e-8, "no temperature ≥ 1e-06 is best"),
        (1e8, "no temperature ≤ 1e.06 is best"),
    ],
)
def test_logits_of_an_unusual_size_are_distinguished_from_labels_that_do_not_fit(scale, said):
    logits, labels = drawn(1.0, count=500)
    for draws in (1, 2):
        with pytest.raises(NescioError, match=said):
            best_temperature((scale * logits).expand(draws, -1, -1), labels)
