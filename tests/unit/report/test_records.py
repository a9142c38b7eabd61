"""Records by their files and folders."""

import json
from pathlib import Path

import pytest

from nescio.errors import NescioError
from nescio.report.records import ReportContext, check_output, records_in
from nescio.report.verdict import verdict_html
from report_records import a_decision, a_history, an_audit, an_evaluation


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
    return [
        (name, type(record).__name__) for name, record in records_in([str(word) for word in words])
    ]


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
        ("runs", "Audit"),
        ("duq", "Evaluation"),
        ("duq", "History"),
        ("plain", "Evaluation"),
        ("plain", "History"),
        ("plain", "Audit"),
    ]
    assert {name for name, _ in found(runs.parent)} == {"runs", "runs/duq", "runs/plain"}


def test_a_name_may_be_given(runs):
    assert {name for name, _ in found(f"mine={runs / 'plain'}")} == {"mine"}
    assert {name for name, _ in found(f"mine={runs}")} == {"mine"}


@pytest.fixture
def twins(tmp_path):
    """Two run folders of one name, of different methods."""
    for above, method, law in (("A", "softmax", "affine"), ("B", "duq", "kernels")):
        folder = tmp_path / above / "run"
        an_evaluation({"noise": 0.9}, method=method).save(folder / "evaluation.json")
        an_audit(law).save(folder / "audit.json")
        a_history(method).save(folder / "history.json")
    return tmp_path


def test_folders_of_one_name_are_distinguished_by_those_above_them(twins):
    places = twins / "A" / "run", twins / "B" / "run"
    assert [name for name, _ in found(*places)] == ["A/run"] * 3 + ["B/run"] * 3
    page = verdict_html(ReportContext(tuple(records_in(list(map(str, places))))))
    assert "in the mean of" not in page
    assert {name for name, _ in found(twins / "A", places[1])} == {"A/run", "B/run"}
    files = [place / "evaluation.json" for place in places]
    assert [name for name, _ in found(*files)] == ["A/run/evaluation", "B/run/evaluation"]


def test_names_become_no_longer_than_they_must(twins):
    (twins / "B" / "run").rename(twins / "B" / "other")
    assert {name for name, _ in found(twins / "A" / "run", twins / "B" / "other")} == {
        "run",
        "other",
    }


def test_a_folder_does_not_take_a_name_that_was_given(twins):
    assert {name for name, _ in found(f"run={twins / 'A' / 'run'}", twins / "B" / "run")} == {
        "run",
        "B/run",
    }


def test_a_file_and_a_folder_of_one_name_are_distinguished(twins):
    an_audit().save(twins / "A" / "run.json")
    assert len({name for name, _ in found(twins / "A" / "run", twins / "A" / "run.json")}) == 2


def test_runs_that_are_given_one_name_are_of_one_method(twins):
    with pytest.raises(
        NescioError,
        match=r"named 'x' are of different methods: softmax in '.*A/run', duq in '.*B/run'",
    ):
        found(f"x={twins / 'A' / 'run'}", f"x={twins / 'B' / 'run'}")
    with pytest.raises(NescioError, match="different methods"):
        found(f"x={twins}")


def test_runs_that_are_given_one_name_are_of_the_same_data(runs):
    an_evaluation({"noise": 0.9}, known="moons").save(runs / "duq" / "evaluation.json")
    with pytest.raises(
        NescioError, match=r"different known data: digits in '.*plain', moons in '.*duq'"
    ):
        found(f"x={runs / 'plain'}", f"x={runs / 'duq'}")
    a_decision().save(
        runs / "duq" / "decision.json"
    )  # one run on both, and one of them is the other's
    assert {name for name, _ in found(f"x={runs / 'plain'}", f"x={runs / 'duq'}")} == {"x"}


def test_an_ensemble_may_have_the_history_of_its_members(runs):
    an_evaluation({"noise": 0.9}, method="ensemble").save(runs / "plain" / "evaluation.json")
    assert {name for name, _ in found(f"x={runs / 'plain'}")} == {"x"}
    assert {name for name, _ in found(runs / "plain")} == {"plain"}


@pytest.mark.parametrize("method", ["softmax", "duq"])
def test_the_models_of_one_folder_go_by_their_files(tmp_path, method):
    for name, called in (("a-0", "softmax"), ("b-0", method)):
        an_evaluation({"noise": 0.9}, method=called).save(tmp_path / "all" / f"{name}.json")
        a_history(called).save(tmp_path / "all" / f"{name}-history.json")
    assert [name for name, _ in found(tmp_path / "all")] == [
        "all/a-0-history",
        "all/a-0",
        "all/b-0-history",
        "all/b-0",
    ]


def test_what_is_given_twice_is_there_once(runs, tmp_path):
    once = found(runs / "plain")
    (tmp_path / "link").symlink_to(runs / "plain")
    file = runs / "plain" / "evaluation.json"
    for words in (
        (runs / "plain", runs / "plain"),
        (runs / "plain", runs / "duq" / ".." / "plain"),
        (runs / "plain", file),
        (runs / "plain", tmp_path / "link"),
    ):
        assert found(*words) == once
    assert sorted(found(file, runs / "plain")) == sorted(
        once
    )  # by the run's name, whatever comes first
    assert found(file, file) == [("evaluation", "Evaluation")]
    assert found(runs, runs / "plain") == found(runs)


def test_what_is_given_twice_goes_by_the_names_it_was_given(runs):
    plain = runs / "plain"
    assert [name for name, _ in found(f"mine={plain}", plain, f"mine={plain}")] == ["mine"] * 2
    assert [name for name, _ in found(f"a={plain}", f"b={plain}")] == ["a", "a", "b", "b"]


def test_a_path_with_an_equals_sign_is_a_path(tmp_path):
    an_audit().save(tmp_path / "eps=0.3.json")
    assert found(tmp_path / "eps=0.3.json") == [("eps=0.3", "Audit")]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path / "nothing", "no file or folder"),
        (lambda path: path, "no record in the folder"),
    ],
)
def test_what_is_not_there_is_named(tmp_path, make, message):
    with pytest.raises(NescioError, match=message) as error:
        records_in([str(make(tmp_path))])
    assert make(tmp_path).name in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot read"),
        ("[1]", "is not a nescio record"),
        ('{"record": "Evaluation", "format": 1}', "expected the fields"),
        ('{"record": ["Evaluation"]}', "unknown kind of record"),
        ('{"record": "Evalution"}', "did you mean 'Evaluation'"),
        ("\ud800".encode("utf-8", "surrogatepass"), "cannot read"),
    ],
)
def test_a_broken_file_is_named(tmp_path, text, message):
    path = tmp_path / "broken.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(NescioError, match=message) as error:
        records_in([str(path)])
    assert "broken.json" in str(error.value)


def test_a_broken_file_in_a_folder_is_not_passed_over(runs):
    (runs / "duq" / "audit.json").write_text(json.dumps({"record": "Audit", "format": 1})[:-3])
    with pytest.raises(NescioError, match=r"cannot read .*audit\.json"):
        records_in([str(runs / "duq")])


def test_nothing_given_is_nothing_to_show():
    with pytest.raises(NescioError, match="got none"):
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
        with pytest.raises(NescioError, match="would replace what it is made from"):
            check_output(["mine=plain/history.json", "plain"], Path(output))
    for output in ("plain/evaluation.json", "other.JSON", "link.html"):
        with pytest.raises(NescioError, match=r"must not end in \.json"):
            check_output(["plain"], Path(output))
    check_output(["mine=plain", "duq/history.json"], runs / "plain" / "report.html")
