"""What an audit starts from: inputs that can be moved, or a box to draw them in."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nescio.arrays import is_array
from nescio.core.forward import check_inputs
from nescio.core.predict import read
from nescio.data import Known
from nescio.data.arrays import tensor
from nescio.data.batches import batches
from nescio.errors import NescioError
from nescio.seeds import check_seed, derived_seed

Box = tuple[
    Tensor, Tensor
]  # the least and the largest an input may be, shaped as one input, in float64


def all_inputs(model: nn.Module, data: Any, batch_size: int, seed: int) -> Tensor:
    """All inputs in one tensor, in float64; data that draw do so from a stream of the seed, as in `predict`."""
    parts = [x for x, _ in read(data, batch_size, check_seed(seed))]
    if len({x.shape[1:] for x in parts}) > 1 or not parts[0][0].numel():
        raise NescioError(
            f"inputs of shape {tuple(parts[0].shape[1:])} and {tuple(parts[-1].shape[1:])}; expected one "
            "shape, with at least one feature"
        )
    inputs = torch.cat(parts)
    check_inputs(inputs, model)
    if not inputs.is_floating_point():
        raise NescioError(f"inputs of {inputs.dtype} cannot be moved; expected floating point")
    return inputs.double()


def checked_box(box: Any) -> Box:
    """A box, or an error if it is none: two finite tensors of one shape, of which the second is nowhere smaller."""
    sides = tensor(box) if is_array(box) else box
    some = (
        sides.dim() > 0
        if isinstance(sides, Tensor)
        else isinstance(sides, Sequence) and not isinstance(sides, str)
    )
    if not some or len(sides) != 2:
        raise NescioError(
            f"box={box!r}; expected a pair: the least and the largest input, shaped as one input"
        )
    low, high = (tensor(side).detach().double() for side in sides)
    if low.shape != high.shape or low.dim() == 0 or low.numel() == 0:
        raise NescioError(
            f"a box from {tuple(low.shape)} to {tuple(high.shape)}; expected two, shaped as one input"
        )
    if not (
        low.isfinite().all()
        and high.isfinite().all()
        and (low <= high).all()
        and (low < high).any()
    ):
        raise NescioError(
            "a box must be finite, nowhere end below where it begins, and somewhere above"
        )
    return low, high


def box_of(known: Known) -> Box:
    """The box of data: all images, or between the least and the largest value of each feature in a table."""
    if known.kind == "image":
        return torch.zeros(known.shape, dtype=torch.float64), torch.ones(
            known.shape, dtype=torch.float64
        )
    part = known.test if known.train is None else known.train
    low, high = torch.full((2, *known.shape), torch.inf, dtype=torch.float64)
    high = -high
    for x, _ in batches(part, 4096):
        low, high = torch.minimum(low, x.double().amin(0)), torch.maximum(high, x.double().amax(0))
    return low, high


def uniform_in(box: Box, count: int, seed: int) -> Tensor:
    """Inputs `(count, …)` drawn uniformly in a box."""
    low, high = box
    generator = torch.Generator().manual_seed(derived_seed(seed, "box", 0))
    return low + (high - low) * torch.rand(
        (count, *low.shape), generator=generator, dtype=torch.float64
    )
