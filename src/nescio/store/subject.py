"""What is to be judged, and by which data: the model of a run, a fitted detector, or a network of the user's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio.data import Encoding, Known, Samples, Stream, adapt
from nescio.detectors.level import Level
from nescio.errors import NescioError
from nescio.evaluation import class_names as naming
from nescio.records import Fitted, from_plain
from nescio.store.detector_folder import FACTS, WORDS, open_fitted
from nescio.store.run import Facts, open_run
from nescio.store.user_data import columns, labelled, of_run, read, taken
from nescio.store.user_network import load_weights, made_by

BATCH = 1024  # inputs of a file that are read at a time
LABELLED = "give known inputs that the network was not trained on: --data known_test.npz"


@dataclass(frozen=True)
class Subject:
    """A model or detector, and known data of its kinds.

    Attributes:
        model: a method, a bare network, or a detector.
        known: `.test` to judge it by, labels −1 if it has none; of a run also `.train` and `.unseen`.
        read: a file or folder of unknown inputs, as the network takes them; None if they are read as a run's are.
        stale: what settled the detector's threshold, if that is what it would be judged by; else None.
        promise: of a detector, in words.
        source: what the model of a run was trained on, by name or path.
    """

    model: nn.Module
    known: Known
    read: Callable[[str], Samples] | None = None
    stale: str | None = None
    promise: str | None = None
    source: str = ""

    @property
    def test(self) -> Samples | Tensor:
        """The known data, without labels that are none."""
        test = self.known.test
        return test.take(slice(None))[0] if bool((test.labels < 0).all()) else test


def subject_of_run(
    run: Path, data: Path | None, train: Path | None, label: str | None, root: str | None
) -> Subject:
    """The model of a run, by its test data, or by others."""
    model, about = open_run(run)
    return Subject(model, _known_of(about, data, train, label, root), source=about.source.name)


def subject_of_detector(
    folder: Path,
    factory: str | None,
    data: Path | None,
    train: Path | None,
    label: str | None,
    root: str | None,
    command: Sequence[str],
) -> Subject:
    """A fitted detector, by given data or, if it is over the model of a run, by the run's test data.

    `command` is as in `open_fitted`.
    """
    detector, facts = open_fitted(folder, factory, command)
    asked = facts.provenance.settings
    if (
        asked.get("risk") is None
    ):  # what chance does to a share follows from the share; of a risk the record has all
        detector.level = Level.of(
            asked.get("accept"), bool(asked.get("per_class")), False, None, None
        )
    stale = None
    if facts.run is not None:
        about = from_plain(Facts, facts.run, FACTS)
        known = _known_of(about, data, train, label, root)
        if data is None and facts.data == about.test_name:
            stale = facts.data
        return Subject(detector, known, _reader(facts), stale, facts.promise, about.source.name)
    if data is None:
        raise NescioError(f"{str(folder)!r} does not hold data to judge it by; {LABELLED}")
    if data.resolve() == Path(facts.data).resolve():
        stale = facts.data
    encoding = None if facts.encoding is None else Encoding.from_dict(facts.encoding)
    parts = {
        part: _as_fitted(path, part, label, encoding, facts)
        for part, path in _given(data, train).items()
    }
    known = _known(data, parts, facts.classes, facts.kind, encoding)
    return Subject(detector, known, _reader(facts), stale, facts.promise)


def subject_of_network(
    factory: str,
    weights: Path | None,
    data: Path | None,
    train: Path | None,
    label: str | None,
    class_names: Sequence[str],
) -> Subject:
    """A network of the user's, by given data."""
    if data is None:
        raise NescioError(LABELLED)
    net = made_by(factory).to("cpu").eval()
    if weights is not None:
        load_weights(net, weights)
    encoding = columns(data, label)
    found = {part: read(path, label, encoding, part) for part, path in _given(data, train).items()}
    outputs, samples = taken(net, {part: one for part, (one, *_) in found.items()})
    _, named, kind = found["test"]
    classes = naming.class_names(class_names, named, outputs, str(data))
    parts = {part: _numbered(samples[part], own, classes) for part, (_, own, _) in found.items()}
    words = not parts["test"].take(slice(1))[0].is_floating_point()
    reader = partial(
        _streamed, shape=parts["test"].shape, encoding=encoding, kind=kind, words=words
    )
    return Subject(net, _known(data, parts, classes, kind, encoding), reader)


def _given(data: Path, train: Path | None) -> dict[str, Path]:
    return {"test": data} if train is None else {"test": data, "train": train}


def _known_of(
    about: Facts, data: Path | None, train: Path | None, label: str | None, root: str | None
) -> Known:
    """The data of a run, with others in place of its parts where they are given."""
    known = about.load(root)
    test = known.test if data is None else _called(of_run(about, data, label, "test"), data)
    teacher = known.train if train is None else of_run(about, train, label, "train")
    return replace(known, test=test, train=teacher)


def _known(
    data: Path,
    parts: dict[str, Samples],
    classes: tuple[str, ...],
    kind: str | None,
    encoding: Encoding | None,
) -> Known:
    features = () if encoding is None else encoding.features
    kind = "image" if kind == "images" else "inputs"
    return Known(
        data.stem,
        parts.get("train"),
        _called(parts["test"], data),
        classes,
        None,
        kind,
        features,
        None,
        encoding,
    )


def _called(samples: Samples, path: Path) -> Samples:
    """The same, by its file's name."""
    return samples.with_labels(samples.labels, path.stem)


def _as_fitted(
    path: Path, part: str, label: str | None, encoding: Encoding | None, facts: Fitted
) -> Samples:
    """Known data as those that a detector was fitted on."""
    samples, own, kind = read(path, label, encoding, part)
    if kind != facts.kind and len(facts.shape) == 3:
        raise NescioError(
            f"{path} has {kind}, but the detector was fitted on {facts.kind}, and the values of one may "
            "not be those of the other; give both in the same way"
        )
    samples = samples if facts.dtype == WORDS else samples.floats()
    return _numbered(
        adapt(samples, facts.shape) if kind == "images" else samples, own, facts.classes
    )


def _numbered(samples: Samples, own: tuple[str, ...], classes: tuple[str, ...]) -> Samples:
    """The same, with labels as the network numbers them if there are any."""
    found = labelled(samples, own, classes)
    return found if isinstance(found, Samples) else samples


def _reader(facts: Fitted) -> Callable[[str], Samples]:
    encoding = None if facts.encoding is None else Encoding.from_dict(facts.encoding)
    words = facts.dtype == WORDS
    return partial(_streamed, shape=facts.shape, encoding=encoding, kind=facts.kind, words=words)


def _streamed(
    path: str, shape: tuple[int, ...], encoding: Encoding | None, kind: str | None, words: bool
) -> Samples:
    """Unknown inputs, read as `nescio score` reads new ones."""
    how: dict[str, Any] = {"kind": kind, "tokens": words}
    x = torch.cat([x for *_, x in Stream(Path(path), shape, encoding, BATCH, **how)])
    return Samples(x, torch.full((len(x),), -1), name=Path(path).stem, tokens=words)
