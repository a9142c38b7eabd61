"""Run a network on data: `predict(model, data)` → logits `(S, N, C)`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, TypedDict, TypeVar, Unpack

import torch
from torch import Tensor, nn

from nescio.core.forward import (
    UnknownTokenError,
    check_inputs,
    draws_of,
    fixed_draws,
    like_model,
    run,
)
from nescio.core.logits import warn_of_probabilities
from nescio.core.random_streams import data_stream, from_seed
from nescio.core.replica import isolate_once
from nescio.data.batches import Batch, batches, in_memory, length
from nescio.errors import NescioError
from nescio.progress import bar
from nescio.seeds import check_seed

T = TypeVar("T")
OnBatch = Callable[[Tensor, T, Tensor | None], None]
LARGEST_REUSED = 2**25 - 2**16  # bytes: glibc learns from no block of 32 MiB or more


class PassSettings(TypedDict, total=False):
    """How data are read and a model is run, as in `predict`."""

    batch_size: int
    seed: int
    progress: bool | None


def predict(
    model: nn.Module,
    data: Any,
    *,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool | None = None,
) -> Tensor:
    """Return the logits `(S, N, C)` of a model: draws, inputs, classes; S = 1 for a plain network.

    Args:
        model: any module from inputs to logits `(N, C)`, or to several draws `(S, N, C)`. One logit
            z for each input, `(N,)` or `(…, 1)`, means two classes, (0, z). The model is run in
            eval mode, without gradients, and left as found, even after an error.
        data: a tensor, an array, a dataset or a loader; labels are ignored. It is streamed.
        batch_size: inputs per forward pass; a loader has its own.
        seed: each batch starts from it, so that draw `s` is the same function for all inputs.
        progress: show a bar on standard error; by default on a terminal and for long work only.

    >>> predict(nn.Linear(2, 3), torch.zeros(5, 2)).shape
    torch.Size([1, 5, 3])
    """
    return predict_labelled(model, data, batch_size=batch_size, seed=seed, progress=progress)[0]


def predict_labelled(
    model: nn.Module, data: Any, **settings: Unpack[PassSettings]
) -> tuple[Tensor, Tensor | None]:
    """Return the logits of `predict`, and the labels `(N,)` of the data, or None without labels."""
    parts: list[tuple[Tensor, Tensor | None]] = []
    map_logits(model, data, lambda _, logits, y: parts.append((logits, y)), **settings)
    return concatenate(parts)


def concatenate(parts: list[tuple[Tensor, Tensor | None]]) -> tuple[Tensor, Tensor | None]:
    """Join batches of logits and labels: `(S, N, C)` and `(N,)`, or None if some have no labels."""
    if len({logits.shape[::2] for logits, _ in parts}) > 1:
        shapes = [tuple(logits.shape) for logits, _ in parts[:3]]
        raise NescioError(f"the model's logits change shape between batches: {shapes}")
    logits = torch.cat([logits for logits, _ in parts], 1)
    warn_of_probabilities(logits)
    labels = [y for _, y in parts if y is not None]
    return logits, torch.cat(labels) if len(labels) == len(parts) else None


def map_logits(
    model: nn.Module, data: Any, on_batch: OnBatch[Tensor], **settings: Unpack[PassSettings]
) -> None:
    """Run a model over data in one pass, for `on_batch(x, logits, y)` with logits `(S, B, C)`."""

    def move_back(x: Tensor, logits: Tensor, y: Tensor | None) -> None:
        on_batch(x, logits.to(x.device), y)

    map_batches(_logits, model, data, move_back, "predict", **settings)


def map_batches(
    step: Callable[[nn.Module, Tensor], T],
    model: nn.Module,
    data: Any,
    on_batch: OnBatch[T],
    title: str,
    *,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool | None = None,
    requires_grad: bool | None = None,
) -> None:
    """Run a step on each batch of data, for `on_batch(x, step(model, x), y)`.

    Args:
        step: takes a replica of the model, which it may change, and x on its device, read-only.
        model, data, batch_size, seed, progress: as in `predict`.
        on_batch: gets each batch of inputs, the step's result and the labels or None.
        title: of the progress bar.
        requires_grad: as in `running`.
    """
    before = 0
    with running(model, seed, requires_grad) as runner, bar(length(data), title, progress) as shown:
        for x, y in read(data, batch_size, seed):
            ready = like_model(x, model)
            check_inputs(ready, model, before)
            try:
                result = runner(step, ready)
            except UnknownTokenError as error:
                rows = [before + row for row in error.rows]
                raise UnknownTokenError(rows, error.problem) from error
            on_batch(x, result, y)
            before += len(x)
            shown.advance(len(x))


@dataclass(frozen=True)
class Runner:
    """Runs steps on one model, in eval mode and each time from the same seed; made by `running`."""

    original: nn.Module
    model: nn.Module  # the replica that steps may change
    seed: int

    def __call__(self, step: Callable[[nn.Module, Tensor], T], x: Tensor) -> T:
        """Return `step(model, x)`."""
        return from_seed(self.seed, lambda: step(self.model, x), self.original)


@contextmanager
def running(model: nn.Module, seed: int = 0, requires_grad: bool | None = None) -> Iterator[Runner]:
    """Yield what runs a model on batches; it is left as found, and other threads can run it.

    Its state is copied once, here, and not for each batch. Each run starts from the seed, with
    `requires_grad` set on the weights unless it is None.
    """
    check_seed(seed)
    reuse_freed_memory()
    with isolate_once(model, requires_grad) as replica, fixed_draws(replica):
        yield Runner(model, replica, seed)


def read(data: Any, batch_size: int, seed: int = 0) -> Iterator[Batch]:
    """Return the batches of data; what they draw follows from the seed, as in `data_stream`."""
    if in_memory(data):
        return batches(data, batch_size)
    stream = data_stream(seed)
    with stream:  # a loader shuffles as it is opened
        opened = batches(data, batch_size)
    return stream.over(opened)


def _logits(model: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        # a clone: a model whose first layer works in place must not write on the user's data
        return draws_of(run(model, x.clone()), len(x))


@cache
def reuse_freed_memory() -> None:
    """Have blocks of up to 32 MiB taken from memory that the process has freed before.

    The C library of Linux gives larger blocks than any it has seen freed back to the system at
    once, and the next batch gets as much anew, page by page, which takes longer than most layers.
    So it is shown one, which is never written to and costs nothing; elsewhere this does nothing.
    """
    torch.empty(LARGEST_REUSED, dtype=torch.uint8)
