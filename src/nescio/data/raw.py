"""Tensors as bytes, for checksums."""

import torch
from torch import Tensor


def raw(values: Tensor) -> Tensor:
    """The bytes of a tensor in order, `(bytes,)` in uint8, without a copy where it is contiguous.

    >>> raw(torch.tensor([1, 258], dtype=torch.int16))
    tensor([1, 0, 2, 1], dtype=torch.uint8)
    """
    held = values.detach().cpu().contiguous()
    # torch calls a single value contiguous whatever its stride, but takes no bytes of it unless that is 1
    return held.as_strided((held.numel(),), (1,)).view(torch.uint8)
