"""Methods made of kernels, which are provably unsure far from all of their centres."""

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from nescio.methods.method import Method


class KernelMethod(Method):
    """A method whose confidence falls to a floor as features move away from its centres.

    The floor is 0 where the confidence is a kernel and 1/K where it is a softmax over kernels (`confidence_kind`).
    Rays are given by the law of their features, `slope · t + intercept`, `(P, d)` both.
    """

    exact_reach: ClassVar[bool]  # whether `last_known` is tight; else it is only surely late enough

    @abstractmethod
    def kernel_features(self) -> nn.Module:
        """Return the map from raw inputs to the features `(N, d)` that kernels measure distances in."""

    @abstractmethod
    def last_known(
        self, slope: Tensor, intercept: Tensor, begin: Tensor, end: Tensor, eps: float
    ) -> Tensor:
        """Return the last t in each `[begin, end]` with a confidence `eps` or more above the floor, or −∞, `(P,)`."""

    @abstractmethod
    def limit_confidence(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Return the confidence as t → ∞, `(P,)`."""


def last_at_least(
    a: Tensor, b: Tensor, c: Tensor, level: float, begin: Tensor, end: Tensor
) -> Tensor:
    """Return the last t in each `[begin, end]` `(P,)` where one of `a t² + b t + c` `(P, C)` is ≥ `level`, or −∞.

    No a is above 0, and where one is 0 so is b.
    """
    begin, end = begin[:, None], end[:, None]
    excess = c - level
    falls = a < 0
    discriminant = b.square() - 4 * a * excess  # below 0 the parabola stays under the level
    root = discriminant.clamp(min=0).sqrt()
    # the larger of two roots of a parabola that opens downwards, in the form that does not cancel
    later = torch.where(b > 0, (b + root) / (-2 * a), 2 * excess / (root - b))
    earlier = torch.where(b > 0, -2 * excess / (b + root), (b - root) / (-2 * a))
    last = torch.where(falls & (discriminant >= 0), torch.minimum(later, end), -torch.inf)
    last = last.masked_fill(falls & (earlier > end), -torch.inf)
    last = torch.where(~falls & (excess >= 0), end.expand_as(a), last)
    return last.masked_fill(last < begin, -torch.inf).amax(1)


def last_within(slope: Tensor, intercept: Tensor, centres: Tensor, radius: float) -> Tensor:
    """Return the last t at which `slope · t + intercept` is within `radius` of a centre, or −∞, `(P,)`.

    `‖s t + b − c‖² = r²` has its later root at `h + √(h² − (‖b − c‖² − r²)/‖s‖²)`, with h the t of the nearest point.
    """
    length = slope.square().sum(1, keepdim=True)  # (P, 1)
    nearest = ((slope @ centres.T) - (slope * intercept).sum(1, keepdim=True)) / length  # (P, L)
    exact = "donot_use_mm_for_euclid_dist"
    distance = torch.cdist(intercept, centres, compute_mode=exact).square()
    inside = nearest.square() - (distance - radius**2) / length
    later = torch.where(inside >= 0, nearest + inside.clamp(min=0).sqrt(), -torch.inf).amax(1)
    return later.masked_fill(length.squeeze(1) == 0, torch.inf)
