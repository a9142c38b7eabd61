"""Disks that fill up, and processes that are killed, in all that writes files.

Allowed is an error that names a file. Whatever happens, each file is the old one or a whole new
one, nothing half-written stays, and the same command, given again, ends as if nothing had happened.
"""

import contextlib
import io
import json
import multiprocessing
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
from safetensors import safe_open

import nescio
from fuzz import subjects
from fuzz.core import CHANGED, WRONG, Fault, Fuzzer
from fuzz.injection import CODES, failing, no_larger
from fuzz.state import bits
from nescio.cli import main
from nescio.core.tensorfile import read_tensors
from nescio.errors import NescioError
from nescio.methods import Softmax
from nescio.records import read_record

Work = Callable[[Path], None]
KILLED = 0.03  # of the cases, since they are slow
LARGE = 20_000  # bytes, of which all that is written here has fewer


def command(*words: str) -> Work:
    """A command of the command line, given in a folder; its errors are raised."""

    def work(folder: Path) -> None:
        said, given = (
            io.StringIO(),
            [str(folder / word[1:]) if word.startswith("@") else word for word in words],
        )
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(said),
            patch.object(sys, "argv", ["nescio", *given]),
            contextlib.suppress(SystemExit),
        ):
            main()
        if "error:" in said.getvalue():
            raise NescioError(said.getvalue())

    return work


def train(folder: Path) -> None:
    """A few steps of training, with a checkpoint after each; then the weights are written."""
    model = Softmax(subjects.net())
    nescio.train(
        model,
        subjects.some(0, 100),
        epochs=2,
        batch_size=25,
        progress=False,
        checkpoint=folder / "model" / "checkpoint.safetensors",
        checkpoint_every=1,
    )
    nescio.save(model, folder / "model" / "model.safetensors")


WORKS: dict[str, Work] = {  # in an order in which each finds what it needs
    "training": train,
    "train": command("train", "softmax", "--data", "three_blobs", "--epochs", "1", "-o", "@run"),
    "evaluate": command("evaluate", "@run", "--unknown", "uniform"),
    "fit": command("fit", "@run", "-o", "@detector"),
    "score": command("score", "@detector", "@inputs.npz", "-o", "@answers.csv"),
    "report": command("report", "@run", "-o", "@report.html"),
}
RARE = {"report": 0.1}  # since its figures take longer than all the others
AFRESH = {
    "training": "model",
    "train": "run",
}  # what is taken away, half of the time, to be made anew
SAME = ("model/model.safetensors", "answers.csv")  # whatever happened before


class Faults(Fuzzer):
    """Faults of the file system, and kills."""

    name: ClassVar[str] = "faults"
    limit: ClassVar[float] = 120.0

    def __init__(self, folder: Path, killing: bool = True) -> None:
        super().__init__(folder)
        self.base, self.place, self.killing = folder / "base", folder / "case", killing
        self.base.mkdir()
        np.savez(self.base / "inputs.npz", inputs=subjects.new_inputs(20).numpy())
        self.steps: dict[str, int] = {}
        for name, work in WORKS.items():
            with failing(self.base, at=None) as counted:
                work(self.base)
            self.steps[name] = counted.count

    def case(self, rng: Random) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.base, self.place)
        if self.killing and rng.random() < KILLED:
            self._kill(rng)
            return
        name = rng.choices(list(WORKS), [RARE.get(one, 1.0) for one in WORKS])[0]
        afresh = name in AFRESH and rng.random() < 0.5
        if afresh:
            shutil.rmtree(self.place / AFRESH[name])
        old = {path: path.read_bytes() for path in self._files()}
        self._fail(rng, name, afresh)
        self._check_whole(old)
        WORKS[name](self.place)  # once more, and now nothing fails
        self._check_whole({})
        for one in SAME:
            if not (self.place / one).is_file() or content(self.place / one) != content(
                self.base / one
            ):
                raise Fault(WRONG, f"{name} given again does not end in the same {one}")

    def _fail(self, rng: Random, name: str, afresh: bool) -> None:
        """Do something while the disk fails; an error must name a file."""
        size, at = rng.randrange(LARGE), rng.randrange(1, self.steps[name] + 2)
        how: Any = no_larger(size)
        self.doing = f"{name}{' afresh' * afresh} with no file beyond {size} bytes"
        if rng.random() < 0.8:
            code, ever = rng.choice(CODES), rng.random() < 0.3
            how = failing(self.place, at, code, ever)
            self.doing = (
                f"{name}{' afresh' * afresh} failing at step {at}{' and ever after' * ever}"
            )
        try:
            with how as counter:
                WORKS[name](self.place)
        except (NescioError, OSError) as error:
            if str(self.place) not in f"{error}".replace("\n", ""):
                last = "write" if counter is None else counter.last
                raise Fault(
                    WRONG, f"the error of {name} at a failed {last} names no file"
                ) from error

    def _kill(self, rng: Random) -> None:
        """Train in another process, kill it, and go on."""
        shutil.rmtree(self.place / "model")
        seconds = rng.uniform(0, 0.3)
        self.doing = f"training killed after {seconds:.3f} s"
        multiprocessing.set_forkserver_preload(["fuzz.faults"])
        other = multiprocessing.get_context("forkserver").Process(
            target=train, args=(self.place,), daemon=True
        )
        other.start()
        time.sleep(seconds)
        other.kill()
        other.join()
        train(self.place)
        if bits_of(self.place / "model" / "model.safetensors") != bits_of(
            self.base / "model" / "model.safetensors"
        ):
            raise Fault(WRONG, "training gone on with ends in other weights")
        self._check_whole({})

    def _files(self) -> list[Path]:
        return [path for path in sorted(self.place.rglob("*")) if path.is_file()]

    def _check_whole(self, old: dict[Path, bytes]) -> None:
        """A fault if a file is neither the old one nor whole, or gone, or half a file was left."""
        found = self._files()
        if left := [
            path.name for path in self.place.rglob("*") if path.suffix in (".partial", ".old")
        ]:
            raise Fault(CHANGED, f"left behind: {Path(left[0]).suffix}")
        for path in old.keys() - set(found):
            raise Fault(CHANGED, f"{path.name} is gone")
        for path in found:
            if path.read_bytes() != old.get(path) and not whole(path):
                raise Fault(CHANGED, f"{path.name} is neither old nor whole")

    def evidence(self) -> dict[str, bytes]:
        return {str(path.relative_to(self.place)): path.read_bytes() for path in self._files()}


def whole(path: Path) -> bool:
    """Whether a file can be read to its end."""
    text = path.read_bytes()
    try:
        if path.suffix == ".json":
            return read_record(path) is not None
        if path.suffix == ".safetensors":
            return bool(bits_of(path))
    except NescioError:
        return False
    return text.rstrip().endswith(b"</html>") if path.suffix == ".html" else bool(text)


def bits_of(path: Path) -> Any:
    """The tensors in a file of ours."""
    with safe_open(str(path), framework="pt") as file:
        kind = json.loads(file.metadata()["nescio"])["kind"]
    return {name: bits(value) for name, value in read_tensors(path, kind)[0].items()}


def content(path: Path) -> Any:
    """What must be the same in two files."""
    return bits_of(path) if path.suffix == ".safetensors" else path.read_bytes()
