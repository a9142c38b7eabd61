"""`nescio compare`: runs side by side."""

import pytest


def test_compare_puts_runs_side_by_side(command, tmp_path):
    for method, seed in (("softmax", 0), ("duq", 0), ("duq", 1)):
        run = tmp_path / f"{method}-{seed}"
        words = f"train {method} --data digits --unseen 8,9 --network mlp --epochs 4 --seed {seed}"
        assert command(*words.split(), "-o", run)[0] == 0
        assert command("evaluate", run, "--unknown", "unseen", "uniform")[0] == 0
    runs = [
        tmp_path / "softmax-0",
        f"kernels={tmp_path / 'duq-0'}",
        f"kernels={tmp_path / 'duq-1/evaluation.json'}",
    ]
    code, out, err = command("compare", *runs, "--unknown", "unseen", "-o", tmp_path / "figures")
    assert code == 0, err
    assert "kernels" in out
    assert "±" in out  # two seeds of one name
    assert "uniform" not in out
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        "roc.svg",
        "rejection.svg",
        "confidence.svg",
        "table.md",
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{iris}", "--unknown", "mars"], "mars"),
        (["nowhere"], "there is no record 'nowhere'"),
        (["{empty}"], "nescio evaluate"),
        (["name={empty}/x.json"], "there is no record"),
    ],
)
def test_compare_says_what_is_missing(command, trained, tmp_path, words, message):
    (tmp_path / "empty").mkdir()
    evaluation = "--unknown", "uniform", "-o", tmp_path / "iris.json"
    assert command("evaluate", trained / "iris", *evaluation)[0] == 0
    given = [word.format(iris=tmp_path / "iris.json", empty=tmp_path / "empty") for word in words]
    code, _, err = command("compare", *given, "-o", tmp_path / "figures")
    assert code == 2
    assert message in err
    assert not (tmp_path / "figures").exists()
