"""All linear regions of a network in a window of the plane → a `Regions` record.

From region to region: half-planes cut each out of the window, and across the middle of each of its edges the next one
begins. No step has a length: on an edge, units that are 0 there choose as they would just beyond it.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import nn

from nescio.arrays import Array, as_array, is_array
from nescio.audit.affine.asymptote import exact
from nescio.audit.affine.polygons import WINDOW, centroid_of, cut_out, endless
from nescio.audit.affine.regions import laws_around
from nescio.audit.budget import Budget, budget_of
from nescio.data import Known
from nescio.errors import NescioError, check_float, check_int
from nescio.methods import as_method
from nescio.metrics.percent import percent
from nescio.progress import bar
from nescio.records import Cell, Points, Provenance, Regions

BATCH = 128  # points at a time
SEEDS = 8  # along each side of the window: many places to begin, so that batches are full
NEAR = 1e-12  # of the window's largest coordinate: what is nearer than this to a point is met there
FINE = (
    1e-6  # of it: the least that a side may measure, so that there is room for many such distances
)
SHOWN = 500  # training points kept


class CrowdedError(NescioError):
    """A window with more regions than allowed, or than there was time for."""


def regions_in(
    model: nn.Module,
    window: Any,
    known: Known | None = None,
    *,
    limit: int = 10_000,
    budget: float | Budget | None = None,
    progress: bool | None = None,
) -> Regions:
    """Every linear region of a network of two inputs in a window: its polygon, and whether it goes on for ever.

    Each polygon is a whole region within the window, no two overlap, and `covered` says which share of the window they
    fill; no region larger than the rest is missing. What is thinner than 10⁻¹² of the window's largest coordinate is
    passed over.

    Args:
        model: a method or a bare network as `local_affine` takes, of inputs `(N, 2)`.
        window: `((left, right), (bottom, top))`.
        known: data whose training points, classes and features are kept with the record.
        limit: regions there may be; more are an error.
        budget: seconds that it may take; if they are not enough, that is an error, too.
        progress: a bar on standard error; by default only on a terminal.
    """
    started = time.monotonic()
    sides, limit, time_left = _sides(window), check_int("limit", limit), budget_of(budget)
    points = None if known is None else _points(known)
    method = as_method(model)
    middle = torch.from_numpy(sides.mean(1))[None]
    with exact(model, middle) as double, bar(100, "regions", progress) as shown:
        fill = _Fill(double, sides, limit)
        while fill.frontier:
            fill.step()
            if time_left.left <= 0:
                raise CrowdedError(
                    f"{len(fill.cells)} linear regions, with {fill.covered}, were found when the budget "
                    "was spent; expected a longer one"
                )
            shown.at(int(100 * fill.area / fill.whole), 100, f"{len(fill.cells)} regions")
        logits = torch.from_numpy(np.array([one.logits(one.centroid) for one in fill.cells]))
        confidence = method.confidence(logits[None])
    cells = [
        Cell(_rows(one.corners), one.unbounded, int(label), float(sure))
        for one, label, sure in zip(fill.cells, logits.argmax(1), confidence, strict=True)
    ]
    return Regions(
        method=method.name,
        data=None if known is None else known.name,
        features=("", "") if known is None else known.features,
        classes=() if known is None else known.classes,
        window=_rows(sides),
        count=len(cells),
        unbounded=sum(one.unbounded for one in cells),
        covered=fill.area / fill.whole,
        cells=tuple(cells),
        boundary=tuple(_rows(segment) for one in fill.cells for segment in _ties(one)),
        points=points,
        provenance=Provenance.now(
            0, {"window": _rows(sides), "limit": limit}, time.monotonic() - started
        ),
    )


@dataclass(frozen=True)
class _Found:
    """A region in the window."""

    corners: Array  # (K, 2)
    centroid: Array
    unbounded: bool
    x: Array  # where its law was taken
    slope: Array  # (C, 2)
    value: Array  # (C,)

    def logits(self, z: Array) -> Array:
        """`(…, C)` at points `(…, 2)` within."""
        found: Array = (z - self.x) @ self.slope.T + self.value
        return found


class _Fill:
    """The regions found so far, and the points and directions from which to look for more."""

    def __init__(self, model: nn.Module, sides: Array, limit: int) -> None:
        self.model, self.sides, self.limit = model, sides, limit
        lengths = sides[:, 1] - sides[:, 0]
        self.whole, self.reach = float(lengths.prod()), NEAR * float(np.abs(sides).max())
        self.cells: list[_Found] = []
        self.area = 0.0
        self._seen: set[bytes] = set()
        shares = (np.arange(SEEDS) + 0.5) / SEEDS
        grid = np.stack(np.meshgrid(shares, shares), -1).reshape(-1, 2)
        askew = np.array([np.cos(1.0), np.sin(1.0)])
        self.frontier = [(sides[:, 0] + share * lengths, askew) for share in grid]

    def step(self) -> None:
        """Look from a batch of points of the frontier."""
        batch, self.frontier = self.frontier[-BATCH:], self.frontier[:-BATCH]
        x, toward = (torch.from_numpy(np.array(values)) for values in zip(*batch, strict=True))
        slope, value, (faces,) = laws_around(
            self.model, x, keep=True, toward=toward, reach=self.reach
        )
        first = {pattern: row for row, pattern in reversed(list(enumerate(faces.patterns())))}
        new = [row for pattern, row in first.items() if pattern not in self._seen]
        self._seen |= set(first)
        if new:
            margins, gradients = (values[new].numpy() for values in faces.faces())
            self._add(x[new].numpy(), margins, gradients, slope[new].numpy(), value[new].numpy())

    def _add(
        self, x: Array, margins: Array, gradients: Array, slopes: Array, values: Array
    ) -> None:
        """Take up the regions around some points, and the edges to go on from."""
        normals, offsets = _half_planes(x, margins, gradients)
        polygons = cut_out(self.sides, normals, offsets, self.reach / 10)
        areas, unbounded = polygons.areas(), endless(normals)
        for row in (
            (areas > self.reach * polygons.extents()).nonzero()[0].tolist()
        ):  # the others are points or lines
            corners, edges = polygons.one(row, self.reach)
            centroid = centroid_of(corners)
            self.cells.append(
                _Found(corners, centroid, bool(unbounded[row]), x[row], slopes[row], values[row])
            )
            self.area += float(areas[row])
            middles = (corners + np.roll(corners, -1, 0)) / 2
            inner = edges != WINDOW
            self.frontier += zip(middles[inner], normals[row, edges[inner]], strict=True)
        if len(self.cells) > self.limit:
            raise CrowdedError(
                f"more than {self.limit} linear regions, with {self.covered}; expected a smaller window "
                "or network, or a larger limit"
            )

    @property
    def covered(self) -> str:
        """How much of the window is done, in words."""
        return f"{percent(self.area / self.whole, 0)} of the window covered"


def _half_planes(x: Array, margins: Array, gradients: Array) -> tuple[Array, Array]:
    """Normals `(M, U, 2)` of length 1 and offsets `(M, U)` of all z where no function behind a choice is below 0."""
    length = np.linalg.norm(gradients, axis=2)
    real = length > 0
    length = np.where(real, length, 1.0)
    normals = -gradients / length[..., None]
    along = np.einsum("mud,md->mu", normals, x)
    return normals, np.where(real, margins / length + along, np.inf)


def _ties(one: _Found) -> Iterator[Array]:
    """Where two classes tie for the largest logit in a region: segments `(2, 2)`, exact as the logits are affine."""
    at_corners = one.logits(one.corners)
    if (at_corners == at_corners.max(1, keepdims=True)).all(0).any():
        return  # what is largest at all corners is largest throughout
    middle = one.logits(one.centroid)
    step = np.roll(one.corners, -1, 0) - one.corners
    walls = np.stack([step[:, 1], -step[:, 0]], 1)  # outward
    room = (walls * (one.corners - one.centroid)).sum(1)
    for a, b in combinations(range(len(middle)), 2):
        across = one.slope[a] - one.slope[b]
        if not across.any():
            continue
        nearest = (
            -across * (middle[a] - middle[b]) / (across @ across)
        )  # on the line, as seen from the middle
        along = np.array([-across[1], across[0]]) / np.linalg.norm(across)
        others = [c for c in range(len(middle)) if c not in (a, b)]
        normals = np.concatenate([walls, one.slope[others] - one.slope[a]])
        free = np.concatenate([room, middle[a] - middle[others]]) - normals @ nearest
        ends = _stretch(normals @ along, free)
        if ends[0] < ends[1]:
            yield one.centroid + nearest + np.array(ends)[:, None] * along


def _stretch(rates: Array, free: Array) -> tuple[float, float]:
    """From which t to which `rates · t ≤ free`; what is nowhere so begins after its end."""
    if (free[rates == 0] < 0).any():
        return np.inf, -np.inf
    up, down = rates > 0, rates < 0
    return (free[down] / rates[down]).max(initial=-np.inf), (free[up] / rates[up]).min(
        initial=np.inf
    )


def _sides(window: Any) -> Array:
    """`((left, right), (bottom, top))`, or an error if it is no window."""
    wrong = NescioError(
        f"window={window!r}; expected ((left, right), (bottom, top)), where right is beyond left and "
        "top above bottom"
    )
    try:
        (left, right), (bottom, top) = as_array(window).tolist() if is_array(window) else window
    except (TypeError, ValueError) as error:
        raise wrong from error
    ends = [
        check_float("an end of the window", end, least=-1e100) for end in (left, right, bottom, top)
    ]
    sides = np.array(ends).reshape(2, 2)
    if not (sides[:, 1] > sides[:, 0]).all():
        raise wrong
    if not (sides[:, 1] - sides[:, 0] > FINE * np.abs(sides).max()).all():
        raise NescioError(
            f"window={window!r} is too far from 0 for its size, or too narrow for its length; expected "
            f"sides longer than {FINE:g} of its largest coordinate"
        )
    return sides


def _points(known: Any) -> Points:
    """Training points at even steps through the data, so that sorted ones, too, show every class."""
    if not isinstance(known, Known) or known.shape != (2,) or known.train is None:
        raise NescioError(
            "known must be data of two features with a training part, as nescio.data.load returns"
        )
    chosen = np.unique(np.linspace(0, len(known.train) - 1, SHOWN).astype(int))
    inputs, labels = known.train.take(torch.from_numpy(chosen))
    x, y = inputs.double().T.tolist()
    return Points(tuple(x), tuple(y), tuple(labels.tolist()))


def _rows(values: Sequence[Any] | Array) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(value) for value in row) for row in values)
