"""Memory that one batch frees is kept for the next."""

from functools import cache

import torch

LARGEST = 2**25 - 2**16  # bytes: the C library of Linux learns from no block of 32 MiB or more


@cache
def reuse_freed_memory() -> None:
    """Have blocks of up to 32 MiB taken from memory that the process already has, once they were freed.

    The C library of Linux gives larger blocks than any it has seen freed back to the system at once, and the next
    batch gets as much anew, page by page, which takes longer than most layers. So it is shown one, which is never
    written to and costs nothing; elsewhere this does nothing.
    """
    torch.empty(LARGEST, dtype=torch.uint8)
