"""What a piecewise affine network does at infinity, exactly: its law on the last linear region of each ray."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from nescio.arrays import is_array
from nescio.audit.affine import rules as rules  # what laws go by
from nescio.audit.affine.laws import Law, NotAffineError, Rays, followed, leading
from nescio.core.forward import check_inputs, run
from nescio.core.model_state import M, check_model, check_values, deep_copy
from nescio.core.random_streams import from_seed
from nescio.core.replica import isolate
from nescio.data.arrays import tensor
from nescio.errors import NescioError, check_float, check_int
from nescio.methods import KernelMethod
from nescio.progress import bar
from nescio.seeds import check_seed

TOGETHER = 2**17  # numbers of inputs that are followed at a time
AGREES = 1e-8  # of the largest logit, in which a law and its network may differ


@dataclass(frozen=True)
class Asymptote:
    """The logits of a network along rays: for all `t ≥ start` they are `slope · t + intercept`.

    Attributes:
        slope, intercept: `(N, C)`; of a model with several draws `(S, N, C)`.
        start: `(N,)`, from where on, in all draws.
        winner: `(N,)`, the class it claims far away.
        limit: `(N, C)`, the probabilities at infinity, the mean over draws; where the largest slopes of one tie, a
            softmax of their intercepts.
    """

    slope: Tensor
    intercept: Tensor
    start: Tensor
    winner: Tensor
    limit: Tensor

    def at(self, t: Tensor | float) -> Tensor:
        """The law's logits, shaped as its slope, at some t, one for all rays or one for each."""
        t = tensor(t if is_array(t) else np.float64(check_float("t", t, -1e300, 1e300))).to(
            self.slope.dtype
        )
        if t.numel() not in (1, len(self.start)):
            raise NescioError(
                f"{t.numel()} t for {len(self.start)} rays; expected one for all, or one for each"
            )
        return self.slope * t.reshape(-1, 1) + self.intercept

    @property
    def certain(self) -> Tensor:
        """Whether the confidence tends to 1, `(N,)`: one class is steepest, by more than rounding, in all draws alike.

        Of classes that tie a softmax may round to 1, too; it does not tend to it.
        """
        ahead = leading(self.slope if self.slope.dim() == 3 else self.slope[None])  # (S, N, C)
        return (ahead.sum(2) == 1).all(0) & (ahead == ahead[:1]).all(2).all(0)


def asymptote(
    model: nn.Module,
    x: Any,
    direction: Any,
    *,
    batch_size: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Asymptote:
    """The exact law of a network along the rays `x + t · direction`, in one pass, in float64 and eval mode.

    Args:
        model: a network of linear, convolutional, pooling and ReLU-like layers, in any arrangement, or a method over
            such networks; one with several draws has a law for each.
        x: where rays start, `(N, …)`.
        direction: where they go, `(N, …)`, or one `(…)` for all.
        batch_size: rays at a time; by default as many as their size suggests.
        seed: of the draws, as in `predict`.
        progress: a bar on standard error; by default only on a terminal.
    """
    x, direction = checked_rays(x, direction, model)
    check_seed(seed)
    size, parts = chunk(x, batch_size), []
    with exact(model, x) as double, bar(len(x), "asymptote", progress) as shown:
        for pair in zip(x.split(size), direction.split(size), strict=True):
            parts.append(law_at(double, *pair, None, seed))
            slope, intercept, rays = parts[-1]
            check_law(double, *pair, slope, intercept, 1.01 * rays.since, seed)
            shown.advance(len(pair[0]))
    slope, intercept = (
        torch.cat([s for s, _, _ in parts], -2),
        torch.cat([b for _, b, _ in parts], -2),
    )
    start = torch.cat([rays.since for _, _, rays in parts])
    limit = intercept.masked_fill(~leading(slope), -torch.inf).softmax(-1)
    limit = limit.mean(0) if limit.dim() == 3 else limit
    return Asymptote(slope, intercept, start, limit.argmax(1), limit)


def chunk(x: Tensor, batch_size: int | None) -> int:
    """How many rays to follow at a time: those asked for, or between 16 and 4096, fewer of larger inputs.

    >>> chunk(torch.zeros(9, 3, 32, 32), None)
    42
    """
    return check_int(
        "batch_size",
        max(16, min(4096, TOGETHER // x[0].numel())) if batch_size is None else batch_size,
    )


@contextmanager
def audited(model: M, level: int = 4) -> Iterator[M]:
    """Yield a model in eval mode, as `isolate` does; warn if its BatchNorm went by its batch until now."""
    check_model(model)
    if any(isinstance(module, _NormBase) and module.training for module in model.modules()):
        warnings.warn(
            "the model is in train mode and has BatchNorm; it is audited in eval mode, as it predicts",
            stacklevel=level,
        )
    with isolate(model) as own:
        yield own


@contextmanager
def exact(model: M, x: Tensor) -> Iterator[M]:
    """A copy of the model to push laws through: in float64 and eval mode, and seen to run on such inputs."""
    if isinstance(model, KernelMethod):
        raise NescioError(
            f"the kernels of {type(model).__name__} are not affine far away; nescio.audit.unknown_from "
            "tells from where on they say that they do not know"
        )
    with audited(model, level=6) as own, torch.no_grad():
        double = deep_copy(own).double().eval().requires_grad_(False)
        from_seed(0, lambda: run(double, x[:1].clone()), double)
        yield double


def law_at(
    model: nn.Module,
    x: Tensor,
    direction: Tensor,
    now: Tensor | None,
    seed: int = 0,
    kind: type[Rays] = Rays,
) -> tuple[Tensor, Tensor, Rays]:
    """Slope and intercept `(N, C)` of the logits just after the times `now` `(N,)`, or at infinity, and the rays.

    Those of a model with draws are `(S, N, C)`; each call makes the same draws.
    """
    rays = kind(len(x), x, now)
    with followed(model, rays):
        found = from_seed(seed, lambda: run(model, Law(direction, x, rays)), model)
    law = logits_law(found, len(x))
    return law.slope, law.intercept, rays


def check_law(
    model: nn.Module,
    x: Tensor,
    direction: Tensor,
    slope: Tensor,
    intercept: Tensor,
    t: Tensor,
    seed: int = 0,
) -> None:
    """An error if the network itself does not obey its law, `(N, C)` or `(S, N, C)`, at some t `(N,)`.

    A law goes astray where a network writes on views of its values, mixes the inputs of a batch, or moves their axis.
    """
    there = x + t.view(-1, *[1] * (x.dim() - 1)) * direction
    truth = from_seed(seed, lambda: run(model, there), model)
    told = slope * t[:, None] + intercept
    terms = ((slope * t[:, None]).abs() + intercept.abs()).amax(-1)
    if not ((truth - told).abs().amax(-1) <= AGREES * terms).all():
        raise NotAffineError(
            "the model does not obey the law that was found for it: it writes in place on parts of "
            "its values, or lets the inputs of a batch act on each other, which laws cannot follow; "
            "nescio.audit.scaling measures such a model instead"
        )


def logits_law(found: Any, inputs: int) -> Law:
    """What a model returned for a law, or an error if it is none of logits `(N, C)` or of draws `(S, N, C)`."""
    if not isinstance(found, Tensor):
        raise NescioError(f"the model must return a tensor of logits, not {type(found).__name__}")
    if not isinstance(found, Law):
        raise NescioError("what the model returns does not hang on its input")
    if found.dim() not in (2, 3) or found.shape[-2] != inputs:
        raise NescioError(
            f"the model must return logits (N, C) or draws (S, N, C) for N = {inputs} inputs, "
            f"not {tuple(found.shape)}"
        )
    return found


def checked_rays(x: Any, direction: Any, model: nn.Module) -> tuple[Tensor, Tensor]:
    """Starts and directions `(N, …)` of rays in float64, or an error if they are none."""
    check_model(model)
    check_values(model)
    x, direction = tensor(x), tensor(direction)
    if x.dim() < 2 or x.numel() == 0 or direction.shape not in (x.shape, x.shape[1:]):
        raise NescioError(
            f"directions of shape {tuple(direction.shape)} for starts of shape {tuple(x.shape)}; "
            "expected starts (N, …), and a direction for each or one for all"
        )
    for given in (x, direction.expand(x.shape)):
        check_inputs(given, model)
    direction = direction.expand(x.shape)
    if (direction == 0).flatten(1).all(1).any():
        raise NescioError("a direction of zeros leads nowhere")
    return x.double(), direction.double()
