"""Table 2 of the paper on ReLU networks, proved where that can be: how far inputs are scaled until all is certain."""

import time
from typing import Any

import torch
from torch import Tensor, nn

from nescio.audit.affine.asymptote import Asymptote, audited, checked_rays, chunk
from nescio.audit.affine.laws import NotAffineError
from nescio.audit.budget import Budget, budget_of
from nescio.audit.certainty import certain_along, law_of, pieces_of
from nescio.audit.drawn_rays import drawn_rays, finite
from nescio.audit.inputs import Box, all_inputs, checked_box, uniform_in
from nescio.audit.kernels import UnknownFrom, checked_eps, unknown_from
from nescio.core.input_gradients import draws_and_classes
from nescio.core.predict import predict
from nescio.errors import NescioError, check_float, check_int
from nescio.methods import KernelMethod, Method, as_method
from nescio.records import Audit, Provenance
from nescio.seeds import check_seed, derived_seed

TRIALS = 10_000
SHOWN = 5  # rays that are kept to be drawn
FOLLOWING = 0.85  # share of a budget after which no more rays are followed; then some are drawn
CHEAP = 10  # times as many rays as are drawn must have been followed in a budget, if their breakpoints are to be found


def overconfidence(
    model: nn.Module,
    inputs: Any = None,
    box: Any = None,
    *,
    trials: int = TRIALS,
    certain: float = 0.999,
    bold: float = 0.95,
    eps: float = 1e-3,
    limit: int | None = None,
    budget: float | Budget | None = None,
    rays: int = SHOWN,
    batch_size: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Audit:
    """Scale inputs by `α ≥ 1`, in raw units, until the model is certain, and prove what it does beyond.

    Args:
        model: a method or a bare network.
        inputs: where to begin, as `predict` takes them; if there are more than `trials`, so many of them by chance. An
            input of zeros cannot be scaled, and is passed over.
        box: the least and the largest input, as a pair shaped as one input, such as zeros and ones for images. If no
            inputs are given, they are drawn in it; what is scaled is projected back into it, to see if it still is
            answered boldly.
        trials: how many inputs.
        certain, bold: the two confidences in question.
        eps: of a model of kernels, the confidence (or, of an RBF network, what it is above 1/K) that is not knowing.
        limit: pieces of a ray to look at before it is scanned instead; see `certain_from`.
        budget: seconds, in which all inputs are scanned and as many rays followed as fit; see `certain_from`. By
            default as long as it takes.
        rays: how many to keep for a figure.
        batch_size, seed, progress: as in `asymptote`.

    >>> net = nn.Linear(2, 2)
    >>> _ = net.load_state_dict({"weight": torch.eye(2), "bias": torch.zeros(2)})
    >>> found = overconfidence(net, torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
    >>> found.ends_certain, round(found.factors[0], 3), round(found.factors[100], 3)
    (1.0, 3.453, 6.907)
    """
    started = time.monotonic()
    check_int("rays", rays, least=0)
    room = None if box is None else checked_box(box)
    x = _starts(model, inputs, room, check_int("trials", trials), check_seed(seed))
    bold, time_left = check_float("bold", bold, most=1), budget_of(budget)
    size = chunk(x, batch_size)
    checked_rays(x, x, model)
    checked_eps(eps)
    with audited(model) as model:
        method = as_method(model)
        draws, classes = draws_and_classes(method, x[:1], seed=seed)
        law = law_of(model, x, x, size, seed, progress)
        found = certain_along(
            model, x, x, law, certain, limit, time_left.part(FOLLOWING), size, seed, progress
        )
        kernels = _kernels(model, x, eps, limit, time_left.part(FOLLOWING), batch_size, progress)
        factor, bends = 1 + found.t, pieces_of(model, x, x, law, limit, time_left)
        if found.unfollowed and len(x) - found.unfollowed < CHEAP * rays:
            bends = 0
        settings = {
            "trials": trials,
            "limit": limit,
            "batch_size": batch_size,
            "budget": time_left.seconds,
        }
        low, high = (None, None) if room is None else (_plain(room[0]), _plain(room[1]))
        return Audit(
            method=method.name,
            law="kernels" if kernels else "unknown" if law is None else "affine",
            trials=len(x),
            classes=classes,
            draws=draws,
            drawn=inputs is None,
            low=low,
            high=high,
            certain=certain,
            bold=bold,
            eps=eps,
            **_ends(law, kernels, classes),
            reached=_share(factor.isfinite()),
            at_once=_share(factor == 1),
            median_factor=finite(factor.median()),
            factors=_percentiles(factor),
            proved=_share(found.proved),
            overconfident=None
            if room is None
            else _overconfident(method, x, factor, room, bold, size, seed),
            ends_unknown=None if kernels is None else _share(kernels.t.isfinite()),
            unknown_factor=None if kernels is None else finite(1 + kernels.t.median()),
            unknown_factors=None if kernels is None else _percentiles(1 + kernels.t),
            unknown_exact=None if kernels is None else _share(kernels.exact),
            rays=drawn_rays(method, x, law, found, kernels, min(rays, len(x)), bends, seed)
            if rays
            else (),
            provenance=Provenance.now(seed, settings, time.monotonic() - started),
            budget=time_left.seconds,
            unfollowed=(found if kernels is None else kernels).unfollowed,
        )


def _kernels(
    model: nn.Module,
    x: Tensor,
    eps: float,
    limit: int | None,
    budget: Budget,
    batch_size: int | None,
    progress: bool | None,
) -> UnknownFrom | None:
    """From where on a model of kernels does not know; None of other models, and over networks without a law."""
    if not isinstance(model, KernelMethod):
        return None
    try:
        return unknown_from(
            model,
            x,
            x,
            eps=eps,
            limit=limit,
            budget=budget,
            batch_size=batch_size,
            progress=progress,
        )
    except NotAffineError:
        return None


def _starts(model: nn.Module, inputs: Any, box: Box | None, trials: int, seed: int) -> Tensor:
    """The inputs to scale, `(N, …)` in float64."""
    if inputs is None:
        if box is None:
            raise NescioError("nothing to scale: give inputs, or a box to draw them in")
        return uniform_in(box, trials, seed)
    x = all_inputs(model, inputs, 4096, seed)
    if box is not None and box[0].shape != x.shape[1:]:
        raise NescioError(
            f"a box of shape {tuple(box[0].shape)} for inputs of shape {tuple(x.shape[1:])}"
        )
    x = x[x.flatten(1).any(1)]
    if len(x) == 0:
        raise NescioError("all inputs are zeros, which cannot be scaled")
    if len(x) > trials:
        generator = torch.Generator().manual_seed(derived_seed(seed, "trials", 0))
        x = x[torch.randperm(len(x), generator=generator)[:trials]]
    return x


def _ends(law: Asymptote | None, kernels: UnknownFrom | None, classes: int) -> dict[str, Any]:
    """Where rays end, as proved by the law at infinity or by the kernels."""
    if kernels is not None:
        return {
            "ends_certain": _share(kernels.limit >= 1),
            "ends_in": None,
            "end_confidence": _five(kernels.limit),
        }
    if law is None:
        return {"ends_certain": None, "ends_in": None, "end_confidence": None}
    counts = torch.bincount(law.winner[law.certain], minlength=classes)
    return {
        "ends_certain": _share(law.certain),
        "ends_in": tuple(counts.tolist()),
        "end_confidence": _five(law.limit.amax(1)),
    }


def _overconfident(
    method: Method, x: Tensor, factor: Tensor, box: Box, bold: float, batch_size: int, seed: int
) -> float:
    """The share of inputs that are answered boldly when scaled by their factor and projected back into the box."""
    scaled = factor.isfinite()
    if not scaled.any():
        return 0.0
    far = x[scaled] * factor[scaled].view(-1, *[1] * (x.dim() - 1))
    logits = predict(method, far.clamp(*box), batch_size=batch_size, seed=seed, progress=False)
    return int((method.confidence(logits) > bold).sum()) / len(x)


def _share(chosen: Tensor) -> float:
    return int(chosen.sum()) / len(chosen)


def _percentiles(values: Tensor) -> tuple[float | None, ...]:
    """0 to 100 %, each one of the values; None where it is infinite."""
    places = torch.linspace(0, len(values) - 1, 101).floor().long()
    return tuple(finite(value) for value in values.sort().values[places])


def _five(values: Tensor) -> tuple[float, ...]:
    return tuple(
        values.sort().values[torch.linspace(0, len(values) - 1, 5).floor().long()].tolist()
    )


def _plain(side: Tensor) -> tuple[float, ...]:
    flat = side.flatten()
    return (float(flat[0]),) if (flat == flat[0]).all() else tuple(flat.tolist())
