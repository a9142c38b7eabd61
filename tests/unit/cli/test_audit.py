"""`nescio audit`: what it writes and prints, its budget, and its features."""

import time

import pytest

from nescio.data import load
from nescio.records import (
    Audit,
    FeatureAudit,
    Scaling,
)
from nescio.report.audit import audit_words

pytestmark = pytest.mark.usefixtures("empty_figures")


def test_audit_says_when_a_model_grows_certain(command, trained, tmp_path):
    words = ["--rows", "4", "--trials", "20", "--budget", "10m", "-o"]
    code, out, err = command("audit", trained / "iris", *words, tmp_path / "away")
    assert code == 0, err
    record = Scaling.load(tmp_path / "away" / "scaling.json")
    assert [one.name for one in record.directions[:2]] == ["sepal length (cm)", "sepal width (cm)"]
    assert record.inputs == 4
    assert "flagged by" in out
    assert "none" in out
    far = Audit.load(tmp_path / "away" / "audit.json")
    assert (far.trials, far.law, far.proved) == (20, "affine", 1.0)
    assert " ".join(audit_words(far)) in " ".join(out.split())
    features = FeatureAudit.load(tmp_path / "away" / "features.json")
    assert (features.rows, features.classes) == (4, load("iris").classes)
    assert {path.name for path in (tmp_path / "away").iterdir()} == {
        f"{name}.{suffix}"
        for name in ("scaling", "audit", "features")
        for suffix in ("json", "svg")
    }
    code, _, err = command("audit", trained / "iris", "--features", "petal lenght (cm)")
    assert code == 2
    assert "did you mean 'petal length (cm)'" in err


class Hurrying:
    """A clock that advances by a second whenever it is read, too fast for any machine."""

    looks = 0

    def monotonic(self):
        self.looks += 1
        return time.monotonic() + self.looks


def test_an_audit_keeps_to_its_budget_and_says_what_that_left_out(
    command, trained, tmp_path, monkeypatch
):
    words = "audit", trained / "digits", "--rows", 5, "-o", tmp_path / "away"
    with monkeypatch.context() as hurry:
        hurry.setattr("nescio.audit.budget.time", Hurrying())
        code, out, err = command(*words, "--budget", "1.5m")
    assert code == 0, err
    far = Audit.load(tmp_path / "away" / "audit.json")
    assert far.budget == 90.0
    assert 0 < far.unfollowed <= far.trials < 10_000
    proved = round(far.proved * far.trials)
    counts = f"Factors proved: {proved:,}; measured: {far.trials - proved:,}."
    assert f"{counts} A budget of more than 90 s proves more." in " ".join(out.split())
    assert f"Of 10,000 trials the budget allowed {far.trials:,}." in out
    code, _, err = command(
        *words, "--limit", 0, "--trials", 5
    )  # who says how much has all the time for it
    assert code == 0, err
    assert Audit.load(tmp_path / "away" / "audit.json").budget is None
    assert command(*words, "--trials", 5)[0] == 0
    assert Audit.load(tmp_path / "away" / "audit.json").budget == 60.0
    code, _, err = command(*words, "--budget", "soon")
    assert code == 2
    assert "expected a time such as" in err


def test_audit_of_images_takes_positions(command, trained):
    assert "positions" in command("audit", "--help")[1]
    words = "audit", trained / "digits", "--rows", 5, "--trials", 5
    code, _, err = command(*words, "--features", 3, "feature 20", 34)
    assert code == 0, err
    found = Scaling.load(trained / "digits" / "scaling.json").directions
    assert [one.feature for one in found] == [3, 20, 34, None]
    assert not (trained / "digits" / "features.json").exists()
    for word in ("64", "-1", "9" * 5000, "3.0"):
        code, _, err = command(*words, f"--features={word}")
        assert (code, "Traceback" in err) == (2, False), err


def test_audit_says_what_is_wrong_before_the_work(command, trained, tmp_path, monkeypatch):
    monkeypatch.setattr("nescio.cli.run_audits.scaling", lambda *_, **__: pytest.fail("scaled"))
    (tmp_path / "file").write_text("")
    code, _, err = command("audit", trained / "iris", "-o", tmp_path / "file")
    assert code == 2
    assert "is a file, where a folder was expected" in err
