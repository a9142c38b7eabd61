"""The one place a network is run for its answers: `predict(model, data)` → logits `(S, N, C)`."""

import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from nescio.arrays import whole_numbers_refused
from nescio.core.memory import reuse_freed_memory
from nescio.core.random_streams import RandomStream, from_seed
from nescio.core.replica import private
from nescio.core.vocabulary import UnknownWordError, unknown_words, vocabularies
from nescio.data.batches import Batch, batches, in_memory, length
from nescio.errors import NescioError
from nescio.progress import bar
from nescio.seeds import check_seed, derived_seed


def predict(
    model: nn.Module,
    data: Any,
    *,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool | None = None,
) -> Tensor:
    """Logits `(S, N, C)` of a model: draws, inputs, classes; S = 1 for a plain network.

    Args:
        model: any module from inputs to logits `(N, C)`, or to several draws `(S, N, C)`. It is run in eval mode,
            without gradients, and left as found, also when something goes wrong.
        data: a tensor, an array, a dataset or a loader; labels, if it has any, are passed over. It is streamed.
        batch_size: inputs per forward pass; a loader has its own.
        seed: of the draws. Each batch starts from it, so that draw `s` is one and the same function for all inputs.
        progress: a bar on standard error; by default only on a terminal and only when it takes long.

    >>> predict(nn.Linear(2, 3), torch.zeros(5, 2)).shape
    torch.Size([1, 5, 3])
    """
    return predict_labelled(model, data, batch_size=batch_size, seed=seed, progress=progress)[0]


def predict_labelled(
    model: nn.Module,
    data: Any,
    *,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool | None = None,
) -> tuple[Tensor, Tensor | None]:
    """What `predict` gives, and the labels `(N,)` that came with the inputs, or None if none did."""
    parts: list[tuple[Tensor, Tensor | None]] = []
    map_logits(
        model,
        data,
        lambda _, logits, y: parts.append((logits, y)),
        batch_size=batch_size,
        seed=seed,
        progress=progress,
    )
    return joined(parts)


def joined(parts: list[tuple[Tensor, Tensor | None]]) -> tuple[Tensor, Tensor | None]:
    """Batches of logits and labels put together: logits `(S, N, C)` and labels `(N,)`, or None if some have none."""
    if len({logits.shape[::2] for logits, _ in parts}) > 1:
        raise NescioError(
            f"the model's logits change shape between batches: {[tuple(v.shape) for v, _ in parts[:3]]}"
        )
    labels = [y for _, y in parts if y is not None]
    return torch.cat([logits for logits, _ in parts], 1), torch.cat(labels) if len(labels) == len(
        parts
    ) else None


PARTS = " (the model seems to take a dict, and was given a tensor; wrap it in a module that makes the dict)"
TORCH = (
    RuntimeError,
    ValueError,
    IndexError,
    TypeError,
)  # what torch raises of inputs that do not fit
# what code of the user's may raise beside
OWN = (LookupError, AssertionError, AttributeError, ArithmeticError, ImportError)
T = TypeVar("T")
OnBatch = Callable[[Tensor, T, Tensor | None], None]


def map_logits(
    model: nn.Module,
    data: Any,
    on_batch: OnBatch[Tensor],
    *,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool | None = None,
) -> None:
    """Run the model over data in one pass; `visit(x, logits, y)` sees each batch: inputs, `(S, B, C)`, labels or None.

    The data draw from a stream of their own (noise, a shuffled loader), which follows from the seed as the model's
    draws do, so that neither disturbs the other.
    """

    def back(x: Tensor, logits: Tensor, y: Tensor | None) -> None:
        on_batch(x, logits.to(x.device), y)

    map_batches(
        _answers, model, data, back, "predict", batch_size=batch_size, seed=seed, progress=progress
    )


def map_batches(
    way: Callable[[nn.Module, Tensor], T],
    model: nn.Module,
    data: Any,
    on_batch: OnBatch[T],
    what: str,
    *,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool | None = None,
    requires_grad: bool | None = None,
) -> None:
    """As `sweep`, but `visit` sees what `way(model, x)` gives in place of logits, for x on the model's device.

    The way gets a replica of the model, which it may change, but must not write on x; `requires_grad` is what weights
    of the replica are set to, if given. The bar shows `what` it does.
    """
    before = 0
    with running(model, seed, requires_grad) as runner, bar(length(data), what, progress) as shown:
        for x, y in read(data, batch_size, seed):
            ready = like_model(x, model)
            check_inputs(ready, model, before)
            try:
                found = runner(way, ready)
            except UnknownWordError as error:
                raise UnknownWordError([before + row for row in error.rows], error.holds) from error
            on_batch(x, found, y)
            before += len(x)
            shown.advance(len(x))


class Runner:
    """Runs one model, in eval mode and each time from the same seed; made by `running`."""

    def __init__(self, model: nn.Module, own: nn.Module, seed: int) -> None:
        self._model, self.own, self.seed = model, own, seed

    def __call__(self, way: Callable[[nn.Module, Tensor], T], x: Tensor) -> T:
        """Return `way(model, x)`, where the model is the replica that this call may change."""
        return from_seed(self.seed, lambda: way(self.own, x), self._model)


@contextmanager
def running(model: nn.Module, seed: int = 0, requires_grad: bool | None = None) -> Iterator[Runner]:
    """A block that may run a model on any number of batches; the model is left as found, and other threads can run it.

    Args:
        model: any module.
        seed: of what the model draws; each run starts from it.
        requires_grad: what its weights are set to for the runs, or None to leave them.
    """
    check_seed(seed)
    reuse_freed_memory()
    with private(model, requires_grad) as own, fixed_draws(own):
        yield Runner(model, own, seed)


def read(data: Any, batch_size: int, seed: int = 0) -> Iterator[Batch]:
    """The batches of data; what they draw comes from a stream of the seed, apart from a model's draws."""
    if in_memory(data):
        return batches(data, batch_size)
    stream = RandomStream(derived_seed(seed, "data", 0))
    with stream:  # a loader shuffles as it is opened
        found = batches(data, batch_size)
    return stream.over(found)


def _answers(model: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        # a copy, for a model whose first layer works in place must not write on the user's data
        return draws_of(run(model, x.clone()), len(x))


def fixed_draws(model: nn.Module) -> AbstractContextManager[None]:
    """A block in which each batch starts from one random state; a method that draws then makes its draws only once."""
    hold = getattr(
        type(model), "hold_draws", None
    )  # of the class: a network of the user's may have such a buffer
    return nullcontext() if hold is None else hold(model)


def like_model(x: Tensor, model: nn.Module) -> Tensor:
    """A batch on the device and in the floating type of the model's weights."""
    weight = next((p for p in model.parameters() if p.is_floating_point()), None)
    if weight is None:
        return x
    return x.to(weight.device, weight.dtype if x.is_floating_point() else None)


def check_inputs(
    x: Tensor, model: nn.Module, before: int = 0, numbers: Tensor | None = None
) -> None:
    """An error if a batch holds NaN or infinities, naming an input by its number, or bytes for a model of floats.

    Inputs are counted on from those `before`, unless their `numbers` are given.
    """
    if not x.is_floating_point():
        if not vocabularies(model) and not _takes_words(model, x):
            raise whole_numbers_refused(x.dtype)
    elif (
        not x.sum().isfinite() and not x.isfinite().all()
    ):  # a sum is several times faster, but may run over
        bad = (~x.isfinite()).flatten(1).any(1).nonzero().flatten()
        number = (
            before + int(bad[0]) if numbers is None else int(numbers[bad[0].to(numbers.device)])
        )
        raise NescioError(
            f"input {number} holds NaN or infinite values ({len(bad)} such inputs in its batch)"
        )


def run(model: nn.Module, x: Tensor) -> Any:
    """One forward pass; what torch, or the model's own code, says of inputs that do not fit comes with their shape."""
    try:
        return model(x)
    except NescioError:
        raise
    except (*TORCH, *OWN) as error:
        strange = unknown_words(model, x, partial(_fails, model))
        if strange is not None:
            raise strange from error
        hint = PARTS if _asked_by_name(error) else ""
        said = (
            str(error)
            if isinstance(error, TORCH) and str(error)
            else f"{type(error).__name__}: {error}"
        )
        raise NescioError(
            f"the model cannot be run on a batch of shape {tuple(x.shape)}: {said.removesuffix(': ')}{hint}"
        ) from error


def _takes_words(model: nn.Module, x: Tensor) -> bool:
    """Whether a model without an embedding looks whole numbers up by itself: it is one that fails on floats."""
    if x.dtype not in (torch.int32, torch.int64):
        return False
    weight = next((p for p in model.parameters() if p.is_floating_point()), None)
    with running(model) as runner:
        return runner(_fails, x[:1].to(torch.float32 if weight is None else weight.dtype))


def _fails(model: nn.Module, x: Tensor) -> bool:
    try:
        model(x)
    except (*TORCH, *OWN):
        return True
    return False


@contextmanager
def autograd_errors() -> Iterator[None]:
    """A block that takes gradients through a model; of one that torch cannot go back through it says so in words."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except (
        RuntimeError
    ) as error:  # such as of an activation that is written on before its gradient is taken
        raise NescioError(
            "the model has no gradient to take: torch cannot go back through it, most often since it "
            "writes on activations in place; write on copies instead (inplace=False, z = z * 2), or do "
            f"without gradients. Torch says: {error}"
        ) from error


def _asked_by_name(error: Exception) -> bool:
    """Whether a tensor was asked for a part by name, which torch takes for indices, one for each letter."""
    where = traceback.extract_tb(error.__traceback__)[-1].line or ""
    said = re.search("data type 'str'|too many indices|valid indices", str(error))
    return said is not None and re.search(r"""\[["']""", where) is not None


def draws_of(output: Any, inputs: int) -> Tensor:
    """What a model returned, as draws `(S, N, C)`, or an error if it is no such thing."""
    if not isinstance(output, Tensor):
        raise NescioError(f"the model must return a tensor of logits, not {type(output).__name__}")
    draws = output.unsqueeze(0) if output.dim() == 2 else output
    if draws.dim() != 3 or draws.shape[1] != inputs or not draws.is_floating_point():
        raise NescioError(
            f"the model must return logits (N, C) or draws (S, N, C) for N = {inputs} inputs, "
            f"not {output.dtype} {tuple(output.shape)}"
        )
    return draws
