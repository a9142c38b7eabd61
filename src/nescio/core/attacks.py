"""Projected gradient in the input: noise at its worst, and adversarial samples (paper 2, after Madry et al. 2018)."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core.input_gradients import input_gradient
from nescio.core.logits import log_confidence, log_mean
from nescio.core.predict import (
    Runner,
    check_inputs,
    draws_of,
    like_model,
    read,
    run,
    running,
)
from nescio.data.arrays import tensor
from nescio.data.batches import length
from nescio.data.labelled import as_int64, check_labels
from nescio.errors import NescioError, check_float, check_int, unknown_name
from nescio.progress import bar
from nescio.seeds import check_seed, derived_seed

OBJECTIVES = ("confidence", "loss", "doubt")
NORMS = ("linf", "l2")
Objective = Callable[
    [Tensor, Tensor | None], Tensor
]  # inputs (N, …), labels (N,) or None → (N,), to be raised
LARGEST = 1e12  # of radius and step
HALVINGS = 40
SAFE = (
    1 - 1e-14
)  # a radius is taken so much smaller than it is, for the roundings of what is measured against it


@dataclass(frozen=True)
class Attack:
    """How to search the ball around an input.

    Attributes:
        objective: what to raise: the "confidence" (equations 3 and 5 of the paper), the "loss" of the true class, or
            "doubt", which lowers the confidence.
        eps: radius of the ball.
        steps: of the gradient, each followed by a projection.
        step_size: how far a step goes, the first one if steps are adaptive.
        norm: of the ball, "linf" or "l2"; steps go along the gradient's signs, or along the gradient.
        random_start: start from a random point of the ball, in a random share of it, rather than from the input.
        restarts: how often to start; the best of all is kept.
        adaptive: a step that gains is followed by one a tenth longer; one that does not is taken back and halved.
    """

    objective: str = "confidence"
    eps: float = 0.3
    steps: int = 40
    step_size: float = 0.0075
    norm: str = "linf"
    random_start: bool = True
    restarts: int = 1
    adaptive: bool = False

    def __post_init__(self) -> None:
        for kind, given, known in (
            ("objective", self.objective, OBJECTIVES),
            ("norm", self.norm, NORMS),
        ):
            if given not in known:
                raise unknown_name(kind, given, known)
        check_float("eps", self.eps, most=LARGEST)
        check_float("step_size", self.step_size, most=LARGEST)
        check_int("steps", self.steps, least=0)
        check_int("restarts", self.restarts)


ATTACKS = {  # as the paper has them
    "training": Attack(),
    "adversarial_noise": Attack(steps=200),
    "adversarial_samples": Attack("loss", steps=80),
    "adversarial_samples_in_colour": Attack("loss", eps=0.1, steps=80, step_size=0.0025),
}


@dataclass(frozen=True)
class Attacked:
    """What an attack found: inputs `(N, …)` inside the ball and the box, and the objective `(N,)` there and before."""

    inputs: Tensor
    objective: Tensor
    before: Tensor

    def parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """All three, in order."""
        return self.inputs, self.objective, self.before


def attack(
    model: nn.Module,
    data: Any,
    how: Attack | str = "training",
    *,
    box: tuple[float, float] | None = (0.0, 1.0),
    scale: Tensor | None = None,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool | None = None,
) -> Attacked:
    """The worst inputs near given ones, by projected gradient; never worse for the attack than the given ones.

    The model is run in eval mode, and left as found. Only the gradient in the input is computed.

    Args:
        model: any module from inputs to logits `(N, C)` or draws `(S, N, C)`, differentiable in its input. A method
            says what its confidence is; that of a bare network is its largest probability.
        data: a tensor, an array, a dataset or a loader; to raise the loss it must come with labels.
        how: an `Attack`, or the name of one of the paper's in `ATTACKS`.
        box: the least and largest value an input may have, [0, 1] for images; None if there are no such.
        scale: a length for each feature, of the shape of one input, that `eps` and `step_size` are multiples of.
        batch_size, seed, progress: as in `predict`; the seed also draws the random starts.

    >>> found = attack(nn.Linear(2, 3), torch.full((5, 2), 0.5))
    >>> bool((found.objective >= found.before).all())
    True
    """
    how = named(how)
    if torch.is_inference_mode_enabled():
        raise NescioError(
            "an attack needs gradients, which there are none of within torch.inference_mode()"
        )
    starts = [
        Start.seeded(derived_seed(check_seed(seed), "attack", restart))
        for restart in range(how.restarts)
    ]
    most = 0.0 if how.objective == "confidence" else math.inf
    found: list[Attacked] = []
    before = 0
    with (
        running(model, seed, requires_grad=False) as runner,
        bar(length(data), "attack", progress) as shown,
    ):
        objective = partial(_objective, runner, how.objective)
        for batch, y in read(data, batch_size, seed):
            x = like_model(batch, model).detach()
            check_inputs(x, model, before)
            if not x.is_floating_point():
                raise NescioError(
                    f"an attack moves inputs by small steps, so they must be floats, not {x.dtype}"
                )
            labels = _labels(y, x) if how.objective == "loss" else None
            worst = ascend(objective, x, labels, how, box, scale, starts, most)
            found.append(Attacked(*(value.to(batch.device) for value in worst.parts())))
            before += len(x)
            shown.advance(len(x))
    return Attacked(
        *(torch.cat(parts) for parts in zip(*(one.parts() for one in found), strict=True))
    )


def named(how: Attack | str) -> Attack:
    """The attack itself, or the one of the paper's that has this name."""
    if isinstance(how, str) and how not in ATTACKS:
        raise unknown_name("attack", how, ATTACKS)
    if not isinstance(how, str | Attack):
        raise NescioError(
            f"an attack is a nescio.attacks.Attack or a name, not a {type(how).__name__}"
        )
    return ATTACKS[how] if isinstance(how, str) else how


def ascend(
    objective: Objective,
    x: Tensor,
    y: Tensor | None,
    how: Attack,
    box: tuple[float, float] | None = None,
    scale: Tensor | None = None,
    starts: "Sequence[Start] | None" = None,
    most: float = math.inf,
) -> Attacked:
    """One batch of an attack on any objective: the best of the inputs themselves, the starts and all iterates.

    An input that no step moves any more, or whose objective is at the `most` it can be, takes no further part. Random
    starts come from torch's global generator unless `starts` has others, one for each restart.
    """
    whole_ball = _Ball.around(x, how, box, scale)
    before, _ = _valued(objective, x, y, with_gradient=False)
    best, best_value = x.clone(), before.clone()
    for start in starts or [Start()] * how.restarts:
        ball, rows, labels = whole_ball, torch.arange(len(x), device=x.device), y
        here = ball.inside(ball.random(start)) if how.random_start else x
        value, gradient = _valued(objective, here, labels, with_gradient=how.steps > 0)
        _keep_better(best, best_value, rows, here, value)
        reach = torch.full_like(value, how.step_size)  # of the next step, for each input
        for step in range(1, how.steps + 1):
            there = ball.inside(ball.step(here, gradient, reach))
            going = (there != here).flatten(1).any(1) & (value < most)
            if 4 * int(going.sum()) <= 3 * len(
                rows
            ):  # not at every change: a batch of a new size costs something too
                if not going.any():
                    break
                ball, rows, labels = (
                    ball.part(going),
                    rows[going],
                    None if labels is None else labels[going],
                )
                here, there, value = here[going], there[going], value[going]
                gradient, reach = gradient[going], reach[going]
            found, slope = _valued(objective, there, labels, with_gradient=step < how.steps)
            _keep_better(best, best_value, rows, there, found)
            if how.adaptive:
                gained = found > value
                reach = torch.where(gained, 1.1 * reach, 0.5 * reach)
                wide = _wide(gained, x)
                there, slope = torch.where(wide, there, here), torch.where(wide, slope, gradient)
                found = torch.where(gained, found, value)
            here, value, gradient = there, found, slope
    return Attacked(best, best_value, before)


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """A block in which no gradient of the weights is computed, or prepared for."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    for weight in weights:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in weights:
            weight.requires_grad_(True)


@dataclass(frozen=True)
class Start:
    """Where random starts are drawn from: two streams, so that the size of a batch does not change them."""

    ways: torch.Generator | None = None
    shares: torch.Generator | None = None

    @classmethod
    def seeded(cls, seed: int) -> "Start":
        """Streams of their own."""
        return cls(
            *(
                torch.Generator().manual_seed(derived_seed(seed, kind, 0))
                for kind in ("ways", "shares")
            )
        )


@dataclass(frozen=True)
class _Ball:
    """Where an attack may go: around the inputs `(N, …)` and in the box; `scale` is of the shape of one input."""

    centre: Tensor
    how: Attack
    scale: Tensor
    low: Tensor
    high: Tensor

    @classmethod
    def around(
        cls, x: Tensor, how: Attack, box: tuple[float, float] | None, scale: Tensor | None
    ) -> "_Ball":
        low, high = _check_box(x, box)
        scale = (
            torch.ones((), dtype=x.dtype, device=x.device)
            if scale is None
            else _check_scale(scale, x)
        )
        lows, highs = (torch.full_like(x, edge) for edge in (low, high))
        lows, highs = (
            torch.minimum(_not_below(lows, low), x),
            torch.maximum(-_not_below(-highs, -high), x),
        )
        if how.norm == "linf":
            reach = how.eps * scale.double() * SAFE
            lows, highs = (
                torch.maximum(lows, _edge(x, -reach)),
                torch.minimum(highs, _edge(x, reach)),
            )
        return cls(x, how, scale, lows, highs)

    def part(self, rows: Tensor) -> "_Ball":
        return _Ball(self.centre[rows], self.how, self.scale, self.low[rows], self.high[rows])

    def random(self, start: Start) -> Tensor:
        """The centre moved in a random direction by a random share of eps, as in the authors' code."""
        x = self.centre
        way = (
            2 * torch.rand(x.shape, generator=start.ways, dtype=x.dtype, device="cpu").to(x.device)
            - 1
        )
        share = torch.rand(len(x), generator=start.shares, dtype=x.dtype, device="cpu").to(x.device)
        if self.how.norm == "l2":
            way = _unit(way)
        return x + self.how.eps * self.scale * _wide(share, x) * way

    def step(self, here: Tensor, gradient: Tensor, reach: Tensor) -> Tensor:
        """Upwards along the signs of the gradient, or along the gradient itself, in units of the scale."""
        way = gradient.sign() if self.how.norm == "linf" else _unit(gradient * self.scale)
        return way.mul_(_wide(reach, here) * self.scale).add_(here)

    def inside(self, x: Tensor) -> Tensor:
        """The nearest points of ball and box.

        For "l2" that is the farthest point of box and ball on the way from the centre, cut off at the box: the
        distance of what is cut grows with the way, so it is found by halving, from the inner side.
        """
        cut = torch.minimum(torch.maximum(x, self.low), self.high)
        if self.how.norm == "linf" or not (out := self._lengths(cut) > self.how.eps * SAFE).any():
            return cut
        away = x - self.centre
        least, most = (
            torch.zeros_like(out, dtype=torch.float64),
            torch.ones_like(out, dtype=torch.float64),
        )
        best = self.centre
        for _ in range(HALVINGS):
            middle = (least + most) / 2
            there = self.centre + away * _wide(middle.to(x.dtype), x)
            there = torch.minimum(torch.maximum(there, self.low), self.high)
            fits = self._lengths(there) <= self.how.eps * SAFE
            least, most = torch.where(fits, middle, least), torch.where(fits, most, middle)
            best = torch.where(_wide(fits, x), there, best)
        return torch.where(_wide(out, x), best, cut)

    def _lengths(self, x: Tensor) -> Tensor:
        away = (x.double() - self.centre.double()) / self.scale.double()
        lengths: Tensor = torch.linalg.vector_norm(away.flatten(1), dim=1)
        return lengths


def _objective(runner: Runner, name: str, x: Tensor, y: Tensor | None) -> Tensor:
    """Its value for each input, `(N,)`; a model that draws is one function, started from the seed each time."""
    logits = draws_of(
        runner(run, x.clone()), len(x)
    )  # a clone, for a first layer that works in place
    if y is not None:
        check_labels(y, logits.shape[2])
        return -log_mean(logits).gather(1, y[:, None])[:, 0]
    own = getattr(type(runner.own), "log_confidence", None)
    value = log_confidence(logits) if own is None else own(runner.own, logits)
    return value if name == "confidence" else -value


def _valued(
    objective: Objective, x: Tensor, y: Tensor | None, with_gradient: bool
) -> tuple[Tensor, Tensor]:
    """The objective, and its gradient in x, or an error if they are no numbers; zeros if none is asked for."""
    x = x.detach().requires_grad_(with_gradient)
    with torch.set_grad_enabled(with_gradient):
        values = objective(x, y)
        gradient = input_gradient(values, x, "an attack") if with_gradient else torch.zeros_like(x)
    bad = ~(values.isfinite() & gradient.flatten(1).isfinite().all(1))
    if bad.any():
        raise NescioError(
            f"what the attack raises, or its gradient in the input, is NaN or infinite for "
            f"{int(bad.sum())} of {len(bad)} inputs; expected a model that is differentiable "
            "there"
        )
    return values.detach(), gradient


def _keep_better(best: Tensor, best_value: Tensor, rows: Tensor, x: Tensor, value: Tensor) -> None:
    gain = value > best_value[rows]
    best[rows[gain]], best_value[rows[gain]] = x[gain], value[gain]


def _not_below(edge: Tensor, bound: float) -> Tensor:
    """An edge of a box in its own digits, moved in by one where it would lie below the bound."""
    return torch.where(
        edge.double() < bound, torch.nextafter(edge, torch.full_like(edge, math.inf)), edge
    )


def _edge(x: Tensor, reach: Tensor) -> Tensor:
    """`x + reach`, rounded towards x where it would lie farther than that."""
    exact = x.double() + reach
    edge = exact.to(x.dtype)
    return torch.where(
        (edge.double() - x.double()).abs() > reach.abs(), torch.nextafter(edge, x), edge
    )


def _unit(x: Tensor) -> Tensor:
    """Each input over its Euclidean length; on the scale of its largest component, whose square may underflow."""
    largest = x.flatten(1).abs().amax(1)
    x = x / _wide(largest.where(largest > 0, 1.0), x)
    return x / _wide(torch.linalg.vector_norm(x.flatten(1), dim=1).clamp(min=1e-30), x)


def _wide(values: Tensor, like: Tensor) -> Tensor:
    """`(N,)` as `(N, 1, …)`."""
    return values.view(-1, *[1] * (like.dim() - 1))


def _check_box(x: Tensor, box: tuple[float, float] | None) -> tuple[float, float]:
    if box is None:
        return -math.inf, math.inf
    if (
        not isinstance(box, tuple | list)
        or len(box) != 2
        or not all(isinstance(edge, int | float) for edge in box)
    ):
        raise NescioError(
            f"a box is a pair of numbers (least, largest) such as (0.0, 1.0), or None, not {box!r}"
        )
    low, high = box
    if not low < high:
        raise NescioError(f"a box is a pair (least, largest), not {box!r}")
    outside = ((x < low) | (x > high)).flatten(1).any(1)
    if outside.any():
        raise NescioError(
            f"{int(outside.sum())} of {len(x)} inputs lie outside the box [{low:g}, {high:g}]: they "
            f"range from {x.min():g} to {x.max():g}. Images are expected in [0, 1], with normalisation "
            "inside the model; `attack` takes another box=, or None"
        )
    return float(low), float(high)


def _check_scale(scale: Tensor, x: Tensor) -> Tensor:
    if not isinstance(scale, Tensor):
        raise NescioError(
            f"a scale is a tensor of the shape of one input, not {type(scale).__name__}"
        )
    scale = tensor(scale).to(x.device, x.dtype)
    if scale.shape != x.shape[1:] and scale.dim() > 0:
        raise NescioError(
            f"a scale of shape {tuple(scale.shape)} for inputs of shape {tuple(x.shape[1:])}"
        )
    if not bool(((scale > 0) & scale.isfinite()).all()):
        raise NescioError("a scale must be above 0 for every feature")
    return scale


def _labels(y: Tensor | None, x: Tensor) -> Tensor:
    if y is None:
        raise NescioError("to raise the loss of the true class, the data must come with labels")
    return as_int64(y).to(x.device)
