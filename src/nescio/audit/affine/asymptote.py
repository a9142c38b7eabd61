"""What a piecewise affine network does at infinity: its law on the last linear region of a ray."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from nescio.arrays import is_array
from nescio.audit.affine.choices import Rays, steepest, track_modules
from nescio.audit.affine.laws import Law, NotAffineError
from nescio.core.forward import check_inputs, draws_of, run
from nescio.core.logits import two_classes
from nescio.core.model_state import M, check_model, check_values, deep_copy
from nescio.core.random_streams import from_seed
from nescio.core.replica import isolate
from nescio.data.arrays import tensor
from nescio.errors import NescioError, check_float, check_int
from nescio.methods import as_method
from nescio.progress import bar
from nescio.seeds import check_seed

BATCH_NUMBERS = 2**17  # numbers of inputs that are followed at a time
LAW_TOLERANCE = 1e-8  # of the largest logit, by which a law and its network may differ


@final
@dataclass(frozen=True)
class Asymptote:
    """The logits of a network along rays: `slope · t + intercept` for all `t ≥ start`.

    Attributes:
        slope, intercept: `(N, C)`; of a model with several draws `(S, N, C)`.
        start: `(N,)`, the t from which the law holds, in all draws.
        winner: `(N,)`, the class predicted far away.
        limit: `(N, C)`, the probabilities at infinity, the mean over draws; where the largest
            slopes of a draw tie, a softmax of their intercepts.
    """

    slope: Tensor
    intercept: Tensor
    start: Tensor
    winner: Tensor
    limit: Tensor

    def at(self, t: Tensor | float) -> Tensor:
        """Return the law's logits, shaped as its slope, at one t for all rays or one for each."""
        t = t if is_array(t) else np.float64(check_float("t", t, -1e300, 1e300))
        t = tensor(t).to(self.slope.dtype)
        if t.numel() not in (1, len(self.start)):
            got = f"{t.numel()} t for {len(self.start)} rays"
            raise NescioError(f"{got}; expected one for all, or one for each")
        return self.slope * t.reshape(-1, 1) + self.intercept

    @property
    def certain(self) -> Tensor:
        """Whether the confidence tends to 1, `(N,)`: in all draws the same class is steepest.

        Classes that tie may have a softmax that rounds to 1, but it does not tend to it.
        """
        ahead = steepest(self.slope if self.slope.dim() == 3 else self.slope[None])  # (S, N, C)
        return (ahead.sum(2) == 1).all(0) & (ahead == ahead[:1]).all(2).all(0)

    def select(self, rays: Tensor) -> "Asymptote":
        """Return the law of some rays."""
        slope, intercept = self.slope[..., rays, :], self.intercept[..., rays, :]
        return Asymptote(slope, intercept, self.start[rays], self.winner[rays], self.limit[rays])


def asymptote(
    model: nn.Module,
    x: Any,
    direction: Any,
    *,
    batch_size: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Asymptote:
    """Return the exact law of a network at infinity along the rays `x + t · direction`.

    It takes one forward pass, in float64 and eval mode.

    Args:
        model: a network of linear, convolutional, pooling and ReLU-like layers, in any arrangement,
            or a method over such networks; one with several draws has a law for each.
        x: where rays start, `(N, …)`.
        direction: where they go, `(N, …)`, or one `(…)` for all.
        batch_size: rays at a time; by default as many as their size suggests.
        seed, progress: as in `predict`.

    >>> law = asymptote(net, x[:1], torch.tensor([1.0, 0.0]))
    >>> law.winner, law.limit  # far to the right it is class 1, with confidence 1
    (tensor([1]), tensor([[0., 1., 0.]], dtype=torch.float64))
    """
    x, direction = check_rays(x, direction, model)
    check_seed(seed)
    size, laws = rays_per_batch(x, batch_size), []
    with float64_copy(model, x) as double, bar(len(x), "asymptote", progress) as shown:
        for batch in zip(x.split(size), direction.split(size), strict=True):
            law = law_of(double, *batch, Rays(len(batch[0]), x), seed)
            check_law(double, *batch, law, 1.01 * law.rays.since, seed)
            laws.append(law)
            shown.advance(len(batch[0]))
    parts = zip(*((law.slope, law.intercept) for law in laws), strict=True)
    slope, intercept = (torch.cat(part, -2) for part in parts)
    limit = intercept.masked_fill(~steepest(slope), -torch.inf).softmax(-1)
    limit = limit.mean(0) if limit.dim() == 3 else limit
    start = torch.cat([law.rays.since for law in laws])
    return Asymptote(slope, intercept, start, limit.argmax(1), limit)


def rays_per_batch(x: Tensor, batch_size: int | None) -> int:
    """Return the batch size given, or one from 16 to 4096, the smaller the larger inputs are.

    >>> rays_per_batch(torch.zeros(9, 3, 32, 32), None)
    42
    """
    default = max(16, min(4096, BATCH_NUMBERS // x[0].numel()))
    return check_int("batch_size", default if batch_size is None else batch_size)


@contextmanager
def eval_replica(model: M, stacklevel: int = 4) -> Iterator[M]:
    """Yield a model in eval mode, as `isolate` does; warn if its BatchNorm was in train mode."""
    check_model(model)
    if any(isinstance(module, _NormBase) and module.training for module in model.modules()):
        mode = "the model has BatchNorm in train mode; it is audited in eval mode, as it predicts"
        warnings.warn(mode, stacklevel=stacklevel)
    with isolate(model) as replica:
        yield replica


@contextmanager
def float64_copy(model: M, x: Tensor) -> Iterator[M]:
    """Yield a copy in float64 and eval mode to push laws through, once it has run on an input."""
    if as_method(model).kernels():
        problem = f"the kernels of {type(model).__name__} are not affine far away"
        instead = "nescio.audit.unknown_from returns the t after which it is unsure"
        raise NescioError(f"{problem}; {instead}")
    with eval_replica(model, stacklevel=6) as replica, torch.no_grad():
        double = deep_copy(replica).double().eval().requires_grad_(False)
        from_seed(0, lambda: run(double, x[:1].clone()), double)
        yield double


def law_of(model: nn.Module, x: Tensor, direction: Tensor, rays: Rays, seed: int = 0) -> Law:
    """Return the law of logits `(N, C)`, or of draws `(S, N, C)`, the same in each call."""
    with track_modules(model, rays):
        logits = from_seed(seed, lambda: run(model, Law(direction, x, rays)), model)
    return check_logits_law(logits, len(x), model)


def check_law(
    model: nn.Module, x: Tensor, direction: Tensor, law: Law, t: Tensor, seed: int = 0
) -> None:
    """Raise an error if the network itself does not obey its law at some t `(N,)`.

    A law goes astray where a network writes on views of its values, mixes the inputs of a batch,
    or moves their axis.
    """
    inputs = x + t.view(-1, *[1] * (x.dim() - 1)) * direction
    logits = _logits(from_seed(seed, lambda: run(model, inputs), model), model)
    rise = law.slope * t[:, None]
    terms = (rise.abs() + law.intercept.abs()).amax(-1)
    if not ((logits - (rise + law.intercept)).abs().amax(-1) <= LAW_TOLERANCE * terms).all():
        raise NotAffineError(
            "the model does not obey the law that was found for it: it writes in place on parts of "
            "its values, or lets the inputs of a batch act on each other, which laws cannot "
            "follow; nescio.audit.scaling measures such a model instead"
        )


def check_logits_law(output: Any, inputs: int, model: nn.Module) -> Law:
    """Return a law of logits `(N, C)` or of draws `(S, N, C)`, or raise an error if it is none."""
    if isinstance(output, Tensor) and not isinstance(output, Law):
        raise NescioError("what the model returns does not depend on its input")
    draws_of(output, inputs)
    return cast(Law, _logits(output, model))


def _logits(output: Tensor, model: nn.Module) -> Tensor:
    """Return one output as two logits, unless it is a feature that kernels are of."""
    return output if getattr(type(model), "on_features", False) else two_classes(output)


def check_rays(x: Any, direction: Any, model: nn.Module) -> tuple[Tensor, Tensor]:
    """Return starts and directions `(N, …)` of rays in float64, or raise an error."""
    check_model(model)
    check_values(model)
    x, direction = tensor(x), tensor(direction)
    if x.dim() < 2 or x.numel() == 0 or direction.shape not in (x.shape, x.shape[1:]):
        shapes = f"shape {tuple(direction.shape)} for starts of shape {tuple(x.shape)}"
        expected = "starts (N, …), and a direction for each or one for all"
        raise NescioError(f"directions of {shapes}; expected {expected}")
    direction = direction.expand(x.shape)
    for values in (x, direction):
        check_inputs(values, model)
    if (direction == 0).flatten(1).all(1).any():
        raise NescioError("a direction of zeros leads nowhere")
    return x.double(), direction.double()
