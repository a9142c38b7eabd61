"""A run killed outright, and started again with the same command, ends as if nothing had happened."""

import os
import signal
import subprocess
import sys
import time

import pytest
from safetensors import safe_open

from nescio.records import History
from nescio.tensorfile import read_tensors

COMMAND = """train softmax --data digits --hold-out 7,8,9 --network mlp --epochs 20 --batch-size 64 --checkpoint-every 1
    --optimizer sgd --learning-rate 0.05 --schedule one_cycle --augment crop --validation 0.2 --patience 20 -o"""


def start(folder):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [sys.executable, "-c", "from nescio.cli import main; main()", *COMMAND.split(), str(folder)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(folder):
    process = start(folder)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors.decode()


def weights(folder):
    with safe_open(str(folder / "model.safetensors"), framework="pt") as file:
        return {key: file.get_tensor(key).numpy().tobytes() for key in file.keys()}  # noqa: SIM118


def steps_done(folder):
    path = folder / "checkpoint.safetensors"
    return read_tensors(path, "checkpoint")[1]["progress"]["step"] if path.exists() else 0


@pytest.mark.slow
def test_sigkill_at_any_moment_changes_nothing(tmp_path):
    finish(tmp_path / "whole")
    total = steps_done(tmp_path / "whole")
    cut = tmp_path / "cut"
    for target in (1, total // 4, total // 2):
        process = start(cut)
        while process.poll() is None and steps_done(cut) < target:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert target <= steps_done(cut) < total
        assert not (cut / "model.safetensors").exists()
    finish(cut)
    assert weights(cut) == weights(tmp_path / "whole")
    whole, resumed = (History.load(tmp_path / name / "history.json") for name in ("whole", "cut"))
    assert [(e.loss, e.accuracy, e.validation_loss) for e in resumed.epochs] == [
        (e.loss, e.accuracy, e.validation_loss) for e in whole.epochs
    ]
    assert not list(cut.glob(".*.partial"))
