"""Noise a model is surest of, and test inputs it now gets wrong, as sets to evaluate it on."""

import io

import pytest
import torch
from rich.console import Console

import nescio
from nescio.core.attacks import ATTACKS, Attack
from nescio.errors import NescioError
from nescio.evaluation.unknown_sets import adversarial_set
from nescio.methods import DUQ, Softmax
from nescio.models import mlp
from nescio.report.evaluation import evaluation_tables
from nescio.report.runs import compared


@pytest.fixture(scope="module")
def digits():
    return nescio.data.load("digits")


@pytest.fixture(scope="module")
def model(digits):
    torch.manual_seed(0)
    model = Softmax(mlp(64, 10, hidden=(50,)), normalise=digits.normalise)
    nescio.train(model, digits.train, epochs=10, seed=0)
    return model


def test_adversarial_noise_starts_from_noise_and_is_surer(digits, model, seed):
    found = adversarial_set("adversarial_noise", model, digits.test, 90, seed=seed)
    assert (len(found.samples), found.tried, found.how) == (
        90,
        90,
        ATTACKS["adversarial_noise"].strengthened(),
    )
    assert (found.samples.labels == -1).all()
    assert ((found.samples.inputs.double() - found.started_from.double()).abs() <= 0.3).all()
    known = {tuple(row) for row in digits.test.inputs.flatten(1).tolist()}
    assert not any(tuple(row) in known for row in found.started_from.flatten(1).tolist())
    before, after = (
        model.confidence(nescio.predict(model, x))
        for x in (found.started_from, found.samples.inputs)
    )
    assert (after >= before).all()
    assert after.mean() > before.mean() + 0.3


def test_adversarial_samples_are_those_that_fool_the_model(digits, model, seed):
    found = adversarial_set("adversarial_samples", model, digits.test, 120, seed=seed)
    assert found.tried == 120
    assert 60 < len(found.samples) <= 120
    rows = [
        (digits.test.inputs == x).flatten(1).all(1).nonzero().flatten()[0]
        for x in found.started_from
    ]
    labels = digits.test.labels[torch.stack(rows)]
    assert (nescio.predict(model, found.samples)[0].argmax(1) != labels).all()
    assert ((found.samples.inputs.double() - found.started_from.double()).abs() <= 0.3).all()


def test_which_inputs_are_tried_follows_from_the_seed(digits, model):
    how = Attack("loss", steps=1)
    first, again, other = (
        adversarial_set(
            "adversarial_samples", model, digits.test, 200, how=how, seed=s
        ).started_from
        for s in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert first.shape != other.shape or not torch.equal(first, other)


def test_colour_has_a_smaller_ball(seed):
    torch.manual_seed(seed)
    known = nescio.data.Samples(torch.rand(30, 3, 6, 6), torch.arange(30) % 3)
    found = adversarial_set("adversarial_samples", mlp(108, 3), known, how=None)
    assert found.how == ATTACKS["adversarial_samples_in_colour"].strengthened()
    papers = adversarial_set("adversarial_samples_paper", mlp(108, 3), known)
    assert papers.how == ATTACKS["adversarial_samples_in_colour"]


def test_rows_of_a_table_are_moved_in_standard_deviations(seed):
    iris = nescio.data.load("iris")
    torch.manual_seed(seed)
    model = Softmax(mlp(4, 3), normalise=iris.normalise)
    nescio.train(model, iris.train, epochs=40, seed=seed)
    for name in ("adversarial_noise", "adversarial_samples"):
        found = adversarial_set(name, model, iris.test, seed=seed)
        away = (found.samples.inputs - found.started_from) / iris.test.inputs.std(0, correction=0)
        assert 0.25 < away.abs().max() < 0.3 + 1e-4


def test_data_of_any_make(digits, model):
    x, y = digits.test.take(slice(0, 40))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 16)
    found = [
        adversarial_set("adversarial_noise", model, data, 20, how=Attack(steps=2))
        for data in ((x, y), loader)
    ]
    assert torch.equal(found[0].samples.inputs, found[1].samples.inputs)


def test_evaluations_take_names_and_say_how(digits, model):
    names = ["noise", "uniform", "normal", "permuted", "far"]
    names += ["adversarial_noise_paper", "adversarial_noise", "adversarial_samples_paper"]
    record = nescio.evaluate(model, digits.test, names, scores=["max_prob"], attacked=50)
    assert [side.name for side in record.unknown] == names
    sides = {side.name: side for side in record.unknown}
    assert sides["noise"].attack is None
    noise, samples = sides["adversarial_noise_paper"], sides["adversarial_samples_paper"]
    strongest = sides["adversarial_noise"]
    assert (strongest.attack.adaptive, strongest.attack.targets) == (True, 10)
    assert strongest.mmc >= noise.mmc
    assert strongest.separation[0].auroc <= noise.separation[0].auroc
    assert (noise.inputs, noise.attack.tried, noise.attack.steps, noise.attack.objective) == (
        50,
        50,
        200,
        "confidence",
    )
    assert samples.inputs <= samples.attack.tried == 50
    assert (samples.attack.steps, samples.attack.eps, samples.attack.objective) == (80, 0.3, "loss")
    assert noise.separation[0].auroc < sides["noise"].separation[0].auroc
    assert nescio.records.Evaluation.from_json(record.to_json()) == record
    renamed = nescio.evaluate(
        model, digits.test, {"worst": "adversarial_noise_paper"}, scores=["max_prob"], attacked=50
    )
    assert renamed.unknown[0].separation == noise.separation


def test_a_model_that_resists_is_evaluated_by_all_else(digits, model):
    class Flat(torch.nn.Module):
        def forward(self, x):
            return 0 * x.flatten(1)[:, :10] + 2 * torch.eye(10)[3]

    threes = digits.test.select(digits.test.labels == 3)
    record = nescio.evaluate(Flat(), threes, ["noise", "adversarial_samples"], attacked=7)
    assert [side.name for side in record.unknown] == ["noise"]
    assert record.provenance.settings["resisted"] == {"adversarial_samples": 7}
    console = Console(width=100, file=io.StringIO())
    console.print(evaluation_tables(record))
    assert "none of 7 attacks succeeded" in console.file.getvalue()


def test_the_table_says_how_sets_were_made(digits, model):
    record = nescio.evaluate(
        model, digits.test, ["adversarial_noise", "adversarial_samples_paper"], attacked=40
    )
    console = Console(width=120, file=io.StringIO())
    console.print(evaluation_tables(record))
    text = console.file.getvalue()
    assert (
        "adversarial_noise: confidence increased within ε = 0.3 (linf), 100 steps of initially "
        "0.6, again towards each of 10 classes, from the best of 50 known inputs, tried on 40 "
        "inputs." in " ".join(text.split())
    )
    assert (
        "adversarial_samples_paper: loss increased within ε = 0.3 (linf), 80 steps of 0.0075, "
        "tried on 40 inputs" in text
    )


def test_runs_are_compared_though_one_resists_more_attacks(digits, model):
    torch.manual_seed(1)
    other = DUQ(mlp(64, hidden=(50,)), classes=10, normalise=digits.normalise)
    nescio.train(other, digits.train, epochs=5, seed=1)
    records = [
        nescio.evaluate(one, digits.test, ["adversarial_samples_paper"], attacked=60)
        for one in (model, other)
    ]
    runs, sets = compared(records)
    assert list(runs) == ["softmax", "duq"]
    assert sets == ["adversarial_samples_paper"]


def test_bad_input_is_reported(digits, model):
    with pytest.raises(NescioError, match="did you mean 'adversarial_noise'"):
        adversarial_set("adversarial_nois", model, digits.test)
    with pytest.raises(NescioError, match="did you mean 'noise'"):
        nescio.evaluate(model, digits.test, ["nois"])
    with pytest.raises(NescioError, match="did you mean 'adversarial_noise'"):
        nescio.evaluate(model, digits.test, {"a": "adversarial_nois"})
    with pytest.raises(NescioError, match="attacked must be"):
        nescio.evaluate(model, digits.test, attacked=0)
    with pytest.raises(NescioError, match="n must be"):
        adversarial_set("adversarial_noise", model, digits.test, 0)
    with pytest.raises(NescioError, match="which must have labels"):
        adversarial_set("adversarial_samples", model, digits.test.inputs)
    right = nescio.predict(model, digits.test)[0].argmax(1) == digits.test.labels
    with pytest.raises(NescioError, match="no attack of 0 steps within 0 made the model err"):
        adversarial_set(
            "adversarial_samples",
            model,
            digits.test.select(right),
            how=Attack("loss", eps=0.0, steps=0),
        )
