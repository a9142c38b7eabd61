"""A full disk, or a limit on the size of files: the error names the file, and none is left."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

import nescio
from nescio.store.detector_folder import write_detector

# commands one after the other, with files limited to so many bytes; what each says
LIMITED = """
import contextlib, io, json, resource, signal, sys
from nescio.cli import main
from nescio.cli.output import err
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for size, words in json.load(sys.stdin):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    sys.argv, err.file = ["nescio", *words], io.StringIO()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            main()
    except SystemExit:
        pass
    said = err.file.getvalue()
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**30, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    print(json.dumps(said), flush=True)
"""
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


@pytest.fixture
def folder(tmp_path, command):
    (tmp_path / "my_nets.py").write_text(NETS)
    np.savez(
        tmp_path / "held.npz", inputs=np.random.default_rng(0).normal(size=(60, 4)).astype("f")
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
        (1000, "score run held.npz -o answers.csv", "answers.csv"),
        (100, "contest run --unknown noise --candidates energy", "run/contest.json"),
        (
            1000,
            "map two_moons --methods softmax --epochs 1 --resolution 9 -o map.png",
            "map-softmax.json",
        ),
        (1000, "fit run -o detector", "detector/detector.safetensors"),
        (
            1000,
            "fit --model my_nets:Odd --data held.npz -o detector",
            "detector/detector.safetensors",
        ),
    ]
    before = sorted(path for path in folder.rglob("*"))
    given = json.dumps([(size, words.split()) for size, words, _ in cases])
    done = subprocess.run(
        [sys.executable, "-c", LIMITED],
        input=given,
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(said) == len(cases), done.stderr
    for (_, words, name), one in zip(cases, said, strict=True):
        assert f"error: {folder / name}: File too large" in one, words
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
    code, _, err = command("score", folder / "run", folder / "held.npz", "-o", "/dev/full")
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
