"""Projected gradient in the input: worst-case noise and adversarial samples (Madry et al. 2018)."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nescio.core.ball import NORMS, Ball, StartStreams, per_input
from nescio.core.forward import check_inputs, draws_of, like_model, run
from nescio.core.input_gradients import check_finite, input_gradient
from nescio.core.logits import log_confidence, log_mean
from nescio.core.predict import Runner, read, running
from nescio.data.batches import as_int64, check_labels, length
from nescio.errors import NescioError, check_float, check_int, check_name
from nescio.progress import bar
from nescio.seeds import check_seed, derived_seed

OBJECTIVES = ("confidence", "loss", "doubt")  # what an attack can raise
# inputs (N, …), labels (N,) or None → (N,), to be raised
Objective = Callable[[Tensor, Tensor | None], Tensor]


@dataclass(frozen=True)
class Attack:
    """How to search the ball around an input.

    Attributes:
        objective: what to raise: the "confidence" (equations 3 and 5 of the paper), the "loss" of
            the true class, or "doubt", which lowers the confidence.
        eps: radius of the ball.
        steps: number of gradient steps, each followed by a projection.
        step_size: length of a step, the first one if steps are adaptive.
        norm: of the ball, "linf" (steps go along the gradient's signs) or "l2" (the gradient).
        random_start: start a random fraction of eps away from the input, not from the input.
        restarts: how often to start; the best of all is kept.
        adaptive: a step that gains is followed by one a tenth longer; one that does not is undone
            and halved.

    >>> how = Attack("confidence", eps=0.5, steps=10)
    >>> attack(net, x, how, box=None).inputs.shape
    torch.Size([2, 2])
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
        check_name("objective", self.objective, OBJECTIVES)
        check_name("norm", self.norm, NORMS)
        for name in ("eps", "step_size"):
            check_float(name, getattr(self, name), most=1e12)
        check_int("steps", self.steps, least=0)
        check_int("restarts", self.restarts)


ATTACKS = {  # as the paper has them
    "training": Attack(),
    "adversarial_noise": Attack(steps=200),
    "adversarial_samples": Attack("loss", steps=80),
    "adversarial_samples_in_colour": Attack("loss", eps=0.1, steps=80, step_size=0.0025),
}


class AttackResult(NamedTuple):
    """Inputs `(N, …)` inside the ball and the box, and the objective `(N,)` there and before."""

    inputs: Tensor
    objective: Tensor
    before: Tensor


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
) -> AttackResult:
    """Return the worst inputs near given ones, by projected gradient.

    None is worse for the attack than the given one. The model is run in eval mode, left as found.

    Args:
        model: any module from inputs to logits `(N, C)` or draws `(S, N, C)`, differentiable in its
            input. A method says what its confidence is; that of a bare network is its largest
            probability.
        data: a tensor, an array, a dataset or a loader; to raise the loss it must come with labels.
        how: an `Attack`, or the name of one of the paper's in `ATTACKS`.
        box: the smallest and largest value of an input, or None without such bounds.
        scale: of the shape of one input: the unit of `eps` and `step_size` for each feature.
        batch_size, seed, progress: as in `predict`; the seed also draws the random starts.

    >>> result = attack(nn.Linear(2, 3), torch.full((5, 2), 0.5))
    >>> bool((result.objective >= result.before).all())
    True
    """
    how = attack_named(how)
    if torch.is_inference_mode_enabled():
        raise NescioError("an attack needs gradients, which torch.inference_mode() rules out")
    check_seed(seed)
    starts = [StartStreams.seeded(derived_seed(seed, "attack", n)) for n in range(how.restarts)]
    bound = 0.0 if how.objective == "confidence" else math.inf
    results: list[list[Tensor]] = []
    before = 0
    total, steps = length(data), max(1, how.restarts * how.steps)
    with running(model, seed, False) as runner, bar(total, "attack", progress) as shown:
        objective = partial(_objective, runner, how.objective)
        for batch, y in read(data, batch_size, seed):
            x = like_model(batch, model).detach()
            check_inputs(x, model, before)
            if not x.is_floating_point():
                raise NescioError(f"inputs of an attack must be floats, not {x.dtype}")
            if how.objective == "loss" and y is None:
                raise NescioError("to raise the loss of the true class, the data need labels")
            labels = None if y is None or how.objective != "loss" else as_int64(y).to(x.device)

            def on_step(step: int, first: int = before, size: int = len(x)) -> None:
                shown.at(first + size * step / steps, total)  # a batch may take minutes

            worst = ascend(objective, x, labels, how, box, scale, starts, bound, on_step)
            results.append([part.to(batch.device) for part in worst])
            before += len(x)
            shown.at(before, total)
    return AttackResult(*map(torch.cat, zip(*results, strict=True)))


def attack_named(how: Attack | str) -> Attack:
    """Return the attack itself, or the one of the paper's that has this name.

    >>> attack_named("adversarial_noise").steps
    200
    """
    kind = type(how).__name__
    if not isinstance(how, str | Attack):
        raise NescioError(f"an attack is a nescio.attacks.Attack or a name, not a {kind}")
    return ATTACKS[check_name("attack", how, ATTACKS)] if isinstance(how, str) else how


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
) -> AttackResult:
    """Attack one batch on any objective; return the best of inputs, starts and all iterates.

    An input that no step moves any more, or whose objective is at its upper `bound`, takes no
    further part. Random starts come from torch's global generator unless `starts` has others, one
    for each restart. `on_step` is called with the steps done so far, of all restarts.

    >>> confidence = lambda x, y: net(x).softmax(-1).amax(-1)
    >>> result = ascend(confidence, x[:1], None, Attack(eps=0.5, steps=3))
    >>> bool(result.objective >= result.before)
    True
    """
    full_ball = Ball.around(x, how.norm, how.eps, box, scale)
    before, _ = _evaluate(objective, x, y, graded=False)
    best, best_value = x.clone(), before.clone()
    for restart, start in enumerate(starts or [StartStreams()] * how.restarts):
        ball, rows, labels = full_ball, torch.arange(len(x), device=x.device), y
        point = ball.project(ball.random(start)) if how.random_start else x
        value, gradient = _evaluate(objective, point, labels, graded=how.steps > 0)
        _keep_better(best, best_value, rows, point, value)
        step_size = torch.full_like(value, how.step_size)  # for each input
        for step in range(1, how.steps + 1):
            on_step(restart * how.steps + step - 1)
            target = ball.project(ball.step(point, gradient, step_size))
            moving = (target != point).flatten(1).any(1) & (value < bound)
            # not at every change: a batch of a new size has its cost, too
            if 4 * int(moving.sum()) <= 3 * len(rows):
                if not moving.any():
                    break
                ball, rows = ball.of(moving), rows[moving]
                labels = None if labels is None else labels[moving]
                point, target, value = point[moving], target[moving], value[moving]
                gradient, step_size = gradient[moving], step_size[moving]
            new_value, slope = _evaluate(objective, target, labels, graded=step < how.steps)
            _keep_better(best, best_value, rows, target, new_value)
            if how.adaptive:
                gained = new_value > value
                step_size = torch.where(gained, 1.1 * step_size, 0.5 * step_size)
                wide = per_input(gained, x)
                target, slope = torch.where(wide, target, point), torch.where(wide, slope, gradient)
                new_value = torch.where(gained, new_value, value)
            point, value, gradient = target, new_value, slope
    return AttackResult(best, best_value, before)


@contextmanager
def freeze_weights(model: nn.Module) -> Iterator[None]:
    """Compute no gradient of the weights in a block, nor prepare for one.

    >>> with freeze_weights(net):
    ...     net(x).requires_grad
    False
    """
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    for weight in weights:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in weights:
            weight.requires_grad_(True)


def _objective(runner: Runner, name: str, x: Tensor, y: Tensor | None) -> Tensor:
    """Its value for each input, `(N,)`; each run of a stochastic model starts from the seed."""
    logits = draws_of(runner(run, x.clone()), len(x))  # a clone: the first layer may work in place
    if y is not None:
        check_labels(y, logits.shape[2])
        return -log_mean(logits).gather(1, y[:, None])[:, 0]
    of_method = getattr(type(runner.model), "log_confidence", None)
    value = log_confidence(logits) if of_method is None else of_method(runner.model, logits)
    return value if name == "confidence" else -value


def _evaluate(of: Objective, x: Tensor, y: Tensor | None, graded: bool) -> tuple[Tensor, Tensor]:
    """The objective and, if `graded`, its gradient in x, or an error if they are not finite."""
    x = x.detach().requires_grad_(graded)
    with torch.set_grad_enabled(graded):
        values = of(x, y)
        gradient = input_gradient(values, x, "an attack") if graded else torch.zeros_like(x)
    check_finite(["the attack's objective"], values[None], gradient[None])
    return values.detach(), gradient


def _keep_better(best: Tensor, best_value: Tensor, rows: Tensor, x: Tensor, value: Tensor) -> None:
    gain = value > best_value[rows]
    best[rows[gain]], best_value[rows[gain]] = x[gain], value[gain]
