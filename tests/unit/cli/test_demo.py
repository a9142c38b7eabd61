"""`nescio demo`: small by default, whole where marked slow; its words against given records."""

import dataclasses
import io
import re
import shlex
import sys
from functools import cache
from pathlib import Path
from types import MappingProxyType

import pytest
from rich.console import Console

from nescio.cli import demo_tour, main
from nescio.cli.demo_tour import DIGITS, MOONS, SMALL, split_test, tour
from nescio.cli.demo_words import (
    ABOUT,
    MAP_COLUMNS,
    MAP_ROWS,
    MARK,
    METHODS,
    REPORT,
    Findings,
    claim,
    confident_fraction,
    findings_tables,
    lessons,
    map_lines,
    print_summary,
    try_next,
)
from nescio.core.attack_settings import STRONGEST
from nescio.data import Stream
from nescio.errors import NescioError
from nescio.files import kind_of
from nescio.records import (
    Audit,
    Decision,
    Evaluation,
    Examples,
    FeatureAudit,
    Gallery,
    History,
    Map,
    read_record,
)
from nescio.report.page import report_page
from nescio.store.detector_folder import open_fitted
from nescio.store.run import open_run
from report_records import a_history


def recording(width=80, **more):
    """A console that keeps what is printed."""
    return Console(file=io.StringIO(), width=width, **more)


@cache
def read_back(folder, problem_name):
    """What a tour found on a problem, from its files."""
    kinds = {
        "history": History,
        "evaluation": Evaluation,
        "audit": Audit,
        "decision": Decision,
        "examples": Examples,
    }
    if problem_name == MOONS.name:
        kinds["map"] = Map
    findings = {}
    for method in METHODS:
        run = folder / problem_name / method
        findings[method] = Findings(
            method, **{name: kind.load(run / f"{name}.json") for name, kind in kinds.items()}
        )
    return MappingProxyType(findings)


@pytest.fixture(scope="module")
def toured(tmp_path_factory, empty_figures):
    """A small tour: its folder, and what it printed where nobody looks on."""
    folder, out = tmp_path_factory.mktemp("tours") / "a demo", recording()
    with (
        pytest.MonkeyPatch.context() as patch
    ):  # the page of so many records takes as long as all else
        patch.setattr(
            demo_tour, "report_page", lambda records: "\n".join(name for name, _ in records)
        )
        for name, few in {"steps": 5, "targets": 2, "known_starts": 3}.items():
            patch.setitem(STRONGEST, name, few)
        tour(folder, 0, out, SMALL)
    return folder, out.file.getvalue()


def test_it_writes_runs_records_and_a_report(toured):
    folder, _ = toured
    for problem in (DIGITS, MOONS):
        for method in METHODS:
            model, facts = open_run(folder / problem.name / method)
            assert (model.name, facts.source.unseen) == (method, problem.unseen)
            assert not list((folder / problem.name / method).glob("checkpoint*"))
            detector, _ = open_fitted(folder / problem.name / method / "detector", None, [])
            assert detector.threshold_.isfinite()
        for method, one in read_back(folder, problem.name).items():
            assert tuple(side.name for side in one.evaluation.unknown) == problem.unknown, method
            assert one.decision.accept == 0.95
    read = [read_record(path) for path in sorted(folder.rglob("*.json"))]
    assert (
        sum(isinstance(record, FeatureAudit) for record in read) == 3
    )  # of the methods that give one draw
    assert sum(isinstance(record, Gallery) for record in read) == 1
    shown = (folder / REPORT).read_text(encoding="utf-8").splitlines()
    assert len(shown) == len(read) - 10  # all but what the detectors' folders say of themselves
    assert set(shown) == {
        "digits",
        *(f"{problem.name}/{method}" for problem in (DIGITS, MOONS) for method in METHODS),
    }


def test_every_file_is_where_the_folder_says_and_none_is_left_out(toured):
    folder, _ = toured
    said = [re.split(" {2,}", line) for line in ABOUT.splitlines()[2:]]
    within = [f"*/*/{name}" for indent, name, *_ in said if not indent]  # of each method's folder
    top = [name for names, *_ in said if names for name in names.split(", ")]
    found = {pattern: set(folder.glob(pattern.rstrip("/"))) for pattern in (*within, *top)}
    assert all(found.values())
    whole = {f"{problem.name}/" for problem in (DIGITS, MOONS)}  # all is within these
    named = {folder / MARK}.union(
        *(paths for pattern, paths in found.items() if pattern not in whole)
    )
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert all(named & {path, *path.parents} for path in files)
    assert [path for path in files if kind_of(path) is None] == [
        folder / REPORT
    ]  # which was not made, see above


def test_thresholds_are_tested_on_other_data_than_set_them(toured):
    folder, _ = toured
    known = DIGITS.source(0).load()
    stream = Stream(folder / "digits" / "calibration.npz", known.shape, None, 64)
    calibration = {x.numpy().tobytes() for _, _, batch in stream for x in batch}
    _, rest = split_test(folder, DIGITS, known, 0)
    test = {x.numpy().tobytes() for x in rest.inputs}
    assert len(calibration) + len(test) == len(known.test)
    assert not calibration & test


@pytest.mark.parametrize("width", [80, 120])
def test_what_is_printed_fits_and_has_no_control_characters(toured, width):
    folder, _ = toured
    out = recording(width)
    found = {p.name: list(read_back(folder, p.name).values()) for p in (DIGITS, MOONS)}
    print_summary(folder, found, out)
    text = out.file.getvalue()
    lines = text[: text.index("Try next")].splitlines()
    assert all(len(line) <= width and "…" not in line for line in lines)  # nothing is cut off
    assert all(char == "\n" or char.isprintable() for char in text)


def test_it_tells_what_it_did_where_nobody_looks_on(toured):
    _, text = toured
    assert all(char == "\n" or char.isprintable() for char in text)
    assert all(len(line) <= 80 for line in text[: text.index("Try next")].splitlines())
    for method, words in METHODS.items():
        assert re.search(rf"✓ {method} +{re.escape(words)} +\d+\.\d % correct", text)
    assert [
        text.index(mark)
        for mark in ("1. Digits", "2. Two moons", "What this shows", "Try next", "The report")
    ] == (
        sorted(
            text.index(mark)
            for mark in ("1. Digits", "2. Two moons", "What this shows", "Try next", "The report")
        )
    )


def test_on_a_terminal_it_shows_what_is_under_way(tmp_path, monkeypatch):
    out = recording(force_terminal=True)
    monkeypatch.setattr(
        demo_tour._Tour, "digits", lambda self: self.next_stage("looking") or stopped()
    )
    with pytest.raises(KeyboardInterrupt):
        tour(tmp_path / "demo", 0, out, SMALL)
    text = out.file.getvalue()
    assert "looking" in text
    assert text.endswith("\x1b[2K")  # the line is cleared


def stopped():
    raise KeyboardInterrupt


def run(words, monkeypatch):
    """A command line in this process: its exit code."""
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as stop:
        main()
    return stop.value.code or 0


def test_what_to_try_next_works(toured, tmp_path, monkeypatch, capsys):
    folder, _ = toured
    monkeypatch.chdir(tmp_path)
    quick = [
        words
        for command, _ in try_next(folder)
        if (words := shlex.split(command))[1] in ("score", "attack", "fit")
    ]
    assert [run(words, monkeypatch) for words in quick] == [0, 0, 0]
    assert "never_seen/0.png" in capsys.readouterr().out


def test_what_to_try_next_leaves_the_records_of_the_report_alone(tmp_path):
    audit = next(
        words for command, _ in try_next(tmp_path) if (words := shlex.split(command))[1] == "audit"
    )
    assert not Path(audit[audit.index("-o") + 1]).resolve().is_relative_to(tmp_path)


def test_interrupted_it_says_so_and_leaves_whole_files(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo_tour._Tour, "digits", lambda *_: stopped())
    monkeypatch.setattr(sys, "argv", ["nescio", "demo", "-o", str(tmp_path / "demo")])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 130
    assert "interrupted; complete files so far are in" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "demo").iterdir()] == [MARK]


def test_only_a_folder_of_its_own_is_written_to(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("all of it")
    with pytest.raises(
        NescioError, match=r"contains other things \(thesis.tex\) and no demo.txt; choose another"
    ):
        claim(tmp_path / "mine")
    with pytest.raises(NescioError, match="is a file; expected a folder"):
        claim(tmp_path / "mine" / "thesis.tex")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.tex"]


def test_a_folder_of_its_own_keeps_what_others_put_there_but_no_old_report(tmp_path):
    claim(tmp_path / "demo")
    (tmp_path / "demo" / "notes.txt").write_text("mine")
    (tmp_path / "demo" / REPORT).write_text(report_page([("run", a_history())]))
    claim(tmp_path / "demo")
    assert sorted(path.name for path in (tmp_path / "demo").iterdir()) == [MARK, "notes.txt"]
    (tmp_path / "demo" / REPORT).write_text("mine")
    with pytest.raises(NescioError, match="not written by nescio"):
        claim(tmp_path / "demo")
    assert (tmp_path / "demo" / REPORT).read_text() == "mine"


def changed(
    one, *, certain=None, unknown=None, accuracy=None, confidence=None, accepted=None, refused=None
):
    """What was found of a model, with some of its figures as given."""
    audit = dataclasses.replace(one.audit, ends_certain=certain, ends_unknown=unknown)
    known = dataclasses.replace(one.evaluation.known, accuracy=accuracy or 0.9)
    sides = tuple(
        dataclasses.replace(side, mmc=confidence or side.mmc) for side in one.evaluation.unknown
    )
    evaluation = dataclasses.replace(one.evaluation, known=known, unknown=sides)
    sets = tuple(dataclasses.replace(side, refused=refused or 0.0) for side in one.decision.unknown)
    decision = dataclasses.replace(
        one.decision, accepted=accepted or 0.95, usual=(0.91, 0.99), unknown=sets
    )
    return dataclasses.replace(one, audit=audit, evaluation=evaluation, decision=decision)


def test_sentences_say_what_the_records_do(toured):
    found = {name: changed(one) for name, one in read_back(toured[0], DIGITS.name).items()}
    found["softmax"] = changed(
        found["softmax"], certain=1.0, confidence=0.98, accuracy=0.9, refused=0.5
    )
    found["acet"] = changed(found["acet"], confidence=0.2, accuracy=0.87)
    found["duq"] = changed(found["duq"], unknown=1.0, refused=0.9, accepted=0.96)
    far, attacked, promise = lessons(found)
    assert "along 100.0 % of 10 random directions the confidence of softmax provably" in far
    assert "but that of DUQ provably tends to 0 along 100.0 %" in far
    assert "the mean confidence of softmax is 98.0 %" in attacked
    assert "20.0 %; its accuracy on known digits is 87.0 %, that of softmax 90.0 %." in attacked
    assert "a combined detector over DUQ, set to accept 95.0 % of known digits, accepts" in promise
    assert "of 189 new ones, as guaranteed, and rejects 90.0 % of the 7s" in promise
    assert promise.endswith("one over softmax rejects 50.0 % and 50.0 %.")


def test_sentences_claim_nothing_that_the_records_do_not(toured):
    found = {name: changed(one) for name, one in read_back(toured[0], DIGITS.name).items()}
    found["softmax"] = changed(found["softmax"], certain=0.0, confidence=0.5)
    found["acet"] = changed(found["acet"], confidence=0.6)
    far, attacked, promise = lessons(found)
    assert "0.0 % of 10 random directions" in far
    assert "and that of DUQ provably tends to 0 along 0.0 %" in far
    assert attacked.endswith("here that training did not help.")
    assert "as guaranteed, and" in promise
    for accepted, words in ((0.92, "within the expected variation"), (0.8, "less than guaranteed")):
        found["duq"] = changed(found["duq"], accepted=accepted)
        assert words in lessons(found)[2]


def test_the_table_has_every_figure_and_marks_the_best(toured):
    found = {
        problem.name: list(read_back(toured[0], problem.name).values())
        for problem in (DIGITS, MOONS)
    }
    out = recording()
    out.print(*findings_tables(found), sep="\n")
    text = out.file.getvalue()
    rows = [
        line.split() for line in text.splitlines() if line.strip() and line.split()[0] in METHODS
    ]
    assert [row[0] for row in rows] == [*METHODS, *METHODS]
    duq = found["digits"][-1]
    assert rows[4][1] == f"{duq.evaluation.known.accuracy:.1%}"
    held = next(side for side in duq.evaluation.unknown if side.name == "unseen")
    expected = next(one.auroc for one in held.separation if one.score == "max_logit")
    assert float(rows[4][2]) == pytest.approx(expected, abs=6e-4)
    assert [row[2] for row in rows[5:]] == ["–"] * 5
    far = [row[5] for table in findings_tables(found) for row in table.rows]
    best = [cell for cell in far if str(cell) == "1.000"]
    assert best
    assert all("bold" in cell.style for cell in best)


def test_pictures_are_maps_seen_from_afar(toured):
    drawn = read_back(toured[0], MOONS.name)["softmax"].map
    side = len(drawn.y)
    ramp = tuple(
        tuple(1.0 if i >= side - side // 3 else 0.0 for _ in drawn.x) for i in range(side)
    )  # sure at the top
    found = dataclasses.replace(
        drawn, confidence=dataclasses.replace(drawn.confidence, values=ramp)
    )
    shown = map_lines(found)
    assert [len(line) for line in shown] == [MAP_COLUMNS] * MAP_ROWS
    assert shown[0] == "█" * MAP_COLUMNS
    assert shown[-1] == " " * MAP_COLUMNS
    assert confident_fraction(found) == pytest.approx(1 / 3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_whole_tour_makes_its_points(tmp_path, monkeypatch, capsys, seed):
    """What a newcomer is to see, from any seed."""
    tour(tmp_path / "demo", seed, recording())
    digits, moons = (read_back(tmp_path / "demo", problem.name) for problem in (DIGITS, MOONS))
    for found in (digits, moons):
        assert all(one.evaluation.known.accuracy >= 0.95 for one in found.values())
        assert found["softmax"].auroc("far") < 0.1
        assert found["softmax"].audit.ends_certain == 1
        assert found["duq"].auroc("far") >= 0.99
        assert found["duq"].audit.ends_unknown == 1
    assert all(one.auroc("unseen") > 0.9 for one in digits.values())
    assert all(one.auroc("noise") > 0.97 for one in digits.values())
    assert digits["softmax"].confidence("adversarial_noise") > 0.95
    assert digits["acet"].confidence("adversarial_noise") < 0.5
    assert (
        digits["acet"].auroc("adversarial_noise")
        > digits["softmax"].auroc("adversarial_noise") + 0.3
    )
    assert all(0.88 <= one.decision.accepted <= 1 for one in digits.values())
    assert confident_fraction(moons["softmax"].map) > 0.7
    assert confident_fraction(moons["duq"].map) < 0.1
    page = (tmp_path / "demo" / REPORT).read_text(encoding="utf-8")
    assert len(page.encode()) < 3_000_000
    assert all(
        f"{problem.name}/{method}" in page for problem in (DIGITS, MOONS) for method in METHODS
    )
    monkeypatch.chdir(tmp_path)
    commands = [shlex.split(command) for command, _ in try_next(tmp_path / "demo")]
    assert [run(words, monkeypatch) for words in commands] == [0] * len(commands), (
        capsys.readouterr().err
    )
