"""Labelled data of any make, as the training loop needs it: with a length, batches by position, and sound labels."""

import re
import zlib
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, Subset

from nescio.data.arrays import tensor
from nescio.data.batches import collated
from nescio.data.raw import raw
from nescio.data.samples import Samples
from nescio.errors import NescioError


def as_dataset(data: Any) -> Dataset[Any]:
    """The dataset itself, or one made of a pair of arrays `(inputs, labels)`."""
    if isinstance(data, tuple) and len(data) == 2:
        x = tensor(data[0])
        # bytes are no images unless a `Samples` says so; whole numbers are for a model with an embedding, or refused
        data = Samples(x if x.is_floating_point() else x.long(), tensor(data[1]), words=True)
    if not isinstance(data, Dataset) or not hasattr(data, "__len__"):
        raise NescioError(
            f"expected a dataset of known length or a pair (inputs, labels), not {type(data).__name__}"
        )
    if len(data) == 0:
        raise NescioError("the data set is empty")
    return data


def take(data: Dataset[Any], index: Tensor) -> tuple[Tensor, Tensor]:
    """The inputs and labels at some positions, as a batch."""
    if isinstance(data, Samples):
        return data.take(index)
    batch = collated([data[position] for position in index.tolist()])
    if (
        not isinstance(batch, list | tuple)
        or len(batch) != 2
        or not all(isinstance(one, Tensor) for one in batch)
    ):
        raise NescioError("the items of a training or validation set must be pairs (input, label)")
    return batch[0], as_int64(batch[1])


def as_int64(labels: Tensor) -> Tensor:
    """Labels of any integer type as int64 `(N,)`, or an error if they are something else."""
    if labels.dim() != 1 or labels.is_floating_point() or labels.is_complex():
        raise NescioError(
            f"labels must be whole numbers of shape (N,), not {labels.dtype} {tuple(labels.shape)}"
        )
    return labels.long()


def split(
    data: Dataset[Any], validation: Any, seed: int
) -> tuple[Dataset[Any], Dataset[Any] | None]:
    """Training and validation data; a number is the share to set aside, drawn by the seed."""
    if not isinstance(validation, float | int | np.floating):
        return data, None if validation is None else as_dataset(validation)
    total = len(data)  # type: ignore[arg-type]
    count = round(validation * total) if 0 < validation < 1 else 0
    if not 0 < count < total:
        raise NescioError(
            f"validation={validation} of {total} inputs leaves no data on one side; give a share in (0, 1)"
        )
    order = torch.randperm(total, generator=torch.Generator().manual_seed(seed))
    return part(data, order[count:].sort().values), part(data, order[:count].sort().values)


def part(data: Dataset[Any], index: Tensor) -> Dataset[Any]:
    """Some of a data set's items."""
    return data.select(index) if isinstance(data, Samples) else Subset(data, index.tolist())


def check_labels(labels: Tensor, classes: int) -> None:
    """An error if labels are not whole numbers from 0 to the number of classes less one."""
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise NescioError(
            f"labels must lie in 0 … {classes - 1} for {classes} classes, but range from {low} to {high}"
        )


def fingerprint(data: Dataset[Any] | None) -> str:
    """What data are known by: their size and, if they are in memory, a checksum of inputs and labels."""
    if data is None:
        return "none"
    size = f"{len(data)} inputs"  # type: ignore[arg-type]
    if not isinstance(data, Samples):
        return size
    mark = 0
    for values in (data._stored, data.labels):
        mark = zlib.crc32(raw(values).numpy().data, mark)
    return f"{size}, crc {mark:08x}"


def described(thing: object) -> str:
    """How a function or a module prints, without addresses, which the next process would not know again."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(thing))
