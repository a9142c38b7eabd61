"""A run killed outright and restarted ends as if nothing had happened."""

import os
import signal
import sys
from hashlib import sha256

import pytest
from safetensors import safe_open

from forked import Forked
from nescio.cli import main
from nescio.core.tensorfile import read_tensors
from nescio.records import History
from nescio.training.checkpoint import Checkpoint

COMMAND = """train softmax --data digits --unseen 7,8,9 --network mlp --epochs 4
    --batch-size 64 --checkpoint-every 1 --optimizer sgd --learning-rate 0.05 --schedule one_cycle
    --augment crop --validation 0.2 --patience 4 -o"""


def run(folder, moment="never", step=-1):
    """Train in a child that kills itself at a moment of a step's checkpoint; return its exit code.

    No Python is run after SIGKILL, no matter who sends it, and so no clock decides where it
    strikes.
    """
    whole = Checkpoint.save

    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    def save(self, progress, *rest):
        due = progress.step == step
        if due and moment == "before":
            die()
        if due and moment == "during":
            os.replace = die  # all is written, and nothing renamed
        whole(self, progress, *rest)
        if due:
            die()

    def work():
        Checkpoint.save = save
        sys.argv = ["nescio", *COMMAND.split(), str(folder)]
        main()

    return Forked(work, folder.parent).wait()[0]


def steps_done(folder):
    return read_tensors(folder / "checkpoint.safetensors", "checkpoint")[1]["progress"]["step"]


def weights(folder):
    """A digest of each, since to show how long bytes differ takes pytest minutes."""
    with safe_open(str(folder / "model.safetensors"), framework="np") as file:
        names = file.keys()
        return {name: sha256(file.get_tensor(name).tobytes()).hexdigest() for name in names}


def test_sigkill_at_any_moment_changes_nothing(tmp_path, monkeypatch):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    monkeypatch.setattr(sys, "argv", ["nescio", *COMMAND.split(), str(whole)])
    with pytest.raises(SystemExit) as stop:
        main()  # in a process of its own: this one
    assert not stop.value.code
    per_epoch = steps_done(whole) // 4
    # within the first epoch, at the end of the second, within the third while the file is written
    for moment, step, left in (
        ("before", 5, 4),
        ("after", 2 * per_epoch, 2 * per_epoch),
        ("during", 30, 29),
    ):
        assert run(cut, moment, step) == -signal.SIGKILL
        assert steps_done(cut) == left
        assert not (cut / "model.safetensors").exists()
    assert len(list(cut.glob(".*.partial"))) == 1  # of the write that was cut off
    assert run(cut) == 0
    assert not list(cut.glob(".*.partial"))
    assert weights(cut) == weights(whole)
    first, second = (History.load(folder / "history.json").epochs for folder in (whole, cut))
    assert [(e.loss, e.accuracy, e.validation_loss) for e in first] == [
        (e.loss, e.accuracy, e.validation_loss) for e in second
    ]
