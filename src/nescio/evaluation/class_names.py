"""Names for the outputs of a user's network, and whether labelled data agree with their order."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from nescio.core.logits import classes
from nescio.core.predict import predict
from nescio.data import Samples
from nescio.data.arrays import Array
from nescio.errors import NescioError
from nescio.metrics.percent import percent

UNKNOWN = "unknown"  # what answers call an input of no class
TRIED = 2000  # labelled inputs that names are held against
FEW = 20  # names in an advice


def class_names(
    given: Sequence[str], named: Sequence[str], outputs: int, where: str
) -> tuple[str, ...]:
    """A name for each output of a network: as given, or of the data, if they are as many, or numbers."""
    if given and len(given) != outputs:
        raise NescioError(
            f"{len(given)} class names were given, but the network has {outputs} outputs"
        )
    names = tuple(given or named)
    if not names or (len(names) != outputs and all(name.isdecimal() for name in names)):
        names = tuple(map(str, range(outputs)))
    if len(names) != outputs:
        raise NescioError(
            f"{where} has {len(names)} classes ({', '.join(names[:5])}, …), but the network has "
            f"{outputs} outputs; name all of them in their order with --class-names"
        )
    check_names(names)
    return names


def check_names(names: Sequence[str]) -> None:
    """An error if two names are the same, or one is that of no class."""
    if UNKNOWN in names or len(set(names)) < len(names):
        raise NescioError(
            f"class names must differ from each other and from {UNKNOWN!r}, not {', '.join(names)}"
        )


def doubt(net: nn.Module, samples: Samples, names: Sequence[str]) -> str | None:
    """A warning in words if the names of a network's outputs seem to be in another order than the outputs, or None.

    It is asked on at most `TRIED` of the labelled samples, evenly over all, since classes may come one after another.
    """
    places = torch.arange(len(samples))[:: max(1, math.ceil(len(samples) / TRIED))]
    x, labels = samples.take(places)
    answered = classes(predict(net, x, progress=False))
    found = table(answered, labels, len(names))
    right, total = int(np.trace(found)), int(found.sum())
    order = best_order(found)
    moved = [output for output, label in enumerate(order) if output != label]
    better = sum(int(found[output, order[output]] - found[output, output]) for output in moved)
    chance = 1 / len(names)
    told = f"under these class names the network is right for {percent(right / total, 0)} of {total} labelled inputs"
    if better > 3 * math.sqrt(
        found[moved].sum()
    ):  # more than chance would give to the best of all orders
        advice = (
            f"; the labels suggest {','.join(names[i] for i in order)}" if len(names) <= FEW else ""
        )
        other = percent((right + better) / total, 0)
        return (
            f"{told}, in another order it would be for {other}: name its outputs in their "
            f"order with --class-names{advice}"
        )
    if right <= total * chance + 2 * math.sqrt(total * chance * (1 - chance)):
        return (
            f"{told}, no better than chance ({percent(chance, 0)}): see that weights and labels belong together, "
            "and name the outputs in their order with --class-names"
        )
    return None


def table(answered: Tensor, labels: Tensor, count: int) -> Array:
    """How often each of so many outputs was the answer to each label, `(C, C)`."""
    return (answered * count + labels).bincount(minlength=count**2).reshape(count, count).numpy()


def best_order(found: Array) -> list[int]:
    """The label for each output, all different, with which most answers are right; of equals rather its own."""
    own = 0.5 / len(found) * np.eye(len(found))  # of all together less than one answer
    return [int(label) for label in linear_sum_assignment(found + own, maximize=True)[1]]
