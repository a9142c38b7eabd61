"""`--device`: the model is moved there, and a device that is not here ends with a message."""

import pytest
from torch import nn

COMMANDS = {
    "train": ["train", "softmax", "--data", "iris", "-o", "new"],
    "fit": ["fit", "{run}", "--score", "energy", "-o", "det"],
    "evaluate": ["evaluate", "{run}", "-o", "e.json"],
    "recommend": ["recommend", "{run}", "--candidates", "energy", "-o", "found"],
    "contest": ["contest", "{run}", "--unknown", "noise", "-o", "found"],
    "score": ["score", "{run}", "{rows}", "-o", "answers.csv"],
    "attack": ["attack", "{run}", "-o", "a.svg"],
    "map": ["map", "two_moons", "--methods", "softmax"],
}


@pytest.fixture
def words(trained, rows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda name: [word.format(run=trained / "digits", rows=rows) for word in COMMANDS[name]]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_device_that_is_not_here_is_an_error(command, words, tmp_path, name):
    before = set(tmp_path.iterdir())
    code, _, error = command(*words(name), "--device", "meta")
    assert code == 2
    assert "device 'meta' cannot be used here" in error
    assert set(tmp_path.iterdir()) == before  # nothing was written


@pytest.mark.parametrize("name", ["fit", "evaluate", "contest", "score", "recommend"])
def test_a_model_is_moved_to_it(command, words, monkeypatch, name):
    moved, to = [], nn.Module.to
    monkeypatch.setattr(nn.Module, "to", lambda m, *how, **k: moved.append(how) or to(m, *how, **k))
    code, _, error = command(*words(name), "--device", "cpu:0")
    assert code == 0, error
    assert ("cpu:0",) in moved
