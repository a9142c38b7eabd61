"""Projected gradient in the input: worst-case noise and adversarial samples (Madry et al. 2018)."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core.ascent import AttackResult as AttackResult
from nescio.core.ascent import Objective as Objective
from nescio.core.ascent import ascend as ascend
from nescio.core.ascent import evaluate
from nescio.core.attack_settings import ATTACKS as ATTACKS
from nescio.core.attack_settings import OBJECTIVES as OBJECTIVES
from nescio.core.attack_settings import Attack as Attack
from nescio.core.attack_settings import attack_named as attack_named
from nescio.core.ball import Ball, StartStreams, per_input
from nescio.core.forward import check_inputs, draws_of, like_model, run
from nescio.core.logits import log_confidence, log_mean
from nescio.core.predict import Runner, read, running
from nescio.data.batches import as_int64, check_labels, length
from nescio.errors import NescioError
from nescio.progress import bar
from nescio.seeds import check_seed, derived_seed

_CLASS = "class"  # what is raised on the way to one


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
    known: Tensor | None = None,
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
        known: inputs, such as those the model was trained on, from which an attack with
            `known_starts` takes them.

    >>> result = attack(nn.Linear(2, 3), torch.full((5, 2), 0.5))
    >>> bool((result.objective >= result.before).all())
    True
    """
    how = attack_named(how)
    if torch.is_inference_mode_enabled():
        raise NescioError("an attack needs gradients, which torch.inference_mode() rules out")
    check_seed(seed)
    results: list[list[Tensor]] = []
    before, total = 0, length(data)
    with running(model, seed, False) as runner, bar(total, "attack", progress) as shown:
        near = _checked_known(known, model)
        search = _Search(runner, how, box, scale, near, seed)
        for batch, y in read(data, batch_size, seed):
            x = like_model(batch, model).detach()
            if near is not None and near.shape[1:] != x.shape[1:]:
                shapes = f"{tuple(near.shape[1:])}, those attacked {tuple(x.shape[1:])}"
                raise NescioError(f"known inputs have the shape {shapes}")
            check_inputs(x, model, before)
            if not x.is_floating_point():
                raise NescioError(f"inputs of an attack must be floats, not {x.dtype}")
            if how.objective == "loss" and y is None:
                raise NescioError("to raise the loss of the true class, the data need labels")
            labels = None if y is None or how.objective != "loss" else as_int64(y).to(x.device)

            def on_part(part: float, first: int = before, size: int = len(x)) -> None:
                shown.at(first + size * part, total)  # a batch may take minutes

            worst = search.of(x, labels, on_part)
            results.append([part.to(batch.device) for part in worst])
            before += len(x)
            shown.at(before, total)
    return AttackResult(*map(torch.cat, zip(*results, strict=True)))


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


def _checked_known(known: Tensor | None, model: nn.Module) -> Tensor | None:
    """Known inputs as the model takes them, or an error if they are no inputs."""
    if known is None:
        return None
    if not isinstance(known, Tensor) or not len(known):
        raise NescioError(f"known must be a tensor of inputs, got {type(known).__name__}")
    check_inputs(known, model, 0)
    return like_model(known, model).detach()


class _Search:
    """An attack on a model, batch by batch: ascents of its objective, then to classes."""

    def __init__(
        self,
        runner: Runner,
        how: Attack,
        box: tuple[float, float] | None,
        scale: Tensor | None,
        known: Tensor | None,
        seed: int,
    ) -> None:
        self.runner, self.how, self.known = runner, how, known
        self.box, self.scale = box, scale
        count = how.restarts + how.targets
        self.starts = [StartStreams.seeded(derived_seed(seed, "attack", n)) for n in range(count)]

    def of(self, x: Tensor, y: Tensor | None, on_part: Callable[[float], None]) -> AttackResult:
        """Attack a batch; `on_part` is called with the fraction of its steps that are done."""
        how, own = self.how, self.how.restarts
        objective, to_class = (
            partial(_objective, self.runner, name, how.adaptive) for name in (how.objective, _CLASS)
        )
        targets = self._targets(x, y) if how.targets else ()
        total = max(1, (own + len(targets)) * how.steps)
        bound = 0.0 if how.objective == "confidence" and not how.adaptive else math.inf
        climb = partial(ascend, x=x, how=how, box=self.box, scale=self.scale, known=self.known)
        found = climb(
            objective,
            y=y,
            starts=self.starts[:own],
            bound=bound,
            on_step=lambda step: on_part(step / total),
        )
        best, value = found.inputs, found.objective
        for number, aim in enumerate(targets, own):
            start, done = self.starts[number], number * how.steps
            on_step = partial(lambda done, step: on_part((done + step) / total), done)
            there = climb(to_class, y=aim, starts=[start], on_step=on_step).inputs
            there_value, _ = evaluate(objective, there, y, graded=False)
            best = torch.where(per_input(there_value > value, x), there, best)
            value = torch.maximum(there_value, value)
        if not how.adaptive:
            return AttackResult(best, value, found.before)
        plain = partial(_objective, self.runner, how.objective, False)
        before, after = (evaluate(plain, at, y, graded=False)[0] for at in (x, best))
        better = after >= before  # odds may be a rounding apart where these are not
        best = torch.where(per_input(better, x), best, x)
        return AttackResult(best, torch.where(better, after, before), before)

    def _targets(self, x: Tensor, y: Tensor | None) -> Tensor:
        """Classes to aim at, a row `(N,)` per ascent, first those the known starts are nearest."""
        places, how = [x], self.how
        if self.known is not None and how.known_starts:
            ball = Ball.around(x, how.norm, how.eps, self.box, self.scale)
            chosen = self.starts[0].choose(how.known_starts, self.known)
            places += [ball.project(one.expand_as(x)) for one in chosen]
        nearest = torch.full((), -math.inf)
        with torch.no_grad():
            for place in places:
                nearest = torch.maximum(nearest, log_mean(_logits(self.runner, place)))
        if y is not None:
            nearest = nearest.scatter(1, y[:, None], -math.inf)
        most = nearest.shape[1] - (y is not None)
        return nearest.topk(min(how.targets, most), 1).indices.T


def _logits(runner: Runner, x: Tensor) -> Tensor:
    """Logits `(S, N, C)`; each run of a stochastic model starts from the seed."""
    return draws_of(runner(run, x.clone()), len(x))  # a clone: the first layer may work in place


def _objective(runner: Runner, name: str, odds: bool, x: Tensor, y: Tensor | None) -> Tensor:
    """What to raise for each input, `(N,)`; of probabilities the log or, if `odds`, the log odds.

    Log odds rise in the probability, but saturate neither in value nor in gradient.
    """
    logits, model = _logits(runner, x), runner.model
    kernels = getattr(type(model), "confidence_kind", None) == "kernel" and name != "loss"
    if y is not None:
        check_labels(y, logits.shape[2])
        log_p, of = logits[0] if kernels else log_mean(logits), y
    elif odds and not kernels:
        log_p = log_mean(logits)
        of = log_p.argmax(1)
    else:
        of_method = getattr(type(model), "log_confidence", None)
        value = log_confidence(logits) if of_method is None else of_method(model, logits)
        return -value if name == "doubt" else value
    value = log_p.gather(1, of[:, None])[:, 0]
    if odds and not kernels:
        value = value - log_p.scatter(1, of[:, None], -math.inf).logsumexp(1)
    return value if name in ("confidence", _CLASS) else -value
