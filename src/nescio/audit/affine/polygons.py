"""Many convex polygons at a time: cut out of a window by half-planes, measured, and asked whether they end.

Polygons are `(M, K, 2)` corners, counter-clockwise, of which the first `counts` `(M,)` are real. Half-planes are
`normals · z ≤ offsets`, with normals `(M, U, 2)` of length 1, or 0 where there is none and the offset is infinite.
"""

from dataclasses import dataclass

import numpy as np

from nescio.arrays import Array

WINDOW = -1  # the half-plane of an edge that is the window's
STRAIGHT = np.pi - 1e-12  # an angle that is two right ones, up to rounding


@dataclass(frozen=True)
class Polygons:
    """Corners `(M, K, 2)`, how many are real `(M,)`, and of which half-plane the edge after each is `(M, K)`."""

    corners: Array
    counts: Array
    edges: Array

    def real(self) -> Array:
        """Which corners are real, `(M, K)`."""
        return np.arange(self.corners.shape[1]) < self.counts[:, None]

    def following(self) -> Array:
        """The corner after each, `(M, K, 2)`."""
        after = (np.arange(self.corners.shape[1]) + 1) % np.maximum(self.counts, 1)[:, None]
        return np.take_along_axis(self.corners, after[..., None], 1)

    def areas(self) -> Array:
        """`(M,)`."""
        a, b = (
            ends - self.corners[:, :1] for ends in (self.corners, self.following())
        )  # near 0, where sums are exact
        crossed = (
            a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
        )  # twice the areas of triangles at the first corner
        areas: Array = (crossed * self.real()).sum(1) / 2
        return areas

    def extents(self) -> Array:
        """The longer side of a box around each, `(M,)`."""
        real = self.real()[..., None]
        high = self.corners.max(1, where=real, initial=-np.inf)
        low = self.corners.min(1, where=real, initial=np.inf)
        return np.where(self.counts > 0, (high - low).max(1), 0.0)

    def one(self, row: int, least: float) -> tuple[Array, Array]:
        """Corners `(K, 2)` and edges `(K,)` of one polygon, without edges that are not even `least` long."""
        count = self.counts[row]
        corners, edges = self.corners[row, :count], self.edges[row, :count]
        long = np.abs(np.roll(corners, -1, 0) - corners).max(1) >= least
        return corners[long], edges[long]


def cut_out(window: Array, normals: Array, offsets: Array, slack: float) -> Polygons:
    """What half-planes leave of a window `((left, right), (bottom, top))`, up to a distance of `slack`.

    In each round each polygon is cut by the half-plane that it juts out of farthest, so that only the few that matter
    are ever cut by.
    """
    (left, right), (bottom, top) = window
    start = np.array([(left, bottom), (right, bottom), (right, top), (left, top)])
    many = len(normals)
    found = Polygons(np.tile(start, (many, 1, 1)), np.full(many, 4), np.full((many, 4), WINDOW))
    for _ in range(normals.shape[1]):  # none cuts a polygon twice
        beyond = np.einsum("mkd,mud->mku", found.corners, normals) - offsets[:, None, :]
        farthest = np.where(found.real()[..., None], beyond, -np.inf).max(1)  # (M, U)
        worst = farthest.argmax(1)
        out = np.take_along_axis(farthest, worst[:, None], 1)[:, 0] > slack
        if not out.any():
            break
        by = np.take_along_axis(beyond, worst[:, None, None], 2)[..., 0]
        found = _cut(found, np.where(out[:, None], by, -1.0), worst)
    return found


def _cut(given: Polygons, beyond: Array, plane: Array) -> Polygons:
    """Each polygon without what lies beyond its half-plane, by how far each corner does `(M, K)`."""
    after = (np.arange(beyond.shape[1]) + 1) % np.maximum(given.counts, 1)[:, None]
    next_beyond = np.take_along_axis(beyond, after, 1)
    inside, next_inside = beyond <= 0, next_beyond <= 0
    crosses = inside != next_inside
    share = np.where(crosses, beyond, 0.0) / np.where(crosses, beyond - next_beyond, 1.0)
    crossing = given.corners + share[..., None] * (given.following() - given.corners)
    real = given.real()
    # each corner, then the crossing on the edge after it; where one leaves, the edge after that is the half-plane's
    many = len(beyond)
    corners = np.stack([given.corners, crossing], 2).reshape(many, -1, 2)
    edges = np.stack([given.edges, np.where(inside, plane[:, None], given.edges)], 2).reshape(
        many, -1
    )
    kept = np.stack([inside & real, crosses & real], 2).reshape(many, -1)
    counts = kept.sum(1)
    order = np.argsort(~kept, axis=1, kind="stable")[:, : max(1, counts.max())]
    return Polygons(
        np.take_along_axis(corners, order[..., None], 1),
        counts,
        np.take_along_axis(edges, order, 1),
    )


def endless(normals: Array) -> Array:
    """Whether half-planes with these normals leave a direction to go in for ever, `(M,)`.

    They do exactly if all normals lie on one side: if there is an angle of at least 180° without one.
    """
    real = (normals != 0).any(2)
    angle = np.arctan2(normals[..., 1], normals[..., 0])
    least = angle.min(1, where=real, initial=np.pi)
    most = angle.max(1, where=real, initial=-np.pi)
    inner = np.diff(np.sort(np.where(real, angle, least[:, None]), 1), axis=1).max(1, initial=0.0)
    open_ended: Array = (inner >= STRAIGHT) | (2 * np.pi - (most - least) >= STRAIGHT)
    return open_ended


def centroid_of(corners: Array) -> Array:
    """The middle `(2,)` of the area of one polygon `(K, 2)`."""
    a = corners - corners[0]
    b = np.roll(a, -1, 0)
    crossed = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
    found: Array = corners[0] + (crossed @ (a + b)) / (3 * crossed.sum())
    return found
