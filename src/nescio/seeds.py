"""A seed for each thing that draws, so that a run needs no generator's state to resume."""

import hashlib
from typing import Any

import torch

from nescio.errors import check_int


def derived_seed(seed: int, what: str, number: int) -> int:
    """Return a seed for one thing of a kind, such as `(seed, "step", 7)`, unlike any other.

    >>> derived_seed(0, "step", 7) == derived_seed(0, "step", 8)
    False
    """
    digest = hashlib.blake2b(f"{seed}/{what}/{number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1  # torch takes 63 bits


def check_seed(seed: Any) -> int:
    """Return the seed, or raise if it is not an int from 0 to 2⁶³ − 1."""
    return check_int("seed", seed, least=0)


def seed_generators(seed: int) -> None:
    """Seed torch's generators; `torch.manual_seed` takes a millisecond without an accelerator."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(seed)
