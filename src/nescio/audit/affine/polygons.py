"""Many convex polygons at a time: cut out of a window by half-planes, and measured.

Half-planes are `normals · z ≤ offsets`, with normals `(M, U, 2)` of length 1, or 0 where there is
none and the offset is infinite.
"""

from dataclasses import dataclass

import numpy as np

from nescio.arrays import Array

WINDOW_EDGE = -1  # in place of a half-plane, for edges of the window
STRAIGHT_ANGLE = np.pi - 1e-12  # 180°, up to rounding


@dataclass(frozen=True)
class Polygons:
    """Corners `(M, K, 2)`, counter-clockwise, of which the first `counts` `(M,)` are real.

    `edges` `(M, K)` is the half-plane whose edge follows each corner.
    """

    corners: Array
    counts: Array
    edges: Array

    def real(self) -> Array:
        """Return which corners are real, `(M, K)`."""
        return np.arange(self.corners.shape[1]) < self.counts[:, None]

    def after(self) -> Array:
        """Return the position of the corner after each, `(M, K)`."""
        return (np.arange(self.corners.shape[1]) + 1) % np.maximum(self.counts, 1)[:, None]

    def following(self) -> Array:
        """Return the corner after each, `(M, K, 2)`."""
        return np.take_along_axis(self.corners, self.after()[..., None], 1)

    def areas(self) -> Array:
        """Return areas `(M,)`."""
        first = self.corners[:, :1]  # near which sums are exact
        triangles = _cross(self.corners - first, self.following() - first)
        areas: Array = (triangles * self.real()).sum(1) / 2
        return areas

    def extents(self) -> Array:
        """Return the longer side of a box around each, `(M,)`."""
        real = self.real()[..., None]
        high = self.corners.max(1, where=real, initial=-np.inf)
        low = self.corners.min(1, where=real, initial=np.inf)
        return np.where(self.counts > 0, (high - low).max(1), 0.0)

    def polygon(self, row: int, min_length: float) -> tuple[Array, Array]:
        """Return corners `(K, 2)` and edges `(K,)` of one polygon, without shorter edges."""
        count = self.counts[row]
        corners, edges = self.corners[row, :count], self.edges[row, :count]
        long = np.abs(np.roll(corners, -1, 0) - corners).max(1) >= min_length
        return corners[long], edges[long]


def cut_out(window: Array, normals: Array, offsets: Array, slack: float) -> Polygons:
    """Return what half-planes leave of a window `((left, right), (bottom, top))`, up to `slack`.

    In each round each polygon is cut by the half-plane that it juts out of farthest, so that only
    the few that matter are ever cut by.
    """
    (left, right), (bottom, top) = window
    start = np.array([(left, bottom), (right, bottom), (right, top), (left, top)])
    count, edges = len(normals), np.full((len(normals), 4), WINDOW_EDGE)
    polygons = Polygons(np.tile(start, (count, 1, 1)), np.full(count, 4), edges)
    for _ in range(normals.shape[1]):  # none cuts a polygon twice
        beyond = np.einsum("mkd,mud->mku", polygons.corners, normals) - offsets[:, None, :]
        farthest = np.where(polygons.real()[..., None], beyond, -np.inf).max(1)  # (M, U)
        worst = farthest.argmax(1)
        out = np.take_along_axis(farthest, worst[:, None], 1)[:, 0] > slack
        if not out.any():
            break
        by = np.take_along_axis(beyond, worst[:, None, None], 2)[..., 0]
        polygons = _cut(polygons, np.where(out[:, None], by, -1.0), worst)
    return polygons


def _cut(polygons: Polygons, beyond: Array, plane: Array) -> Polygons:
    """Cut off what lies beyond a half-plane of each, by how far each corner does `(M, K)`."""
    next_beyond = np.take_along_axis(beyond, polygons.after(), 1)
    inside, real = beyond <= 0, polygons.real()
    crosses = inside != (next_beyond <= 0)
    fraction = np.where(crosses, beyond, 0.0) / np.where(crosses, beyond - next_beyond, 1.0)
    step = polygons.following() - polygons.corners
    crossing = polygons.corners + fraction[..., None] * step
    # each corner, then the crossing on its edge; where one leaves, a new edge follows the crossing
    count = len(beyond)
    corners = np.stack([polygons.corners, crossing], 2).reshape(count, -1, 2)
    new_edges = np.where(inside, plane[:, None], polygons.edges)
    edges = np.stack([polygons.edges, new_edges], 2).reshape(count, -1)
    valid = np.stack([inside & real, crosses & real], 2).reshape(count, -1)
    counts = valid.sum(1)
    order = np.argsort(~valid, axis=1, kind="stable")[:, : max(1, counts.max())]
    corners = np.take_along_axis(corners, order[..., None], 1)
    return Polygons(corners, counts, np.take_along_axis(edges, order, 1))


def unbounded(normals: Array) -> Array:
    """Return whether half-planes with these normals leave a direction without an end, `(M,)`.

    They do exactly if all normals lie on one side: if there is an angle of 180° without one.
    """
    real = (normals != 0).any(2)
    angle = np.arctan2(normals[..., 1], normals[..., 0])
    least = angle.min(1, where=real, initial=np.pi)
    most = angle.max(1, where=real, initial=-np.pi)
    inner = np.diff(np.sort(np.where(real, angle, least[:, None]), 1), axis=1).max(1, initial=0.0)
    widest: Array = np.maximum(inner, 2 * np.pi - (most - least))
    return widest >= STRAIGHT_ANGLE


def centroid(corners: Array) -> Array:
    """Return the centroid `(2,)` of one polygon `(K, 2)`."""
    a = corners - corners[0]
    b = np.roll(a, -1, 0)
    triangles = _cross(a, b)
    middle: Array = corners[0] + (triangles @ (a + b)) / (3 * triangles.sum())
    return middle


def _cross(a: Array, b: Array) -> Array:
    """Return twice the areas of triangles with 0, `(…)`, of points `(…, 2)`."""
    area: Array = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    return area
