"""ReLU overconfidence: each experiment starts, on embedded data every day; its tables are sound."""

import math
import os
import re
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import pytest
import torch

import nescio
from nescio.data import Normalise
from nescio.errors import NescioError
from nescio.records import Evaluation, Provenance
from papers.experiment import Experiment, Outcome, reproduce
from papers.experiments import EXPERIMENTS
from papers.relu_overconfidence import figure4, noise_figures, table1, table2
from papers.relu_overconfidence.networks import (
    AUTHORS,
    EMBEDDED,
    KINDS,
    PAPER,
    PAPER_SCALE,
    QUICK,
    SHOWN,
    networks,
    training_of,
)
from papers.relu_overconfidence.radius import Radius, RadiusCheck, bound, radius_figure
from papers.relu_overconfidence.theorem32 import EPS
from papers.reproduction import Reproduction
from papers.workspace import Workspace

BY_NAME = {name: one for name, one in EXPERIMENTS.items() if one.paper == 2}
RESULTS = Path(__file__).parents[2] / "results"
COMMITTED = [name for name in BY_NAME if (RESULTS / name).is_dir()]
TABLE1 = {
    (data, kind, name, measure): value
    for data, sets in PAPER.published["table1"].items()
    for name, kinds in sets.items()
    for kind, numbers in kinds.items()
    for measure, value in numbers.items()
}
ON_DIGITS = {
    "relu-table1": partial(table1.table1, data=("digits",)),
    "relu-table2": partial(table2.table2, data=("digits",)),
    "relu-table2-crops": partial(table2.table2_of_crops, data="digits"),
    "relu-figure2": partial(noise_figures.figure2, data="digits"),
    "relu-figure4": partial(figure4.figure4, data="digits"),
}


def work_in(folder, scale="quick", runs=None):
    return Workspace(folder / "results", runs or folder / "runs", scale=scale, dry=True)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


def checked(record, folder):
    assert Reproduction.load(folder / "reproduction.json") == record
    assert record.pictures
    assert all((folder / picture).stat().st_size for picture in record.pictures)
    assert record.compared
    assert record.claims
    assert all(math.isfinite(one.ours) for one in record.compared)
    assert len({one.what for one in record.compared}) == len(record.compared)


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_DIGITS)
def test_starts_on_embedded_data(name, runs, tmp_path):
    experiment = replace(BY_NAME[name], run=ON_DIGITS[name], needs=())
    checked(reproduce(experiment, work_in(tmp_path, runs=runs), ""), tmp_path / "results")


@pytest.mark.parametrize("scale", ["quick", pytest.param("paper", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name",
    [
        # which attacks for long even in a dry run
        pytest.param(one.name, marks=[pytest.mark.slow] * (one.name == "relu-attacks-digits"))
        for one in BY_NAME.values()
        if not one.needs
    ],
)
def test_starts(name, scale, tmp_path):
    record = reproduce(BY_NAME[name], work_in(tmp_path, scale), "")
    checked(record, tmp_path / "results")
    assert all(
        one.paper is None for one in record.compared
    )  # a figure without numbers, and a theorem
    if name == "relu-theorem32":
        assert record.claims[0].holds  # a theorem holds of any network, trained or not


@pytest.mark.slow
@pytest.mark.skipif(
    "NESCIO_DATA" not in os.environ,
    reason="NESCIO_DATA is not set; it names the folder of real data",
)
@pytest.mark.parametrize("scale", ["quick", "paper"])
@pytest.mark.parametrize("name", [one.name for one in BY_NAME.values() if one.needs])
def test_starts_on_real_data(name, scale, runs, tmp_path):
    theirs = name == "relu-figure3" or name.endswith("-authors")
    if theirs and not (Path(os.environ["NESCIO_DATA"]) / "networks").is_dir():
        pytest.skip("needs the authors' networks in $NESCIO_DATA/networks")
    record = reproduce(BY_NAME[name], work_in(tmp_path, scale, runs), "")
    checked(record, tmp_path / "results")
    if name == "relu-table1":
        data = ["mnist"] if scale == "quick" else ["mnist", "cifar10"]
        published = [key for key in TABLE1 if key[0] in data]
        published += [kind for known in data for kind in PAPER.published["test_error"][known]]
        given = [one.paper for one in record.compared if one.paper is not None]
        assert len(given) >= len(published) - 6  # of adversarial samples there may be none


@pytest.mark.slow
def test_a_kill_costs_one_stage(runs, tmp_path, monkeypatch):
    real, calls = table2.overconfidence, []

    def dying(model, **how):
        calls.append(model.name)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(model, **how)

    monkeypatch.setattr(table2, "overconfidence", dying)
    experiment = replace(BY_NAME["relu-table2"], run=ON_DIGITS["relu-table2"], needs=())
    with pytest.raises(KeyboardInterrupt):
        reproduce(experiment, work_in(tmp_path, runs=runs), "")
    found = reproduce(experiment, work_in(tmp_path, runs=runs), "")
    assert calls == ["softmax", "ceda", "acet", "acet", "softmax"]
    again = reproduce(experiment, work_in(tmp_path, runs=runs), "")
    assert len(calls) == 5
    assert replace(again, provenance=found.provenance) == found


def test_crops_are_of_inputs_as_they_are(tmp_path):
    """The paper's plain network on MNIST; ours of the other tables normalises and never crops."""
    plain, crops = (training_of(QUICK["mnist"], kind) for kind in ("plain", "crops"))
    assert crops == {**plain, "augment": ["crop"], "normalised": False}
    for kind, module in (("plain", Normalise), ("crops", torch.nn.Identity)):
        (model,) = networks(work_in(tmp_path), EMBEDDED["digits"], (kind,)).values()
        assert type(model().normalise) is module


def test_networks_of_a_run_are_not_trained_again(tmp_path, monkeypatch):
    first = reproduce(
        replace(BY_NAME["relu-figure2"], run=ON_DIGITS["relu-figure2"], needs=()),
        work_in(tmp_path),
        "",
    )
    monkeypatch.setattr("nescio.training.trainer.Trainer._step", None)
    other = Workspace(tmp_path / "other", tmp_path / "runs", dry=True)
    again = reproduce(
        replace(BY_NAME["relu-figure2"], run=ON_DIGITS["relu-figure2"], needs=()), other, ""
    )
    assert again.compared == first.compared


def test_published_tables():
    made = {"noise", "adversarial_noise", "adversarial_samples"}
    sets = {
        "mnist": {"fashion_mnist", "letters", "cifar10", *made},
        "svhn": {"cifar10", *made},
        "cifar10": {"svhn", *made},
        "cifar100": {"svhn", "cifar10", *made},
    }
    for (data, names), kind in product(sets.items(), KINDS):
        found = {
            (name, measure) for known, one, name, measure in TABLE1 if (known, one) == (data, kind)
        }
        measures = ("mmc", "auroc", "fpr95")
        assert found == {(data, "mmc"), *product(names, measures)}
        assert 0 < PAPER.at("test_error", data, kind).value < 33
        plans = [plans[data] for plans in (QUICK, PAPER_SCALE, AUTHORS) if data in plans]
        assert plans
        assert all(set(plan.unknown) >= names - made for plan in plans)
    assert all(0 <= value <= 1 for value in TABLE1.values())
    assert TABLE1["mnist", "acet", "adversarial_noise", "auroc"] == 0.992
    assert TABLE1["svhn", "ceda", "cifar10", "fpr95"] == 0.209
    assert TABLE1["cifar100", "acet", "adversarial_samples", "mmc"] == 0.863
    factors, sure = (PAPER.published[name] for name in ("median_factor", "overconfident"))
    assert all(set(factors[data]) <= set(sure[data]) for data in factors)
    assert set(sure) == set(sets)
    assert all(0 <= value <= 100 for row in sure.values() for value in row.values())


@pytest.mark.parametrize(
    ("scale", "ours", "left"),
    [
        ("quick", "MNIST", ["SVHN", "CIFAR-100", "CIFAR-10 "]),
        ("paper", "MNIST, CIFAR-10", ["SVHN", "CIFAR-100"]),
    ],
)
def test_the_parts_of_a_table_that_are_not_made_are_reported(scale, ours, left, tmp_path):
    made = []
    found = table1.for_each_data(
        work_in(tmp_path, scale), None, lambda _, plan: made.append(plan.data) or Outcome()
    )
    (deviation,) = found.deviations
    assert (deviation.setting, deviation.paper, deviation.ours) == (
        "trained on",
        "MNIST, SVHN, CIFAR-10, CIFAR-100",
        ours,
    )
    assert [table1.IN_PAPER[name] for name in made] == ours.split(", ")
    assert all(name in deviation.why for name in left)
    assert ("CIFAR-10 " in deviation.why) == (scale == "quick")


def test_only_sets_of_the_papers_table_count_for_its_claim():
    runs = {
        kind: [Evaluation.load(RESULTS / "relu-table1" / f"mnist-{kind}-0.json")] for kind in KINDS
    }
    (claim,) = (
        one for one in table1.claims_of(QUICK["mnist"], runs) if "most of the time" in one.says
    )
    assert re.fullmatch(r"\d of 6 times, on fashion_mnist, letters, cifar10", claim.seen)
    assert {"omniglot", "notmnist"} < {side.name for side in runs["plain"][0].unknown}


def test_other_letters_are_evaluated_again(tmp_path, monkeypatch):
    """A record of the capitals must not pass for one of EMNIST's once these are at hand."""
    plan, seeds = replace(QUICK["mnist"], data="digits"), []

    def evaluated(*given):
        seeds.append(given[-1])
        return Evaluation.load(RESULTS / "relu-table1" / "mnist-plain-0.json")

    monkeypatch.setattr(table1, "networks", lambda *_: {(kind, 0): None for kind in KINDS})
    monkeypatch.setattr(table1, "evaluated", evaluated)
    for at_hand, times in (("nist_letters", 3), ("nist_letters", 3), ("emnist_letters", 6)):
        monkeypatch.setattr(table1, "letters", lambda _, name=at_hand: name)
        table1.table1_of(work_in(tmp_path), plan)
        assert len(seeds) == times


def on_noise(figures):
    """Evaluations of each kind, with these MMC and AUROC on noise and on adversarial noise."""
    runs = {}
    for kind in KINDS:
        record = Evaluation.load(RESULTS / "relu-table1" / f"mnist-{kind}-0.json")
        sides = {side.name: side for side in record.unknown}
        for name, mmc, auroc in zip(("noise", "adversarial_noise"), *figures[kind], strict=True):
            separation = replace(sides[name].separation[0], auroc=auroc)
            sides[name] = replace(sides[name], mmc=mmc, separation=(separation,))
        runs[kind] = [replace(record, unknown=tuple(sides.values()))]
    return runs


def of_table1(data):
    """What the paper's own table has on noise and on adversarial noise."""
    return {
        kind: [
            [TABLE1[data, kind, name, measure] for name in ("noise", "adversarial_noise")]
            for measure in ("mmc", "auroc")
        ]
        for kind in KINDS
    }


ON_NOISE = {  # words of section 5, and the data sets on which the paper's own numbers bear them out
    "plain models always produce high confidence predictions on noise images.": {"cifar10"},
    "plain models completely fail on adversarial noise.": {"mnist", "cifar10"},
    "CEDA produces low confidence on noise images.": {"mnist", "cifar10"},
    "CEDA mostly fails on adversarial noise.": {"cifar10"},
    "only ACET consistently produces low confidence predictions on adversarial noise and has high "
    "AUROC.": {"cifar10"},
}


@pytest.mark.parametrize("data", ["mnist", "cifar10"])
def test_the_papers_words_on_noise_are_held_against_every_data_set(data):
    claims = table1.claims_of(replace(PAPER_SCALE[data], unknown=()), on_noise(of_table1(data)))
    found = {claim.says.removeprefix(f"{data}: "): claim.holds for claim in claims}
    assert {says: found[says] for says in ON_NOISE} == {
        says: data in true_of for says, true_of in ON_NOISE.items()
    }


@pytest.mark.parametrize(
    ("kind", "figures", "holds"),
    [
        (
            "ceda",
            ((0.1, 0.15), (1.0, 0.99)),
            False,
        ),  # as good as ACET, which then is not the only one
        ("ceda", ((0.1, 0.15), (1.0, 0.9)), True),
        ("acet", ((0.1, 0.3), (1.0, 0.99)), False),
        ("acet", ((0.1, 0.1), (1.0, 0.9)), False),
    ],
)
def test_only_acet_means_no_other(kind, figures, holds):
    plan, runs = (
        replace(PAPER_SCALE["cifar10"], unknown=()),
        on_noise({**of_table1("cifar10"), kind: figures}),
    )
    (claim,) = (one for one in table1.claims_of(plan, runs) if "only ACET" in one.says)
    assert claim.holds is holds


def test_where_the_papers_own_table_disagrees_with_its_words_is_reported():
    noise, adversarial_set = table1.contradictions(QUICK["mnist"])
    assert noise.endswith("the paper's own table disagrees, with a plain model's MMC of 0.463.")
    assert adversarial_set.endswith(
        "the paper's own table disagrees, with CEDA's MMC of 0.102 and AUROC of 0.998."
    )
    assert table1.contradictions(PAPER_SCALE["cifar10"]) == []
    assert table1.contradictions(EMBEDDED["digits"]) == []


def test_the_papers_settings():
    for plan in PAPER_SCALE.values():
        assert (plan.epochs, plan.steps, plan.first_steps) == (100, 40, None)
        assert "crop" in plan.augment
    assert (
        PAPER_SCALE["cifar10"].network,
        PAPER_SCALE["cifar10"].optimizer,
        PAPER_SCALE["cifar10"].learning_rate,
    ) == (
        "resnet20",
        "sgd",
        0.1,
    )


def radius(**given):
    fields = {
        "data": "two_moons",
        "classes": 4,
        "centres": 3,
        "gamma": 2.0,
        "alpha": 5.0,
        "accuracy": 1.0,
        "promises": (RadiusCheck(0.1, 1.0, 5, 0.01),),
        "distance": (0.0, 1.0, 3.0),
        "departs": (0.7, 0.01, 0.0),
        "other": (0.7, 0.7, 0.7),
        "provenance": Provenance(0, {}, 0.0, {}),
    }
    return Radius(**{**fields, **given})


@pytest.mark.parametrize("eps", EPS)
def test_the_bound_drawn_is_that_of_the_theorem(eps):
    """At `r² = log(α / log(1 + Kε)) / γ` it is ε."""
    record = radius()
    distance = math.sqrt(math.log(record.alpha / math.log1p(record.classes * eps)) / record.gamma)
    assert bound(record, distance) == pytest.approx(eps)
    assert bound(record, 0.0) == 0.75  # no probability is farther from 1/4
    model = nescio.methods.RBFNetwork(torch.zeros(1, 2), 2.0, classes=4)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[5.0], [0.0], [0.0], [0.0]]))
    assert model.uniform_radius(eps) == pytest.approx(distance)


def test_a_figure_of_nothing_is_refused():
    with pytest.raises(NescioError, match="given: none"):
        radius_figure([])
    assert len(radius_figure([radius(), radius()]).axes) == 2


def test_every_name_is_of_this_paper():
    assert all(
        isinstance(one, Experiment) and one.paper == 2 and one.name.startswith("relu-")
        for one in BY_NAME.values()
    )
    assert len(BY_NAME) == 11
    assert set(BY_NAME) - set(COMMITTED) <= {"relu-table2-crops"}  # its networks take an hour


@pytest.mark.parametrize("name", COMMITTED)
def test_the_committed_run(name):
    record = Reproduction.load(RESULTS / name / "reproduction.json")
    assert (record.scale, record.paper, record.name) == ("quick", 2, name)
    assert all((RESULTS / name / picture).stat().st_size < 300_000 for picture in record.pictures)
    assert all(path.stat().st_size < 500_000 for path in (RESULTS / name).glob("*.json"))
    found = {one.what: one.ours for one in record.compared}
    if name == "relu-table1":
        assert all(found[f"mnist, {kind}: test error"] < 1.5 for kind in ("plain", "CEDA", "ACET"))
        assert found["mnist, plain: AUROC on adversarial noise"] < 0.1
        assert found["mnist, ACET: AUROC on adversarial noise"] > 0.99
        assert found["mnist, ACET: MMC on noise"] < 0.11
    if name == "relu-table1-authors":
        for kind, error in PAPER.published["test_error"]["cifar10"].items():
            assert found[f"cifar10, {SHOWN[kind]}: test error"] == pytest.approx(error, abs=0.5)
        numbers = [one for one in record.compared if one.what.split(": ")[1][:3] != "FPR"]
        compared = [one for one in numbers if one.paper is not None and one.unit != "%"]
        assert len(compared) > 50
        assert all(one.ours == pytest.approx(one.paper, abs=0.04) for one in compared)
    if name == "relu-theorem32":
        assert record.claims[0].holds
    if name == "relu-attacks-digits":
        paper, strongest, held = (
            found[f"digits, {who}: AUROC, {by} attack"]
            for who, by in (
                ("ACET", "the paper's"),
                ("ACET", "the strongest"),
                ("ACET, known starts", "the strongest"),
            )
        )
        assert strongest < paper - 0.02
        assert held > 0.95
