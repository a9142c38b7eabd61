"""What to evaluate, and on which data: a run's model, a fitted detector, or a user's network."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from nescio.data import Encoding, Known, Samples, Stream, adapt
from nescio.errors import NescioError
from nescio.evaluation.class_names import class_names
from nescio.records import Fitted, from_plain
from nescio.store.detector_folder import TOKEN_IDS, encoding_of, open_fitted
from nescio.store.run import FITTED, Facts, open_run
from nescio.store.user_data import UserData, numbered, of_run, with_labels
from nescio.store.user_network import load_weights, make_network

READ_BATCH = 1024  # inputs of a file that are read at a time
NEEDS_DATA = "give known inputs that the network was not trained on: --data known_test.npz"


@dataclass(frozen=True)
class Subject:
    """A model or detector, and known data.

    Attributes:
        model: a method, a bare network, or a detector.
        known: `.test` to evaluate it on, labels −1 if it has none; of a run also `.train` and
            `.unseen`.
        read: a reader of unknown inputs, as the network takes them; None if they are read as a
            run's are.
        stale: the detector's calibration data, if it would be evaluated on these; else None.
        source: what the model of a run was trained on, by name or path.
    """

    model: nn.Module
    known: Known
    read: Callable[[str], Samples] | None = None
    stale: str | None = None
    source: str = ""

    @property
    def test(self) -> Samples | Tensor:
        """The known data, or their inputs alone if they have no labels."""
        test: Samples | Tensor = with_labels(self.known.test)
        return test


def subject_of_run(
    run: Path, data: Path | None, train: Path | None, label: str | None, root: str | None
) -> Subject:
    """Return the model of a run, with its test data, or with others."""
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
    """Return a fitted detector, with given data or, over the model of a run, its test data.

    `command` is as in `open_fitted`.
    """
    detector, facts = open_fitted(folder, factory, command)
    if facts.run is not None:
        about = from_plain(Facts, facts.run, FITTED)
        known, source = _known_of(about, data, train, label, root), about.source.name
        evaluated = about.test_name if data is None else str(data)
    elif data is None:
        raise NescioError(f"{str(folder)!r} does not hold data to evaluate it on; {NEEDS_DATA}")
    else:
        user = UserData.read(data, train, label, encoding_of(facts))
        parts = {part: _as_fitted(user, part, facts) for part in user.samples}
        known, source = _known(data, parts, facts.classes, facts.kind, user.encoding), ""
        evaluated = str(data)
    stale = facts.data if Path(evaluated).resolve() == Path(facts.data).resolve() else None
    tokens = facts.dtype == TOKEN_IDS
    reader = partial(_read, facts.shape, encoding_of(facts), facts.kind, tokens)
    return Subject(detector, known, reader, stale, source)


def subject_of_network(
    factory: str,
    weights: Path | None,
    data: Path | None,
    train: Path | None,
    label: str | None,
    names: Sequence[str],
) -> Subject:
    """Return a network of the user's, with given data."""
    if data is None:
        raise NescioError(NEEDS_DATA)
    net = make_network(factory)
    if weights is not None:
        load_weights(net, weights)
    user = UserData.read(data, train, label)
    outputs, samples = user.as_taken_by(net)
    classes, kind = class_names(names, user.classes["test"], outputs, str(data)), user.kinds["test"]
    parts = user.numbered(samples, classes)
    tokens = not parts["test"].take(slice(1))[0].is_floating_point()
    reader = partial(_read, parts["test"].shape, user.encoding, kind, tokens)
    return Subject(net, _known(data, parts, classes, kind, user.encoding), reader)


def _known_of(
    about: Facts, data: Path | None, train: Path | None, label: str | None, root: str | None
) -> Known:
    """The data of a run, with others in place of its parts where they are given."""
    known = about.load(root)
    test = known.test if data is None else _named(of_run(about, data, label, "test"), data)
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
    kind, test = "image" if kind == "images" else "inputs", _named(parts["test"], data)
    train = parts.get("train")
    return Known(data.stem, train, test, classes, None, kind, features, None, encoding)


def _named(samples: Samples, path: Path) -> Samples:
    return samples.with_labels(samples.labels, path.stem)


def _as_fitted(user: UserData, part: str, facts: Fitted) -> Samples:
    """Known data as those that a detector was fitted on."""
    samples, kind = user.samples[part], user.kinds[part]
    if kind != facts.kind and len(facts.shape) == 3:
        fitted_on = f"{facts.kind}, which may be scaled otherwise; give both in the same way"
        where = user.paths[part]
        raise NescioError(f"{where} has {kind}, but the detector was fitted on {fitted_on}")
    samples = samples if facts.dtype == TOKEN_IDS else samples.floats()
    samples = adapt(samples, facts.shape) if kind == "images" else samples
    return numbered(samples, user.classes[part], facts.classes)


def _read(
    shape: tuple[int, ...], encoding: Encoding | None, kind: str | None, tokens: bool, path: str
) -> Samples:
    """Unknown inputs, read as `nescio score` reads new ones."""
    stream = Stream(Path(path), shape, encoding, READ_BATCH, kind=kind, tokens=tokens)
    x = torch.cat([x for *_, x in stream])
    return Samples(x, torch.full((len(x),), -1), name=Path(path).stem, tokens=tokens)
