"""A full disk, or a limit on the size of files: the error names the file, and none is left."""

import contextlib
import io
import json
import os
import resource
import signal
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch

import nescio
from forked import Forked
from nescio.cli import main
from nescio.cli.output import err
from nescio.store.detector_folder import write_detector

NETS = """
import torch
from torch import nn

class Odd(nn.Module):  # which no graph holds
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
    def forward(self, x):
        return self.layer(x) if x.sum().item() < 1e9 else x[:, :3]
"""


def run_limited(cases):
    """Run commands one after the other, with files limited to so many bytes; print their errors."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    for size, words, _ in cases:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
        sys.argv, err.file = ["nescio", *words.split()], io.StringIO()
        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
            main()
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**30, most))
        print(json.dumps(err.file.getvalue()), flush=True)


@pytest.fixture
def folder(tmp_path, command):
    (tmp_path / "my_nets.py").write_text(NETS)
    np.savez(
        tmp_path / "calibration.npz",
        inputs=np.random.default_rng(0).normal(size=(60, 4)).astype("f"),
    )
    assert (
        command("train", "softmax", "--data", "iris", "--epochs", "2", "-o", tmp_path / "run")[0]
        == 0
    )
    assert (
        command("evaluate", tmp_path / "run", "--unknown", "noise", "-o", tmp_path / "e.json")[0]
        == 0
    )
    return tmp_path


def test_what_cannot_be_written_is_named_and_not_half_there(folder):
    cases = [
        (3000, "train softmax --data iris --epochs 2 -o new", "new/checkpoint.safetensors"),
        (1000, "evaluate run --unknown noise", "run/evaluation.json"),
        (1000, "report e.json -o report.html", "report.html"),
        (1000, "compare e.json -o side", "side/roc.svg"),
        (1000, "score run calibration.npz -o answers.csv", "answers.csv"),
        (100, "contest run --unknown noise --candidates energy", "run/contest.json"),
        (
            1000,
            "map two_moons --methods softmax --epochs 1 --resolution 9 -o map.png",
            "map-softmax.json",
        ),
        (1000, "fit run -o detector", "detector/detector.safetensors"),
        (
            1000,
            "fit --model my_nets:Odd --data calibration.npz -o detector",
            "detector/detector.safetensors",
        ),
    ]
    before = sorted(path for path in folder.rglob("*"))
    code, out, stderr = Forked(partial(run_limited, cases), folder).wait()
    errors = [json.loads(line) for line in out.splitlines()]
    assert (code, len(errors)) == (0, len(cases)), stderr
    for (_, words, name), error in zip(cases, errors, strict=True):
        assert f"error: {folder / name}: File too large" in error, words
    left = [
        path for path in folder.rglob("*") if path not in before and "__pycache__" not in path.parts
    ]
    assert [path for path in left if path.is_file()] == []


def test_weights_that_cannot_be_written_are_an_error_of_the_system(tmp_path, monkeypatch):
    """Also where the network's own weights are kept, since no graph holds it."""
    net = torch.nn.Linear(4, 3)
    monkeypatch.setattr(
        "nescio.store.detector_folder.exported",
        lambda *_: (_ for _ in ()).throw(nescio.NescioError("no")),
    )
    x = torch.randn(60, 4)
    detector = nescio.Threshold(net).fit(x)
    (tmp_path / "weights.safetensors").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        write_detector(detector, x, tmp_path)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_a_device_without_room_is_named(folder, command):
    code, _, err = command("score", folder / "run", folder / "calibration.npz", "-o", "/dev/full")
    assert (code, err) == (2, "error: /dev/full: No space left on device\n")
    code = "import sys; sys.argv[1:] = ['data', 'list']; from nescio.cli import main; main()"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (
        2,
        "error: standard output: No space left on device\n",
    )
