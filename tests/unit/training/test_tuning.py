"""Sweeps choose what they say they choose, and can be cut off and taken up again."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

import nescio
from nescio.data import Samples
from nescio.data.batches import split
from nescio.errors import NescioError
from nescio.methods import DUQ, Softmax
from nescio.models import mlp
from nescio.records import Provenance, Selection, Trial
from nescio.seeds import derived_seed
from nescio.training import sweep
from nescio.training.tuning import BY_MISTAKES, doubts, select_length_scale, select_penalty

QUICK = {"epochs": 3, "batch_size": 64, "learning_rate": 0.01, "validation": 0.2}


@pytest.fixture(scope="module")
def known():
    return nescio.data.load("digits", unseen=[8, 9])


@pytest.fixture
def make(known):
    return lambda **own: DUQ(
        mlp(64, None, hidden=(64,)), 8, momentum=0.9, normalise=known.normalise, **own
    )


@pytest.fixture
def make_small():
    return lambda **own: DUQ(mlp(2, None, hidden=(8,)), 3, momentum=0.9, **own)


def timeless(record):
    """A record without the times, which no two sweeps have in common."""
    trials = tuple(replace(trial, seconds=0.0) for trial in record.trials)
    return replace(record, trials=trials, provenance=replace(record.provenance, seconds=0.0))


def test_absurd_length_scales_lose(make, known, seed):
    found = select_length_scale(make, known.train, (100.0, 0.2, 1e-5), seed=seed, **QUICK)
    assert found.value == 0.2
    low, right, high = found.trials
    assert [trial.value for trial in found.trials] == [1e-5, 0.2, 100.0]
    assert (
        right.accuracy > 0.95 > low.accuracy > 0.5 > high.accuracy
    )  # of seven seeds: 0.97, 0.93, 0.13 at worst
    assert found.chosen is right
    assert (found.setting, found.measure, found.inputs) == ("length_scale", "accuracy", 202)
    assert found.criterion == "validation accuracy at gradient penalty 0"
    assert right.accuracies == (right.accuracy,)
    assert (right.auroc, right.aurocs, right.failed) == (None, (None,), None)
    assert found.provenance.seconds == pytest.approx(sum(trial.seconds for trial in found.trials))


def test_absurd_penalties_lose_against_a_third_data_set(make, known, seed):
    found = select_penalty(make, known.train, (1e4, 0.01), unknown=known.unseen, seed=seed, **QUICK)
    assert found.value == 0.01
    assert (
        found.chosen.auroc > 0.8 > 0.7 > found.trials[1].auroc
    )  # of seven seeds: 0.89 and 0.60 at worst
    assert found.criterion == "AUROC of validation data against digits unseen"
    assert (found.setting, found.measure) == ("gradient_penalty", "auroc")


def test_a_trial_is_a_training_like_any_other(make, known, seed):
    found = select_penalty(make, known.train, [0.2], seed=seed, **{**QUICK, "epochs": 1})
    train, validation = split(known.train, 0.2, seed)
    torch.manual_seed(derived_seed(seed, "weights", 0))
    model = make(gradient_penalty=0.2)
    nescio.train(model, train, epochs=1, batch_size=64, learning_rate=0.01, seed=seed)
    evaluated = nescio.evaluate(model, validation, scores=["max_logit"])
    assert found.chosen.accuracy == evaluated.known.accuracy
    assert found.chosen.auroc == evaluated.known.misclassification[0].auroc


def test_one_seed_one_result(make_small, blobs, seed):
    first, second = (
        select_length_scale(make_small, blobs, (0.1, 0.5), epochs=1, seed=seed) for _ in range(2)
    )
    assert timeless(first) == timeless(second)
    other = select_length_scale(make_small, blobs, (0.1, 0.5), epochs=1, seed=seed + 1)
    assert (
        other.provenance.settings["validation_data"] != first.provenance.settings["validation_data"]
    )


def test_nothing_global_is_left_changed(make_small, blobs):
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    select_length_scale(make_small, blobs, [0.1], epochs=1)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_trials_start_from_the_same_weights_and_the_same_data(make_small, blobs, monkeypatch, seed):
    started, true_fit = [], nescio.train

    def watched(model, data, **how):
        started.append((model.net[1].weight.clone(), data, how["seed"]))
        return true_fit(model, data, **how)

    monkeypatch.setattr(sweep, "train_model", watched)
    select_penalty(
        make_small, blobs, (0.0, 0.5), seeds=2, epochs=1, unknown=-blobs.inputs, seed=seed
    )
    (a, data, one), (b, _, two), (c, _, three), (d, _, four) = started
    assert torch.equal(a, c)
    assert torch.equal(b, d)
    assert not torch.equal(a, b)
    assert all(entry[1] is data for entry in started)
    assert (one, two) == (three, four)
    assert one != two


@pytest.fixture
def scripted(monkeypatch):
    """Models with scripted predictions by their penalty: (certainty, correct) of each input."""
    script = {}

    def answers(model, data, **_):
        certainties, right = zip(*script[model.gradient_penalty], strict=True)
        logits = torch.full((1, len(right), 3), -1e3)
        for place, (certainty, good) in enumerate(zip(certainties, right, strict=True)):
            logits[0, place, 0 if good else 1] = math.log(certainty)
        return logits, torch.zeros(len(right), dtype=torch.long)

    monkeypatch.setattr(sweep, "predict_labelled", answers)
    monkeypatch.setattr(sweep, "train_model", lambda *_, **__: None)
    return script


def test_the_penalty_whose_mistakes_are_least_certain_wins(scripted, make_small, blobs):
    scripted[0.0] = [(0.9, True), (0.8, True), (0.95, False)]  # most certain where it is wrong
    scripted[0.1] = [(0.9, True), (0.3, False), (0.2, False)]  # less accurate, but it knows
    scripted[0.5] = [(0.9, True), (0.5, True), (0.7, False)]
    scripted[1.0] = [(0.9, False), (0.8, False), (0.7, False)]  # nothing to tell apart
    found = select_penalty(make_small, blobs, scripted)
    assert found.criterion == "AUROC of right against wrong answers on validation data"
    assert found.value == 0.1
    assert [trial.auroc for trial in found.trials] == [0.0, 1.0, 0.5, None]
    assert [trial.accuracy for trial in found.trials] == pytest.approx([2 / 3, 1 / 3, 2 / 3, 0])
    assert found.trials[3].failed is None


def test_of_equals_the_smallest_is_chosen(scripted, make_small, blobs):
    for value in (0.5, 0.05, 1.0):
        scripted[value] = [(0.9, True), (0.3, False)]
    scripted[0.0] = [(0.9, False), (0.3, True)]
    assert select_penalty(make_small, blobs, scripted).value == 0.05


def test_a_model_without_a_mistake_is_as_good_as_any(scripted, make_small, blobs):
    scripted[0.0] = [(0.9, True), (0.8, True), (0.85, False)]
    scripted[0.1] = [(0.9, True), (0.8, True), (0.7, True)]
    scripted[0.5] = [(0.9, True), (0.8, True), (0.7, False)]  # of equals the larger
    found = select_penalty(make_small, blobs, scripted)
    assert found.value == 0.1
    assert [trial.auroc for trial in found.trials] == [0.5, 1.0, 1.0]


def test_models_that_are_never_right_are_refused(scripted, make_small, blobs):
    scripted[0.0] = scripted[0.1] = [(0.9, False), (0.3, False)]
    with pytest.raises(
        NescioError,
        match="no gradient_penalty gave a single correct prediction on the 100 validation",
    ):
        select_penalty(make_small, blobs, scripted)


def test_what_speaks_against_a_choice(make_small, blobs):
    def record(*trials, criterion=BY_MISTAKES, inputs=1000):
        found = tuple(
            Trial(value, accuracy, auroc, (accuracy,), (auroc,), None, 1.0)
            for value, accuracy, auroc in trials
        )
        origin = Provenance.now(0, {"method_settings": {"classes": 10}}, 1.0)
        return Selection(
            "duq", "gradient_penalty", trials[0][0], criterion, "auroc", inputs, found, origin
        )

    assert doubts(record((0.1, 0.98, 0.9), (0.2, 0.9, 0.8))) == []
    (few,) = doubts(record((0.1, 0.981, 0.9), (0.2, 0.9, 0.8)))
    assert "rests on 19 wrong predictions, fewer than 20" in few
    assert doubts(record((0.1, 0.981, 0.9), (0.2, 0.9, 0.8), criterion="AUROC against mnist")) == []
    (alike,) = doubts(record((0.1, 0.9, 0.9), (0.2, 0.8, 0.9)))
    assert "equal by this measure; 0.1 is only the smallest" in alike
    assert doubts(record((0.1, 0.9, 0.9))) == []
    (guessing,) = doubts(record((0.1, 0.12, 0.6), (0.2, 0.1, 0.5)))
    assert "best accuracy of all trials is 12.0 %, near the 10.0 % of guessing" in guessing
    found = select_length_scale(make_small, blobs, [0.1, 0.2], epochs=1)
    assert all(isinstance(doubt, str) for doubt in doubts(found))


def test_seeds_are_averaged(make_small, blobs, seed):
    found = select_penalty(
        make_small, blobs, (0.0, 0.1), unknown=-blobs.inputs, seeds=3, epochs=1, seed=seed
    )
    for trial in found.trials:
        assert len(set(trial.aurocs)) == 3
        assert trial.auroc == pytest.approx(sum(trial.aurocs) / 3)
        assert trial.accuracy == pytest.approx(sum(trial.accuracies) / 3)


class Breaks(nn.Module):
    """Gives NaN in training, but only once it has been used for a while."""

    def __init__(self, net):
        super().__init__()
        self.net, self.calls = net, 0

    def forward(self, x):
        self.calls += self.training
        return self.net(x) * (math.nan if self.calls > 3 else 1.0)


def test_a_training_that_fails_loses_only_itself(blobs, tmp_path):
    def make(length_scale, **own):
        net = mlp(2, None, hidden=(8,))
        net = Breaks(net) if length_scale == 0.1 else net
        return DUQ(net, 3, features=8, length_scale=length_scale, **own)

    found = select_length_scale(make, blobs, (0.1, 0.2, 0.3), epochs=1, record=tmp_path / "r.json")
    assert found.value in (0.2, 0.3)
    assert "became nan in epoch 1, step 4" in found.trials[0].failed
    assert (found.trials[0].accuracy, found.trials[0].accuracies) == (None, ())
    assert Selection.load(tmp_path / "r.json") == found
    with pytest.raises(
        NescioError, match=r"failed with every length_scale; with 0\.1: the loss became nan"
    ):
        select_length_scale(make, blobs, [0.1], epochs=1)


def test_what_is_on_record_is_not_repeated(make_small, blobs, tmp_path, monkeypatch):
    path = tmp_path / "deep" / "r.json"
    how = {"candidates": (0.1, 0.2, 0.5), "epochs": 1}
    whole = select_length_scale(make_small, blobs, **how)
    trained, true_fit = [], nescio.train

    def counting(model, *data, **how):
        if len(trained) == 2:
            raise KeyboardInterrupt
        trained.append(model.length_scale)
        return true_fit(model, *data, **how)

    monkeypatch.setattr(sweep, "train_model", counting)
    with pytest.raises(KeyboardInterrupt):
        select_length_scale(make_small, blobs, **how, record=path)
    assert [trial.value for trial in Selection.load(path).trials] == [0.1, 0.2]
    trained.clear()
    resumed = select_length_scale(make_small, blobs, **how, record=path)
    assert trained == [0.5]
    assert timeless(resumed) == timeless(whole)
    monkeypatch.setattr(sweep, "train_model", lambda *_, **__: pytest.fail("trained again"))
    assert (
        select_length_scale(make_small, blobs, **how, record=path)
        == resumed
        == Selection.load(path)
    )
    for other, name in (
        ({"epochs": 2}, "epochs"),
        ({"seed": 1}, "seed"),
        ({"candidates": (0.1, 0.2)}, "candidates"),
        ({"validation": 0.3}, "data"),
        ({"seeds": 2}, "seeds"),
    ):
        with pytest.raises(
            NescioError, match=rf"r\.json' was made with {name}=[^{{]*; use the same settings"
        ):
            select_length_scale(make_small, blobs, **{**how, **other}, record=path)
    with pytest.raises(
        NescioError, match=r"was made with momentum=0\.9, not 0\.8; use the same settings"
    ):
        select_length_scale(
            lambda **own: DUQ(mlp(2, None, hidden=(8,)), 3, momentum=0.8, **own),
            blobs,
            **how,
            record=path,
        )
    with pytest.raises(
        NescioError, match="was made with setting='length_scale', not 'gradient_penalty'"
    ):
        select_penalty(make_small, blobs, epochs=1, record=path)


def test_progress_is_a_line_for_each_trial(make_small, blobs, capsys):
    select_length_scale(make_small, blobs, (0.1, 0.2), epochs=1)
    assert capsys.readouterr().err == ""
    select_length_scale(make_small, blobs, (0.1, 0.2), epochs=1, progress=True)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("length_scale 0.1 (1 of 2): accuracy 0.")
    assert second.startswith("length_scale 0.2 (2 of 2): accuracy 0.")


def test_validation_data_are_looked_at_in_training_only_for_patience(
    make_small, blobs, monkeypatch
):
    seen, true_fit = [], nescio.train

    def watched(*given, **how):
        seen.append((how["validation"], how["patience"]))
        return true_fit(*given, **how)

    monkeypatch.setattr(sweep, "train_model", watched)
    validation = Samples(blobs.inputs[:50], blobs.labels[:50])
    for more in ({}, {"patience": 1}):
        select_length_scale(make_small, blobs, [0.2], epochs=1, validation=validation, **more)
    assert seen == [(None, None), (validation, 1)]


def test_functions_among_the_settings_are_recorded(make_small, blobs):
    found = select_length_scale(
        make_small, blobs, [0.2], epochs=1, schedule=nescio.schedule.Step([0.5])
    )
    assert found.provenance.settings["training"]["schedule"] == "Step(at=[0.5], factor=0.1)"
    assert Selection.from_json(found.to_json()) == found


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"candidates": ()}, "candidates must hold at least one"),
        ({"candidates": 0.1}, "candidates must be numbers"),
        ({"candidates": "0.1"}, "candidates must be numbers"),
        ({"candidates": (0.1, -1)}, "a candidate must be a number from 1e-06 to 1e[+]06, got -1"),
        ({"candidates": (0.0,)}, "a candidate must be a number"),
        ({"candidates": ("0.1",)}, "a candidate must be a number"),
        ({"candidates": (math.nan,)}, "a candidate must be a number"),
        ({"validation": 0.0}, "validation must be a fraction .* got 0.0 "),
        ({"validation": 1.5}, "validation must be a fraction .* got 1.5 "),
        ({"validation": None}, "validation must be a dataset"),
        ({"validation": torch.zeros(5, 2)}, "must be a dataset"),
        (
            {"validation": Samples(torch.zeros(5, 2), torch.full((5,), 7))},
            "labels must lie in 0 … 2",
        ),
        (
            {"validation": Samples(torch.zeros(5, 3), torch.zeros(5, dtype=torch.long))},
            "cannot be run on a batch",
        ),
        ({"seeds": 0}, "seeds must be an int"),
        ({"epochs": 0}, "epochs must be an int"),
        ({"seed": -1}, "seed must be an int"),
        ({"optimizer": "adamm"}, "did you mean 'adam'"),
        ({"learning_rat": 0.1}, "did you mean 'learning_rate'"),
        ({"checkpoint": "c.safetensors"}, "unknown setting of the trainings 'checkpoint'"),
        (
            {"data": (torch.zeros(40, 2), torch.zeros(40, dtype=torch.long))},
            "all 36 training inputs are of one class",
        ),
        ({"make": DUQ(mlp(2), 3)}, "make must be a function"),
        ({"make": None}, "make must be a function"),
        (
            {"make": lambda: DUQ(mlp(2), 3)},
            "make must take the settings length_scale and gradient_penalty by name",
        ),
        (
            {"make": lambda **own: DUQ(mlp(2), 3, length_scale=0.1, **own)},
            "on to DUQ, once each.*multiple values",
        ),
        ({"make": lambda **_: Softmax(mlp(2, 3))}, "make must return a DUQ, got a Softmax"),
        (
            {"make": lambda **_: DUQ(mlp(2), 3, length_scale=0.7)},
            "asked for length_scale=0.1, but made a DUQ with 0.7",
        ),
        ({"make": partial(DUQ, mlp(2), 3)}, "make returned a network that it had returned before"),
        ({"record": "."}, "cannot read"),
    ],
)
def test_bad_input_is_refused(make_small, blobs, more, message):
    given = {"make": make_small, "data": blobs, "candidates": (0.1, 0.2), "epochs": 1, **more}
    with pytest.raises(NescioError, match=message):
        select_length_scale(**given)


@pytest.mark.parametrize(
    ("unknown", "message"),
    [
        (iter([torch.zeros(4, 2)]), "only once"),
        (torch.zeros(4, 3), "cannot be run on a batch"),
        (torch.full((4, 2), math.nan), "NaN"),
        (torch.zeros(0, 2), "empty"),
    ],
)
def test_bad_unknown_data_are_refused_before_any_training(
    make_small, blobs, unknown, message, monkeypatch
):
    monkeypatch.setattr(sweep, "train_model", lambda *_, **__: pytest.fail("trained"))
    with pytest.raises(NescioError, match=message):
        select_penalty(make_small, blobs, unknown=unknown)


def test_are_public():
    assert nescio.select_length_scale is select_length_scale
    assert nescio.select_penalty is select_penalty
