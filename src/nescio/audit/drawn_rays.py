"""Some rays of an audit, as they are to be drawn: confidence, breakpoints, and the law at infinity."""

import math

import torch
from torch import Tensor

from nescio.audit.affine.asymptote import Asymptote
from nescio.audit.affine.trace import trace
from nescio.audit.certainty import CertainFrom
from nescio.audit.kernels import UnknownFrom
from nescio.core.predict import predict
from nescio.methods import Method
from nescio.records import Ray

POINTS = 240  # factors at which each of them is


def drawn_rays(
    method: Method,
    x: Tensor,
    law: Asymptote | None,
    found: CertainFrom,
    kernels: UnknownFrom | None,
    count: int,
    bends: int,
    seed: int,
) -> tuple[Ray, ...]:
    """Some of the rays, as they are to be drawn: up to twice as far as anything happens on them."""
    chosen = _telling(found.t if kernels is None else kernels.t, count)
    happens = [
        found.t,
        *([] if law is None else [law.start]),
        *([] if kernels is None else [kernels.t]),
    ]
    last = max([1.0, *(float(t) for times in happens for t in times[chosen] if t.isfinite())])
    factors = torch.logspace(0, math.log10(2 * (1 + last)), POINTS, dtype=torch.float64)
    breakpoints = _breakpoints(method, x[chosen], bends)
    return tuple(
        _ray(method, x[i], i, factors, law, found, kernels, own, seed)
        for i, own in zip(chosen, breakpoints, strict=True)
    )


def _breakpoints(method: Method, x: Tensor, limit: int) -> list[tuple[float, ...] | None]:
    """The factors at which the law changes along each ray `(R, …)`; None if there are more than allowed."""
    if not limit:
        return [None] * len(x)
    followed = trace(method, x, x, limit=limit, progress=False)
    return [
        tuple((1 + followed.breakpoints(ray)).tolist()) if whole else None
        for ray, whole in enumerate(followed.whole.tolist())
    ]


def _ray(
    method: Method,
    x: Tensor,
    number: int,
    factors: Tensor,
    law: Asymptote | None,
    found: CertainFrom,
    kernels: UnknownFrom | None,
    breakpoints: tuple[float, ...] | None,
    seed: int,
) -> Ray:
    """One of the rays, `x (…)`."""
    logits = predict(method, factors.view(-1, *[1] * x.dim()) * x, seed=seed, progress=False)
    far, limit = None, None if kernels is None else float(kernels.limit[number])
    if law is not None:
        slope, intercept = (
            part[..., number, :].reshape(-1, 1, part.shape[-1])
            for part in (law.slope, law.intercept)
        )
        far = tuple(
            method.confidence(slope * (factors - 1)[:, None] + intercept).tolist()
        )  # of (S, POINTS, C)
        limit = float(law.limit[number].amax())
    return Ray(
        factors=tuple(factors.tolist()),
        confidence=tuple(method.confidence(logits).double().tolist()),
        asymptote=far,
        breakpoints=breakpoints,
        start=None if law is None else 1 + float(law.start[number]),
        certain_from=finite(1 + found.t[number]),
        unknown_from=None if kernels is None else finite(1 + kernels.t[number]),
        limit=limit,
    )


def _telling(order: Tensor, count: int) -> list[int]:
    """Rays that stand for all, from those where something happens soon to those where it happens late."""
    places = torch.linspace(0, 0.95, count + 1)[1:] * (len(order) - 1)
    chosen = order.argsort(stable=True)[places.round().long()].tolist()
    return list(dict.fromkeys(chosen))  # each once, where there are few


def finite(value: Tensor) -> float | None:
    """A number, or None if it is infinite."""
    return float(value) if value.isfinite() else None
