"""Settings that `nescio train` tunes: `--length-scale auto --penalty auto`."""

from types import SimpleNamespace

import pytest

import nescio
from nescio.records import (
    History,
    Selection,
)

FOUND = (
    "train duq --data digits --unseen 8,9 --network mlp --epochs 6 --learning-rate 0.01 "
    "--duq-momentum 0.9 --length-scale auto {} -o {}"
)


def test_settings_of_duq_are_found_before_the_training(command, tmp_path, monkeypatch):
    monkeypatch.setattr("nescio.cli.tuned_settings.MIN_TRIAL_EPOCHS", 2)
    words = FOUND.format("--penalty auto --select-on unseen", tmp_path).split()
    code, out, err = command(*words)
    assert code == 0, err
    scale, penalty = (
        Selection.load(tmp_path / f"{name}.json") for name in ("length_scale", "penalty")
    )
    assert len(scale.trials) == 6
    assert len(penalty.trials) == 7
    assert penalty.criterion == "AUROC of validation data against digits unseen"
    for record, name in ((scale, "length_scale"), (penalty, "penalty")):
        settings = record.provenance.settings
        assert settings["training"]["epochs"] == 2  # a third
        assert settings["validation_data"].startswith("101 inputs")  # a tenth
        assert f"{record.setting} {record.value:g} chosen" in out
        assert str(tmp_path / f"{name}.json") in out
        assert "<svg" in (tmp_path / f"{name}.svg").read_text()
    assert scale.provenance.settings["method_settings"]["gradient_penalty"] == 0
    assert penalty.provenance.settings["method_settings"]["length_scale"] == scale.value
    model = nescio.load(tmp_path / "model.safetensors")
    assert (model.length_scale, model.gradient_penalty, model.momentum) == (
        scale.value,
        penalty.value,
        0.9,
    )
    history = History.load(tmp_path / "history.json")
    assert len(history.epochs) == 6
    assert history.provenance.settings["data"].startswith("1010 inputs")  # all of them
    monkeypatch.setattr(
        "nescio.training.sweep.train_model", lambda *_, **__: pytest.fail("tried again")
    )
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.suffix == ".json"}
    code, again, err = command(*words)
    assert code == 0, err
    assert again == out
    assert {
        path.name: path.read_bytes() for path in tmp_path.iterdir() if path.suffix == ".json"
    } == before
    code, _, err = command(*words, "--epochs", 9)
    assert code == 2
    assert "length_scale.json' was made with epochs=2, not 3; use" in err


@pytest.mark.parametrize(
    ("words", "penalty"),
    [
        ("--gradient-penalty auto --penalty one-sided --validation 0.2", "one-sided"),
        ("--gradient-penalty 0.1 --penalty one-sided --validation 0.2", "one-sided"),
        ("--gradient-penalty auto --penalty auto --validation 0.2 --patience 3", "two-sided"),
    ],
)
def test_the_penalty_may_be_found_or_given_on_either_side(
    command, tmp_path, monkeypatch, words, penalty
):
    asked = []

    def chosen(make, data, **how):
        asked.append((make(), how))
        return SimpleNamespace(value=0.3)

    monkeypatch.setattr(
        "nescio.cli.tuned_settings.select_length_scale", lambda *_, **__: SimpleNamespace(value=0.2)
    )
    monkeypatch.setattr("nescio.cli.tuned_settings.select_penalty", chosen)
    monkeypatch.setattr("nescio.cli.tuned_settings._show", lambda found, *_: found.value)
    code, _, err = command(*FOUND.format(words, tmp_path).split())
    assert code == 0, err
    model = nescio.load(tmp_path / "model.safetensors")
    found = "auto" in words
    assert (model.penalty, model.length_scale, model.gradient_penalty) == (
        penalty,
        0.2,
        0.3 if found else 0.1,
    )
    assert len(asked) == found
    for tried, how in asked:
        assert (tried.penalty, tried.length_scale) == (penalty, 0.2)
        assert (how["validation"], how["epochs"], how["unknown"]) == (
            0.2,
            6,
            None,
        )  # a third would be too short


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "--select-on uniform",
            "--select-on uniform needs --penalty auto, which it selects",
        ),
        ("--penalty auto --gradient-penalty 0.5", "but --gradient-penalty 0.5 sets it"),
        ("--penalty auto --select-on unifrm", "did you mean 'uniform'"),
        ("--penalty auto --select-on iris", "shape"),
        ("--penalty auto --patience 3", "--patience needs validation data"),
        ("--centroid-size auto", "centroid_size must be an int"),
        ("--validation 1.5", "validation must be a fraction in (0, 1)"),
        ("--device gpu", "device"),
    ],
)
def test_what_cannot_be_found_is_reported_before_any_training(
    command, tmp_path, monkeypatch, words, message
):
    monkeypatch.setattr(
        "nescio.training.sweep.train_model", lambda *_, **__: pytest.fail("trained")
    )
    code, _, err = command(*FOUND.format(words, tmp_path).split())
    assert code == 2
    assert message in " ".join(err.split())
    assert "Traceback" not in err


def test_other_methods_have_nothing_to_be_found(command, tmp_path):
    code, _, err = command(*f"train softmax --data iris --select-on uniform -o {tmp_path}".split())
    assert code == 2
    assert "needs --penalty auto" in err
    code, _, err = command(*f"train ensemble --members auto --data iris -o {tmp_path}".split())
    assert code == 2
    assert "members must be an int ≥ 1, got 'auto'" in err


def test_what_speaks_against_a_choice_is_printed(command, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "nescio.cli.tuned_settings.doubts", lambda found: [f"{found.setting} is [doubtful]."]
    )
    code, out, err = command(
        *f"train duq --data iris --epochs 1 --penalty auto -o {tmp_path}".split()
    )
    assert code == 0, err
    assert "Note: gradient_penalty is [doubtful]." in out
