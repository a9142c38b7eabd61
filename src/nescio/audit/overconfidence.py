"""Scale inputs until a model is certain (table 2 of Hein et al. 2019) → an `Audit` record."""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from nescio.audit.affine.asymptote import Asymptote, check_rays, eval_replica, rays_per_batch
from nescio.audit.affine.trace import trace
from nescio.audit.budget import Budget, as_budget
from nescio.audit.certainty import CertainFrom, RaySearch, certain_along
from nescio.audit.inputs import Box, all_inputs, check_box, finite_or_none, fraction, uniform_in
from nescio.audit.kernels import UnknownFrom, unknown_or_none
from nescio.core.input_gradients import draws_and_classes
from nescio.core.predict import predict
from nescio.errors import NescioError, check_float, check_int
from nescio.methods import Method, as_method
from nescio.progress import bar
from nescio.records import Audit, Ray, Stopwatch
from nescio.seeds import check_seed, derived_seed

TRIALS = 10_000
SHOWN_RAYS = 5  # kept for a figure
SHOWN_FACTORS = 240  # points of each of them
PROJECTED_FACTORS, MAX_PROJECTED = 240, 1000.0  # of inputs projected back into the box
FOLLOWING = 0.85  # fraction of a budget for following rays; the rest is for the figure
MIN_FOLLOWED = 10  # rays followed in a budget per ray shown, if breakpoints are to be found


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
    rays: int = SHOWN_RAYS,
    batch_size: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Audit:
    """Scale raw inputs by `α ≥ 1` until the model is certain, and prove what it does beyond.

    Args:
        model: a method or a bare network.
        inputs: where to begin, as `predict` takes them; zeros, which cannot be scaled, are ignored.
        box: the smallest and the largest input, a pair shaped as one input. Without inputs they are
            drawn in it; scaled ones are projected back into it, to see if the model is still bold:
            those first certain, and inputs scaled by each of 240 factors up to 1000.
        trials: the most inputs; of more, a random sample.
        certain, bold: the two levels of confidence in question.
        eps: the confidence of a model of kernels that counts as unknown, as in `unknown_from`.
        rays: how many to keep for a figure.
        limit, budget, batch_size, seed, progress: as in `certain_from`.

    >>> net = nn.Linear(2, 2)
    >>> _ = net.load_state_dict({"weight": torch.eye(2), "bias": torch.zeros(2)})
    >>> record = overconfidence(net, torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
    >>> record.ends_certain, round(record.factors[0], 3), round(record.factors[100], 3)
    (1.0, 3.453, 6.907)
    """
    stopwatch = Stopwatch()
    check_int("rays", rays, least=0)
    bounds = None if box is None else check_box(box)
    x = _starts(model, inputs, bounds, check_int("trials", trials), check_seed(seed))
    bold, time_left = check_float("bold", bold, most=1), as_budget(budget)
    size = rays_per_batch(x, batch_size)
    check_rays(x, x, model)
    check_float("eps", eps, most=1, inside=True)
    with eval_replica(model) as model:
        search = RaySearch(model, x, x, limit, time_left, size, seed, progress)
        # before rays are followed, which takes most of a budget
        ever = None if bounds is None else _bold_at_some_factor(search, bounds, bold)
        followed = _follow(search, certain, eps)
        first = None if bounds is None else followed.bold_in(bounds, bold)
        facts = followed.facts(rays)
    seconds = time_left.seconds
    settings = {"trials": trials, "limit": limit, "batch_size": batch_size, "budget": seconds}
    return Audit(
        drawn=inputs is None,
        low=bounds and _short(bounds[0]),
        high=bounds and _short(bounds[1]),
        certain=certain,
        bold=bold,
        eps=eps,
        overconfident=None if first is None else fraction(first),
        ever_overconfident=None if first is None or ever is None else fraction(first | ever),
        **facts,
        provenance=stopwatch.provenance(seed, settings),
        budget=seconds,
    )


def _starts(model: nn.Module, inputs: Any, box: Box | None, trials: int, seed: int) -> Tensor:
    """Return the inputs to scale, `(N, …)` in float64."""
    if inputs is None:
        if box is None:
            raise NescioError("nothing to scale: give inputs, or a box to draw them in")
        return uniform_in(box, trials, seed)
    x = all_inputs(model, inputs, seed=seed)
    if box is not None and box[0].shape != x.shape[1:]:
        shapes = f"shape {tuple(box[0].shape)} for inputs of shape {tuple(x.shape[1:])}"
        raise NescioError(f"a box of {shapes}")
    x = x[x.flatten(1).any(1)]
    if len(x) == 0:
        raise NescioError("all inputs are zeros, which cannot be scaled")
    if len(x) > trials:
        generator = torch.Generator().manual_seed(derived_seed(seed, "trials", 0))
        x = x[torch.randperm(len(x), generator=generator)[:trials]]
    return x


@dataclass(frozen=True)
class _Followed:
    """What was found along all rays; t is counted from the input, so that its factor is 1 + t."""

    search: RaySearch
    law: Asymptote | None
    certainty: CertainFrom
    kernels: UnknownFrom | None
    max_pieces: int  # that rays were followed for

    @property
    def method(self) -> Method:
        return as_method(self.search.model)

    def facts(self, rays: int) -> dict[str, Any]:
        """Return what an audit says of the model, of all rays together, and of some to show."""
        x, certainty, kernels = self.search.x, self.certainty, self.kernels
        draws, classes = draws_and_classes(self.method, x[:1], seed=self.search.seed)
        factor = 1 + certainty.t
        return {
            "method": self.method.name,
            "confidence_kind": self.method.confidence_kind,
            "law": "kernels" if kernels else "unknown" if self.law is None else "affine",
            "trials": len(x),
            "classes": classes,
            "draws": draws,
            **self._ends(classes),
            "reached": fraction(factor.isfinite()),
            "at_once": fraction(factor == 1),
            "median_factor": finite_or_none(factor.median())[0],
            "factors": finite_or_none(_quantiles(factor, 101)),  # the percentiles
            "proved": fraction(certainty.proved),
            "ends_unknown": kernels and fraction(kernels.t.isfinite()),
            "unknown_factor": kernels and finite_or_none(1 + kernels.t.median())[0],
            "unknown_factors": kernels and finite_or_none(_quantiles(1 + kernels.t, 101)),
            "unknown_exact": kernels and fraction(kernels.exact),
            "rays": self._shown(rays),
            "unfollowed": (kernels or certainty).unfollowed,
        }

    def _ends(self, classes: int) -> dict[str, Any]:
        """Return where rays end, as proved by the law at infinity or by the kernels."""
        certain = limit = counts = None
        if self.kernels is not None:
            certain, limit = fraction(self.kernels.limit >= 1), self.kernels.limit
        elif (law := self.law) is not None:
            certain, limit = fraction(law.certain), law.limit.amax(1)
            counts = tuple(torch.bincount(law.winner[law.certain], minlength=classes).tolist())
        quartiles = None if limit is None else tuple(_quantiles(limit, 5).tolist())
        return {"ends_certain": certain, "ends_in": counts, "end_confidence": quartiles}

    def bold_in(self, box: Box, bold: float) -> Tensor:
        """Return which inputs are answered boldly once scaled until certain and projected."""
        factor = 1 + self.certainty.t
        return _bold(self.search, factor, factor.isfinite(), box, bold)

    def _shown(self, rays: int) -> tuple[Ray, ...]:
        """Return some rays for a figure, each up to twice as far as anything happens on them."""
        if not rays:
            return ()
        x, law, kernels = self.search.x, self.law, self.kernels
        chosen = _representative((kernels or self.certainty).t, min(rays, len(x)))
        times = [self.certainty.t, *([law.start] if law else []), *([kernels.t] if kernels else [])]
        last = max([1.0, *(float(t) for ts in times for t in ts[chosen] if t.isfinite())])
        factors = torch.logspace(0, math.log10(2 * (1 + last)), SHOWN_FACTORS, dtype=torch.float64)
        breakpoints: dict[int, tuple[float, ...]] = {}  # of rays that were followed to their end
        unfollowed, limit = self.certainty.unfollowed, self.max_pieces
        too_slow = unfollowed and len(x) - unfollowed < MIN_FOLLOWED * rays
        if limit and not too_slow:
            followed = trace(self.method, x[chosen], x[chosen], limit=limit, progress=False)
            for ray in followed.whole.nonzero().flatten().tolist():
                breakpoints[chosen[ray]] = tuple((1 + followed.breakpoints(ray)).tolist())
        return tuple(self._ray(row, factors, breakpoints.get(row)) for row in chosen)

    def _ray(self, row: int, factors: Tensor, breakpoints: tuple[float, ...] | None) -> Ray:
        x, law, kernels, method = self.search.x, self.law, self.kernels, self.method
        inputs = factors.view(-1, *[1] * (x.dim() - 1)) * x[row]
        logits = predict(method, inputs, seed=self.search.seed, progress=False)
        far, limit = None, kernels and float(kernels.limit[row])
        if law is not None:
            slope, intercept = (part[..., row, :] for part in (law.slope, law.intercept))
            shape = (-1, 1, slope.shape[-1])
            rise = slope.reshape(shape) * (factors - 1)[:, None]  # (S, SHOWN_FACTORS, C)
            far = tuple(method.confidence(rise + intercept.reshape(shape)).tolist())
            limit = float(law.limit[row].amax())
        return Ray(
            factors=tuple(factors.tolist()),
            confidence=tuple(method.confidence(logits).double().tolist()),
            asymptote=far,
            breakpoints=breakpoints,
            start=law and 1 + float(law.start[row]),
            certain_from=finite_or_none(1 + self.certainty.t[row])[0],
            unknown_from=kernels and finite_or_none(1 + kernels.t[row])[0],
            limit=limit,
        )


def _bold_at_some_factor(search: RaySearch, box: Box, bold: float) -> Tensor:
    """Return which inputs are answered boldly once scaled by one of many factors and projected."""
    found = torch.zeros(len(search.x), dtype=torch.bool)
    with bar(PROJECTED_FACTORS, "project", search.progress) as shown:
        for factor in torch.logspace(0, math.log10(MAX_PROJECTED), PROJECTED_FACTORS).double():
            found = found | _bold(search, factor.expand(len(found)), ~found, box, bold)
            shown.advance(1)
    return found


def _bold(search: RaySearch, factor: Tensor, chosen: Tensor, box: Box, bold: float) -> Tensor:
    """Return which of the chosen inputs, scaled and projected, get more confidence, `(N,)`."""
    x, found = search.x[chosen], torch.zeros_like(chosen)
    if len(x):
        inputs = (x * factor[chosen].view(-1, *[1] * (x.dim() - 1))).clamp(*box)
        found[chosen] = as_method(search.model).confidence(search.logits(inputs)) > bold
    return found


def _follow(search: RaySearch, certain: float, eps: float) -> _Followed:
    """Search rays for where the model is certain, then, of kernels, for where it is unsure."""
    in_time = replace(search, budget=search.budget.part(FOLLOWING))
    law = in_time.softmax_law(in_time.law())
    certainty, max_pieces = certain_along(in_time, law, certain)
    kernels = unknown_or_none(replace(search, budget=search.budget.part(FOLLOWING)), eps)
    return _Followed(search, law, certainty, kernels, max_pieces)


def _representative(t: Tensor, count: int) -> list[int]:
    """Return rays that stand for all, from those where t is small to those where it is large."""
    places = torch.linspace(0, 0.95, count + 1)[1:] * (len(t) - 1)
    chosen = t.argsort(stable=True)[places.round().long()].tolist()
    return list(dict.fromkeys(chosen))  # each once, where there are few


def _quantiles(values: Tensor, count: int) -> Tensor:
    """Return values from the smallest to the largest at even steps through their order."""
    return values.sort().values[torch.linspace(0, len(values) - 1, count).floor().long()]


def _short(side: Tensor) -> tuple[float, ...]:
    """Return all numbers of a side of a box, or one if they are the same."""
    flat = side.flatten()
    return (float(flat[0]),) if (flat == flat[0]).all() else tuple(flat.tolist())
