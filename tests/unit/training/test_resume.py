"""A run killed outright and restarted ends as if nothing had happened."""

import os
import signal
import subprocess
import sys
from hashlib import sha256

import pytest
from safetensors import safe_open

from nescio.cli import main
from nescio.core.tensorfile import read_tensors
from nescio.records import History

COMMAND = """train softmax --data digits --unseen 7,8,9 --network mlp --epochs 4
    --batch-size 64 --checkpoint-every 1 --optimizer sgd --learning-rate 0.05 --schedule one_cycle
    --augment crop --validation 0.2 --patience 4 -o"""

# The command line, in a process that kills itself at a chosen moment of a chosen checkpoint: no
# Python is run after SIGKILL, no matter who sends it, and so no clock decides where it strikes. To
# load torch only once, this program forks before each run; it answers a line with the exit code.
DOOMED = """
import os, signal, sys
import sklearn.datasets, torch
import nescio.training.checkpoint, nescio.evaluation.evaluate, nescio.store.run
from nescio.cli import main
torch.optim.SGD([torch.zeros(1)])  # with its first optimizer torch loads more of itself
whole = nescio.training.checkpoint.Checkpoint.save
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what a run prints is no answer

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def run(moment, step, *words):
    def save(self, progress, *rest):
        due = progress.step == int(step)
        if due and moment == "before":
            die()
        if due and moment == "during":
            os.replace = die  # all is written, and nothing renamed
        whole(self, progress, *rest)
        if due:
            die()

    nescio.training.checkpoint.Checkpoint.save = save
    signal.alarm(120)
    sys.argv = ["nescio", *words]
    main()

for line in sys.stdin:
    child = os.fork()
    if not child:
        run(*line.split())
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=answers, flush=True)
"""


@pytest.fixture
def run():
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command, pipe = [sys.executable, "-c", DOOMED], subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True) as program:

        def exit_code(folder, training_step="never", step=-1):
            print(training_step, step, *COMMAND.split(), folder, file=program.stdin, flush=True)
            return int(program.stdout.readline())

        yield exit_code


def steps_done(folder):
    return read_tensors(folder / "checkpoint.safetensors", "checkpoint")[1]["progress"]["step"]


def weights(folder):
    """A digest of each, since to show how long bytes differ takes pytest minutes."""
    with safe_open(str(folder / "model.safetensors"), framework="np") as file:
        names = file.keys()
        return {name: sha256(file.get_tensor(name).tobytes()).hexdigest() for name in names}


def test_sigkill_at_any_moment_changes_nothing(run, tmp_path, monkeypatch):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    monkeypatch.setattr(sys, "argv", ["nescio", *COMMAND.split(), str(whole)])
    with pytest.raises(SystemExit) as stop:
        main()  # in a process of its own: this one
    assert not stop.value.code
    per_epoch = steps_done(whole) // 4
    # within the first epoch, at the end of the second, within the third while the file is written
    for training_step, step, left in (
        ("before", 5, 4),
        ("after", 2 * per_epoch, 2 * per_epoch),
        ("during", 30, 29),
    ):
        assert run(cut, training_step, step) == -signal.SIGKILL
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
