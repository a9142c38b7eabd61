"""Records: frozen results as plain data, JSON in and out. Reports are made from these alone."""

import dataclasses
import json
import math
import os
import platform
import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Self

from nescio.atomic import replacing
from nescio.errors import NescioError

FORMAT = 1


@dataclass(frozen=True)
class Record:
    """A frozen result. Subclasses are dataclasses of plain values, tuples and other frozen dataclasses."""

    def to_json(self) -> str:
        """The record as JSON text; what is undefined is null, and nothing in it is NaN or infinite."""
        body = {"record": type(self).__name__, "format": FORMAT, **to_plain(self)}
        return json.dumps(body, indent=1, allow_nan=False, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The record in a JSON text, checked field by field."""
        try:
            body = json.loads(text, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise NescioError(f"not a {cls.__name__} record: no JSON ({error})") from error
        if not isinstance(body, dict) or body.pop("record", None) != cls.__name__:
            raise NescioError(f"not a {cls.__name__} record")
        if (version := body.pop("format", None)) != FORMAT:
            raise NescioError(
                f"{cls.__name__} record of format {version!r}; this version of nescio reads format {FORMAT}"
            )
        made: Self = from_plain(cls, body, cls.__name__)
        return made

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the record; the file is whole or not there."""
        text = self.to_json()
        with replacing(path, "w") as file:
            file.write(text + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a record back."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise NescioError(f"cannot read {os.fspath(path)!r}: {error}") from error
        try:
            return cls.from_json(text)
        except NescioError as error:
            raise NescioError(f"{os.fspath(path)!r}: {error}") from error


@dataclass(frozen=True)
class Provenance:
    """Where a record comes from: enough to make it again."""

    seed: int
    settings: dict[str, Any]
    seconds: float
    versions: dict[str, str]

    PACKAGES: ClassVar = ("nescio", "torch", "numpy", "scikit-learn")

    @classmethod
    def now(cls, seed: int, settings: dict[str, Any], seconds: float) -> Self:
        """Provenance of work just done, with the versions of what did it."""
        versions = {"python": platform.python_version()}
        for package in cls.PACKAGES:
            try:
                versions[package] = metadata.version(package)
            except metadata.PackageNotFoundError:  # run from a source tree
                versions[package] = "unknown"
        return cls(seed, to_plain(settings), seconds, versions)


@dataclass(frozen=True)
class Epoch:
    """One pass over the training data; validation figures are None without a validation set."""

    epoch: int
    loss: float
    accuracy: float
    validation_loss: float | None
    validation_accuracy: float | None
    learning_rate: float
    seconds: float


@dataclass(frozen=True)
class History(Record):
    """What a training run went through, and why it ended.

    Of members trained one after the other, `epochs` are the means, over those that got so far, and `members` tell more.
    """

    method: str
    epochs: tuple[Epoch, ...]
    steps: int
    best_epoch: int | None
    stopped_early: bool
    provenance: Provenance
    members: tuple["History", ...] = ()

    @classmethod
    def together(cls, members: Sequence["History"], seed: int) -> "History":
        """The history of an ensemble whose members were trained one after the other."""
        longest = max(len(member.epochs) for member in members)
        epochs = [[member.epochs[i] for member in members if i < len(member.epochs)] for i in range(longest)]
        first = members[0].provenance
        seconds = sum(member.provenance.seconds for member in members)
        origin = Provenance(seed, {**first.settings, "seed": seed}, seconds, first.versions)
        stopped = any(member.stopped_early for member in members)
        steps = sum(member.steps for member in members)
        return cls(members[0].method, tuple(map(_mean_epoch, epochs)), steps, None, stopped, origin, tuple(members))


@dataclass(frozen=True)
class Separation:
    """How well a score tells known from unknown; larger score = less known. Undefined figures are None."""

    score: str
    auroc: float | None
    aupr_in: float | None
    aupr_out: float | None
    fpr95: float | None


@dataclass(frozen=True)
class Rejection:
    """Accuracy of what is kept when the least known share is rejected; unknown inputs always count as wrong."""

    score: str
    rejected: tuple[float, ...]
    accuracy: tuple[float, ...]
    maximum: tuple[float, ...]  # of a perfect model that rejects every unknown input first
    area: float
    maximum_area: float


@dataclass(frozen=True)
class Histogram:
    """How many inputs of each set fall between the edges of a score."""

    score: str
    edges: tuple[float, ...]
    counts: dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class KnownSide:
    """The model on data of the kinds it was trained on."""

    name: str
    inputs: int
    accuracy: float
    mmc: float
    nll: float
    brier: float
    ece: float
    misclassification: tuple[Separation, ...]  # correct against wrong
    rejection: tuple[Rejection, ...]


@dataclass(frozen=True)
class UnknownSide:
    """The model on data it should not know."""

    name: str
    inputs: int
    mmc: float
    separation: tuple[Separation, ...]
    rejection: tuple[Rejection, ...]


@dataclass(frozen=True)
class Evaluation(Record):
    """A model or detector on known data and on named sets of unknown data."""

    method: str
    score: str  # the one the method is paired with
    classes: int
    draws: int
    known: KnownSide
    unknown: tuple[UnknownSide, ...]
    histograms: tuple[Histogram, ...]
    provenance: Provenance


@dataclass(frozen=True)
class Gauge:
    """A score, what it is on its natural scale, and the threshold that accepts 95 % of the inputs as they are."""

    score: str
    label: str
    threshold: float


@dataclass(frozen=True)
class Course:
    """A score and its gradient in x, factor by factor, over the inputs that move."""

    score: str
    mean: tuple[float, ...]
    gradient_mean: tuple[float, ...]  # of ‖∇ₓ score‖₂
    gradient_largest: tuple[float, ...]
    flagged: tuple[float, ...]  # share of the inputs above the threshold
    notices: bool  # whether at least half are flagged at the largest factor


@dataclass(frozen=True)
class Direction:
    """Inputs moved along one feature, or along the rays from 0 through each of them; figures are None if none moves."""

    name: str
    feature: int | None  # its position in the flattened input; None for rays
    moved: int  # inputs that are not 0 there, and so can be moved by a factor
    certain_from: float | None  # from here on the median input's confidence exceeds 99.9 %; None if it never does
    confidence: tuple[float, ...] | None  # mean, factor by factor
    median_confidence: tuple[float, ...] | None
    scores: tuple[Course, ...] | None


@dataclass(frozen=True)
class Scaling(Record):
    """What a model's confidence and scores do as inputs are scaled by growing factors."""

    method: str
    inputs: int
    classes: int
    draws: int
    factors: tuple[float, ...]
    gauges: tuple[Gauge, ...]
    directions: tuple[Direction, ...]
    provenance: Provenance


@dataclass(frozen=True)
class CounterExample:
    """Why a model is not strictly monotonic: one point without a slope, or two points with slopes of opposite sign."""

    feature: int  # its position in the flattened input
    label: int  # the class
    points: tuple[tuple[float, ...], ...]  # flattened inputs
    slopes: tuple[float, ...]  # one for each point


@dataclass(frozen=True)
class Monotonicity(Record):
    """Whether each class's probability was seen to change in one direction only along each feature of a box."""

    method: str
    classes: int
    draws: int
    low: tuple[float | None, ...]  # flattened; None where the box has no bound
    high: tuple[float | None, ...]
    partially_unbounded: bool
    points: int
    features: tuple[int, ...]  # those looked at
    signs: tuple[tuple[int, ...], ...]  # of each feature × class: +1 rising, −1 falling, 0 not seen to be strictly so
    monotone_features: tuple[int, ...]
    monotone: bool
    counter_example: CounterExample | None
    provenance: Provenance


@dataclass(frozen=True)
class Surface:
    """A quantity over the grid of a map and the norm of its gradient, to five digits; `[i][j]` is at `(x[j], y[i])`."""

    name: str  # a score, or "confidence"
    label: str  # what it is on the scale it is given on
    values: tuple[tuple[float, ...], ...]
    slopes: tuple[tuple[float, ...], ...]  # ‖∇ₓ value‖₂, which dies away where a model saturates


@dataclass(frozen=True)
class Points:
    """Training points in the plane, with the numbers of their classes."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    labels: tuple[int, ...]


@dataclass(frozen=True)
class Map(Record):
    """What a model says over the plane, around its training data and far beyond."""

    method: str
    data: str
    draws: int
    features: tuple[str, ...]  # names of the two axes
    classes: tuple[str, ...]
    x: tuple[float, ...]
    y: tuple[float, ...]
    scores: tuple[Surface, ...]  # those that compare draws only if there are several
    confidence: Surface
    points: Points
    provenance: Provenance


def _mean_epoch(epochs: Sequence[Epoch]) -> Epoch:
    def mean(name: str) -> Any:
        values = [getattr(epoch, name) for epoch in epochs]
        return None if None in values else sum(values) / len(values)

    averaged = {field.name: mean(field.name) for field in dataclasses.fields(Epoch)}
    return Epoch(**averaged | {"epoch": epochs[0].epoch, "seconds": sum(epoch.seconds for epoch in epochs)})


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def to_plain(value: Any) -> Any:
    """Dataclasses, tuples and dicts as what JSON knows."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Integral):  # numpy's too, as are the reals
        return int(value)
    if not isinstance(value, Real):
        raise NescioError(f"a {type(value).__name__} cannot be kept as plain data: {value!r}")
    if not math.isfinite(value):
        raise NescioError("a record holds NaN or an infinity; what is undefined should be None")
    return float(value)


def from_plain(kind: Any, value: Any, where: str) -> Any:
    """A value of the annotated kind, or an error naming the field."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        names = [field.name for field in dataclasses.fields(kind)]
        if not isinstance(value, dict) or set(value) != set(names):
            raise NescioError(f"{where}: expected the fields {', '.join(names)}")
        return kind(**{name: from_plain(hints[name], value[name], f"{where}.{name}") for name in names})  # type: ignore[operator]
    if origin in (typing.Union, types.UnionType):
        return None if value is None else from_plain(next(k for k in inner if k is not type(None)), value, where)
    if origin is tuple and isinstance(value, list):
        return tuple(from_plain(inner[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if origin is dict and isinstance(value, dict):
        return {key: from_plain(inner[1], item, f"{where}[{key!r}]") for key, item in value.items()}
    if kind is Any:
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(kind, type) and isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    raise NescioError(f"{where}: expected {kind}, not {value!r}")
