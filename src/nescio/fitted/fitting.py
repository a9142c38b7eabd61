"""Fit a detector into a folder: over a network of the user's, or over the model of a run."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import nn

from nescio import naming
from nescio.atomic import replacing_folder
from nescio.data import Encoding, Samples, adapt
from nescio.data.csv_file import read_csv
from nescio.data.formats import is_table
from nescio.data.read import read_parts, relabelled
from nescio.detectors import Combined, Detector
from nescio.errors import NescioError
from nescio.factory import load_weights, made_by
from nescio.fitted.folder import DETECTOR, FACTS, FILES, FLOATS, WORDS, Kept, digests, keep, plain_attention
from nescio.fitted.wanted import Choice, learners
from nescio.predict import predict
from nescio.records import Fitted, Provenance, to_plain
from nescio.runs import open_run
from nescio.saving import save

TRIED = 64  # inputs that a graph must answer as its network does


@dataclass(frozen=True)
class Known:
    """What a network takes and knows, and the data that a detector over it was fitted on."""

    shape: tuple[int, ...]
    kind: str | None
    classes: tuple[str, ...]
    encoding: Encoding | None
    data: str
    taught: str
    words: bool = False  # whether inputs are whole numbers
    run: dict[str, Any] | None = None  # what the model of a run was trained on

    def facts(self, wanted: Choice, detector: Detector, factory: str | None, seconds: float, kept: "Kept") -> Fitted:
        """How a detector was fitted, for its folder."""
        return Fitted(
            detector=detector.name,
            settings=detector.settings(),
            factory=factory,
            network=kept.network,
            why=kept.why,
            shape=self.shape,
            kind=self.kind,
            classes=self.classes,
            encoding=None if self.encoding is None else self.encoding.to_dict(),
            data=self.data,
            inputs=len(detector.calibration_),
            taught=self._taught(detector),
            promise="" if detector.level is None else detector.level.promise(detector.controlled),
            thresholds=tuple(detector.threshold_.reshape(-1).tolist()),
            provenance=Provenance.now(wanted.asked.get("seed", 0), wanted.asked, seconds),
            dtype=WORDS if self.words else FLOATS,
            refused=wanted.refused,
            run=self.run,
        )

    def _taught(self, detector: Detector) -> str | None:
        """What a detector learned from beside its threshold; None if it learned nothing."""
        found = [self.taught] if learners(detector) else []
        if isinstance(detector, Combined):
            found.append(f"p-values of {' and '.join(detector.member_names)} from a part of {self.data}")
        return "; ".join(found) or None


def fit_own(
    folder: Path,
    factory: str,
    weights: Path | None,
    data: Path,
    train: Path | None,
    label: str | None,
    class_names: Sequence[str],
    wanted: Choice,
) -> tuple[Detector, Fitted, str | None]:
    """Fit a detector over a network of the user's into a folder, on data it was not trained on.

    With what was fitted comes a warning, if labels speak against the names of the classes.

    Args:
        folder: to write, whole or not at all.
        factory: `package.module:name` of what makes the network.
        weights: safetensors; without them the network keeps those it was made with.
        data: npz, CSV or a folder of images; of npz `inputs` are taken as they are.
        train: what a detector learns from that learns more than a threshold; else half of the data.
        label: the label column, if a CSV file has one.
        class_names: in the order of the network's outputs; else those of the data, if they are as many, or numbers.
        wanted: which detector.
    """
    started = time.monotonic()
    net = made_by(factory).to("cpu").eval()
    if weights is not None:
        load_weights(net, weights)
    encoding = _columns(data, label)
    parts = {name: _read(path, label, encoding, name) for name, path in (("test", data), ("train", train)) if path}
    _, named, kind = parts["test"]
    if "train" in parts and parts["train"][2] != kind:
        raise NescioError(f"{data} has {kind}, {train} has {parts['train'][2]}; give both in one way, as the values of "
                          "images are brought to [0, 1], and those of `inputs` are left as they are")  # fmt: skip
    with plain_attention(), replacing_folder(folder, FACTS, FILES) as place:
        outputs, held = _taken(net, {part: one for part, (one, *_) in parts.items()})
        samples = held["test"]
        some = samples.take(slice(TRIED))[0]
        classes = naming.class_names(class_names, named, outputs, str(data))
        sets = {part: _labelled(held[part], own, classes) for part, (_, own, _) in parts.items()}
        detector = wanted.fitted(net, sets["test"], sets.get("train"))
        kept = keep(detector, some, place)
        taught = f"a part of {data}" if train is None else str(train)
        words = not some.is_floating_point()
        known = Known(samples.shape, kind, classes, encoding, str(data), taught, words)
        facts = known.facts(wanted, detector, factory, time.monotonic() - started, kept).sealed(digests(place))
        facts.save(place / FACTS)
        doubt = naming.doubt(net, sets["test"], classes) if isinstance(sets["test"], Samples) else None
    return detector, facts, doubt


def fit_run(
    folder: Path,
    run: Path,
    data: Path | None,
    train: Path | None,
    label: str | None,
    wanted: Choice,
    root: str | None = None,
) -> tuple[Detector, Fitted]:
    """Fit a detector over the model of a run into a folder: on its known test data, or on others.

    What learns more than a threshold does so from the run's training data, unless others are given to learn from.
    """
    started = time.monotonic()
    model, about = open_run(run)
    encoder = about.encoder()

    def read(path: Path, part: str) -> Any:
        parts = read_parts(path, label, encoder)
        samples = parts.samples.get(part) or next(iter(parts.samples.values()))
        return _labelled(adapt(samples, about.shape), parts.classes, about.classes)

    own = train is None and wanted.learns(model)
    loaded = about.load(root) if own or data is None else None
    held = read(data, "test") if data is not None else loaded.test if loaded is not None else None
    teacher = read(train, "train") if train is not None else loaded.train if own and loaded is not None else None
    name = f"{about.source.name}, test part" if data is None else str(data)
    taught = f"a part of {name}" if teacher is None else f"{about.source.name}, training part" if own else str(train)
    known = Known(about.shape, None, about.classes, encoder, name, taught, run=to_plain(asdict(about)))
    with replacing_folder(folder, FACTS, FILES) as place:
        detector = wanted.fitted(model, held, teacher)
        save(detector, place / DETECTOR)
        facts = known.facts(wanted, detector, None, time.monotonic() - started, Kept("detector"))
        facts = facts.sealed(digests(place))
        facts.save(place / FACTS)
    return detector, facts


def _taken(net: nn.Module, parts: Mapping[str, Samples]) -> tuple[int, Mapping[str, Samples]]:
    """How many classes a network answers, and the parts as it takes them: whole numbers as such, or else as floats."""
    floats = {part: samples.floats() for part, samples in parts.items()}
    words = [part for part, samples in parts.items() if samples is not floats[part]]
    if "test" not in words:
        return _outputs(net, floats["test"]), floats
    try:
        outputs = _outputs(net, parts["test"])
    except NescioError:
        if any(isinstance(module, nn.Embedding) for module in net.modules()):
            raise
        return _outputs(net, floats["test"]), floats
    if len(words) < len(parts):
        raise NescioError("the data hold whole numbers, but the data to learn from do not; give both in one way")
    return outputs, parts


def _outputs(net: nn.Module, samples: Samples) -> int:
    """How many classes a network answers."""
    return predict(net, samples.take(slice(2))[0], progress=False).shape[2]


def _columns(path: Path, label: str | None) -> Encoding | None:
    """The columns of a CSV file that go to the network, as numbers; None of other files."""
    if not is_table(path):
        return None
    return Encoding.numeric(name for name in read_csv(path) if name != label)


def _read(path: Path, label: str | None, encoding: Encoding | None, part: str) -> tuple[Samples, tuple[str, ...], str]:
    """The part of that name, or what there is, the names of its classes, and whether it is "images" or "inputs"."""
    parts = read_parts(path, label, encoding, any_shape=True)
    part = part if part in parts.samples else next(iter(parts.samples))
    samples = parts.samples[part]
    images = len(samples.shape) == 3 and part not in parts.as_given
    return samples, parts.classes, "images" if images else "inputs"


def _labelled(samples: Samples, own: tuple[str, ...], classes: tuple[str, ...]) -> Any:
    """Samples with labels as the network numbers them, or the inputs alone if they have none."""
    if bool((samples.labels < 0).all()):
        return samples.take(slice(None))[0]
    found = relabelled(samples, own, classes, samples.name)
    if bool((found.labels < 0).any()):
        first = int(samples.labels[found.labels < 0][0])
        raise NescioError(f"an input to fit on has the label {own[first] if own else first!r}, which is none of the "
                          f"classes {', '.join(classes)}; --class-names names them in the outputs' order")  # fmt: skip
    return found
