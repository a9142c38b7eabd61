"""What a piecewise affine network does at infinity, exactly: its law on the last linear region of each ray."""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nescio.audit import rules as rules  # what laws go by
from nescio.audit.laws import Law, Rays, followed
from nescio.data.arrays import tensor
from nescio.errors import NescioError
from nescio.predict import check_inputs, run
from nescio.untouched import untouched

CHUNK = 256  # rays at a time


@dataclass(frozen=True)
class Asymptote:
    """The logits of a network along rays: for all `t ≥ start` they are `slope · t + intercept`.

    Attributes:
        slope, intercept: `(N, C)`.
        start: `(N,)`, from where on.
        winner: `(N,)`, the class it claims far away.
        limit: `(N, C)`, the probabilities at infinity; where the largest slopes tie, a softmax of their intercepts.
    """

    slope: Tensor
    intercept: Tensor
    start: Tensor
    winner: Tensor
    limit: Tensor

    def at(self, t: Tensor | float) -> Tensor:
        """The law's logits `(N, C)` at some t, one for all rays or one for each."""
        t = torch.as_tensor(t, dtype=self.slope.dtype)
        return self.slope * t.reshape(-1, 1) + self.intercept


def asymptote(model: nn.Module, x: Any, direction: Any, *, batch_size: int = CHUNK) -> Asymptote:
    """The exact law of a network along the rays `x + t · direction`, in one pass, in float64 and eval mode.

    Args:
        model: a network of linear, convolutional, pooling and ReLU-like layers, in any arrangement.
        x: where rays start, `(N, …)`.
        direction: where they go, `(N, …)`, or one `(…)` for all.
        batch_size: rays at a time.
    """
    x, direction = checked_rays(x, direction, model)
    with untouched(model), torch.no_grad():
        double = copy.deepcopy(model).double().eval().requires_grad_(False)
        pairs = zip(x.split(batch_size), direction.split(batch_size), strict=True)
        parts = [law_at(double, *pair, None) for pair in pairs]
    slope, intercept = torch.cat([s for s, _, _ in parts]), torch.cat([b for _, b, _ in parts])
    start = torch.cat([rays.since for _, _, rays in parts])
    most = slope.amax(1, keepdim=True)
    limit = intercept.masked_fill(slope < most, -torch.inf).softmax(1)
    return Asymptote(slope, intercept, start, limit.argmax(1), limit)


def law_at(model: nn.Module, x: Tensor, direction: Tensor, now: Tensor | None) -> tuple[Tensor, Tensor, Rays]:
    """Slope and intercept `(N, C)` of the logits just after the times `now` `(N,)`, or at infinity, and the rays."""
    rays = Rays(len(x), x, now)
    with followed(model, rays):
        found = run(model, Law(direction, x, rays))
    if not isinstance(found, Law):
        raise NescioError("what the model returns does not hang on its input")
    if found.dim() != 2 or len(found) != len(x):
        raise NescioError(f"the model must return logits (N, C) for N = {len(x)} inputs, not {tuple(found.shape)}")
    return found.slope, found.intercept, rays


def checked_rays(x: Any, direction: Any, model: nn.Module) -> tuple[Tensor, Tensor]:
    """Starts and directions `(N, …)` of rays in float64, or an error if they are none."""
    x, direction = tensor(x), tensor(direction)
    for given in (x, direction):
        check_inputs(given, model)
    if x.dim() < 2 or direction.shape not in (x.shape, x.shape[1:]):
        raise NescioError(f"directions of shape {tuple(direction.shape)} for starts of shape {tuple(x.shape)}; "
                          "expected starts (N, …), and a direction for each or one for all")  # fmt: skip
    direction = direction.expand(x.shape)
    if (direction == 0).flatten(1).all(1).any():
        raise NescioError("a direction of zeros leads nowhere")
    return x.double(), direction.double()
