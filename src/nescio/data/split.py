"""The division into a training and a test part, class by class and by seed."""

import numpy as np
import torch
from torch import Tensor

from nescio.errors import NescioError


def stratified(labels: Tensor, test: float, seed: int, where: str) -> tuple[Tensor, Tensor]:
    """Positions of the training and of the test part, each in the given order, with `test` of every class held back.

    A class of two or more inputs has at least one on either side; a class of one is only trained on.
    """
    generator = np.random.default_rng(seed)
    held = np.zeros(len(labels), dtype=bool)
    for value in np.unique(labels.numpy()):
        places = generator.permutation(np.flatnonzero(labels.numpy() == value))
        count = round(len(places) * test)
        held[places[: min(max(count, 1), len(places) - 1)]] = True
    if not held.any():
        raise NescioError(
            f"{where}: has one input of each class and nothing to test on; expected at least 2 of some"
        )
    return torch.from_numpy(np.flatnonzero(~held)), torch.from_numpy(np.flatnonzero(held))
