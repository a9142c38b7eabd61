"""Every kind of file that nescio reads, damaged or forged.

What is signed (models, checkpoints, detectors) must be refused, or answer as before. What is not
(tables, images, records) may say something else, but must be read or refused. A forged file is
signed anew by nescio's own functions, as someone would who means harm: it may answer otherwise, but
not fail otherwise. No file may be changed by reading it.
"""

import gzip
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import numpy as np
from PIL import Image
from safetensors.torch import save as as_safetensors
from torch import nn

import nescio
from fuzz import subjects
from fuzz.core import CHANGED, WRONG, Fault, Fuzzer
from fuzz.forging import forge
from fuzz.mutations import damaged
from fuzz.state import bits
from nescio.detectors import DETECTORS
from nescio.methods import method_for
from nescio.models import network_for
from nescio.records import read_record
from nescio.report.page import report_page
from nescio.store.detector_choice import NamedDetector
from nescio.store.detector_folder import open_fitted
from nescio.store.fit_detector import fit_own
from nescio.store.run import Source, open_run, train_run
from nescio.store.user_network import load_weights
from report_records import of_all_kinds

Load = Callable[[Path], Any]
# of damaged records that are read, so many are drawn in a report, which takes a hundred times as
# long
SHOWN = 0.1


@dataclass(frozen=True)
class Target:
    """A folder of files that belong together, and how they are read: to what must stay the same if
    it is `signed`.
    """

    name: str
    load: Load
    signed: bool


class Files(Fuzzer):
    """Damaged and forged files."""

    name: ClassVar[str] = "files"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.x = subjects.new_inputs(16)
        self.targets = [
            *self._models(),
            *self._detectors(),
            *self._folders(),
            *self._data(),
            *self._records(),
        ]
        self.files = {
            target.name: {
                str(path.relative_to(folder / target.name)): path.read_bytes()
                for path in sorted((folder / target.name).rglob("*"))
                if path.is_file()
            }
            for target in self.targets
        }
        self.answers = {one.name: one.load(folder / one.name) for one in self.targets if one.signed}
        self.now: dict[str, bytes] = {}

    def case(self, rng: Random) -> None:
        target = rng.choice(self.targets)
        files, place = self.files[target.name], self.folder / target.name
        victim = rng.choice(sorted(files))
        forged = target.signed and rng.random() < 0.5
        self.doing = f"{'forged' if forged else 'damaged'} {victim} of {target.name}"
        try:
            if forged:
                forge(rng, place, victim)
            else:
                (place / victim).write_bytes(damaged(rng, victim, files[victim]))
            self.now = {name: (place / name).read_bytes() for name in files}
            self._read(target, place, forged, rng)
        finally:
            for name, data in files.items():
                if self.now.get(name) != data:
                    (place / name).write_bytes(data)

    def _read(self, target: Target, place: Path, forged: bool, rng: Random) -> None:
        try:
            found = target.load(place)
        finally:
            after = {
                str(path.relative_to(place)): path.read_bytes()
                for path in place.rglob("*")
                if path.is_file()
            }
            for name in after.keys() - self.now.keys():
                (place / name).unlink()
            if after != self.now:
                raise Fault(CHANGED, f"reading {target.name} changed a file")
        if target.signed and not forged and found != self.answers[target.name]:
            raise Fault(WRONG, f"a change in {target.name} went unseen")
        if (
            target.name.startswith("record")
            and rng.random() < SHOWN
            and "<html" not in report_page([("run", found)])
        ):
            raise Fault(WRONG, "a report is no page")

    def evidence(self) -> dict[str, bytes]:
        return self.now

    def _place(self, name: str) -> Path:
        (self.folder / name).mkdir(parents=True)
        return self.folder / name

    def _models(self) -> list[Target]:
        """Saved models of every method, a run with its checkpoint, and weights of the user's."""
        found = []
        for name, model in subjects.methods().items():
            nescio.save(
                model, self._place(f"model {name}") / "model.safetensors", {"note": ["a", 1.5]}
            )
            found.append(Target(f"model {name}", self._load_model, signed=True))
        place = self._place("run")
        train_run(
            place,
            Source("three_blobs"),
            subjects.known(),
            "softmax",
            "mlp",
            "cpu",
            0,
            {},
            None,
            epochs=1,
            progress=False,
        )
        (self._place("checkpoint") / "c.safetensors").write_bytes(
            (place / "checkpoint.safetensors").read_bytes()
        )
        (place / "checkpoint.safetensors").unlink()
        (place / "history.json").unlink()  # among the records
        weights = self._place("weights") / "w.safetensors"
        weights.write_bytes(as_safetensors(subjects.own_net().state_dict()))
        run, checkpoint = (
            Target("run", self._load_run, signed=True),
            Target("checkpoint", self._resume, signed=True),
        )
        return [*found, run, checkpoint, Target("weights", self._load_weights, signed=False)]

    def _load_model(self, place: Path) -> Any:
        return bits(
            nescio.predict(nescio.load(place / "model.safetensors"), self.x, progress=False)
        )

    def _load_run(self, place: Path) -> Any:
        model, facts = open_run(place)
        return bits(nescio.predict(model, self.x, progress=False)), facts

    def _load_weights(self, place: Path) -> Any:
        net = subjects.own_net()
        load_weights(net, place / "w.safetensors")
        return bits(nescio.predict(net, self.x, progress=False))

    def _resume(self, place: Path) -> Any:
        """The weights of a run that was done, gone on with."""
        known, copy = subjects.known(), self.folder / "copy.safetensors"
        copy.write_bytes(
            (place / "c.safetensors").read_bytes()
        )  # a forged one may be of a run that is not done
        model = method_for(
            "softmax", lambda classes: network_for("mlp", (2,), classes), 3, known.normalise
        )
        nescio.train(model, known.train, seed=0, epochs=1, checkpoint=copy, progress=False)
        return bits(list(model.state_dict().values()))

    def _detectors(self) -> list[Target]:
        """Every detector, over a network of ours and over one of the user's."""
        found = []
        for kind, net in (("ours", subjects.net()), ("own", subjects.own_net())):
            for name in DETECTORS:
                detector = subjects.detector(name, net)
                nescio.save(detector, self._place(f"detector {name} {kind}") / "d.safetensors")
                given = None if kind == "ours" else net
                found.append(
                    Target(
                        f"detector {name} {kind}",
                        lambda p, g=given: self._load_detector(p, g),
                        signed=True,
                    )
                )
        return found

    def _load_detector(self, place: Path, net: nn.Module | None) -> Any:
        detector = nescio.load(place / "d.safetensors", net)
        return bits([detector.score(self.x), detector.predict(self.x), detector.p_value(self.x)])

    def _folders(self) -> list[Target]:
        """Detectors in folders of their own, the network a graph in them."""
        calibration = subjects.some(100, 300)
        np.savez(
            self.folder / "calibration.npz",
            inputs=calibration.inputs.numpy(),
            labels=calibration.labels.numpy(),
        )
        found = []
        for name in ("threshold", "knn"):
            wanted = NamedDetector(name, None, None, None, None, None, False, {})
            fit_own(
                self.folder / f"folder {name}",
                "fuzz.subjects:own_net",
                None,
                self.folder / "calibration.npz",
                None,
                None,
                (),
                wanted,
            )
            found.append(Target(f"folder {name}", self._load_folder, signed=True))
        return found

    def _load_folder(self, place: Path) -> Any:
        detector, facts = open_fitted(place, None, place)
        return bits([detector.score(self.x), detector.predict(self.x)]), facts.classes

    def _data(self) -> list[Target]:
        """Data files of every format, small."""
        rng = np.random.default_rng(0)
        images, labels = rng.integers(0, 256, (6, 4, 4), dtype=np.uint8), np.arange(6) % 2
        np.savez(self._place("npz") / "a.npz", images=images, labels=labels)
        np.savez_compressed(
            self._place("npz table") / "a.npz",
            train_inputs=rng.normal(size=(8, 3)),
            train_labels=np.arange(8) % 2,
        )
        np.save(self._place("npy") / "a.npy", images)
        table = "\n".join(
            ["height,kind,class", *(f"{i}.5,{'ab'[i % 2]},{'xy'[i % 2]}" for i in range(10))]
        ).encode()
        (self._place("csv") / "a.csv").write_bytes(table)
        (self._place("csv gz") / "a.csv.gz").write_bytes(gzip.compress(table))
        idx = (
            struct.pack(">HBB3I", 0, 8, 3, *images.shape) + images.tobytes(),
            struct.pack(">HBBI", 0, 8, 1, 6) + labels.astype(np.uint8).tobytes(),
        )
        for name, pack, end in (("idx", bytes, ""), ("idx gz", gzip.compress, ".gz")):
            place = self._place(name)
            for what, data in zip(("images-idx3", "labels-idx1"), idx, strict=True):
                (place / f"{what}-ubyte{end}").write_bytes(pack(data))
        for name, end in (("png", "png"), ("jpg", "jpg")):
            for i, image in enumerate(images):
                (self.folder / name / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
                Image.fromarray(image).save(self.folder / name / "ab"[i % 2] / f"{i}.{end}")
        single = {
            "npz": "a.npz",
            "npz table": "a.npz",
            "npy": "a.npy",
            "csv": "a.csv",
            "csv gz": "a.csv.gz",
            "idx": "images-idx3-ubyte",
            "idx gz": "images-idx3-ubyte.gz",
            "png": "",
            "jpg": "",
        }
        return [
            Target(name, lambda p, f=file: _read_data(p / f), signed=False)
            for name, file in single.items()
        ]

    def _records(self) -> list[Target]:
        """A record of every kind."""
        for i, (_, record) in enumerate(of_all_kinds("plain")):
            record.save(self._place(f"record {type(record).__name__} {i}") / "r.json")
        return [
            Target(one.name, _read_again, signed=False)
            for one in sorted(self.folder.glob("record *"))
        ]


def _read_data(path: Path) -> Any:
    """What is there as inputs alone and as a known set; each is finite, and has as many labels as
    inputs.
    """
    samples = nescio.data.read(path)
    if len(samples.inputs) != len(samples.labels) or not samples.inputs.isfinite().all():
        raise Fault(WRONG, "samples that are not finite, or without a label each")
    return nescio.data.load(path)


def _read_again(place: Path) -> Any:
    """A record, which written and read once more must be the same."""
    record = read_record(place / "r.json")
    record.save(place / "again.json")
    again = read_record(place / "again.json")
    (place / "again.json").unlink()
    if again != record:
        raise Fault(WRONG, "a record changes when it is written and read again")
    return record
