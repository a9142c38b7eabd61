"""`--json`: standard output is one JSON document, and the words are on standard error."""

import json

import pytest

import nescio
from nescio.records import Contest, Evaluation, Fitted, History, Recommendation

pytestmark = pytest.mark.usefixtures("empty_figures")


@pytest.fixture
def document(command):
    """The document that a command prints, and its words."""

    def run(*words):
        code, out, err = command(*words, "--json")
        assert code == 0, err
        return json.loads(out), err

    return run


def saved(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_train(document, tmp_path):
    more = ["--data", "iris", "--epochs", "1", "-o", tmp_path / "run"]
    printed, words = document("train", "softmax", *more)
    assert printed == saved(tmp_path / "run" / "history.json")
    assert History.load(tmp_path / "run" / "history.json")
    assert "test accuracy" in words


def test_evaluate(document, trained, tmp_path):
    path = tmp_path / "evaluation.json"
    printed, words = document("evaluate", trained / "digits", "--unknown", "noise", "-o", path)
    assert printed == {"evaluation": saved(path)}
    assert Evaluation.load(path)
    assert "Saved:" in words


def test_fit_then_evaluate_the_detector(document, trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed, words = document("fit", trained / "digits", "--score", "energy", "-o", "det")
    assert printed == saved(tmp_path / "det" / "fitted.json")
    assert Fitted.load(tmp_path / "det" / "fitted.json")
    assert "Guarantee" in words
    printed, _ = document("evaluate", "det", "--unknown", "noise", "-o", "e.json")
    assert printed["decision"] == saved(tmp_path / "e-decision.json")


def test_recommend_and_contest(document, trained, tmp_path):
    few = ["--candidates", "energy", "max_prob", "-o", tmp_path]
    printed, _ = document("recommend", trained / "digits", "--inputs", "50", *few)
    assert printed == saved(tmp_path / "recommendation.json")
    assert Recommendation.load(tmp_path / "recommendation.json")
    printed, _ = document("contest", trained / "digits", "--unknown", "noise", *few)
    assert printed == saved(tmp_path / "contest.json")
    assert Contest.load(tmp_path / "contest.json")


def test_audit(document, trained, tmp_path):
    small = ["--trials", "5", "--rows", "2", "--limit", "0", "-o", tmp_path]
    printed, _ = document("audit", trained / "iris", *small)
    assert printed.keys() == {"audit", "features", "scaling"}
    assert all(printed[name] == saved(tmp_path / f"{name}.json") for name in printed)


def test_compare(document, command, trained, tmp_path):
    assert command("evaluate", trained / "digits", "--unknown", "noise", "far")[0] == 0
    printed, _ = document("compare", trained / "digits", "-o", tmp_path / "out")
    record = Evaluation.load(trained / "digits" / "evaluation.json")
    assert [row["unknown"] for row in printed] == ["noise", "far"]
    assert printed[0]["accuracy"] == [record.known.accuracy]
    result = next(one for one in record.unknown[0].separation if one.score == record.score)
    assert printed[0]["auroc"] == [result.auroc]


def test_data_list(document):
    printed, words = document("data", "list")
    assert [row["name"] for row in printed] == list(nescio.data.NAMES)
    assert "digits" in words


def test_without_it_words_are_on_standard_output(command):
    code, out, err = command("data", "list")
    assert (code, err) == (0, "")
    assert "digits" in out
    with pytest.raises(ValueError, match="Expecting value"):
        json.loads(out)
