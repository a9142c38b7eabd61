"""What was done stays done: over kills, changed settings and broken files."""

import io
import json
from dataclasses import replace

import pytest
import torch
from matplotlib.figure import Figure
from rich.console import Console

import nescio
from nescio.data import NAMES, Samples
from nescio.errors import NescioError
from nescio.records import Map, Provenance
from nescio.store.run import Source
from papers.experiment import Experiment, Outcome, reproduce
from papers.experiments import EXPERIMENTS, NOT_MADE, not_made
from papers.gradient_uncertainty.separations import ScoreRow, Separations, SplitMetrics
from papers.reproduction import Claim, Comparison, Deviation, Reproduction
from papers.workspace import DRY_INPUTS, SCALES, STAGES, Workspace, subset


def result(value=0.5, seconds=1.0):
    """Any record will do for a stage."""
    row = ScoreRow("entropy", "single", {"wrong": SplitMetrics(*[(value,)] * 5)})
    return Separations(
        "digits", "mlp", (0.9,), {"wrong": (3,)}, (row,), (), Provenance.now(0, {}, seconds)
    )


@pytest.fixture
def work(tmp_path):
    """A new look at the same folders, as a command that is started again has it."""

    def make(**more):
        return Workspace(
            tmp_path / "results",
            tmp_path / "runs",
            console=Console(file=io.StringIO(), width=200),
            **more,
        )

    return make


@pytest.fixture
def made():
    """What was made, in order, and how to make it."""
    done = []

    def maker(name, value=0.5):
        def make():
            done.append(name)
            return result(value)

        return make

    maker.done = done
    return maker


def said(work):
    return work.console.file.getvalue()


def never():
    raise AssertionError("made again")


def killed(*_, **__):
    raise KeyboardInterrupt


def test_a_stage_is_made_once(work, made):
    first = work().stage("a", Separations, made("a"), rows=5, sets=("x", "y"))
    again = work()
    assert again.stage("a", Separations, never, rows=5, sets=("x", "y")) == first
    assert made.done == ["a"]
    assert "a: kept" in said(again)


@pytest.mark.parametrize(
    "other", [{"rows": 6}, {}, {"rows": 5, "sets": ("x",)}], ids=["value", "fewer", "more"]
)
def test_changed_settings_are_done_again_and_then_kept(work, made, other):
    work().stage("a", Separations, made("old", 0.25), rows=5)
    assert work().stage("a", Separations, made("new", 0.75), **other).rows[0].against[
        "wrong"
    ].auroc == (0.75,)
    assert made.done == ["old", "new"]
    work().stage("a", Separations, never, **other)


def test_scales_and_dry_runs_do_not_pass_for_one_another(work, made):
    for more in (
        {"scale": "quick"},
        {"scale": "paper"},
        {"dry": True},
        {"scale": "paper", "dry": True},
    ):
        work(**more).stage("a", Separations, made(str(more)))
        work(**more).stage("a", Separations, never)
    assert len(made.done) == 4


def test_after_a_kill_the_stage_it_was_in_is_the_first_to_be_done(work, made):
    def stages(work, second):
        work.stage("one", Separations, made("one"))
        work.stage("two", Separations, second)
        work.stage("three", Separations, made("three"))

    with pytest.raises(KeyboardInterrupt):
        stages(work(), killed)
    stages(work(), made("two"))
    assert made.done == ["one", "two", "three"]


def test_a_stage_within_a_stage_is_kept_though_the_outer_one_was_cut_off(work, made):
    def outer(last):
        def make():
            started.stage("inner", Separations, made("inner"))
            return last()

        return make

    started = work()
    with pytest.raises(KeyboardInterrupt):
        started.stage("outer", Separations, outer(killed))
    started = work()
    started.stage("outer", Separations, outer(made("outer")))
    assert made.done == ["inner", "outer"]
    assert set(json.loads((started.folder / STAGES).read_text())) == {"inner", "outer"}


def test_a_kill_between_a_record_and_its_entry_leaves_no_wrong_pair(work, made, monkeypatch):
    """The entry of old settings is gone before their record, so that they are made again."""
    work().stage("a", Separations, made("old", 0.25), rows=5)
    started = work()
    keep, calls = Workspace._save_stages, []

    def cut(self, stages):
        calls.append(stages)
        if len(calls) == 2:
            raise KeyboardInterrupt
        keep(self, stages)

    monkeypatch.setattr(Workspace, "_save_stages", cut)
    with pytest.raises(KeyboardInterrupt):
        started.stage("a", Separations, made("new", 0.75), rows=6)
    monkeypatch.undo()
    assert work().stage("a", Separations, made("old", 0.25), rows=5).rows[0].against[
        "wrong"
    ].auroc == (0.25,)


def test_a_record_that_was_deleted_is_made_again(work, made):
    started = work()
    started.stage("a", Separations, made("a"))
    (started.folder / "a.json").unlink()
    work().stage("a", Separations, made("a"))
    assert made.done == ["a", "a"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"a": 3}', '{"a": {"b": 1}}', "\x00", '"a"']
)
def test_a_broken_list_of_stages_is_an_error_that_names_it(work, text):
    started = work()
    started.folder.mkdir()
    (started.folder / STAGES).write_text(text)
    with pytest.raises(NescioError, match=r"stages\.json.* no list of stages.*done again"):
        started.stage("a", Separations, never)


def test_broken_times_of_a_stage_are_an_error(work, made):
    started = work()
    started.stage("a", Separations, made("a"))
    entry = json.loads((started.folder / STAGES).read_text())
    entry["a"]["spent, s"] = {"a.json": "long"}
    (started.folder / STAGES).write_text(json.dumps(entry))
    with pytest.raises(NescioError, match=r"stages\.json\['a'\].*'long'"):
        work().stage("a", Separations, never)


DAMAGED = {
    "cut": lambda whole: whole[: len(whole) // 2],
    "empty": lambda whole: b"",
    "other": lambda whole: b"{}",
    "not text": lambda whole: b"\xff" + whole,
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_a_record_that_cannot_be_read_is_said_and_made_again(work, made, damage):
    started = work()
    started.stage("a", Separations, made("old", 0.25))
    path = started.folder / "a.json"
    path.write_bytes(damage(path.read_bytes()))
    again = work()
    assert again.stage("a", Separations, made("new", 0.75)).rows[0].against["wrong"].auroc == (
        0.75,
    )
    (line,) = (line for line in said(again).splitlines() if "a.json" in line)
    assert "a: made again, since its record cannot be read" in line
    assert "kept" not in said(again)
    work().stage("a", Separations, never)
    assert made.done == ["old", "new"]


def test_a_record_that_cannot_be_read_is_gone_from_the_list_before_it_is_made(work, made):
    """Its time must not count once more, and a kill leaves nothing that would pass for done."""
    started = work()
    started.stage("a", Separations, made("old"))
    (started.folder / "a.json").write_text("{")
    again = work()
    with pytest.raises(KeyboardInterrupt):
        again.stage("a", Separations, killed)
    assert not (again.folder / STAGES).exists()


def test_a_record_of_another_kind_does_not_pass_for_a_stage(work, made):
    work().stage("a", Separations, made("a"))
    with pytest.raises(AssertionError, match="made again"):
        work().stage("a", Map, never)


def test_settings_that_cannot_be_kept_are_an_error(work):
    with pytest.raises(NescioError, match="is no plain data"):
        work().stage("a", Separations, never, data=torch.zeros(1))


BLOBS = {
    "source": Source("three_blobs"),
    "method": "softmax",
    "network": "mlp",
    "seed": 0,
    "epochs": 4,
}


def test_a_network_is_trained_once_and_shared(work, monkeypatch):
    model, history = work().trained("blobs", **BLOBS)
    assert len(history.epochs) == 4
    monkeypatch.setattr("nescio.training.trainer.Trainer._step", killed)
    again, same = work().trained("blobs", **BLOBS)
    assert same == history
    x = nescio.data.load("three_blobs").test.inputs
    assert torch.equal(again(x), model(x))


def test_a_training_that_was_killed_goes_on_and_ends_with_the_same_weights(
    work, tmp_path, monkeypatch
):
    whole, _ = Workspace(tmp_path / "other", tmp_path / "others", console=work().console).trained(
        "blobs", **BLOBS
    )
    end, epochs = nescio.training.trainer.Trainer._end_epoch, []

    def ended(self, epoch):
        end(self, epoch)
        epochs.append(epoch)
        if len(epochs) == 3:  # before the checkpoint of the third is written
            raise KeyboardInterrupt

    monkeypatch.setattr("nescio.training.trainer.Trainer._end_epoch", ended)
    with pytest.raises(KeyboardInterrupt):
        work().trained("blobs", **BLOBS)
    model, history = work().trained("blobs", **BLOBS)
    assert epochs == [0, 1, 2, 2, 3]
    assert len(history.epochs) == 4
    x = nescio.data.load("three_blobs").test.inputs
    assert torch.equal(model(x), whole(x))


def test_another_scale_trains_a_network_of_its_own(work):
    work().trained("blobs", **BLOBS)
    _, history = work(scale="paper").trained("blobs", **{**BLOBS, "epochs": 5})
    assert len(history.epochs) == 5
    _, dry = work(dry=True).trained("blobs", **BLOBS)
    assert len(dry.epochs) == 1
    assert dry.steps == 1
    assert {path.name for path in work().runs.iterdir()} == {"blobs", "blobs-paper", "blobs-dry"}


def test_two_runs_of_one_name_with_other_settings_are_an_error(work):
    work().trained("blobs", **BLOBS)
    with pytest.raises(NescioError, match="epochs"):
        work().trained("blobs", **{**BLOBS, "epochs": 5})


def test_a_dry_run_sees_a_few_inputs_of_every_class(work):
    known = work(dry=True).known(Source("digits"))
    assert len(known.train) == len(known.test) == DRY_INPUTS
    assert set(known.train.labels.tolist()) == set(range(10))
    sorted_set = Samples(torch.zeros(1000, 2), torch.arange(1000) // 500, name="sorted")
    assert set(subset(sorted_set).labels.tolist()) == {0, 1}
    assert subset(sorted_set).name == "sorted"
    assert len(subset(sorted_set.select(torch.arange(5)))) == 5
    assert len(work().few(sorted_set)) == 1000
    assert len(work(dry=True).few(sorted_set)) == DRY_INPUTS
    assert (work().count(10), work(dry=True).count(10), work(dry=True).count(1)) == (10, 2, 1)
    assert (work().pick(1, 2), work(scale="paper").pick(1, 2)) == (1, 2)


def test_a_shared_record_is_made_in_a_folder_of_its_scale(work):
    places = []

    def make(folder):
        places.append(folder.name)
        return result()

    work().shared("splits", make)
    work(scale="paper", dry=True).shared("splits", make)
    assert places == ["splits", "splits-paper-dry"]


def figure_of(text):
    figure = Figure(figsize=(1, 1))
    figure.text(0.5, 0.5, text)
    return figure


def experiment(run=None, **more):
    def usual(work):
        work.stage("a", Separations, result)
        work.picture("a.svg", figure_of("a"))
        return Outcome(
            (Comparison("AUROC", 0.9, 0.8),),
            (Claim("a", True, "b"),),
            (Deviation("a", "b", "c"),),
            ("d",),
        )

    return Experiment("some-table", 4, "Table 9", "something", run or usual, **more)


def test_an_experiment_ends_with_its_record(work):
    started = work(seeds=2)
    record = reproduce(experiment(), started, "python -m papers some-table")
    assert record == Reproduction.load(started.folder / "reproduction.json")
    assert (record.name, record.paper, record.item, record.scale, record.seeds) == (
        "some-table",
        4,
        "Table 9",
        "quick",
        2,
    )
    assert record.compared[0].ours == 0.8
    assert record.pictures == ("a.svg",)
    assert (started.folder / "a.svg").exists()
    assert record.command == "python -m papers some-table"


def test_the_time_is_that_of_all_goes_and_of_every_network_once(work, monkeypatch):
    """By a clock that moves only where we move it."""
    now = [0.0]
    monkeypatch.setattr("papers.spent.time.monotonic", lambda: now[0])

    def run(work, cut=False):
        def one():
            now[0] += 10
            work.shared("splits", lambda folder: result(seconds=1000.0))
            return result()

        def two():
            now[0] += 20
            work.shared("splits", lambda folder: result(seconds=1000.0))
            return killed() if cut else result()

        work.stage("one", Separations, one)
        work.stage("two", Separations, two)
        now[0] += 3
        return Outcome()

    with pytest.raises(KeyboardInterrupt):
        reproduce(experiment(lambda work: run(work, cut=True)), work(), "")
    assert reproduce(experiment(run), work(), "").provenance.seconds == 10 + 20 + 1000 + 3
    assert reproduce(experiment(run), work(), "").provenance.seconds == 10 + 20 + 1000 + 3


def test_the_time_of_a_training_is_that_of_its_history(work):
    def run(work):
        work.stage(
            "a", Separations, lambda: result(len(work.trained("blobs", **BLOBS)[1].epochs) / 10)
        )
        return Outcome()

    started, again = work(), work()
    reproduce(experiment(run), started, "")
    history = nescio.records.History.load(started.runs / "blobs" / "history.json")
    assert started.spent.seconds["blobs"] == history.provenance.seconds > 0
    reproduce(experiment(run), again, "")
    assert again.spent.seconds["blobs"] == pytest.approx(history.provenance.seconds, abs=1e-3)


def test_a_scale_it_does_not_have_is_an_error(work):
    with pytest.raises(NescioError, match="some-table is run at the scale paper, not quick"):
        reproduce(experiment(scales=("paper",)), work(), "")


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({"scale": "paper"}, r"some-table at the scale paper \(seeds: 3\)"),
        ({"seeds": 2}, r"some-table at the scale quick \(seeds: 2\)"),
        ({"name": "some-figure"}, r"some-figure at the scale quick \(seeds: 3\)"),
    ],
)
def test_a_record_is_not_replaced_by_less_or_by_something_else(work, given, asked):
    started = work(seeds=3)
    reproduce(experiment(), started, "the first")
    before = {path: path.read_bytes() for path in started.folder.iterdir()}
    name, more = given.pop("name", "some-table"), {"seeds": 3, **given}
    other = replace(experiment(lambda work: never()), name=name)
    with pytest.raises(
        NescioError,
        match=rf"results' holds some-table at the scale quick \(seeds: 3\), which {asked} "
        "would replace; name another folder with -o",
    ):
        reproduce(other, work(**more), "the second")
    assert {path: path.read_bytes() for path in started.folder.iterdir()} == before


def test_a_record_is_replaced_by_as_many_seeds_or_more(work):
    for seeds in (2, 2, 3):
        assert reproduce(experiment(), work(seeds=seeds), "").seeds == seeds
    assert Reproduction.load(work().folder / "reproduction.json").seeds == 3


def test_a_record_that_cannot_be_read_is_not_replaced(work):
    reproduce(experiment(), work(), "")
    (work().folder / "reproduction.json").write_text("{}")
    with pytest.raises(NescioError, match=r"reproduction\.json"):
        reproduce(experiment(lambda work: never()), work(), "")


def test_what_is_run_once_takes_no_more_seeds(work):
    with pytest.raises(
        NescioError, match="some-table is run once, whatever the seed: it takes 1 seed, not 7"
    ):
        reproduce(experiment(lambda work: never(), once=True), work(seeds=7), "")
    assert not work().folder.exists()
    assert reproduce(experiment(once=True), work(), "").seeds == 1


def test_missing_data_are_named_before_any_work(work, tmp_path):
    needy = experiment(lambda work: never(), needs=("digits", "mnist", "usps"))
    with pytest.raises(NescioError, match=r"not here: mnist, usps; .*`nescio data get mnist`"):
        reproduce(needy, work(root=str(tmp_path)), "")


def test_missing_data_are_those_of_the_scale(work, tmp_path):
    other = experiment(lambda work: never(), needs=("digits",), paper_needs=("digits", "svhn"))
    assert (other.missing("quick", str(tmp_path)), other.missing("paper", str(tmp_path))) == (
        [],
        ["svhn"],
    )
    with pytest.raises(NescioError, match="not here: svhn"):
        reproduce(other, work(root=str(tmp_path), scale="paper"), "")


def test_every_experiment_is_what_it_says():
    assert len(EXPERIMENTS) == len(
        {(one.paper, one.item, one.title) for one in EXPERIMENTS.values()}
    )
    for name, one in EXPERIMENTS.items():
        assert one.name == name not in ("list", "page")
        assert all(set(one.needed(scale)) <= set(NAMES) for scale in SCALES)
        assert one.paper in (1, 2, 3, 4)
        assert one.title[0].isupper()
        assert one.scales
        assert set(one.scales) <= set(SCALES)
        assert set(one.seeds) <= set(SCALES)


ITEMS = {  # how many figures and tables each paper has
    1: {"Figure": 2, "Table": 0},
    2: {"Figure": 4, "Table": 2},
    3: {"Figure": 2, "Table": 3},
    4: {"Figure": 9, "Table": 3},
}


def test_every_table_and_figure_of_the_papers_is_made_or_named():
    every = {
        (paper, f"{kind} {n}")
        for paper, kinds in ITEMS.items()
        for kind in kinds
        for n in range(1, kinds[kind] + 1)
    }
    made = {(one.paper, one.item) for one in EXPERIMENTS.values()}
    assert every == {item for item in made if item in every} | set(NOT_MADE)
    assert not made & set(NOT_MADE)
    assert all(f"{item} of paper {paper} (" in not_made() for paper, item in NOT_MADE)
