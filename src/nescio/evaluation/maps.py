"""What a model says over the plane of a 2-D problem, far beyond its data → a `Map` record."""

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nescio.arrays import as_array, is_array
from nescio.core.input_gradients import check_finite, draws_and_classes, steepness
from nescio.core.predict import check_inputs
from nescio.data import Known
from nescio.errors import NescioError, check_float, check_int, unknown_name
from nescio.methods import METHODS, MCDropout, Method, as_method, method_for
from nescio.methods.mc_dropout import DROPOUT
from nescio.models import mlp
from nescio.records import History, Map, Points, Stopwatch, Surface
from nescio.scores import (
    OF_LOGITS,
    natural,
    natural_name,
    score_spec,
    score_specs,
    usual_scores,
)
from nescio.seeds import check_seed, derived_seed
from nescio.training.train import train as train_model

SHOWN = 500  # training points kept in a map
HIDDEN = (25, 25, 25)  # as in paper 1
# in the plane a few steps reach the edge of a ball; it is half a standard deviation wide each way, since with 0.3 the
# noise stays almost where CEDA's is, and with 1 it lies on the data
OWN: dict[str, dict[str, Any]] = {"acet": {"eps": 0.5, "steps": 3}}
MOST = 2000  # grid points along a side, four million in all


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
    """Scores and confidence over a square around the training data, and how steeply they change there.

    Scores are on the scale that papers plot (`nescio.scores.natural`). One pass, in float64, gives everything.

    Args:
        model: a method or a bare network, trained on inputs of two features.
        known: its data, of which the training part is shown.
        scores: names in `OF_LOGITS`, by default all. Those that compare draws are left out if the model gives only one.
        width: the side of the square, times the larger extent of the training data; their middle is its own.
        window: `((left, right), (bottom, top))`, to map just that instead of a square around the data.
        resolution: grid points along each side, at most 2000.
        batch_size, seed, progress: as in `predict`.
    """
    stopwatch = Stopwatch()
    inputs, labels = _training_part(known)
    x, y = _sides(inputs, width, resolution, window)
    method, specs = as_method(model), score_specs(scores, OF_LOGITS) or usual_scores(2)
    draws = _draws(method, known, inputs, seed)
    specs = [spec for spec in specs if draws > 1 or not spec.needs_draws]
    names = [str(spec) for spec in specs]

    def quantities(logits: Tensor) -> Tensor:
        return torch.stack(
            [*(natural(spec.name, spec(logits)) for spec in specs), method.confidence(logits)]
        )

    grid = torch.cartesian_prod(y, x).flip(1)  # (x, y), and x runs faster
    found = steepness(method, grid, quantities, batch_size=batch_size, seed=seed, progress=progress)
    check_finite([*names, "confidence"], *found)
    kinds = zip(
        [*names, "confidence"], *(rows.reshape(-1, len(y), len(x)) for rows in found), strict=True
    )
    *surfaces, confidence = (
        Surface(name, natural_name(name), _rows(v), _rows(norms)) for name, v, norms in kinds
    )
    where = {"width": width} if window is None else {"window": _ends(window)}
    settings = {"scores": names, **where, "resolution": resolution, "batch_size": batch_size}
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


def trained_map(
    method: str,
    known: Known,
    scores: Sequence[str] | None = None,
    *,
    epochs: int = 40,
    width: float = 4.0,
    resolution: int = 120,
    seed: int = 0,
    progress: bool | None = None,
) -> Map:
    """The map of a method in `METHODS`, which is trained first, on networks that suit a small problem in the plane.

    The provenance says how, and counts its time. Other arguments are those of `uncertainty_map` and of `fit`.
    """
    stopwatch = Stopwatch()
    if method not in METHODS:
        raise unknown_name("method", method, METHODS)
    _sides(_training_part(known)[0], width, resolution)  # what cannot be drawn is not trained for
    score_specs(scores, OF_LOGITS)
    model, history = small_model(method, known, epochs=epochs, seed=seed, progress=progress)
    found = uncertainty_map(
        model, known, scores, width=width, resolution=resolution, seed=seed, progress=progress
    )
    how = {"hidden": HIDDEN, "dropout": _dropout(method)} if model.on_network else {}
    more = {"own": OWN.get(method, {}), "training": history.provenance.settings}
    settings = found.provenance.settings | how | more
    return dataclasses.replace(found, provenance=stopwatch.provenance(seed, settings))


def small_model(
    method: str, known: Known, *, epochs: int = 40, seed: int = 0, progress: bool | None = None
) -> tuple[Method, History]:
    """A method in `METHODS` on networks that suit a small problem in the plane, trained, and how that went."""
    with torch.random.fork_rng():
        torch.manual_seed(derived_seed(check_seed(seed), "weights", 0))
        model = _fresh(method, known)
    assert known.train is not None  # noqa: S101 - as embedded sets have
    return model, train_model(
        model, known.train, epochs=epochs, batch_size=64, seed=seed, progress=progress
    )


def check_compared(methods: Sequence[str], scores: Sequence[str]) -> None:
    """An error if maps of these methods would have none of these scores, since all of them compare draws."""
    if (
        scores
        and all(score_spec(name).needs_draws for name in scores)
        and not any(METHODS[name].sampled for name in methods)
    ):
        drawing = ", ".join(name for name, kind in METHODS.items() if kind.sampled)
        raise NescioError(
            f"{', '.join(scores)}: this compares draws, but {', '.join(methods)} gives one; expected "
            f"another score ({', '.join(map(str, usual_scores(1)))}) or a method that draws ({drawing})"
        )


def _fresh(method: str, known: Known) -> Method:
    """A method on small networks for the plane, with fresh weights."""
    make = partial(mlp, 2, hidden=HIDDEN, dropout=_dropout(method))
    return method_for(method, make, len(known.classes), known.normalise, **OWN.get(method, {}))


def _dropout(method: str) -> float:
    return DROPOUT if method == MCDropout.name else 0.0


def _training_part(known: Any) -> tuple[Tensor, Tensor]:
    """Inputs `(N, 2)`, in float64, and labels of data that can be mapped, or the error that says why they cannot."""
    if not isinstance(known, Known):
        raise NescioError(
            f"a {type(known).__name__} was given for known data; expected what nescio.data.load returns"
        )
    if known.shape != (2,):
        raise NescioError(
            f"a map needs inputs of two features, but those of {known.name} have shape {known.shape}"
        )
    if known.train is None:
        raise NescioError(
            f"a map is drawn around training data, and {known.name} has only a test part"
        )
    inputs, labels = known.train.take(slice(None))
    check_inputs(inputs, nn.Identity())
    return inputs.double(), labels


def _draws(method: Method, known: Known, inputs: Tensor, seed: int) -> int:
    """How many draws the model gives, or an error if it knows other classes than the data have."""
    draws, classes = draws_and_classes(method, inputs[:16], seed=seed)
    if classes != len(known.classes):
        raise NescioError(
            f"the model returns logits of {classes} classes, but {known.name} has {len(known.classes)}: "
            f"{', '.join(known.classes)}"
        )
    return draws


def _sides(
    inputs: Tensor, width: Any, resolution: Any, window: Any = None
) -> tuple[Tensor, Tensor]:
    """The grid's coordinates along x and along y: those of a window, or a square `width` times as wide as the data."""
    resolution = check_int("resolution", resolution, least=2, below=MOST + 1)
    low, high = inputs.amin(0), inputs.amax(0)
    if window is None:
        half = check_float("width", width, least=1e-100) * (float((high - low).max()) or 1.0) / 2
        ends = [(c - half, c + half) for c in ((low + high) / 2).tolist()]
    else:
        ends = _ends(window)
    x, y = (torch.linspace(*pair, resolution, dtype=torch.float64) for pair in ends)
    if not all(
        (side.diff() > 0).all() for side in (x, y)
    ):  # nor are they with NaN, from a width beyond all numbers
        given = f"width={width!r}" if window is None else f"window={window!r}"
        raise NescioError(
            f"{given} gives no {resolution} distinct numbers along each side around data from "
            f"{low.tolist()} to {high.tolist()}"
        )
    return x, y


def _ends(window: Any) -> list[tuple[float, float]]:
    """Where the sides of a window begin and end, or an error if it is none."""
    wrong = NescioError(
        f"window={window!r}; expected ((left, right), (bottom, top)), where right is beyond left and "
        "top above bottom"
    )
    try:
        (left, right), (bottom, top) = as_array(window).tolist() if is_array(window) else window
    except (TypeError, ValueError) as error:
        raise wrong from error
    left, right, bottom, top = (
        check_float("an end of the window", end, least=-1e100) for end in (left, right, bottom, top)
    )
    if not (left < right and bottom < top):
        raise wrong
    return [(left, right), (bottom, top)]


def _points(inputs: Tensor, labels: Tensor) -> Points:
    """Training points at even steps through the data, so that sorted ones, too, show every class."""
    chosen = torch.linspace(0, len(inputs) - 1, min(SHOWN, len(inputs))).long()
    x, y = inputs[chosen].T.tolist()
    return Points(tuple(x), tuple(y), tuple(labels[chosen].tolist()))


def _rows(values: Tensor) -> tuple[tuple[float, ...], ...]:
    """Five significant digits of each value: all that an eye can use, and a small file."""
    return tuple(tuple(float(f"{value:.5g}") for value in row) for row in values.tolist())
