"""Data of any make as a stream of batches: what every part that runs a network reads from."""

from collections.abc import Iterable, Iterator, Sized
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from nescio.arrays import is_array, is_tensor, plain
from nescio.data.arrays import tensor
from nescio.data.samples import Samples
from nescio.errors import NescioError, check_int

Batch = tuple[Tensor, Tensor | None]


def batches(data: Any, batch_size: int) -> Iterator[Batch]:
    """Batches `(inputs, labels or None)` of a tensor, an array, a pair of them, a dataset, a loader or other iterable.

    A loader, and any other iterable, gives its own batches: inputs, or pairs of inputs and labels.
    """
    return _some(_stream(data, check_int("batch_size", batch_size)))


def length(data: Any) -> int | None:
    """The number of inputs, or None where only reading would tell."""
    if isinstance(data, DataLoader):
        return _loaded(data)
    if _is_pair(data):
        return length(data[0])
    if is_array(data):
        shape = getattr(plain(data) if is_tensor(data) else data, "shape", ())
        return int(shape[0]) if shape else None
    if isinstance(data, Dataset):
        return len(data) if isinstance(data, Sized) else None
    return sum(len(_batch(one)[0]) for one in data) if isinstance(data, list | tuple) else None


def in_memory(data: Any) -> bool:
    """Whether data are tensors or arrays, which run no code of the user's as they are read."""
    return is_array(data) or type(data) is Samples or _is_pair(data)


def _stream(data: Any, batch_size: int) -> Iterator[Batch]:
    if is_array(data):
        return _slices(_rows(tensor(data)), None, batch_size)
    if _is_pair(data):
        inputs, labels = _rows(tensor(data[0])), tensor(data[1])
        if labels.shape != inputs.shape[:1]:
            raise NescioError(
                f"labels of shape {tuple(labels.shape)}; expected one for each of {len(inputs)} inputs"
            )
        return _slices(inputs, labels, batch_size)
    if isinstance(data, Samples):
        return (
            data.take(slice(start, start + batch_size)) for start in range(0, len(data), batch_size)
        )
    if isinstance(data, Dataset):
        # its own generator, so that looking at data does not advance the global one
        loader = DataLoader(data, batch_size, collate_fn=collated, generator=torch.Generator())
        return (_batch(one) for one in loader)
    if isinstance(data, Iterable) and not isinstance(data, str | bytes | dict):
        return (_batch(one) for one in data)
    raise NescioError(
        f"data of type {type(data).__name__}; expected a tensor, an array, a pair (inputs, labels), "
        "a dataset, or an iterable of batches"
    )


def _some(stream: Iterator[Batch]) -> Iterator[Batch]:
    count = 0
    for x, y in stream:
        count += len(x)
        if len(x):
            yield x, y
    if count == 0:
        raise NescioError("the data are empty; expected at least one input")


def _slices(x: Tensor, y: Tensor | None, size: int) -> Iterator[Batch]:
    for start in range(0, len(x), size):
        yield x[start : start + size], None if y is None else y[start : start + size]


def _is_pair(data: Any) -> bool:
    """A tuple of two arrays is inputs and their labels, whatever their shapes; a list of two is two batches."""
    return isinstance(data, tuple) and len(data) == 2 and all(map(is_array, data))


def _rows(x: Tensor) -> Tensor:
    if x.dim() < 2:
        raise NescioError(
            f"inputs of shape {tuple(x.shape)}; expected (N, …): a single input needs a batch axis, x[None]"
        )
    return x


def _batch(one: Any) -> Batch:
    """A batch as it came from an iterable, checked."""
    if isinstance(one, list | tuple) and len(one) in (1, 2):
        inputs, labels = (
            _rows(tensor(one[0])),
            tensor(one[1]) if len(one) == 2 and one[1] is not None else None,
        )
        if labels is not None and labels.shape[:1] != inputs.shape[:1]:
            raise NescioError(
                f"a batch of {len(inputs)} inputs has labels of shape {tuple(labels.shape)}"
            )
        return inputs, labels
    if is_array(one):
        return _rows(tensor(one)), None
    size = f" of {len(one)}" if isinstance(one, list | tuple) else ""
    raise NescioError(
        f"a batch of type {type(one).__name__}{size}; expected inputs, or a pair (inputs, labels)"
    )


def collated(items: list[Any]) -> Any:
    """Items of a dataset as a batch; arrays among them pass the gate first, since torch does not take all of them."""
    try:
        return default_collate([_item(one) for one in items])
    except NescioError:
        raise
    except (RuntimeError, TypeError) as error:
        raise NescioError(f"the items of the dataset do not make a batch: {error}") from error


def _item(one: Any) -> Any:
    if isinstance(one, list | tuple):
        return [_item(part) for part in one]
    return tensor(one) if is_array(one) else one


def _loaded(loader: DataLoader[Any]) -> int | None:
    if loader.batch_sampler is None or isinstance(loader.dataset, IterableDataset):
        return None
    if loader.batch_size is None or not isinstance(loader.sampler, Sized):
        return None  # a batch sampler of the user's own
    count = len(loader.sampler)
    return count - count % loader.batch_size if loader.drop_last else count
