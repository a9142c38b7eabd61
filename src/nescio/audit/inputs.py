"""What audits share: inputs that can be moved, a box to draw them in, features by name."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nescio.arrays import Array, as_array, is_array, items
from nescio.core.forward import check_inputs
from nescio.core.predict import read
from nescio.data import Known
from nescio.data.arrays import tensor
from nescio.data.batches import batches
from nescio.errors import NescioError, check_float, check_int, unknown_name
from nescio.seeds import check_seed, derived_seed

Box = tuple[Tensor, Tensor]  # the smallest and the largest input, shaped as one input, in float64
READ_BATCH = 4096  # inputs read at a time


def all_inputs(model: nn.Module, data: Any, batch_size: int = READ_BATCH, seed: int = 0) -> Tensor:
    """Return all inputs in one tensor, in float64; random data are read as `predict` does."""
    parts = [x for x, _ in read(data, batch_size, check_seed(seed))]
    if len({x.shape[1:] for x in parts}) > 1 or not parts[0][0].numel():
        shapes = f"{tuple(parts[0].shape[1:])} and {tuple(parts[-1].shape[1:])}"
        expected = "expected one shape, with at least one feature"
        raise NescioError(f"inputs of shape {shapes}; {expected}")
    inputs = torch.cat(parts)
    check_inputs(inputs, model)
    if not inputs.is_floating_point():
        raise NescioError(f"inputs of {inputs.dtype} cannot be moved; expected floating point")
    return inputs.double()


def as_float64(name: str, values: Any, expected: str) -> Tensor:
    """Return a tensor of a tensor, an array or nested numbers, or raise an error."""
    try:
        numbers = tensor(values) if is_array(values) else values
        return torch.as_tensor(numbers, dtype=torch.float64).detach().cpu()
    except NescioError:
        raise
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise NescioError(f"{name}={values!r}; expected {expected}") from error


def check_box(box: Any) -> Box:
    """Return a box of two finite tensors of one shape, or raise an error."""
    sides = tensor(box) if is_array(box) else box
    of_tensor = isinstance(sides, Tensor) and sides.dim() > 0
    listed = isinstance(sides, Sequence) and not isinstance(sides, str)
    if not (of_tensor or listed) or len(sides) != 2:
        expected = "expected a pair: the smallest and the largest input, shaped as one input"
        raise NescioError(f"box={box!r}; {expected}")
    low, high = (tensor(side).detach().double() for side in sides)
    if low.shape != high.shape or low.dim() == 0 or low.numel() == 0:
        shapes = f"{tuple(low.shape)} to {tuple(high.shape)}"
        raise NescioError(f"a box of {shapes}; expected two shaped as one input")
    finite = bool(low.isfinite().all() and high.isfinite().all())
    if not finite or not (low <= high).all() or not (low < high).any():
        raise NescioError("a box must be finite, low ≤ high everywhere and low < high somewhere")
    return low, high


def box_of(known: Known) -> Box:
    """Return [0, 1] for images, or the range of each feature of a table.

    >>> low, high = box_of(known)
    >>> low.shape, bool((low < high).all())
    (torch.Size([2]), True)
    """
    low, high = torch.zeros(2, *known.shape, dtype=torch.float64)
    if known.kind == "image":
        return low, high + 1
    low, high = low + torch.inf, high - torch.inf
    for x, _ in batches(known.test if known.train is None else known.train, READ_BATCH):
        low, high = torch.minimum(low, x.double().amin(0)), torch.maximum(high, x.double().amax(0))
    return low, high


def uniform_in(box: Box, count: int, seed: int) -> Tensor:
    """Return inputs `(count, …)` drawn uniformly in a box."""
    low, high = box
    generator = torch.Generator().manual_seed(derived_seed(seed, "box", 0))
    fraction = torch.rand((count, *low.shape), generator=generator, dtype=torch.float64)
    return low + (high - low) * fraction


def check_window(window: Any) -> Array:
    """Return a window `((left, right), (bottom, top))` as `(2, 2)`, or raise an error."""
    expected = "((left, right), (bottom, top)) with left < right and bottom < top"
    wrong = NescioError(f"window must be {expected}, got {window!r}")
    try:
        (left, right), (bottom, top) = as_array(window).tolist() if is_array(window) else window
    except (TypeError, ValueError) as error:
        raise wrong from error
    ends = [
        check_float("an end of the window", e, least=-1e100) for e in (left, right, bottom, top)
    ]
    sides = np.array(ends).reshape(2, 2)
    if not (sides[:, 0] < sides[:, 1]).all():
        raise wrong
    return sides


def named_features(
    features: Any, names: Any, width: int, default: Sequence[int]
) -> tuple[list[str], list[int]]:
    """Return a name for each of `width` features, and the positions of those chosen, each once.

    Features are chosen by position or name; without names they are called by their numbers.
    """
    if names is None:
        names = [f"feature {position}" for position in range(width)]
    if isinstance(names, str) or not isinstance(names, Sequence | np.ndarray):
        raise NescioError(f"names={names!r}; expected a name for each feature")
    names = [str(name) for name in items("names", names)]
    repeated = len(names) - len(set(names))
    if len(names) != width or repeated:
        given = f"{len(names)} names, {repeated} of them repeated"
        raise NescioError(f"{given}; expected {width} distinct ones, one for each feature")
    if features is None:
        return names, list(default)
    single = isinstance(features, str) or not hasattr(features, "__iter__")
    chosen = []
    for feature in [features] if single else items("features", features):
        if isinstance(feature, str) and feature not in names:
            raise unknown_name("feature", feature, names)
        position = names.index(feature) if isinstance(feature, str) else feature
        chosen.append(check_int("a feature's position", position, least=0, below=width))
    return names, list(dict.fromkeys(chosen))


def fraction(chosen: Tensor) -> float:
    """Return the fraction of True."""
    return int(chosen.sum()) / len(chosen)


def finite_or_none(values: Tensor) -> tuple[float | None, ...]:
    """Return all numbers, None for those that are not finite."""
    return tuple(value if math.isfinite(value) else None for value in values.flatten().tolist())
