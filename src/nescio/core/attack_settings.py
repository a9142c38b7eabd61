"""How to search a ball for the worst input: the paper's ways, and the strongest we have."""

from dataclasses import dataclass, replace
from typing import Any

from nescio.core.ball import NORMS
from nescio.errors import NescioError, check_float, check_int, check_name

OBJECTIVES = ("confidence", "loss", "doubt")  # what an attack can raise


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
        adaptive: steps with momentum, which are halved where too few gain (Croce & Hein 2020), up
            the log odds, which do not saturate; where there is no gradient, random moves.
        targets: further ascents, each to one class, the most promising one first; where there are
            fewer classes, one to each.
        known_starts: how many known inputs to try, moved into the ball, before each ascent, which
            starts from the best. This needs no gradient.

    >>> how = Attack("confidence", eps=0.5, steps=10)
    >>> nescio.attacks.attack(net, x, how, box=None).inputs.shape
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
    targets: int = 0
    known_starts: int = 0

    def __post_init__(self) -> None:
        check_name("objective", self.objective, OBJECTIVES)
        check_name("norm", self.norm, NORMS)
        for name in ("eps", "step_size"):
            check_float(name, getattr(self, name), most=1e12)
        check_int("steps", self.steps, least=0)
        check_int("restarts", self.restarts)
        for name in ("targets", "known_starts"):
            check_int(name, getattr(self, name), least=0)
        if self.targets and self.objective == "doubt":
            raise NescioError("an attack that raises doubt has no target, but targets > 0")

    def strengthened(self) -> "Attack":
        """Return the strongest attack we have on the same ball: 1100 steps, 600 forward passes.

        More of each, at many times the cost, found hardly more.

        >>> ATTACKS["adversarial_noise"].strengthened().adaptive
        True
        """
        how = STRONGEST | ({"targets": 0} if self.objective == "doubt" else {})
        return replace(self, **how, step_size=2 * self.eps)


STRONGEST: dict[str, Any] = {"steps": 100, "adaptive": True, "targets": 10, "known_starts": 50}
ATTACKS = {  # as the paper has them
    "training": Attack(),
    "adversarial_noise": Attack(steps=200),
    "adversarial_samples": Attack("loss", steps=80),
    "adversarial_samples_in_colour": Attack("loss", eps=0.1, steps=80, step_size=0.0025),
}


def attack_named(how: Attack | str) -> Attack:
    """Return the attack itself, or the one of the paper's that has this name.

    >>> attack_named("adversarial_noise").steps
    200
    """
    kind = type(how).__name__
    if not isinstance(how, str | Attack):
        raise NescioError(f"an attack is a nescio.attacks.Attack or a name, not a {kind}")
    return ATTACKS[check_name("attack", how, ATTACKS)] if isinstance(how, str) else how
