"""Methods made of kernels, which are provably unsure far from all of their centres."""

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from nescio.methods.method import Method

EXACT = "donot_use_mm_for_euclid_dist"
MAX_PRODUCT_EXTENT = 1e5  # of γ × a squared extent, above which a matrix product is too coarse
FAR = 1e15  # no kernel reaches so far, and squares of it are still finite


class KernelMethod(Method):
    """A method whose confidence falls to a floor as features move away from its centres.

    The floor is 0 where the confidence is a kernel and 1/K where it is a softmax over kernels
    (`confidence_kind`). Rays are given by the law of their features, `slope · t + intercept`,
    `(P, d)` both.

    >>> issubclass(nescio.methods.DUQ, KernelMethod), issubclass(nescio.methods.CEDA, KernelMethod)
    (True, False)
    """

    on_features = True
    exact_reach: ClassVar[bool]  # whether `last_known` is tight; else it is only surely late enough

    def kernels(self) -> "KernelMethod":
        return self

    def kernel_features(self) -> nn.Module:
        """Return the map from raw inputs to the features `(N, d)` that kernels are of."""
        return _Features(self.normalise, self.net)

    @abstractmethod
    def last_known(
        self, slope: Tensor, intercept: Tensor, begin: Tensor, end: Tensor, eps: float
    ) -> Tensor:
        """Return the last t in each `[begin, end]` with confidence > floor + `eps`, or −∞."""

    @abstractmethod
    def limit_confidence(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Return the confidence as t → ∞, `(P,)`."""


class _Features(nn.Sequential):
    on_features = True  # so that a single one is not taken for a logit


def squared_distances(x: Tensor, centres: Tensor, gamma: float = 0.0) -> Tensor:
    """Return `‖x − c‖²`, `(N, L)` in float64, by one matrix product if that suits γ.

    A product has rounding errors of the squared extent of the centres, measured from their middle;
    where γ makes them matter, each difference is computed by itself.
    """
    x, centres = x.double(), centres.double()
    middle = centres.mean(0)
    x, centres = (x - middle).clamp(-FAR, FAR), centres - middle
    squares = centres.square().sum(1)
    if gamma * float(squares.detach().amax()) > MAX_PRODUCT_EXTENT:
        return torch.cdist(x, centres, compute_mode=EXACT).square()
    return (x.square().sum(1, keepdim=True) + squares - 2 * x @ centres.T).clamp(min=0)


def last_at_least(
    a: Tensor, b: Tensor, c: Tensor, level: float, begin: Tensor, end: Tensor
) -> Tensor:
    """Return the last t in each `[begin, end]` where one of `a t² + b t + c` `(P, C)` is ≥ `level`.

    −∞ where there is none. No a is above 0, and where one is 0 so is b.
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
    """Return the last t at which `slope · t + intercept` is within `radius` of a centre, or −∞.

    `‖s t + b − c‖² = r²` has its later root at `h + √(h² − (‖b − c‖² − r²)/‖s‖²)`, with h the t of
    the nearest point.
    """
    length = slope.square().sum(1, keepdim=True)  # (P, 1)
    nearest = ((slope @ centres.T) - (slope * intercept).sum(1, keepdim=True)) / length  # (P, L)
    distance = torch.cdist(intercept, centres, compute_mode=EXACT).square()
    inside = nearest.square() - (distance - radius**2) / length
    later = torch.where(inside >= 0, nearest + inside.clamp(min=0).sqrt(), -torch.inf).amax(1)
    return later.masked_fill(length.squeeze(1) == 0, torch.inf)
