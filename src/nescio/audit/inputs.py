"""All inputs of an audit at once."""

from typing import Any

import torch
from torch import Tensor, nn

from nescio.data.batches import batches
from nescio.errors import NescioError
from nescio.predict import check_inputs
from nescio.seeds import check_seed, derived_seed, start_from


def all_inputs(model: nn.Module, data: Any, batch_size: int, seed: int) -> Tensor:
    """All inputs in one tensor, in float64; data that draw do so from a stream of the seed, as in `predict`."""
    with torch.random.fork_rng():
        start_from(derived_seed(check_seed(seed), "data", 0))
        parts = [x for x, _ in batches(data, batch_size)]
    if len({x.shape[1:] for x in parts}) > 1 or not parts[0][0].numel():
        raise NescioError(f"inputs of shape {tuple(parts[0].shape[1:])} and {tuple(parts[-1].shape[1:])}; expected one "
                          "shape, with at least one feature")  # fmt: skip
    inputs = torch.cat(parts)
    check_inputs(inputs, model)
    if not inputs.is_floating_point():
        raise NescioError(f"inputs of {inputs.dtype} cannot be moved; expected floating point")
    return inputs.double()
