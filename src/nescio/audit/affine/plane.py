"""All linear regions of a network in a window of the plane → a `Regions` record.

From region to region: half-planes cut each out of the window, and across the middle of each of its
edges the next one begins. No step has a length: on an edge, units that are 0 there choose as they
would just beyond it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import nn

from nescio.arrays import Array
from nescio.audit.affine.asymptote import float64_copy
from nescio.audit.affine.polygons import WINDOW_EDGE, centroid, cut_out, unbounded
from nescio.audit.affine.regions import laws_around
from nescio.audit.budget import Budget, as_budget
from nescio.audit.inputs import check_window
from nescio.data import Known
from nescio.errors import NescioError, check_int
from nescio.methods import as_method
from nescio.metrics.percent import percent
from nescio.progress import bar
from nescio.records import Cell, Points, Regions, Stopwatch

BATCH_POINTS = 128
GRID_SIDE = 8  # points along each side of the window to begin at, so that batches are full
NEAR = 1e-12  # of the window's largest coordinate: what is nearer than this to a point is met there
MIN_SIDE = 1e-6  # of it: the least length of a side, so that there is room for many such distances
MAX_TRAINING_POINTS = 500  # kept in the record


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
    """Find every linear region of a network of two inputs in a window, and whether it is unbounded.

    Each polygon is a whole region within the window, no two overlap, and `covered` is the fraction
    of the window they fill; no region larger than the rest is missing. Regions thinner than 10⁻¹²
    of the window's largest coordinate are left out.

    Args:
        model: a method or a bare network as `local_affine` takes, of inputs `(N, 2)`.
        window: `((left, right), (bottom, top))`.
        known: data whose training points, classes and features are kept with the record.
        limit: the most regions allowed; more are an error.
        budget: seconds allowed; it is an error if they are not enough.
        progress: as in `predict`.

    >>> record = regions_in(net, ((-10, 10), (-10, 10)), known)
    >>> record.covered > 0.999  # of the window
    True
    """
    stopwatch = Stopwatch()
    sides, limit, time_left = _check_sides(window), check_int("limit", limit), as_budget(budget)
    points = None if known is None else _training_points(known)
    method = as_method(model)
    middle = torch.from_numpy(sides.mean(1))[None]
    with float64_copy(model, middle) as double, bar(100, "regions", progress) as shown:
        fill = _Fill(double, sides, limit)
        while fill.frontier:
            fill.step()
            if time_left.left <= 0:
                reached = f"{len(fill.cells)} linear regions, with {fill.covered}, were found"
                raise CrowdedError(f"{reached} when the budget was spent; expected a longer one")
            shown.at(int(100 * fill.area / fill.window_area), 100, f"{len(fill.cells)} regions")
        logits = torch.from_numpy(np.array([cell.logits(cell.centroid) for cell in fill.cells]))
        confidence = method.confidence(logits[None])
    rows = zip(fill.cells, logits.argmax(1).tolist(), confidence.tolist(), strict=True)
    cells = tuple(Cell(_as_rows(c.corners), c.unbounded, label, sure) for c, label, sure in rows)
    settings = {"window": _as_rows(sides), "limit": limit}
    return Regions(
        method=method.name,
        data=None if known is None else known.name,
        features=("", "") if known is None else known.features,
        classes=() if known is None else known.classes,
        window=_as_rows(sides),
        count=len(cells),
        unbounded=sum(cell.unbounded for cell in cells),
        covered=fill.area / fill.window_area,
        cells=cells,
        boundary=tuple(_as_rows(segment) for cell in fill.cells for segment in _ties(cell)),
        points=points,
        provenance=stopwatch.provenance(0, settings),
    )


@dataclass(frozen=True)
class _PlaneRegion:
    """A region within the window."""

    corners: Array  # (K, 2)
    centroid: Array
    unbounded: bool
    x: Array  # where its law was taken
    slope: Array  # (C, 2)
    value: Array  # (C,)

    def logits(self, z: Array) -> Array:
        """Return logits `(…, C)` at points `(…, 2)` within."""
        logits: Array = (z - self.x) @ self.slope.T + self.value
        return logits


class _Fill:
    """The regions found so far, and the points and directions from which to look for more."""

    def __init__(self, model: nn.Module, sides: Array, limit: int) -> None:
        self.model, self.sides, self.limit = model, sides, limit
        lengths = sides[:, 1] - sides[:, 0]
        self.window_area = float(lengths.prod())
        self.reach = NEAR * float(np.abs(sides).max())
        self.cells: list[_PlaneRegion] = []
        self.area = 0.0
        self._patterns: set[bytes] = set()
        fractions = (np.arange(GRID_SIDE) + 0.5) / GRID_SIDE
        grid = np.stack(np.meshgrid(fractions, fractions), -1).reshape(-1, 2)
        askew = np.array([np.cos(1.0), np.sin(1.0)])
        self.frontier = [(sides[:, 0] + place * lengths, askew) for place in grid]

    def step(self) -> None:
        """Look from a batch of points of the frontier."""
        batch, self.frontier = self.frontier[-BATCH_POINTS:], self.frontier[:-BATCH_POINTS]
        x, toward = (torch.from_numpy(np.array(values)) for values in zip(*batch, strict=True))
        slope, value, (faces,) = laws_around(self.model, x, True, toward, self.reach)
        first = {pattern: row for row, pattern in reversed(list(enumerate(faces.patterns())))}
        new = [row for pattern, row in first.items() if pattern not in self._patterns]
        self._patterns |= set(first)
        if new:
            self._add(*(array[new].numpy() for array in (x, *faces.faces(), slope, value)))

    def _add(self, x: Array, margins: Array, gradients: Array, slope: Array, value: Array) -> None:
        """Add the regions around some points, and the edges to go on from."""
        normals, offsets = _half_planes(x, margins, gradients)
        polygons = cut_out(self.sides, normals, offsets, self.reach / 10)
        areas, endless = polygons.areas(), unbounded(normals)
        real = areas > self.reach * polygons.extents()  # the others are points or lines
        for row in real.nonzero()[0].tolist():
            corners, edges = polygons.polygon(row, self.reach)
            law = x[row], slope[row], value[row]
            self.cells.append(_PlaneRegion(corners, centroid(corners), bool(endless[row]), *law))
            self.area += float(areas[row])
            middles = (corners + np.roll(corners, -1, 0)) / 2
            inner = edges != WINDOW_EDGE
            self.frontier += zip(middles[inner], normals[row, edges[inner]], strict=True)
        if len(self.cells) > self.limit:
            got = f"more than {self.limit} linear regions, with {self.covered}"
            raise CrowdedError(f"{got}; expected a smaller window or network, or a larger limit")

    @property
    def covered(self) -> str:
        """How much of the window is done, in words."""
        return f"{percent(self.area / self.window_area, 0)} of the window covered"


def _half_planes(x: Array, margins: Array, gradients: Array) -> tuple[Array, Array]:
    """Return normals `(M, U, 2)` of length 1 and offsets `(M, U)` of where all choices hold."""
    length = np.linalg.norm(gradients, axis=2)
    real = length > 0
    length = np.where(real, length, 1.0)
    normals = -gradients / length[..., None]
    along = np.einsum("mud,md->mu", normals, x)
    return normals, np.where(real, margins / length + along, np.inf)


def _ties(cell: _PlaneRegion) -> Iterator[Array]:
    """Yield segments `(2, 2)` where two classes tie for the largest logit in a region, exactly."""
    at_corners = cell.logits(cell.corners)
    if (at_corners == at_corners.max(1, keepdims=True)).all(0).any():
        return  # what is largest at all corners is largest throughout
    middle = cell.logits(cell.centroid)
    step = np.roll(cell.corners, -1, 0) - cell.corners
    walls = np.stack([step[:, 1], -step[:, 0]], 1)  # outward
    room = (walls * (cell.corners - cell.centroid)).sum(1)
    for a, b in combinations(range(len(middle)), 2):
        across = cell.slope[a] - cell.slope[b]
        if not across.any():
            continue
        # the nearest point of the line, as seen from the middle
        nearest = -across * (middle[a] - middle[b]) / (across @ across)
        along = np.array([-across[1], across[0]]) / np.linalg.norm(across)
        others = [c for c in range(len(middle)) if c not in (a, b)]
        normals = np.concatenate([walls, cell.slope[others] - cell.slope[a]])
        free = np.concatenate([room, middle[a] - middle[others]]) - normals @ nearest
        first, last = _interval(normals @ along, free)
        if first < last:
            yield cell.centroid + nearest + np.array([first, last])[:, None] * along


def _interval(rates: Array, free: Array) -> tuple[float, float]:
    """Return the least and the largest t with `rates · t ≤ free`, (∞, −∞) without one."""
    if (free[rates == 0] < 0).any():
        return np.inf, -np.inf
    up, down = rates > 0, rates < 0
    first = (free[down] / rates[down]).max(initial=-np.inf)
    return first, (free[up] / rates[up]).min(initial=np.inf)


def _check_sides(window: Any) -> Array:
    """Return `((left, right), (bottom, top))`, wide enough for where it is, or raise an error."""
    sides = check_window(window)
    if not (sides[:, 1] - sides[:, 0] > MIN_SIDE * np.abs(sides).max()).all():
        problem = "is too far from 0 for its size, or too narrow for its length"
        expected = f"expected sides longer than {MIN_SIDE:g} of its largest coordinate"
        raise NescioError(f"window={window!r} {problem}; {expected}")
    return sides


def _training_points(known: Any) -> Points:
    """Return training points at even steps through the data, which may be sorted by class."""
    if not isinstance(known, Known) or known.shape != (2,) or known.train is None:
        expected = "data of two features with a training part, as nescio.data.load returns"
        raise NescioError(f"known must be {expected}")
    chosen = np.unique(np.linspace(0, len(known.train) - 1, MAX_TRAINING_POINTS).astype(int))
    inputs, labels = known.train.take(torch.from_numpy(chosen))
    x, y = inputs.double().T.tolist()
    return Points(tuple(x), tuple(y), tuple(labels.tolist()))


def _as_rows(values: Sequence[Any] | Array) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(value) for value in row) for row in values)
