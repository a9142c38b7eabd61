"""DUQ: each experiment starts, stays done, and the committed ones show what the paper says."""

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from nescio.data.catalogue import NAMES
from nescio.errors import NescioError
from nescio.records import Evaluation, Provenance
from papers.duq import compared, curves, planes, runtime
from papers.duq import runs as duq_runs
from papers.duq.compared import PAPER
from papers.duq.planes import PENALTY
from papers.duq.runs import (
    Pair,
    TrainingRun,
    auroc,
    confidence_fractions,
    evaluate_run,
    evaluate_runs,
    training_time,
)
from papers.duq.timings import Timings
from papers.experiment import reproduce
from papers.experiments import EXPERIMENTS
from papers.reproduction import Comparison, Reproduction
from papers.workspace import Workspace

RESULTS = Path(__file__).parents[2] / "results"
BY_NAME = {name: one for name, one in EXPERIMENTS.items() if one.paper == 4}
EMBEDDED = [
    ("duq-figure1", "quick"),
    ("duq-figure1", "paper"),
    ("duq-figure3", "quick"),
    ("duq-figure3", "paper"),
    ("duq-figure4", "quick"),
    ("duq-figure4", "paper"),
    ("duq-runtime", "quick"),
    ("duq-section2.3", "quick"),
    ("duq-section2.4", "quick"),
    ("duq-figure9", "quick"),
    ("duq-figure9", "paper"),
    ("duq-appendixc.2", "quick"),
    ("duq-appendixc.2", "paper"),
]
FULL = [
    (one.name, scale)
    for one in BY_NAME.values()
    for scale in one.scales
    if (one.name, scale) not in EMBEDDED
]
DIGITS = Pair("digits", "digits", "lenet", ("uniform",), 2)
SMALL = TrainingRun("softmax-digits", "softmax", 2, 1e-4, ("max_prob",))


@pytest.fixture
def work(tmp_path):
    return Workspace(tmp_path / "found", tmp_path / "runs", dry=True)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


def starts(name, work):
    """The record of a dry run, as it is in its file, with every picture it names."""
    made = reproduce(BY_NAME[name], work, "a command")
    assert Reproduction.load(work.folder / "reproduction.json") == made
    assert all((made.compared, made.claims, made.deviations))
    assert all(
        "</svg>" in (work.folder / picture).read_text(encoding="utf-8") for picture in made.pictures
    )
    assert all(np.isfinite(one.ours) for one in made.compared)
    return made


@pytest.mark.slow
@pytest.mark.parametrize(("name", "scale"), EMBEDDED)
def test_starts(name, scale, work):
    work.scale = scale
    starts(name, work)


@pytest.mark.slow
@pytest.mark.skipif("NESCIO_DATA" not in os.environ, reason="needs the images in $NESCIO_DATA")
@pytest.mark.parametrize(("name", "scale"), FULL)
def test_starts_on_real_data(name, scale, tmp_path, runs):
    starts(name, Workspace(tmp_path, runs, scale, dry=True))


@pytest.mark.parametrize("name", ["duq-table3", "duq-figure8"])
def test_cifar_needs_more_than_an_hour(name, work):
    with pytest.raises(NescioError, match="scale day or paper, not quick"):
        reproduce(BY_NAME[name], work, "a command")


def against_svhn(name):
    """A committed record, as if its digits were SVHN's."""
    record = Evaluation.load(RESULTS / "duq-figure6" / f"{name}.json")
    return replace(
        record,
        unknown=tuple(
            replace(side, name="svhn") for side in record.unknown if side.name == "mnist"
        ),
    )


@pytest.mark.parametrize("similar", [True, False])
def test_figure_8_holds_duq_against_ensembles_of_five(similar, work, monkeypatch):
    work.scale = "paper"
    duq = against_svhn("duq-fashion-0")
    other = duq if similar else against_svhn("ensemble-fashion-0")
    asked = []
    monkeypatch.setattr(curves, "evaluate_runs", lambda *_: {"DUQ": [duq]})
    monkeypatch.setattr(
        curves, "cifar_ensembles", lambda _, size: asked.append(size) or [other, other]
    )
    monkeypatch.setattr(curves, "training_time", lambda *_: "long")
    found = curves.figure8(work)
    assert asked == [5]
    assert [claim.holds for claim in found.claims] == [similar]
    numbers = {one.what: one for one in found.compared}
    best = numbers["theoretical maximum with nothing rejected"]
    assert best.paper == 28
    assert best.ours == pytest.approx(50, abs=0.1)  # here 10 000 against 10 000
    assert numbers["DUQ: test accuracy"].paper == 93.2
    assert numbers["deep ensemble of 5: test accuracy"].paper == 95.2
    assert (work.folder / "figure8.svg").exists()


@pytest.mark.parametrize(
    ("scale", "size", "starts"),
    [
        ("day", 3, [0]),
        ("day", 5, [0]),
        ("paper", 3, [0, 3, 6, 9, 12]),
        ("paper", 5, [0, 5, 10]),
        ("paper", 10, [0]),
        ("paper", 15, [0]),
    ],
)
def test_ensembles_on_cifar_are_disjoint_parts_of_one(scale, size, starts, work, monkeypatch):
    work.scale, seen = scale, []
    monkeypatch.setattr(
        compared,
        "evaluate_run",
        lambda _, pair, run, seed, part, made: seen.append((run.name, part)),
    )
    work.dry = False
    compared.cifar_ensembles(work, size)
    assert seen == [("ensemble-cifar", f"-{size}-from-{start}") for start in starts]


FAST = {"batch_size": 128, "learning_rate": 0.02}  # half as many steps, twice as long


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("duq-figure1", FAST),
        ("duq-figure3", FAST),
        *(pytest.param(f"duq-figure{n}", {}, marks=pytest.mark.slow) for n in (1, 3, 4)),
    ],
)
def test_one_seed_in_the_plane_shows_what_the_paper_says(name, how, tmp_path, monkeypatch):
    monkeypatch.setattr(planes, "TRAINING", planes.TRAINING | how)
    made = starts(name, Workspace(tmp_path, tmp_path))
    assert all(claim.holds for claim in made.claims)
    assert all(one.ours > 0.98 for one in made.compared if one.what.endswith("accuracy"))


def test_a_figure_that_was_killed_goes_on_where_it_stood(work, tmp_path, monkeypatch):
    whole = reproduce(
        BY_NAME["duq-figure1"],
        Workspace(tmp_path / "whole", tmp_path / "runs", dry=True),
        "a command",
    )
    with monkeypatch.context() as patch:
        patch.setattr(planes, "uncertainty_map", killed)
        with pytest.raises(KeyboardInterrupt):
            reproduce(BY_NAME["duq-figure1"], work, "a command")
    assert {path.name for path in work.folder.iterdir()} == {
        "deep-ensemble-0.json",
        "duq-0.json",
        "stages.json",
    }
    monkeypatch.setattr(planes, "evaluate", killed)  # what was evaluated is not evaluated again
    resumed = reproduce(BY_NAME["duq-figure1"], work, "a command")
    assert (resumed.compared, resumed.claims) == (whole.compared, whole.claims)


def killed(*_, **__):
    raise KeyboardInterrupt


def test_a_run_that_was_killed_goes_on_where_it_stood(work, tmp_path, monkeypatch):
    whole = evaluate_run(
        Workspace(tmp_path / "whole", tmp_path / "other", dry=True), DIGITS, SMALL, 0
    )
    with monkeypatch.context() as patch:
        patch.setattr(duq_runs, "evaluate", killed)
        with pytest.raises(KeyboardInterrupt):
            evaluate_run(work, DIGITS, SMALL, 0)
    assert (work.runs / "softmax-digits-0-dry" / "model.safetensors").exists()
    with monkeypatch.context() as patch:
        patch.setattr(
            "nescio.training.trainer.Trainer._step", killed
        )  # what is trained is not trained again
        resumed = evaluate_run(work, DIGITS, SMALL, 0)
    assert (resumed.known, resumed.unknown) == (whole.known, whole.unknown)
    second = Workspace(tmp_path / "second", work.runs, dry=True)
    with monkeypatch.context() as patch:
        patch.setattr(duq_runs, "evaluate", killed)  # experiments share evaluations
        assert evaluate_run(second, DIGITS, SMALL, 0) == resumed
    shutil.rmtree(work.runs)  # and records are enough
    assert evaluate_runs(work, DIGITS, {"single": (SMALL, 1)}) == {"single": [resumed]}
    assert "took: single 0 minutes (threads: 1)." in training_time(work, {"single": (SMALL, 1)})
    assert not work.runs.exists()
    assert confidence_fractions(resumed, "uniform").sum() == pytest.approx(1)


def test_settings_that_change_are_run_again(work, monkeypatch):
    evaluate_run(work, DIGITS, SMALL, 0)
    monkeypatch.setattr(duq_runs, "evaluate", killed)
    with pytest.raises(KeyboardInterrupt):
        evaluate_run(
            work, DIGITS, TrainingRun("softmax-digits", "softmax", 2, 1e-4, ("entropy",)), 0
        )


def test_ratios_of_run_times_are_those_of_medians(work, monkeypatch):
    seconds = {
        "step: softmax": (1.0, 2.0, 90.0),
        "step: DUQ": (3.0,),
        "step: DUQ with penalty": (8.0,),
        "step: ensemble": (10.0,),
        "prediction: softmax": (1.0,),
        "prediction: DUQ": (1.2,),
        "prediction: ensemble": (3.0,),
    }
    made = Timings("conv3", 128, 1, seconds, Provenance.now(0, {}, 0.0))
    monkeypatch.setattr(runtime, "timed", lambda *_: made)
    found = runtime.runtime(work)
    assert [one.ours for one in found.compared] == pytest.approx([1.5, 4.0, 5.0, 1.2, 3.0])
    assert [one.paper for one in found.compared] == pytest.approx(
        [27 / 21, 103 / 21, 5.0, 1.25, 5.0]
    )
    assert [claim.holds for claim in found.claims] == [
        True,
        True,
        True,
        False,
    ]  # 2.5 times as fast is not about 4


def test_run_times_are_taken_once(work):
    work.seeds = 7
    with pytest.raises(NescioError, match="duq-runtime is run once"):
        reproduce(BY_NAME["duq-runtime"], work, "a command")


def test_every_task_is_timed_in_every_round():
    done = []
    found = runtime.interleaved({"a": lambda: done.append("a"), "b": lambda: done.append("b")}, 3)
    assert done == ["a", "b"] * 4  # the first round is not counted
    assert {name: len(rounds) for name, rounds in found.items()} == {"a": 3, "b": 3}


def test_published_figures_agree_with_each_other():
    tables = PAPER.published
    first, epoch = tables["table1"], tables["epoch"]
    assert tuple(map(float, first)) == (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
    assert first["0.05"]["mnist"] == tables["table2"]["DUQ"]  # the λ that the paper chose
    assert epoch["ensemble"] == 5 * epoch["softmax"]
    assert all(90 < row["accuracy"][0] < 100 for row in first.values())
    aurocs = [
        *(row[name] for row in first.values() for name in ("notmnist", "mnist")),
        *tables["table2"].values(),
        *tables["table3"].values(),
    ]
    assert all(0.8 < value < 1 and all(one < 0.05 for one in spread) for value, *spread in aurocs)


def test_to_be_below_the_paper_is_distinguished_by_whether_it_has_a_spread(work):
    near, far = Comparison("near", 0.955, 0.949, 0.007), Comparison("far", 0.955, 0.94, 0.007)
    bare, high = Comparison("bare", 93.6, 91.24, unit="%"), Comparison("high", 0.8, 0.9)
    spread = "Below the paper by more than its spread: far by 0.015."
    none = "Below the paper, which has no spread for it: bare by 2.4 points."
    short = "The training is shorter than the paper's."
    assert compared.shortfalls(work, [near, high]) == []
    assert compared.shortfalls(work, [near, far, bare, high]) == [f"{spread} {none} {short}"]
    assert compared.shortfalls(work, [bare]) == [f"{none} {short}"]
    work.scale = "paper"
    assert compared.shortfalls(work, [far]) == [spread]


def test_names_and_needs():
    assert len(BY_NAME) == 17
    assert all(
        one.paper == 4 and set(one.needed(scale)) <= set(NAMES)
        for one in BY_NAME.values()
        for scale in one.scales
    )


def test_the_page_on_duq_tells_of_two_moons_what_the_records_show():
    page = " ".join(
        (RESULTS.parent / "docs" / "papers" / "duq.md").read_text(encoding="utf-8").split()
    )
    first, fourth = (
        Reproduction.load(RESULTS / f"duq-figure{n}" / "reproduction.json") for n in (1, 4)
    )
    far = dict(re.findall(r"(DUQ(?:, [\w -]+)?): (0\.\d+)", fourth.claims[0].seen))
    two, none, one = (far[title] for title in PENALTY)
    assert (
        f"{two} with the two-sided penalty, {none} without one and {one} with a one-sided one"
        in page
    )
    shares = {
        one.what.partition(": share")[0]: f"{one.ours:.0%}".replace("%", " %")
        for record in (first, fourth)
        for one in record.compared
        if ": share" in one.what
    }
    two, none, one = (shares[title] for title in PENALTY)
    assert f"more than 0.9 certain on {two}, {none} and {one} of that region" in page
    assert f"a deep ensemble on {shares['deep ensemble']}." in page


def test_the_page_on_duq_names_all_its_figures():
    page = (RESULTS.parent / "docs" / "papers" / "duq.md").read_text(encoding="utf-8")
    assert {one.item for one in BY_NAME.values() if one.item.startswith("Figure")} == {
        f"Figure {n}" for n in (1, *range(3, 10))
    }
    assert "| figures 1 and 3 to 9, tables 1 to 3" in page
    long = [f"`{one.name}`" for one in BY_NAME.values() if "quick" not in one.scales]
    assert sorted(long) == ["`duq-fashion`", "`duq-figure8`", "`duq-table3`"]
    assert "`duq-figure8` and `duq-table3` take `--scale day` or `--scale paper`" in page


LONGER = {
    path.parent.name: Evaluation.load(path)
    for path in (RESULTS / "duq-fashion").glob("*/evaluation.json")
}


@pytest.mark.parametrize("run", LONGER)
def test_the_table_of_longer_runs_is_that_of_their_records(run):
    page = (RESULTS / "duq-fashion" / "README.md").read_text(encoding="utf-8")
    (row,) = (
        line.removesuffix(" |").split(" | ")
        for line in page.splitlines()
        if line.startswith(f"| `{run}`")
    )
    record = LONGER[run]
    own, energy = (
        [f"{auroc(record, name, score):.3f}" for name in ("mnist", "notmnist")]
        for score in ("max_logit", "energy")
    )
    assert row[1:5] == [f"{100 * record.known.accuracy:.1f} %", *own, ", ".join(energy)]


@pytest.mark.parametrize("name", [one.name for one in BY_NAME.values() if "quick" in one.scales])
def test_committed(name):
    """Every quick run has its record, whose stages are there, small."""
    folder = RESULTS / name
    record = Reproduction.load(folder / "reproduction.json")
    assert (record.name, record.paper, record.scale, record.item) == (
        name,
        4,
        "quick",
        BY_NAME[name].item,
    )
    assert (
        record.command
        == f"python -m papers {name} --scale quick --seeds {record.seeds} -o results/{name}"
    )
    assert all((folder / picture).stat().st_size < 300_000 for picture in record.pictures)
    assert all(path.stat().st_size < 500_000 for path in folder.iterdir())


def test_what_the_committed_records_show():
    found = {
        name: Reproduction.load(RESULTS / name / "reproduction.json")
        for name, one in BY_NAME.items()
        if "quick" in one.scales
    }
    for name in ("duq-figure1", "duq-figure3", "duq-figure4", "duq-figure5", "duq-figure6"):
        assert all(claim.holds for claim in found[name].claims)
    ours = {one.what: one.ours for one in found["duq-table2"].compared}
    against = "AUROC, FashionMNIST against MNIST"
    assert ours[f"DUQ: {against}"] > 0.945
    assert ours[f"DUQ: {against}"] > ours[f"deep ensemble of 5: {against}"] + 0.1
    assert ours["DUQ: test accuracy"] > 90.5
    longer = [LONGER[f"scale-0.2-{seed}"] for seed in range(3)]  # twice the epochs of a quick run
    assert fmean(auroc(one, "mnist") for one in longer) > 0.95
    assert fmean(one.known.accuracy for one in longer) > 0.915
    assert all(one.provenance.seconds < 3600 for one in found.values())  # what quick is to mean
