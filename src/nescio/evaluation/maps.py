"""What a model says over the plane of a 2-D problem → a `Map` record."""

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nescio.audit.inputs import check_window
from nescio.core.forward import check_inputs
from nescio.core.input_gradients import check_finite, draws_and_classes, quantity_gradients
from nescio.data import Known
from nescio.errors import NescioError, check_float, check_int, check_name
from nescio.methods import METHODS, Method, as_method, method_class, method_for
from nescio.models import mlp
from nescio.records import History, Map, Points, Stopwatch, Surface
from nescio.scores import OF_LOGITS, natural, natural_name, score_spec, score_specs, usual_scores
from nescio.scores.spec import ScoreSpec
from nescio.seeds import check_seed, derived_seed
from nescio.training.train import train as train_model

MAX_POINTS = 500  # training points kept in a map
HIDDEN = (25, 25, 25)  # as in paper 1
# in the plane a few steps reach the edge of a ball; with a radius of 0.3 standard deviations the
# noise stays almost where CEDA's is, and with 1 it lies on the data
METHOD_SETTINGS: dict[str, dict[str, Any]] = {"acet": {"eps": 0.5, "steps": 3}}
MAX_RESOLUTION = 2000  # grid points along a side, four million in all


def uncertainty_map(
    model: nn.Module,
    known: Known,
    scores: Sequence[str] | None = None,
    *,
    width: float = 4.0,
    window: Sequence[Sequence[float]] | None = None,
    resolution: int = 120,
    batch_size: int = 1024,
    seed: int = 0,
    progress: bool | None = None,
) -> Map:
    """Map scores, confidence and their gradients over a square around the training data.

    Scores are on the scale that papers plot (`nescio.scores.natural`).

    Args:
        model: a method or a bare network, trained on inputs of two features.
        known: its data, of which the training part is shown.
        scores: names of scores of logits, by default all.
        width: the side of the square, in units of the larger extent of the training data.
        window: `((left, right), (bottom, top))`, to map that instead of a square around the data.
        resolution: grid points along each side, at most 2000.
        batch_size, seed, progress: as in `predict`.

    >>> record = uncertainty_map(net, known, ["entropy"], resolution=20)
    >>> record.scores[0].label, len(record.x), len(record.y)
    ('entropy', 20, 20)
    """
    stopwatch = Stopwatch()
    inputs, labels = _training_part(known)
    (x, y), method = _sides(inputs, width, resolution, window), as_method(model)
    draws, specs = _draws(method, known, inputs, seed), score_specs(scores, OF_LOGITS)
    specs = [s for s in specs or usual_scores(2) if draws > 1 or not s.needs_draws]
    how: dict[str, Any] = {"batch_size": batch_size, "seed": seed, "progress": progress}
    *surfaces, confidence = _surfaces(method, specs, x, y, **how)
    names = [str(spec) for spec in specs]
    settings = {"scores": names, "resolution": resolution, "batch_size": batch_size}
    settings |= {"width": width} if window is None else {"window": check_window(window).tolist()}
    return Map(
        method=method.name,
        data=known.name,
        draws=draws,
        features=known.features,
        classes=known.classes,
        x=tuple(x.tolist()),
        y=tuple(y.tolist()),
        scores=tuple(surfaces),
        confidence=confidence,
        points=_points(inputs, labels),
        provenance=stopwatch.provenance(seed, settings),
    )


def _surfaces(
    method: Method, specs: Sequence[ScoreSpec], x: Tensor, y: Tensor, **how: Any
) -> list[Surface]:
    """Return the scores over a grid, then the confidence."""

    def quantities(logits: Tensor) -> Tensor:
        values = [natural(spec.name, spec(logits)) for spec in specs]
        return torch.stack([*values, method.confidence(logits)])

    grid = torch.cartesian_prod(y, x).flip(1)  # (x, y), and x runs faster
    found = quantity_gradients(method, grid, quantities, norms=True, **how)
    names = [*map(str, specs), "confidence"]
    check_finite(names, *found)
    grids = (rows.reshape(-1, len(y), len(x)) for rows in found)
    return [
        Surface(name, natural_name(name), _rows(values), _rows(norms))
        for name, values, norms in zip(names, *grids, strict=True)
    ]


def trained_map(
    method: str,
    known: Known,
    scores: Sequence[str] | None = None,
    *,
    epochs: int = 40,
    width: float = 4.0,
    resolution: int = 120,
    batch_size: int = 64,
    seed: int = 0,
    device: str = "cpu",
    progress: bool | None = None,
) -> Map:
    """Train a method on a small network for the plane, and map it.

    The provenance says how, and counts the training's time. Other arguments are those of
    `uncertainty_map` and of `train`.

    >>> trained_map("softmax", known, ["entropy"], epochs=1, resolution=10).method
    'softmax'
    """
    stopwatch = Stopwatch()
    check_name("method", method, METHODS)
    _sides(_training_part(known)[0], width, resolution)  # what cannot be drawn is not trained for
    score_specs(scores, OF_LOGITS)
    how: dict[str, Any] = {"seed": seed, "progress": progress}
    training: dict[str, Any] = {"epochs": epochs, "batch_size": batch_size, "device": device}
    model, history = small_model(method, known, **training, **how)
    record = uncertainty_map(model, known, scores, width=width, resolution=resolution, **how)
    network = {"hidden": HIDDEN, "dropout": model.default_dropout} if model.on_network else {}
    settings = METHOD_SETTINGS.get(method, {})
    more = {**network, "own": settings, "training": history.provenance.settings}
    provenance = stopwatch.provenance(seed, record.provenance.settings | more)
    return dataclasses.replace(record, provenance=provenance)


def small_model(
    method: str,
    known: Known,
    *,
    epochs: int = 40,
    batch_size: int = 64,
    seed: int = 0,
    device: str = "cpu",
    progress: bool | None = None,
) -> tuple[Method, History]:
    """Train a method in `METHODS` on small networks for the plane; return it and its history.

    >>> model, history = small_model("softmax", known, epochs=1)
    >>> type(model).__name__, history.steps
    ('Softmax', 16)
    """
    make = partial(mlp, 2, hidden=HIDDEN, dropout=method_class(method).default_dropout)
    settings = METHOD_SETTINGS.get(method, {})
    with torch.random.fork_rng():
        torch.manual_seed(derived_seed(check_seed(seed), "weights", 0))
        model = method_for(method, make, len(known.classes), known.normalise, **settings)
    assert known.train is not None  # noqa: S101 - as embedded sets have
    how: dict[str, Any] = {"batch_size": batch_size, "seed": seed, "progress": progress}
    return model, train_model(model.to(device), known.train, epochs=epochs, **how)


def check_compared(methods: Sequence[str], scores: Sequence[str]) -> None:
    """Raise an error if all scores compare draws, and no method has several."""
    comparing = bool(scores) and all(score_spec(name).needs_draws for name in scores)
    if comparing and not any(METHODS[name].sampled for name in methods):
        stochastic = ", ".join(name for name, kind in METHODS.items() if kind.sampled)
        problem = f"{', '.join(scores)} compares draws, but {', '.join(methods)} gives one"
        others = f"another score ({', '.join(map(str, usual_scores(1)))})"
        raise NescioError(f"{problem}; expected {others} or a stochastic method ({stochastic})")


def _training_part(known: Any) -> tuple[Tensor, Tensor]:
    """Inputs `(N, 2)`, in float64, and labels of data that can be mapped, or an error."""
    if not isinstance(known, Known):
        kind = type(known).__name__
        raise NescioError(f"known must be what nescio.data.load returns, got {kind}")
    if known.shape != (2,):
        got = f"those of {known.name} have shape {known.shape}"
        raise NescioError(f"a map needs inputs of two features; {got}")
    if known.train is None:
        raise NescioError(f"a map needs training data, and {known.name} has only a test part")
    inputs, labels = known.train.take(slice(None))
    check_inputs(inputs, nn.Identity())
    return inputs.double(), labels


def _draws(method: Method, known: Known, inputs: Tensor, seed: int) -> int:
    """How many draws the model gives, or an error if its classes are not those of the data."""
    draws, classes = draws_and_classes(method, inputs[:16], seed=seed)
    if classes != len(known.classes):
        expected = f"{known.name} has {len(known.classes)}: {', '.join(known.classes)}"
        raise NescioError(f"the model returns logits of {classes} classes, but {expected}")
    return draws


def _sides(
    inputs: Tensor, width: Any, resolution: Any, window: Any = None
) -> tuple[Tensor, Tensor]:
    """The grid's coordinates along x and along y: of a window, or of a square around the data."""
    resolution = check_int("resolution", resolution, least=2, below=MAX_RESOLUTION + 1)
    low, high = inputs.amin(0), inputs.amax(0)
    if window is None:
        half = check_float("width", width, least=1e-100) * (float((high - low).max()) or 1.0) / 2
        ends = [(c - half, c + half) for c in ((low + high) / 2).tolist()]
    else:
        ends = check_window(window).tolist()
    x, y = (torch.linspace(*pair, resolution, dtype=torch.float64) for pair in ends)
    if not all((side.diff() > 0).all() for side in (x, y)):  # as with NaN, from a huge width
        setting = f"width={width!r}" if window is None else f"window={window!r}"
        around = f"along each side around data from {low.tolist()} to {high.tolist()}"
        raise NescioError(f"{setting} gives no {resolution} distinct numbers {around}")
    return x, y


def _points(inputs: Tensor, labels: Tensor) -> Points:
    """Training points at even steps through the data, so that sorted ones show every class."""
    chosen = torch.linspace(0, len(inputs) - 1, min(MAX_POINTS, len(inputs))).long()
    x, y = inputs[chosen].T.tolist()
    return Points(tuple(x), tuple(y), tuple(labels[chosen].tolist()))


def _rows(values: Tensor) -> tuple[tuple[float, ...], ...]:
    """Five significant digits of each value: all that an eye can use, and a small file."""
    return tuple(tuple(float(f"{value:.5g}") for value in row) for row in values.tolist())
