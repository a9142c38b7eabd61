"""Learning rate schedules: functions from the fraction of training done, `0 ≤ t < 1`, to a factor.

They have no state, and print as they are called: a checkpoint can tell if it has the same schedule.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from nescio.errors import NescioError, check_float

Schedule = Callable[[float], float]  # the fraction of training done → a factor of the learning rate


@dataclass(frozen=True)
class Constant:
    """No change.

    >>> Constant()(0.9)
    1.0
    """

    def __call__(self, t: float) -> float:
        return 1.0


@dataclass(frozen=True)
class Step:
    """Multiplied by `factor` at each milestone, a fraction of the training.

    >>> Step(at=(0.5, 0.75), factor=0.1)(0.5)
    0.1
    """

    at: tuple[float, ...] = (0.5, 0.75, 0.9)
    factor: float = 0.1

    def __post_init__(self) -> None:
        try:
            valid = all(0 < fraction < 1 for fraction in self.at) and self.factor > 0
        except TypeError:  # no numbers
            valid = False
        if not valid:
            expected = "fractions of the training in (0, 1) and the factor > 0"
            raise NescioError(f"milestones must be {expected}, got {self.at!r} and {self.factor!r}")

    def __call__(self, t: float) -> float:
        return float(self.factor ** sum(t >= fraction for fraction in self.at))


@dataclass(frozen=True)
class Cosine:
    """From 1 to 0 along half a cosine (Loshchilov & Hutter 2017).

    >>> Cosine()(0.5)
    0.5
    """

    def __call__(self, t: float) -> float:
        return 0.5 * (1.0 + math.cos(math.pi * t))


@dataclass(frozen=True)
class OneCycle:
    """A cosine up from `start` to 1 during `warm_up`, then down to `end` (Smith & Topin 2018).

    >>> OneCycle()(0.3)
    1.0
    """

    warm_up: float = 0.3
    start: float = 0.04
    end: float = 4e-6

    def __post_init__(self) -> None:
        check_float("warm_up", self.warm_up, 0, 1, inside=True)
        check_float("start", self.start)
        check_float("end", self.end)

    def __call__(self, t: float) -> float:
        low, fraction = self.start, 1 - t / self.warm_up
        if t >= self.warm_up:
            low, fraction = self.end, (t - self.warm_up) / (1 - self.warm_up)
        return low + (1.0 - low) * 0.5 * (1.0 + math.cos(math.pi * fraction))


def thirds() -> Step:
    """Return a fifth after each third of the training, as in *DUQ*'s runs on FashionMNIST.

    >>> thirds()(0.5)
    0.2
    """
    return Step(at=(1 / 3, 2 / 3), factor=0.2)


# by the names that `train` takes
SCHEDULES: dict[str, Callable[[], Schedule]] = {"constant": Constant, "step": Step}
SCHEDULES |= {"thirds": thirds, "cosine": Cosine, "one_cycle": OneCycle}
