"""A command that is stopped ends with one line: what is kept, and how to go on."""

import os
import signal
import subprocess
import sys
import time
from importlib import import_module

import pytest

from forked import FORK, Forked
from nescio.cli import main

TRAIN = ("train", "softmax", "--data", "iris", "--epochs", "100000", "-o", "run")


def stopped(folder, when, place, *words, how=signal.SIGINT):
    """Start a command, stop it before or after some place: exit code, and standard error."""
    arrived = FORK.Event()
    module, owner, name = place.split(":")
    holder = getattr(import_module(module), owner)
    original = getattr(holder, name)

    def wait(*arguments, **more):
        if when == "after":
            original(*arguments, **more)
        arrived.set()
        time.sleep(120)

    def work():
        setattr(holder, name, wait)
        sys.argv = ["nescio", *words]
        main()

    process = Forked(work, folder)
    assert arrived.wait(120), process.wait()
    process.send(how)
    code, _, err = process.wait()
    assert "Traceback" not in err, err
    return code, err


def test_a_training_that_is_stopped_at_once_says_that_nothing_is_kept(
    command, tmp_path, monkeypatch
):
    monkeypatch.setattr("nescio.training.trainer.Trainer._step", interrupted)
    code, _, err = command("train", "softmax", "--data", "iris", "-o", tmp_path / "run")
    assert (code, err) == (
        130,
        "interrupted; no checkpoint was written yet; run the same command to start again\n",
    )


def test_a_stopped_training_says_which_checkpoint_is_kept(tmp_path):
    place, kept = "nescio.training.checkpoint:Checkpoint:save", "run/checkpoint.safetensors"
    code, err = stopped(tmp_path, "after", place, *TRAIN)
    message = f"interrupted; checkpoint of epoch 1: {kept}; run the same command to resume"
    assert (code, err.splitlines()[-1]) == (130, message)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["checkpoint.safetensors"]
    code, err = stopped(tmp_path, "before", place, *TRAIN, how=signal.SIGTERM)
    assert code == 143
    first, *_, last = err.splitlines()
    assert (first, last) == (f"train: resuming from epoch 1 of 100000 (checkpoint {kept})", message)


@pytest.mark.usefixtures("empty_figures")
def test_a_stopped_command_says_what_it_has_written(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command("train", "softmax", "--data", "iris", "--epochs", 1, "-o", "run")[0] == 0
    before = sorted(os.listdir("run"))
    for words in (
        ("evaluate", "run"),
        ("fit", "run", "-o", "detector"),
        ("recommend", "run"),
        ("contest", "run", "--unknown", "noise"),
        ("score", "run", "rows.csv", "-o", "answers.csv"),
        ("audit", "run"),
    ):
        with monkeypatch.context() as cut:
            cut.setattr("nescio.store.run.load_about", interrupted)
            code, _, err = command(*words)
        assert (code, err.splitlines()[-1]) == (130, "interrupted; nothing was written"), words
    assert sorted(os.listdir("run")) == before
    assert not os.path.exists("detector")
    with monkeypatch.context() as cut:
        cut.setattr("nescio.cli.run_audits.overconfidence", interrupted)
        code, _, err = command("audit", "run", "--rows", 2)
    assert code == 130
    folder = tmp_path.resolve() / "run"
    first = f"{folder / 'scaling.json'}, {folder / 'scaling.svg'}, {folder / 'features.json'}"
    message = (
        f"interrupted; complete files so far: {first} and 1 more; run the same command to start "
        "again"
    )
    assert err.splitlines()[-1] == message


def interrupted(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("load", "given", "wanted"),
    [(0.1, {}, "None"), (100.0, {}, "PASSIVE"), (100.0, {"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")],
)
def test_waiting_threads_sleep_on_a_busy_machine_unless_the_user_has_said_otherwise(
    load, given, wanted
):
    """OpenMP reads it as torch is loaded, so that it must be set before."""
    program = f"""
import os, sys
from nescio.cli import main

assert 'torch' not in sys.modules
os.getloadavg = lambda: ({load}, 0, 0)
sys.argv = ['nescio', '--version']
try:
    main()
finally:
    print(os.environ.get('OMP_WAIT_POLICY'))
"""
    environment = {
        name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"
    } | given
    found = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout.splitlines()[-1] == wanted


def test_ctrl_c_while_it_is_loaded_is_one_line():
    program = """
import sys
class Loading:
    def __getattr__(self, name):
        raise KeyboardInterrupt
sys.modules["nescio.cli"] = Loading()
from nescio.__main__ import main
main()
"""
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stderr) == (130, "interrupted; nothing was written\n")
