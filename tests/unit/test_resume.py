"""A run killed outright, and started again with the same command, ends as if nothing had happened."""

import os
import signal
import subprocess
import sys

import pytest
from safetensors import safe_open

from nescio.records import History
from nescio.tensorfile import read_tensors

COMMAND = """train softmax --data digits --hold-out 7,8,9 --network mlp --epochs 6 --batch-size 64 --checkpoint-every 1
    --optimizer sgd --learning-rate 0.05 --schedule one_cycle --augment crop --validation 0.2 --patience 6 -o"""

# The command line, in a process that kills itself at a chosen moment of a chosen checkpoint: nothing of Python's is run
# after SIGKILL, no matter who sends it, and so no clock decides where it strikes.
DOOMED = """
import os, signal, sys
import nescio.checkpoint
from nescio.cli import main
moment, step = sys.argv[1], int(sys.argv[2])
del sys.argv[1:3]
whole, replace = nescio.checkpoint.Checkpoint.save, os.replace

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

nescio.checkpoint.Checkpoint.save = save
main()
"""


def run(folder, moment="never", step=-1):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [sys.executable, "-c", DOOMED, moment, str(step), *COMMAND.split(), str(folder)]
    return subprocess.run(command, env=environment, capture_output=True, timeout=120, check=False)


def steps_done(folder):
    return read_tensors(folder / "checkpoint.safetensors", "checkpoint")[1]["progress"]["step"]


def weights(folder):
    with safe_open(str(folder / "model.safetensors"), framework="pt") as file:
        return {key: file.get_tensor(key).numpy().tobytes() for key in file.keys()}  # noqa: SIM118


@pytest.mark.slow
def test_sigkill_at_any_moment_changes_nothing(tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert run(whole).returncode == 0
    per_epoch = steps_done(whole) // 6
    # in the middle of the first epoch, at the end of the second, within the third while the file is being written
    for moment, step, left in (("before", 5, 4), ("after", 2 * per_epoch, 2 * per_epoch), ("during", 30, 29)):
        assert run(cut, moment, step).returncode == -signal.SIGKILL
        assert steps_done(cut) == left
        assert not (cut / "model.safetensors").exists()
    assert len(list(cut.glob(".*.partial"))) == 1  # of the write that was cut off
    assert run(cut).returncode == 0
    assert not list(cut.glob(".*.partial"))
    assert weights(cut) == weights(whole)
    first, second = (History.load(folder / "history.json").epochs for folder in (whole, cut))
    assert [(e.loss, e.accuracy, e.validation_loss) for e in first] == [
        (e.loss, e.accuracy, e.validation_loss) for e in second
    ]
