"""`nescio train`: what it writes, prints and refuses, for every method."""

import numpy as np
import pytest

import nescio
from nescio.methods import METHODS
from nescio.records import (
    Evaluation,
    Examples,
    History,
)


def test_train_writes_a_run(trained):
    names = {path.name for path in (trained / "digits").iterdir()}
    assert names == {"model.safetensors", "history.json", "checkpoint.safetensors"}
    assert len(History.load(trained / "digits" / "history.json").epochs) == 8


def test_the_seed_decides_the_first_weights(command, tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        words = "train softmax --data iris --epochs 1 --learning-rate 1e-30 --seed"
        command(*words.split(), seed, "-o", tmp_path / name)
    a, b, c = (nescio.load(tmp_path / name / "model.safetensors").net[1].weight for name in "abc")
    assert (a == b).all()
    assert (a != c).any()


def test_a_finished_run_started_again_is_left_as_it_is(command, trained):
    before = (trained / "iris" / "model.safetensors").read_bytes()
    code, out, _ = command(
        "train", "softmax", "--data", "iris", "-o", trained / "iris", "--epochs", "20"
    )
    assert code == 0
    assert "test accuracy" in out
    assert (trained / "iris" / "model.safetensors").read_bytes() == before


def test_a_run_on_a_file_is_evaluated_from_anywhere_unless_the_file_has_changed(
    command, tmp_path, monkeypatch
):
    rows = [("a", "b", "kind"), *((i % 7, i % 5, "no" if i % 7 > 3 else "yes") for i in range(90))]
    (tmp_path / "t.csv").write_text("\n".join(",".join(map(str, row)) for row in rows))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    assert command("train", "softmax", "--data", "t.csv", "--epochs", 3, "-o", "run")[0] == 0
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert command("evaluate", "../run")[0] == 0
    (tmp_path / "t.csv").write_text((tmp_path / "t.csv").read_text().replace("no", "aaa"))
    code, _, err = command("evaluate", "../run")
    assert code == 2
    assert "classes were ('no', 'yes')" in err
    text = (tmp_path / "t.csv").read_text().replace("aaa", "no")
    (tmp_path / "t.csv").write_text(text + "\n3,3,yes\n4,4,no\n")
    code, _, err = command("evaluate", "../run")
    assert code == 2
    assert "t.csv has changed" in err


@pytest.mark.parametrize("method", [name for name in METHODS if name != "softmax"])
def test_every_method_is_trained_evaluated_and_found_again(command, tmp_path, method):
    quick = {"acet": ["--steps", 3], "rbf": ["--gamma", 0.05]}.get(method, [])
    data = "--data digits --unseen 8,9 --epochs 6 -o"
    words = ["train", method, *quick, *data.split(), tmp_path]
    words += ["--network", "mlp"] if METHODS[method].on_network else []
    code, out, err = command(*words)
    assert code == 0, err
    assert (
        f"{method} (mlp) on digits" in out
        if METHODS[method].on_network
        else f"{method} on digits" in out
    )
    code, _, err = command("evaluate", tmp_path, "--unknown", "unseen")
    assert code == 0, err
    record = Evaluation.load(tmp_path / "evaluation.json")
    assert (record.draws > 1) == METHODS[method].sampled
    assert record.known.accuracy > 0.85
    weights = (tmp_path / "model.safetensors").read_bytes()
    assert command(*words)[0] == 0  # the finished run is found again
    assert (tmp_path / "model.safetensors").read_bytes() == weights
    code, _, err = command(*words, "--learning-rate", 0.5)
    assert code == 2
    assert "learning_rate" in err


def test_a_run_has_a_folder_of_its_own_unless_one_is_given(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = command("train", "ensemble", "--data", "iris", "--epochs", 1)
    assert code == 0, err
    assert (tmp_path / "iris-ensemble" / "model.safetensors").exists()
    assert "nescio evaluate iris-ensemble" in out


def test_what_has_no_network_takes_none(command, tmp_path):
    for more in (["--network", "mlp"], ["--dropout", 0.5]):
        code, _, err = command("train", "rbf", "--data", "iris", "-o", tmp_path / "run", *more)
        assert code == 2
        assert "rbf has no network inside" in err
    assert not (tmp_path / "run").exists()


def test_outliers_of_a_file_are_learned_and_distinguished(command, tmp_path):
    """Outlier exposure: `--noise` takes what `--unknown` takes, in the shape of the known data."""
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "stripes.npz",
        images=np.repeat(rng.integers(0, 256, (300, 16, 1), dtype=np.uint8), 16, axis=2),
    )
    words = ["--data", "digits", "--network", "mlp", "--epochs", 10, "-o", tmp_path / "run"]
    code, _, err = command("train", "ceda", "--noise", tmp_path / "stripes.npz", *words)
    assert code == 0, err
    sets = [tmp_path / "stripes.npz", "noise", "permuted", "adversarial_noise"]
    code, out, err = command("evaluate", tmp_path / "run", "--attacked", 20, "--unknown", *sets)
    assert code == 0, err
    assert "adversarial_noise" in out
    record = Evaluation.load(tmp_path / "run" / "evaluation.json")
    names = [side.name for side in Examples.load(tmp_path / "run" / "examples.json").unknown]
    assert names == [side.name for side in record.unknown] == ["stripes", *sets[1:]]
    assert record.unknown[0].mmc < 0.2
    assert record.unknown[0].separation[0].auroc > 0.99
    assert (record.unknown[3].inputs, record.unknown[3].attack.steps) == (20, 100)
    code, _, err = command("train", "ceda", "--noise", "mixd", *words)
    assert code == 2
    assert "did you mean 'mixed'" in err
    code, _, err = command("train", "ceda", "--noise", "uniform", *words)
    assert code == 2
    assert "noise='outliers', not 'uniform'" in err


def test_training_on_a_small_table_names_its_label_and_better_settings(command, tmp_path):
    path = tmp_path / "t.csv"
    rows = ["a,b,kind", *(f"{i % 7},{i % 5},{'no' if i % 7 > 3 else 'yes'}" for i in range(90))]
    path.write_text("\n".join(rows))
    words = ["train", "duq", "--data", path, "--epochs", 1, "-o", tmp_path / "run"]
    _, out, _ = command(*words)
    assert "Label: column 'kind', the last one" in out
    assert "are few for the defaults of duq: try --duq-momentum 0.9" in out
    words[-1] = tmp_path / "other"
    _, out, _ = command(*words, "--label", "kind", "--duq-momentum", 0.9)
    assert "Label" not in out
    assert "few" not in out
