"""Directions of features, scaled so that known inputs vary alike in all of them; also where they do not vary at all."""

import torch
from torch import Tensor

ROUNDING = torch.finfo(torch.float32).eps  # of features, whose variance is not known to more digits
PIECE = 512  # rows
TRIED = 8  # columns whose angles are looked at


def least_variance(covariance: Tensor, floor: float) -> float:
    """What a direction is taken to vary by at least: a share of the mean variance, or else what rounding hides.

    A unit that is never on for known inputs, or a direction that too few of them reach, varies by nothing, and a new
    input that does is odd. But to divide by next to nothing would leave no other evidence, so such directions count
    as this much. Without any variance there is no unit to measure in, and 1 does as well as another.
    """
    total = float(covariance.trace())
    return max(floor * total / len(covariance), ROUNDING * total) or 1.0


def whitened(rows: Tensor, centre: Tensor, factor: Tensor) -> Tensor:
    """Features `(B, F)` around a centre `(F,)`, times a factor `(F, G)`: `(B, G)` in the features' own precision.

    The product is most of the work, and features are not better known than that; halves are made singles.
    """
    rows = rows if rows.dtype == torch.float64 else rows.float()
    return (rows - centre.to(rows)) @ factor.to(rows)


def squares(rows: Tensor) -> Tensor:
    """The squared length of each row `(B, F)`: `(B,)` in float64."""
    # by pieces whose doubles stay in the cache, for as much new memory takes several times as long
    lengths = [
        torch.linalg.vector_norm(piece, dim=1, dtype=torch.float64)
        for piece in torch.split(rows, PIECE)
    ]
    return torch.cat(lengths).square()


def whitening(covariance: Tensor, least: float) -> tuple[Tensor, Tensor]:
    """A factor `(F, F)`, rows times which have unit covariance, and the logarithm of its determinant, `()`.

    >>> whitening(torch.diag(torch.tensor([4.0, 0.0])), least=0.25)[0].abs()
    tensor([[0.0000, 0.5000],
            [2.0000, 0.0000]])
    """
    variance, vectors = torch.linalg.eigh(covariance)
    variance = variance.clamp(min=least)
    return (vectors * variance.rsqrt()).contiguous(), -variance.log().sum() / 2


def is_whitening(factor: Tensor) -> bool:
    """Whether a factor `(…, F, F)` may have come from `whitening`: columns at right angles, the longest first.

    >>> found, _ = whitening(torch.tensor([[4.0, 1.0], [1.0, 1.0]]), least=0.25)
    >>> is_whitening(found), is_whitening(found.T)
    (True, False)
    """
    columns = factor.double().mT  # (…, F, F)
    lengths = torch.linalg.vector_norm(columns, dim=-1)
    units = (columns / lengths[..., None])[..., :TRIED, :]
    angles = units @ units.mT - torch.eye(units.shape[-2], dtype=units.dtype)
    ordered = lengths.diff(dim=-1) <= ROUNDING * lengths[..., 1:]
    return bool((angles.abs() < ROUNDING).all() and ordered.all())
