"""`python -m papers` as a user meets it, with an experiment of seconds on embedded data."""

import re
from functools import partial
from pathlib import Path

import pytest

from nescio.evaluation.evaluate import evaluate
from nescio.evaluation.unknown_sets import unknown_set
from nescio.records import Evaluation, Record
from nescio.report.evaluation import histogram_figure
from nescio.store.run import Source
from papers.__main__ import main
from papers.experiment import Experiment, Outcome
from papers.experiments import EXPERIMENTS, not_made
from papers.reproduction import Claim, Comparison, Reproduction


def blobs(work):
    source = Source("three_blobs")
    found = []
    for seed in range(work.count(work.seeds, 1)):

        def evaluated(seed=seed):
            model, _ = work.trained(
                f"blobs-{seed}", source, "softmax", "mlp", seed, epochs=work.pick(3, 6)
            )
            known = work.known(source)
            return evaluate(
                model, known.test, {"far": work.few(unknown_set("far", known))}, scores=["max_prob"]
            )

        found.append(work.stage(f"evaluated-{seed}", Evaluation, evaluated, seed=seed))
    work.picture("scores.svg", histogram_figure(found[0]))
    accuracy = found[0].known.accuracy
    return Outcome(
        (Comparison("accuracy", 0.9, accuracy),),
        (Claim("It learns", accuracy > 0.5, f"{accuracy:.2f}"),),
    )


@pytest.fixture(autouse=True)
def experiment(monkeypatch):
    made = Experiment("blobs-table7", 4, "Table 7", "three blobs", blobs, seeds={"quick": 2})
    monkeypatch.setitem(EXPERIMENTS, made.name, made)
    return made


@pytest.fixture
def nescio(command):
    """Run `nescio …` in this process."""
    return command


@pytest.fixture
def papers(command):
    """Run `python -m papers …` in this process."""
    return partial(command, program=main)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_experiment_writes_records_pictures_and_a_page(papers, here):
    code, out, err = papers("blobs-table7", "-o", "results/blobs-table7")
    assert code == 0
    assert "Paper 4, Table 7: three blobs" in out
    assert "yes" in out
    assert "evaluated-0" in err
    assert "blobs-1: softmax on three_blobs, seed 1, epochs: 3" in err
    names = {path.name for path in (here / "results" / "blobs-table7").iterdir()}
    assert names == {
        "evaluated-0.json",
        "evaluated-1.json",
        "scores.svg",
        "stages.json",
        "reproduction.json",
        "README.md",
    }
    record = Reproduction.load(here / "results" / "blobs-table7" / "reproduction.json")
    assert (
        record.command
        == "python -m papers blobs-table7 --scale quick --seeds 2 -o results/blobs-table7"
    )
    assert record.compared[0].ours > 0.5
    assert "# Paper 4, Table 7" in (here / "results" / "blobs-table7" / "README.md").read_text()
    assert {path.name for path in (here / "results" / "runs").iterdir()} == {"blobs-0", "blobs-1"}


def test_again_nothing_is_done_again_and_more_seeds_only_add(papers, here, monkeypatch):
    words = ["blobs-table7", "--runs", "nets"]
    assert papers(*words, "--seeds", 1)[0] == 0
    assert (here / "nets" / "blobs-0").exists()
    code, _, err = papers(*words, "--seeds", 2)
    assert code == 0
    assert "evaluated-0: kept" in err
    assert "blobs-0" not in err
    assert "blobs-1: softmax" in err
    monkeypatch.setattr("nescio.training.trainer.Trainer._step", None)
    code, out, err = papers(*words)
    assert code == 0
    assert "evaluated-1: kept" in err
    assert "results/blobs-table7" in out


def test_a_dry_run_keeps_nothing(papers, here):
    for scale in ("quick", "paper"):
        code, out, err = papers("blobs-table7", "--scale", scale, "--dry-run")
        assert code == 0
        assert f"blobs-table7 at the scale {scale}: every stage starts" in out
        assert "epochs: 1" in err
    assert list(here.iterdir()) == []


def test_an_interrupted_experiment_says_how_to_go_on_and_does(papers, here, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as cut:
        cut.setattr("nescio.training.trainer.Trainer._end_epoch", interrupted)
        code, _, err = papers("blobs-table7")
    assert code == 130
    assert "the same command resumes" in err
    assert not (here / "results" / "blobs-table7" / "reproduction.json").exists()
    assert papers("blobs-table7")[0] == 0
    assert (here / "results" / "blobs-table7" / "reproduction.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["blobs-table8"], "did you mean 'blobs-table7'"),
        (["lst"], "unknown experiment 'lst'"),
        (["NAME"], "unknown experiment 'NAME'"),
        (["blobs-table7", "--scale", "huge"], "a scale is quick, day, paper, not 'huge'"),
        (["blobs-table7", "--seeds", "0"], "should be greater than or equal to 1"),
        (["page", "nowhere"], "there are no results in 'nowhere'"),
        (["blobs-table7", "-o", "a-file"], "a folder was expected"),
        (["blobs-table7", "--runs", "a-file"], "a folder was expected"),
    ],
)
def test_bad_words_are_reported(papers, here, words, message):
    (here / "a-file").write_text("mine")
    code, _, err = papers(*words)
    assert code == 2
    assert message in " ".join(err.replace("│", " ").split())
    assert (here / "a-file").read_text() == "mine"


def test_missing_data_are_named(papers, here):
    code, _, err = papers("gradient-table1", "--root", here)
    assert code == 2
    assert "gradient-table1 needs data that are not here: mnist, emnist_digits" in err
    assert "nescio data get mnist" in err


def test_the_list_has_every_experiment_and_the_time_it_took(papers):
    papers("blobs-table7", "--seeds", 1)
    code, out, _ = papers("list", "--root", ".")
    assert code == 0
    assert all(name in out for name in EXPERIMENTS)
    assert "not here:" in out
    assert "paper: not here: svhn" in " ".join(
        out.split()
    )  # of relu-table1, whose quick run does without
    assert " ".join(out.split()).endswith(not_made())
    (line,) = (line for line in out.splitlines() if "blobs-table7" in line)
    assert line.rstrip().endswith(" s")


def test_both_scales_stand_side_by_side(papers, here):
    assert papers("blobs-table7", "--seeds", 1)[0] == 0
    assert papers("blobs-table7", "--scale", "paper")[0] == 0
    quick, paper = (
        Reproduction.load(here / "results" / name / "reproduction.json")
        for name in ("blobs-table7", "blobs-table7-paper")
    )
    assert (quick.scale, paper.scale) == ("quick", "paper")
    assert (
        paper.command
        == "python -m papers blobs-table7 --scale paper --seeds 1 -o results/blobs-table7-paper"
    )
    code, out, _ = papers("page", "results", "-o", "results.md")
    assert code == 0
    assert "(2 experiments)" in out
    text = (here / "results.md").read_text()
    for record, folder in ((quick, "blobs-table7"), (paper, "blobs-table7-paper")):
        row = f"[blobs-table7](results/{folder}/README.md) | 4, Table 7 | three blobs | "
        assert f"{row}{record.scale} |" in text
        assert record.command in text
    (here / "results" / "blobs-table7" / "reproduction.json").unlink()
    _, out, _ = papers("list")
    (line,) = (line for line in out.splitlines() if "blobs-table7" in line)
    assert line.rstrip().endswith(
        "–"
    )  # what the paper's scale took is not stated as what quick took


def test_a_folder_of_another_scale_or_more_seeds_is_left_as_it_is(papers, here):
    assert papers("blobs-table7", "-o", "mine")[0] == 0
    before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
    for more in (["--scale", "paper"], ["--seeds", 1]):
        code, _, err = papers("blobs-table7", "-o", "mine", *more)
        assert code == 2
        assert "'mine' holds blobs-table7 at the scale quick (seeds: 2)" in " ".join(
            err.replace("│", " ").split()
        )
    assert {path: path.read_bytes() for path in here.rglob("*") if path.is_file()} == before


def test_the_page_of_all(papers, here):
    papers("blobs-table7", "--seeds", 1)
    own = here / "results" / "blobs-table7" / "README.md"
    before = own.read_text()
    own.unlink()
    code, out, _ = papers("page", "results", "-o", "docs/results.md")
    assert code == 0
    assert "docs/results.md (1 experiments)" in out
    assert own.read_text() == before
    text = (here / "docs" / "results.md").read_text()
    assert "[blobs-table7](../results/blobs-table7/README.md)" in text
    assert "`python -m papers page results -o docs/results.md`" in text


def test_help_names_the_commands(papers):
    code, out, _ = papers("--help")
    assert code == 0
    assert all(word in out for word in ("list", "page", "report", "NAME"))
    code, out, _ = papers("blobs-table7", "--help")
    assert code == 0
    assert "python -m papers blobs-table7 [OPTIONS] " in " ".join(out.split())
    assert "blobs-table7" in out


@pytest.mark.parametrize("words", ["list", "page", "report", "gradient-table1"])
def test_every_command_has_help_with_an_example(papers, words):
    code, out, _ = papers(words, "--help")
    assert code == 0
    assert f"python -m papers {words}" in out.partition("Examples")[2]
    assert ("--force" in out) == (words != "list")


def test_a_report_of_results_is_written_here_and_not_by_nescio(papers, nescio, here, monkeypatch):
    papers("blobs-table7", "--seeds", 1)
    with monkeypatch.context() as alone:
        alone.delitem(Record.KINDS, "Reproduction")  # as in a process that imports nescio only
        code, _, err = nescio("report", "results/blobs-table7", "-o", "report.html")
    assert code == 2
    assert "shown by `python -m papers report`" in err
    assert not (here / "report.html").exists()
    code, out, _ = papers("report", "results/blobs-table7", "-o", "report.html")
    assert code == 0
    assert "Saved: report.html" in out
    assert "Paper 4, Table 7: three blobs" in (here / "report.html").read_text()


def test_the_readme_names_commands_that_exist(papers):
    readme = (Path(__file__).parents[2] / "papers" / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^python -m papers (.*?)(?: +#.*)?$", readme, re.MULTILINE)
    assert len(lines) == 6
    for words in map(str.split, lines):
        code, out, _ = papers(words[0], "--help")
        assert code == 0
        assert all(word in out for word in words if word.startswith("--"))
