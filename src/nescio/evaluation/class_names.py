"""Names for the outputs of a user's network, and whether labelled data agree with their order."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from nescio.arrays import Array
from nescio.core.logits import classes
from nescio.core.predict import predict
from nescio.data import Samples
from nescio.errors import NescioError
from nescio.metrics.percent import percent

UNKNOWN = "unknown"  # what answers call an input of no class
MAX_CHECKED_INPUTS = 2000  # labelled inputs that names are compared with
MAX_NAMES = 20  # in an advice


def class_names(
    chosen: Sequence[str], of_data: Sequence[str], outputs: int, where: str
) -> tuple[str, ...]:
    """Return a name for each output of a network: as given, those of the data, or numbers."""
    if chosen and len(chosen) != outputs:
        raise NescioError(f"got {len(chosen)} class names, but the network has {outputs} outputs")
    names = tuple(chosen or of_data)
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
    """Raise an error if two names are the same, or one is that of no class."""
    if UNKNOWN in names or len(set(names)) < len(names):
        raise NescioError(
            f"class names must differ from each other and from {UNKNOWN!r}, got {', '.join(names)}"
        )


def doubt(net: nn.Module, samples: Samples, names: Sequence[str]) -> str | None:
    """Return a warning if the names seem to be in another order than the network's outputs.

    Samples are taken evenly over all, since classes may come one after another.
    """
    step = max(1, math.ceil(len(samples) / MAX_CHECKED_INPUTS))
    x, labels = samples.take(torch.arange(len(samples))[::step])
    counts = confusion(classes(predict(net, x, progress=False)), labels, len(names))
    correct, total = int(np.trace(counts)), int(counts.sum())
    order, chance = best_order(counts), 1 / len(names)
    moved = [output for output, label in enumerate(order) if output != label]
    gain = sum(int(counts[output, order[output]] - counts[output, output]) for output in moved)
    accuracy = (
        f"under these class names the network is right for {percent(correct / total, 0)} "
        f"of {total} labelled inputs"
    )
    if gain > 3 * math.sqrt(counts[moved].sum()):  # more than the best of all orders has at random
        suggested = f"; the labels suggest {','.join(names[i] for i in order)}"
        return (
            f"{accuracy}, in another order for {percent((correct + gain) / total, 0)}: name its "
            "outputs in their order with --class-names"
            f"{suggested if len(names) <= MAX_NAMES else ''}"
        )
    if correct <= total * chance + 2 * math.sqrt(total * chance * (1 - chance)):
        return (
            f"{accuracy}, no better than chance ({percent(chance, 0)}): check that weights and "
            "labels belong together, and name the outputs in their order with --class-names"
        )
    return None


def confusion(predicted: Tensor, labels: Tensor, count: int) -> Array:
    """How often each of so many outputs was the answer to each label, `(C, C)`."""
    return (predicted * count + labels).bincount(minlength=count**2).reshape(count, count).numpy()


def best_order(counts: Array) -> list[int]:
    """The label for each output, all different, with the highest accuracy; of equals its own."""
    tie_break = 0.5 / len(counts) * np.eye(len(counts))  # of all together less than one answer
    return [int(label) for label in linear_sum_assignment(counts + tie_break, maximize=True)[1]]
