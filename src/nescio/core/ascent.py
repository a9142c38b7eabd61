"""Ascent of an objective of each input within its ball, by steps along projected gradients."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from nescio.core.attack_settings import Attack
from nescio.core.ball import Ball, StartStreams, per_input
from nescio.core.input_gradients import check_finite, input_gradient

# inputs (N, …), labels (N,) or None → (N,), to be raised
Objective = Callable[[Tensor, Tensor | None], Tensor]
WINDOW = 10  # adaptive steps from one decision on their length to the next
MIN_GAINS = 0.75  # fraction of steps that must gain, lest they be halved
MOMENTUM = 0.25  # of the last move, in the next one


class AttackResult(NamedTuple):
    """Inputs `(N, …)` inside the ball and the box, and the objective `(N,)` there and before."""

    inputs: Tensor
    objective: Tensor
    before: Tensor


class Ascent:
    """Where each input of a batch is on its way up, by steps of constant length.

    Attributes:
        rows: which of the batch still take part, and `labels` theirs.
        point, value, gradient: where they are, and the objective there.
    """

    def __init__(
        self, ball: Ball, labels: Tensor | None, step_size: float, streams: StartStreams
    ) -> None:
        self.ball, self.labels, self.streams = ball, labels, streams
        self.rows = torch.arange(len(ball.centre), device=ball.centre.device)
        self.step_size = ball.centre.new_full((len(ball.centre),), step_size)

    def start(self, point: Tensor, value: Tensor, gradient: Tensor) -> None:
        """Begin at a point."""
        self.point, self.value, self.gradient = point, value, gradient

    def target(self) -> Tensor:
        """Return where the next step leads."""
        return self.ball.project(self.ball.step(self.point, self.gradient, self.step_size))

    def arrive(self, point: Tensor, value: Tensor, gradient: Tensor) -> None:
        """Go to a point, given the objective there."""
        self.point, self.value, self.gradient = point, value, gradient

    def keep(self, which: Tensor) -> None:
        """Go on with some of the inputs only."""
        self.ball = self.ball.of(which)
        for name, part in vars(self).items():
            if isinstance(part, Tensor):
                setattr(self, name, part[which])


class AdaptiveAscent(Ascent):
    """Steps with momentum, halved where too few of them gain, as in APGD (Croce & Hein 2020).

    What is halved goes on from its best point. When to decide does not depend on the number of
    steps to come, so that more steps never do worse. An input without any gradient, as where all
    units are dead, is moved at random in the ball until it has one.
    """

    def start(self, point: Tensor, value: Tensor, gradient: Tensor) -> None:
        super().start(point, value, gradient)
        self.steps = 0
        self.last, self.best, self.best_value, self.best_gradient = point, point, value, gradient
        self.gains, self.decided_value = torch.zeros_like(value), value
        self.halved = torch.zeros_like(value, dtype=torch.bool)

    def target(self) -> Tensor:
        stepped = super().target()
        moved = self.point + (1 - MOMENTUM) * (stepped - self.point)
        moved = self.ball.project(moved + MOMENTUM * (self.point - self.last))
        # at the start there is no momentum, and a whole step
        target = stepped if self.steps == 0 else moved
        self.dead = (self.gradient == 0).flatten(1).all(1)
        if not self.dead.any():
            return target
        anywhere = self.ball.project(self.ball.random(self.streams.of_step(self.steps), alike=True))
        return torch.where(per_input(self.dead, target), anywhere, target)

    def arrive(self, point: Tensor, value: Tensor, gradient: Tensor) -> None:
        self.gains = self.gains + (value > self.value)
        # a random move gives no momentum
        self.last = torch.where(per_input(self.dead, point), point, self.point)
        super().arrive(point, value, gradient)
        # what gains nothing but has a gradient is better than what has none
        waking = (self.best_gradient == 0).flatten(1).all(1) & (gradient != 0).flatten(1).any(1)
        better = (value > self.best_value) | (waking & (value >= self.best_value))
        wide = per_input(better, point)
        self.best = torch.where(wide, point, self.best)
        self.best_gradient = torch.where(wide, gradient, self.best_gradient)
        self.best_value = torch.where(better, value, self.best_value)
        self.steps += 1
        if self.steps % WINDOW == 0:
            self._decide()

    def _decide(self) -> None:
        idle = ~self.halved & (self.best_value <= self.decided_value)
        self.halved = (self.gains < MIN_GAINS * WINDOW) | idle
        self.step_size = torch.where(self.halved, self.step_size / 2, self.step_size)
        wide = per_input(self.halved, self.point)
        self.point = torch.where(wide, self.best, self.point)
        self.last = torch.where(wide, self.best, self.last)
        self.gradient = torch.where(wide, self.best_gradient, self.gradient)
        self.value = torch.where(self.halved, self.best_value, self.value)
        self.gains, self.decided_value = torch.zeros_like(self.gains), self.best_value


def climb(
    objective: Objective,
    ascent: Ascent,
    point: Tensor,
    steps: int,
    bound: float,
    on_step: Callable[[int], None],
    keep_better: Callable[[Tensor, Tensor, Tensor], None],
) -> None:
    """Go up from a point; `keep_better` is given rows, points and values of every iterate."""
    value, gradient = evaluate(objective, point, ascent.labels, graded=steps > 0)
    keep_better(ascent.rows, point, value)
    ascent.start(point, value, gradient)
    for step in range(1, steps + 1):
        on_step(step - 1)
        target = ascent.target()
        moving = (target != ascent.point).flatten(1).any(1) & (ascent.value < bound)
        # not at every change: a batch of a new size has its cost, too
        if 4 * int(moving.sum()) <= 3 * len(moving):
            if not moving.any():
                break
            ascent.keep(moving)
            target = target[moving]
        value, gradient = evaluate(objective, target, ascent.labels, graded=step < steps)
        keep_better(ascent.rows, target, value)
        ascent.arrive(target, value, gradient)


def best_start(
    objective: Objective, point: Tensor, labels: Tensor | None, ball: Ball, known: Tensor
) -> Tensor:
    """Return the best of a point and of known inputs `(M, …)` moved into the ball, for each input.

    This takes no gradient, which there may be none of around the point.
    """
    best = point.clone()
    best_value, _ = evaluate(objective, point, labels, graded=False)
    for one in known:
        moved = ball.project(one.expand_as(point))
        value, _ = evaluate(objective, moved, labels, graded=False)
        gain = value > best_value
        best[gain], best_value[gain] = moved[gain], value[gain]
    return best


def evaluate(of: Objective, x: Tensor, y: Tensor | None, graded: bool) -> tuple[Tensor, Tensor]:
    """Return the objective and, if `graded`, its gradient in x, or raise if they are not finite."""
    x = x.detach().requires_grad_(graded)
    with torch.set_grad_enabled(graded):
        values = of(x, y)
        gradient = input_gradient(values, x, "an attack") if graded else torch.zeros_like(x)
    check_finite(["the attack's objective"], values[None], gradient[None])
    return values.detach(), gradient


def ascend(
    objective: Objective,
    x: Tensor,
    y: Tensor | None,
    how: Attack,
    box: tuple[float, float] | None = None,
    scale: Tensor | None = None,
    starts: Sequence[StartStreams] | None = None,
    bound: float = math.inf,
    on_step: Callable[[int], None] = lambda _: None,
    known: Tensor | None = None,
) -> AttackResult:
    """Attack one batch on any objective; return the best of inputs, starts and all iterates.

    An input that no step moves any more, or whose objective is at its upper `bound`, takes no
    further part. Random starts come from torch's global generator unless `starts` has others, one
    for each restart. `on_step` is called with the steps done so far, of all restarts. Of `known`
    inputs `(M, …)` some are tried as starts, as `how` says; its `targets` are for `attack` alone.

    >>> confidence = lambda x, y: net(x).softmax(-1).amax(-1)
    >>> result = ascend(confidence, x[:1], None, Attack(eps=0.5, steps=3))
    >>> bool(result.objective >= result.before)
    True
    """
    ball = Ball.around(x, how.norm, how.eps, box, scale)
    before, _ = evaluate(objective, x, y, graded=False)
    best, best_value = x.clone(), before.clone()

    def keep_better(rows: Tensor, point: Tensor, value: Tensor) -> None:
        gain = value > best_value[rows]
        best[rows[gain]], best_value[rows[gain]] = point[gain], value[gain]

    for restart, start in enumerate(starts or [StartStreams()] * how.restarts):
        point = ball.project(ball.random(start)) if how.random_start else x
        if known is not None and how.known_starts:
            chosen = start.choose(how.known_starts, known)
            point = best_start(objective, point, y, ball, chosen)
        ascent = (AdaptiveAscent if how.adaptive else Ascent)(ball, y, how.step_size, start)
        on_this = partial(lambda done, step: on_step(done + step), restart * how.steps)
        climb(objective, ascent, point, how.steps, bound, on_this, keep_better)
    return AttackResult(best, best_value, before)
