"""Know your limits: each experiment starts, a kill costs one stage, results are there."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import nescio
from nescio.audit import scaling
from nescio.errors import NescioError
from nescio.records import Map, Provenance, Surface
from nescio.records.pictures import Points
from papers.experiment import reproduce
from papers.experiments import EXPERIMENTS
from papers.know_your_limits.figure1 import rim, rim_entropy
from papers.know_your_limits.models import FIVE, TUNED
from papers.know_your_limits.scaling_figure import limits_figure
from papers.reproduction import Reproduction
from papers.workspace import Workspace

BY_NAME = {name: one for name, one in EXPERIMENTS.items() if one.paper == 1}
OF_MODELS = ("limits-figure1", "limits-theorem")
RESULTS = Path(__file__).parents[2] / "results"


def work_in(folder, scale="quick"):
    return Workspace(folder / "results", folder / "runs", scale=scale, dry=True)


@pytest.mark.parametrize("scale", ["quick", pytest.param("paper", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", OF_MODELS)
def test_starts(name, scale, tmp_path):
    record = reproduce(BY_NAME[name], work_in(tmp_path, scale), "python -m papers")
    assert Reproduction.load(tmp_path / "results" / "reproduction.json") == record
    assert record.pictures
    assert all((tmp_path / "results" / picture).stat().st_size for picture in record.pictures)
    for method in FIVE:
        title = {
            "softmax": "Softmax",
            "mc_dropout": "MCDropout",
            "bayes_by_backprop": "BayesByBackprop",
            "ensemble": "Ensemble",
            "anchored": "AnchoredEnsemble",
        }[method]
        assert sum(one.what.startswith(f"{title}:") for one in record.compared) == 3
    assert all(0 <= one.ours <= 100.001 for one in record.compared if one.unit == "%")
    assert all(
        one.paper is None for one in record.compared
    )  # a figure without numbers, and a theorem
    assert record.claims
    assert record.deviations
    assert any(one.setting == "networks and training" for one in record.deviations) == (
        scale == "quick"
    )


@pytest.mark.slow
def test_a_kill_costs_one_stage(tmp_path, monkeypatch):
    """What was done before a kill is not done again, and what comes of it is the same."""
    real, calls = nescio.uncertainty_map, []

    def dying(model, *others, **how):
        calls.append(model.name)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(model, *others, **how)

    monkeypatch.setattr(nescio, "uncertainty_map", dying)
    with pytest.raises(KeyboardInterrupt):
        reproduce(BY_NAME["limits-figure1"], work_in(tmp_path), "")
    assert not (tmp_path / "results" / "reproduction.json").exists()
    found = reproduce(BY_NAME["limits-figure1"], work_in(tmp_path), "")
    assert calls == [
        "softmax",
        "mc_dropout",
        "bayes_by_backprop",
        "bayes_by_backprop",
        "ensemble",
        "anchored",
    ]
    again = reproduce(BY_NAME["limits-figure1"], work_in(tmp_path), "")
    assert len(calls) == 6
    assert replace(again, provenance=found.provenance) == found
    assert again.provenance.seconds > 0.5 * found.provenance.seconds  # what was found done counts


def test_the_rim_of_a_map():
    """The rim is the outermost rows and columns: here 16 of 25 points, 5 of them certain."""
    inner = ((0.2,) * 5,) * 4
    confidence = Surface("confidence", "", (*inner, (0.995,) * 5), ((0.0,) * 5,) * 5)
    entropy = Surface("entropy", "", ((math.log(2),) * 5,) * 5, ((0.0,) * 5,) * 5)
    record = Map(
        "softmax",
        "x",
        1,
        ("x", "y"),
        ("a", "b", "c", "d"),
        (0.0,) * 5,
        (0.0,) * 5,
        (entropy,),
        confidence,
        Points((), (), ()),
        Provenance(0, {}, 0.0, {}),
    )
    assert rim(record) == 5 / 16
    assert rim_entropy(record) == pytest.approx(0.5)


def test_the_authors_settings_are_of_the_five():
    assert set(TUNED) == set(FIVE)
    assert {name for name, how in TUNED.items() if how.own.get("members") == 10} == {
        "ensemble",
        "anchored",
    }
    assert TUNED["bayes_by_backprop"].own["std"] == pytest.approx(
        4.76e-4, rel=0.01
    )  # softplus(−7.649)


def test_a_figure_of_scaled_inputs():
    records = {
        name: scaling(torch.nn.Linear(2, 2), torch.ones(4, 2), features=[0, 1], alphas=[1, 10])
        for name in "ab"
    }
    figure = limits_figure(records, number=1)
    assert [axes.get_xlabel() for axes in figure.axes] == [
        "factor of feature 1"
    ] * 3  # confidence, and two scores
    assert all(len(axes.lines) == 2 for axes in figure.axes)
    with pytest.raises(NescioError, match="given: none"):
        limits_figure({})
    ray = scaling(torch.nn.Linear(2, 2), torch.ones(4, 2), features=[], alphas=[1, 10])
    with pytest.raises(NescioError, match="different features: feature 0, ray"):
        limits_figure({"a": records["a"], "b": ray})


@pytest.mark.parametrize("name", sorted({*BY_NAME} - {*OF_MODELS}))
def test_what_needs_no_training_starts(name, tmp_path):
    record = reproduce(BY_NAME[name], work_in(tmp_path), "")
    assert all((tmp_path / "results" / picture).stat().st_size for picture in record.pictures)
    committed = Reproduction.load(RESULTS / name / "reproduction.json")
    for run in (record, committed):
        found = {one.what: one.ours for one in run.compared}
        holds = [claim.holds for claim in run.claims]
        if name == "limits-figure2":
            assert found["largest slope ∂p₁/∂f₁ (closed form: ¼)"] == pytest.approx(0.25)
            # p (1 − p) < 0.01 beyond |f₁ − f₂| = log(p / (1 − p)), in a square of side 20
            band = 2 * math.log(2 / (1 - math.sqrt(0.96)) - 1) / 2
            assert found["part of the square where it is below 0.01"] == pytest.approx(
                100 * (1 - band / 20) ** 2, abs=0.5 if run is committed else 5
            )
            assert holds == [True]
        else:
            p = 1 / (1 + math.exp(-1.0))  # at y = ½, where f₁ − f₂ = 2 y
            slope = found["lemma 4, a tie: gradient of 1 − max p at ×1,000,000 (as printed: 0)"]
            assert slope == pytest.approx(2 * p * (1 - p), rel=1e-5)
            confidence = found["lemma 4, a tie: confidence at ×1,000,000"]
            assert confidence == pytest.approx(100 * p, rel=1e-5)
            assert holds == [False, True, False, False]
    assert [claim.holds for claim in record.claims] == [claim.holds for claim in committed.claims]


@pytest.mark.parametrize("name", OF_MODELS)
def test_the_committed_run(name):
    record = Reproduction.load(RESULTS / name / "reproduction.json")
    assert (record.scale, record.paper) == ("quick", 1)
    assert record.seeds >= 3
    assert all((RESULTS / name / picture).exists() for picture in record.pictures)
    found = {one.what: one.ours for one in record.compared}
    if name == "limits-figure1":
        assert found["Softmax: rim of the map with a confidence above 99 %"] > 85
        assert (
            found["MCDropout: rim of the map with a confidence above 99 %"]
            < found["Softmax: rim of the map with a confidence above 99 %"]
        )
    else:
        (far,) = (
            value
            for what, value in found.items()
            if what.startswith("Softmax: mean confidence at ×1,000,000")
        )
        assert far > 99.9
        assert all(
            value < 1e-12
            for what, value in found.items()
            if what.startswith("Softmax: largest gradient")
        )
