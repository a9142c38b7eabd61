"""Seeds of their own for each thing that draws, so that a run needs no generator's state to go on."""

import hashlib
from typing import Any

import torch

from nescio.errors import check_int


def derived_seed(seed: int, what: str, number: int) -> int:
    """A seed for one thing of a kind, such as `(seed, "step", 7)`, unrelated to that of any other."""
    digest = hashlib.blake2b(f"{seed}/{what}/{number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1  # torch takes 63 bits


def check_seed(seed: Any) -> int:
    """The seed, or an error if it is not a whole number from 0 to 2⁶³ − 1."""
    return check_int("seed", seed, least=0)


def start_from(seed: int) -> None:
    """Seed torch's generators; `torch.manual_seed` costs a millisecond where there is no accelerator."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(seed)
