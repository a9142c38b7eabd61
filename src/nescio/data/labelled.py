"""Labelled data as the training loop needs it: a length, batches by position, valid labels."""

import zlib
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, Subset

from nescio.data.arrays import tensor, tensor_bytes
from nescio.data.batches import collated
from nescio.data.samples import Samples
from nescio.errors import NescioError

Data = Dataset[Any]


def as_dataset(data: Any) -> Data:
    """Return the dataset itself, or one made of a pair of arrays `(inputs, labels)`."""
    if isinstance(data, tuple) and len(data) == 2:
        x = tensor(data[0])
        # bytes are no images unless a `Samples` says so; integers are for a model with an embedding
        data = Samples(x if x.is_floating_point() else x.long(), tensor(data[1]), tokens=True)
    if not isinstance(data, Dataset) or not hasattr(data, "__len__"):
        kinds = "a dataset of known length or a pair (inputs, labels)"
        raise NescioError(f"data must be {kinds}, got {type(data).__name__}")
    if len(data) == 0:
        raise NescioError("the data set is empty; expected at least one input")
    return data


def take(data: Data, index: Tensor) -> tuple[Tensor, Tensor]:
    """Return the inputs and labels at some positions, as a batch."""
    if isinstance(data, Samples):
        return data.take(index)
    batch = collated([data[position] for position in index.tolist()])
    pair = isinstance(batch, list | tuple) and len(batch) == 2
    if not pair or not all(isinstance(one, Tensor) for one in batch):
        raise NescioError("the items of a training or validation set must be pairs (input, label)")
    return batch[0], as_int64(batch[1])


def as_int64(labels: Tensor) -> Tensor:
    """Return labels of any integer type as int64 `(N,)`."""
    if labels.dim() != 1 or labels.is_floating_point() or labels.is_complex():
        given = f"{labels.dtype} {tuple(labels.shape)}"
        raise NescioError(f"labels must be integers of shape (N,), got {given}")
    return labels.long()


def check_labels(labels: Tensor, classes: int) -> None:
    """Raise if labels are not in 0 … classes − 1."""
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        wanted = f"0 … {classes - 1} for {classes} classes"
        raise NescioError(f"labels must lie in {wanted}, got {low} to {high}")


def split(data: Data, validation: Any, seed: int) -> tuple[Data, Data | None]:
    """Return training and validation data; a number is the fraction to set aside at random."""
    if not isinstance(validation, float | int | np.floating):
        return data, None if validation is None else as_dataset(validation)
    total = len(data)  # type: ignore[arg-type]
    count = round(validation * total) if 0 < validation < 1 else 0
    if not 0 < count < total:
        wanted = "a fraction in (0, 1) that leaves data on both sides"
        raise NescioError(f"validation must be {wanted}, got {validation} of {total} inputs")
    order = torch.randperm(total, generator=torch.Generator().manual_seed(seed))
    train, held = (part.sort().values for part in (order[count:], order[:count]))
    if isinstance(data, Samples):
        return data.select(train), data.select(held)
    return Subset(data, train.tolist()), Subset(data, held.tolist())


def fingerprint(data: Data | None) -> str:
    """Return the size of data and, if they are in memory, a checksum of inputs and labels."""
    if data is None:
        return "none"
    size = f"{len(data)} inputs"  # type: ignore[arg-type]
    if not isinstance(data, Samples):
        return size
    checksum = 0
    for values in (data._stored, data.labels):
        checksum = zlib.crc32(tensor_bytes(values).numpy().data, checksum)
    return f"{size}, crc {checksum:08x}"
