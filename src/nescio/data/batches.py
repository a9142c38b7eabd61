"""Data of any kind in batches: streamed, in two random halves, or by position to train on."""

import zlib
from collections.abc import Iterable, Iterator, Sized
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, default_collate

from nescio.arrays import is_array, is_tensor, plain
from nescio.data.arrays import of_binary_loss, tensor, tensor_bytes
from nescio.data.samples import Samples
from nescio.errors import NescioError, check_int

Batch = tuple[Tensor, Tensor | None]
Data = Dataset[Any]
_NO_HALVES = "so they cannot be split into two halves; pass"


def batches(data: Any, batch_size: int) -> Iterator[Batch]:
    """Yield batches `(inputs, labels or None)`, none of them empty.

    Args:
        data: a tensor, an array, a pair of them, a dataset, or a loader or other iterable, which
            yields its own batches: inputs, or pairs of inputs and labels.
        batch_size: ignored for a loader or other iterable.

    >>> [len(x) for x, _ in batches(torch.zeros(10, 2), batch_size=4)]
    [4, 4, 2]
    """
    return _nonempty(_stream(data, check_int("batch_size", batch_size)))


def length(data: Any) -> int | None:
    """Return the number of inputs, or None where only reading would tell.

    >>> length(known.test), length(iter([]))
    (500, None)
    """
    if isinstance(data, DataLoader):
        if data.batch_sampler is None or isinstance(data.dataset, IterableDataset):
            return None
        if data.batch_size is None or not isinstance(data.sampler, Sized):
            return None  # a batch sampler of the user's own
        count = len(data.sampler)
        return count - count % data.batch_size if data.drop_last else count
    if _is_pair(data):
        return length(data[0])
    if is_array(data):
        shape = getattr(plain(data) if is_tensor(data) else data, "shape", ())
        return int(shape[0]) if shape else None
    if isinstance(data, Dataset):
        return len(data) if isinstance(data, Sized) else None
    return sum(len(_batch(batch)[0]) for batch in data) if isinstance(data, list | tuple) else None


def in_memory(data: Any) -> bool:
    """Return whether data are tensors or arrays, whose reading runs no code of the user's."""
    return is_array(data) or type(data) is Samples or _is_pair(data)


def _stream(data: Any, batch_size: int) -> Iterator[Batch]:
    if is_array(data):
        x = _rows(tensor(data))
        return ((x[i : i + batch_size], None) for i in range(0, len(x), batch_size))
    if _is_pair(data):
        x, y = _rows(tensor(data[0])), of_binary_loss(tensor(data[1]))
        if y.shape != x.shape[:1]:
            shape = tuple(y.shape)
            raise NescioError(f"labels must have shape (N,), got {shape} for {len(x)} inputs")
        starts = range(0, len(x), batch_size)
        return ((x[i : i + batch_size], y[i : i + batch_size]) for i in starts)
    if isinstance(data, Samples):
        return (data.take(slice(i, i + batch_size)) for i in range(0, len(data), batch_size))
    if isinstance(data, Dataset):
        # its own generator, so that looking at data does not advance the global one
        loader = DataLoader(data, batch_size, collate_fn=collated, generator=torch.Generator())
        return (_batch(batch) for batch in loader)
    if isinstance(data, Iterable) and not isinstance(data, str | bytes | dict):
        return (_batch(batch) for batch in data)
    kinds = "a tensor, an array, a pair (inputs, labels), a dataset, or an iterable of batches"
    raise NescioError(f"data must be {kinds}, got {type(data).__name__}")


def _nonempty(stream: Iterator[Batch]) -> Iterator[Batch]:
    count = 0
    for x, y in stream:
        count += len(x)
        if len(x):
            yield x, y
    if count == 0:
        raise NescioError("the data are empty; expected at least one input")


def _is_pair(data: Any) -> bool:
    """A tuple of two arrays is inputs and labels, whatever their shapes; a list is two batches."""
    return isinstance(data, tuple) and len(data) == 2 and all(map(is_array, data))


def _rows(x: Tensor) -> Tensor:
    if x.dim() < 2:
        hint = "a single input needs a batch axis, x[None]"
        raise NescioError(f"inputs must have shape (N, …), got {tuple(x.shape)}: {hint}")
    return x


def _batch(batch: Any) -> Batch:
    if isinstance(batch, list | tuple) and len(batch) in (1, 2):
        inputs = _rows(tensor(batch[0]))
        labels = tensor(batch[1]) if len(batch) == 2 and batch[1] is not None else None
        if labels is not None and labels.shape[:1] != inputs.shape[:1]:
            raise NescioError(f"a batch of {len(inputs)} inputs has labels {tuple(labels.shape)}")
        return inputs, labels
    if is_array(batch):
        return _rows(tensor(batch)), None
    kind = type(batch).__name__ + (f" of {len(batch)}" if isinstance(batch, list | tuple) else "")
    raise NescioError(f"a batch must be inputs or a pair (inputs, labels), got a {kind}")


def collated(items: list[Any]) -> Any:
    """Return items of a dataset as a batch; arrays are made tensors, as torch does not take all."""
    try:
        return default_collate([_item(item) for item in items])
    except NescioError:
        raise
    except (RuntimeError, TypeError) as error:
        raise NescioError(f"the items of the dataset do not make a batch: {error}") from error


def _item(item: Any) -> Any:
    if isinstance(item, list | tuple):
        return [_item(part) for part in item]
    return tensor(item) if is_array(item) else item


def halves(data: Any, seed: int = 0, batch_size: int = 512) -> tuple["Half", "Half"]:
    """Split data at random into two halves, each streamed by reading all data in a fixed order.

    Of each two inputs in a row one goes to either half, so that an order such as alternating
    classes does no harm.

    >>> first, second = halves(torch.arange(6.0)[:, None])
    >>> sorted(torch.cat([x for half in (first, second) for x, _ in half]).flatten().tolist())
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    """
    if isinstance(data, Iterator):
        others = "a dataset, a loader, or two sets"
        raise NescioError(f"the data can be read only once, {_NO_HALVES} {others}")
    sums: list[int] = []
    return Half(data, False, seed, sums, batch_size), Half(data, True, seed, sums, batch_size)


class Half:
    """An iterable of batches; see `halves`."""

    def __init__(self, data: Any, second: bool, seed: int, sums: list[int], size: int) -> None:
        self.data, self.second, self.seed, self.batch_size = data, second, seed, size
        self._checksums = sums  # of the batches, as they were read the first time

    def __iter__(self) -> Iterator[Batch]:
        coins = torch.Generator().manual_seed(self.seed)
        count, last = 0, torch.zeros(1, dtype=torch.bool)  # inputs so far, coin of a pair under way
        for number, (x, y) in enumerate(batches(self.data, self.batch_size)):
            checksum = zlib.crc32(tensor_bytes(x).numpy().data)
            if number == len(self._checksums):
                self._checksums.append(checksum)
            elif checksum != self._checksums[number]:  # an input could be in both halves
                why = f"in another order each time they are read, {_NO_HALVES}"
                raise NescioError(f"the data come {why} data in a fixed order, or two sets")
            odd = count % 2
            new = torch.rand((len(x) + 1 - odd) // 2, generator=coins) < 0.5
            pairs = torch.cat([last[:odd], new])
            position = torch.arange(odd, odd + len(x))
            mine = (pairs[position // 2] ^ (position % 2 == 1)) == self.second
            count, last = count + len(x), pairs[-1:]
            if mine.any():
                yield x[mine.to(x.device)], None if y is None else y[mine.to(y.device)]


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
    if not pair or not all(isinstance(part, Tensor) for part in batch):
        raise NescioError("the items of a training or validation set must be pairs (input, label)")
    return batch[0], as_int64(batch[1])


def as_int64(labels: Tensor) -> Tensor:
    """Return labels of any integer type, or as of a binary loss, as int64 `(N,)`."""
    labels = of_binary_loss(labels)
    if labels.dim() != 1 or labels.is_floating_point() or labels.is_complex():
        got = f"{labels.dtype} {tuple(labels.shape)}"
        raise NescioError(f"labels must be integers of shape (N,), got {got}")
    return labels.long()


def check_labels(labels: Tensor, classes: int) -> None:
    """Raise if labels are not in 0 … classes − 1."""
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        expected = f"0 … {classes - 1} for {classes} classes"
        raise NescioError(f"labels must lie in {expected}, got {low} to {high}")


def split(data: Data, validation: Any, seed: int) -> tuple[Data, Data | None]:
    """Return training and validation data; a number is the fraction to set aside at random."""
    if not isinstance(validation, float | int | np.floating):
        return data, None if validation is None else as_dataset(validation)
    total = len(data)  # type: ignore[arg-type]
    count = round(validation * total) if 0 < validation < 1 else 0
    if not 0 < count < total:
        expected = "a fraction in (0, 1) that leaves data on both sides"
        raise NescioError(f"validation must be {expected}, got {validation} of {total} inputs")
    order = torch.randperm(total, generator=torch.Generator().manual_seed(seed))
    train, validation_rows = (part.sort().values for part in (order[count:], order[:count]))
    if isinstance(data, Samples):
        return data.select(train), data.select(validation_rows)
    return Subset(data, train.tolist()), Subset(data, validation_rows.tolist())


def fingerprint(data: Data | None) -> str:
    """Return the size of data and, if they are in memory, a checksum of inputs and labels."""
    if data is None:
        return "none"
    size = f"{len(data)} inputs"  # type: ignore[arg-type]
    if not isinstance(data, Samples):
        return size
    inputs, labels = (tensor_bytes(values).numpy().data for values in (data._stored, data.labels))
    return f"{size}, crc {zlib.crc32(labels, zlib.crc32(inputs)):08x}"
