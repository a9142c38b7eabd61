"""Fit a detector into a folder: over a network of the user's, or over the model of a run."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nescio.data import Encoding, Samples
from nescio.detectors import Combined, Detector
from nescio.errors import NescioError
from nescio.evaluation import class_names as naming
from nescio.files import atomic_folder
from nescio.records import Fitted, Provenance, to_plain
from nescio.store.detector_choice import Choice, learners
from nescio.store.detector_folder import (
    DETECTOR,
    FACTS,
    FILES,
    FLOATS,
    WORDS,
    Kept,
    digests,
    keep,
    plain_attention,
)
from nescio.store.model_file import write_model
from nescio.store.run import open_run
from nescio.store.user_data import columns, labelled, of_run, read, taken
from nescio.store.user_network import load_weights, made_by

KIND = "Fitted record"  # by which a folder is known as a detector's
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

    def facts(
        self, wanted: Choice, detector: Detector, factory: str | None, seconds: float, kept: "Kept"
    ) -> Fitted:
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
            found.append(
                f"p-values of {' and '.join(detector.member_names)} from a part of {self.data}"
            )
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
    encoding = columns(data, label)
    parts = {
        name: read(path, label, encoding, name)
        for name, path in (("test", data), ("train", train))
        if path
    }
    _, named, kind = parts["test"]
    if "train" in parts and parts["train"][2] != kind:
        raise NescioError(
            f"{data} has {kind}, {train} has {parts['train'][2]}; give both in one way, as the values of "
            "images are brought to [0, 1], and those of `inputs` are left as they are"
        )
    with plain_attention(), atomic_folder(folder, FACTS, KIND, FILES) as place:
        outputs, held = taken(net, {part: one for part, (one, *_) in parts.items()})
        samples = held["test"]
        some = samples.take(slice(TRIED))[0]
        classes = naming.class_names(class_names, named, outputs, str(data))
        sets = {part: labelled(held[part], own, classes) for part, (_, own, _) in parts.items()}
        detector = wanted.fitted(net, sets["test"], sets.get("train"))
        kept = keep(detector, some, place)
        taught = f"a part of {data}" if train is None else str(train)
        words = not some.is_floating_point()
        known = Known(samples.shape, kind, classes, encoding, str(data), taught, words)
        facts = known.facts(wanted, detector, factory, time.monotonic() - started, kept).sealed(
            digests(place)
        )
        facts.save(place / FACTS)
        doubt = (
            naming.doubt(net, sets["test"], classes) if isinstance(sets["test"], Samples) else None
        )
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

    own = train is None and wanted.learns(model)
    loaded = about.load(root) if own or data is None else None
    held = loaded.test if data is None and loaded is not None else None
    teacher = loaded.train if own and loaded is not None else None
    if data is not None:
        held = of_run(about, data, label, "test")
    if train is not None:
        teacher = of_run(about, train, label, "train")
    name = about.test_name if data is None else str(data)
    taught = (
        f"a part of {name}"
        if teacher is None
        else f"{about.source.name}, training part"
        if own
        else str(train)
    )
    known = Known(
        about.shape, None, about.classes, encoder, name, taught, run=to_plain(asdict(about))
    )
    with atomic_folder(folder, FACTS, KIND, FILES) as place:
        detector = wanted.fitted(model, _with_labels(held), _with_labels(teacher))
        write_model(detector, place / DETECTOR)
        facts = known.facts(wanted, detector, None, time.monotonic() - started, Kept("detector"))
        facts = facts.sealed(digests(place))
        facts.save(place / FACTS)
    return detector, facts


def _with_labels(samples: Samples | None) -> Any:
    """Samples, or their inputs alone if they have no labels."""
    if samples is None or not bool((samples.labels < 0).all()):
        return samples
    return samples.take(slice(None))[0]
