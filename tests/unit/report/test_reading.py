"""Records by their files and folders."""

import json
from pathlib import Path

import pytest

from nescio.errors import NescioError
from nescio.report.reading import check_output, records_in
from report_records import a_history, an_audit, an_evaluation


@pytest.fixture
def runs(tmp_path):
    """Two run folders in one, the first with a file beside its records that is none."""
    for name in ("plain", "duq"):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        an_evaluation({"noise": 0.9}).save(folder / "evaluation.json")
        a_history().save(folder / "history.json")
    (tmp_path / "runs" / "plain" / "notes.json").write_text('{"mine": 1}')
    return tmp_path / "runs"


def found(*words):
    return [(name, type(record).__name__) for name, record in records_in([str(word) for word in words])]


def test_a_run_folder_stands_for_its_records(runs):
    assert found(runs / "plain") == [("plain", "Evaluation"), ("plain", "History")]


def test_a_file_goes_by_its_own_name(runs):
    assert found(runs / "duq" / "history.json") == [("history", "History")]


def test_a_folder_of_runs_stands_for_them_all(runs):
    assert [name for name, _ in found(runs)] == ["duq", "duq", "plain", "plain"]


def test_what_is_within_a_run_goes_by_its_name(runs):
    (runs / "plain" / "detector").mkdir()
    an_audit().save(runs / "plain" / "detector" / "audit.json")
    an_audit().save(runs / "audit.json")  # beside the runs, which are not passed over for it
    assert ("plain", "Audit") in found(runs / "plain")
    assert found(runs) == [
        ("runs", "Audit"), ("duq", "Evaluation"), ("duq", "History"),
        ("plain", "Evaluation"), ("plain", "History"), ("plain", "Audit"),
    ]  # fmt: skip
    assert {name for name, _ in found(runs.parent)} == {"runs", "runs/duq", "runs/plain"}


def test_a_name_may_be_given(runs):
    assert {name for name, _ in found(f"mine={runs / 'plain'}")} == {"mine"}
    assert {name for name, _ in found(f"mine={runs}")} == {"mine"}


def test_a_path_with_an_equals_sign_is_a_path(tmp_path):
    an_audit().save(tmp_path / "eps=0.3.json")
    assert found(tmp_path / "eps=0.3.json") == [("eps=0.3", "Audit")]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda path: path / "nothing", "there is no file or folder"),
        (lambda path: path, "there is no record in the folder"),
    ],
)
def test_what_is_not_there_is_named(tmp_path, make, told):
    with pytest.raises(NescioError, match=told) as error:
        records_in([str(make(tmp_path))])
    assert make(tmp_path).name in str(error.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "cannot read"),
        ("[1]", "is no record"),
        ('{"record": "Evaluation", "format": 1}', "expected the fields"),
        ('{"record": ["Evaluation"]}', "unknown kind of record"),
        ('{"record": "Evalution"}', "did you mean 'Evaluation'"),
        ("\ud800".encode("utf-8", "surrogatepass"), "cannot read"),
    ],
)
def test_a_broken_file_is_named(tmp_path, text, told):
    path = tmp_path / "broken.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(NescioError, match=told) as error:
        records_in([str(path)])
    assert "broken.json" in str(error.value)


def test_a_broken_file_in_a_folder_is_not_passed_over(runs):
    (runs / "duq" / "audit.json").write_text(json.dumps({"record": "Audit", "format": 1})[:-3])
    with pytest.raises(NescioError, match=r"cannot read .*audit\.json"):
        records_in([str(runs / "duq")])


def test_nothing_given_is_nothing_to_show():
    with pytest.raises(NescioError, match="given: none"):
        records_in([])


@pytest.mark.parametrize("word", ["", "a="])
def test_no_place_is_not_the_folder_one_is_in(runs, monkeypatch, word):
    monkeypatch.chdir(runs)
    with pytest.raises(NescioError, match=f"'{word}' names no file or folder"):
        records_in([word])


def test_a_page_takes_the_place_of_no_record(runs, tmp_path, monkeypatch):
    monkeypatch.chdir(runs)
    (runs / "link.html").symlink_to(runs / "plain" / "history.json")
    (runs / "hard.html").hardlink_to(runs / "plain" / "history.json")
    for output in ("plain", "../runs", "hard.html"):
        with pytest.raises(NescioError, match="take the place of what it is made from"):
            check_output(["mine=plain/history.json", "plain"], Path(output))
    for output in ("plain/evaluation.json", "other.JSON", "link.html"):
        with pytest.raises(NescioError, match=r"does not end in \.json"):
            check_output(["plain"], Path(output))
    check_output(["mine=plain", "duq/history.json"], runs / "plain" / "report.html")
