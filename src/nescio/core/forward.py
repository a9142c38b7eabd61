"""One forward pass of a user's model: its inputs, its outputs, and its errors in words."""

import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nescio.arrays import integers_refused
from nescio.core.logits import two_classes
from nescio.core.random_streams import from_seed
from nescio.core.replica import isolate
from nescio.errors import NescioError

TORCH_ERRORS = (RuntimeError, ValueError, IndexError, TypeError)  # for inputs that do not fit
USER_CODE_ERRORS = (LookupError, AssertionError, AttributeError, ArithmeticError, ImportError)
LOOK_UP_KINDS = ("Embedding", "EmbeddingBag")
DICT_HINT = " (the model seems to take a dict, not a tensor; wrap it in a module that makes one)"


class UnknownTokenError(NescioError):
    """Inputs hold token ids that no embedding of the model has.

    Attributes:
        rows: which inputs, by their number.
        problem: what the first of them holds.
    """

    def __init__(self, rows: Sequence[int], problem: str) -> None:
        super().__init__(f"input {rows[0]} holds {problem}")
        self.rows, self.problem = list(rows), problem


def run(model: nn.Module, x: Tensor) -> Any:
    """Return `model(x)`; errors of torch, or of the model's own code, come with the shape of x."""
    try:
        return model(x)
    except NescioError:
        raise
    except (*TORCH_ERRORS, *USER_CODE_ERRORS) as error:
        if (unknown := _unknown_token_error(model, x, partial(_fails, model))) is not None:
            raise unknown from error
        text = str(error)
        if not text or not isinstance(error, TORCH_ERRORS):
            text = f"{type(error).__name__}: {error}"
        hint = DICT_HINT if _indexed_by_name(error) else ""
        problem = f"{text.removesuffix(': ')}{hint}"
        batch = f"a batch of shape {tuple(x.shape)}"
        raise NescioError(f"the model cannot be run on {batch}: {problem}") from error


def draws_of(output: Any, inputs: int) -> Tensor:
    """Return a model's output as draws `(S, N, C)`, or raise if it is no such thing.

    One logit for each input is that of the second of two classes; see `two_classes`.
    """
    if not isinstance(output, Tensor):
        raise NescioError(f"the model must return a tensor of logits, not {type(output).__name__}")
    logits = two_classes(output)
    draws = logits.unsqueeze(0) if logits.dim() == 2 else logits
    if draws.dim() != 3 or draws.shape[1] != inputs or not draws.is_floating_point():
        expected = f"logits (N, C), (N,) of two classes, or draws (S, N, C) for N = {inputs} inputs"
        got = f"{output.dtype} {tuple(output.shape)}"
        raise NescioError(f"the model must return {expected}, not {got}")
    return draws


def fixed_draws(model: nn.Module) -> AbstractContextManager[None]:
    """A block of runs from one random state, in which a stochastic method draws only once."""
    # of the class: a network of the user's may have such a buffer
    fix = getattr(type(model), "fix_draws", None)
    return nullcontext() if fix is None else fix(model)


def like_model(x: Tensor, model: nn.Module) -> Tensor:
    """Return a batch on the device and in the floating type of the model's weights."""
    for weight in model.parameters():
        if weight.is_floating_point():
            return x.to(weight.device, weight.dtype if x.is_floating_point() else None)
    return x


def check_inputs(
    x: Tensor, model: nn.Module, before: int = 0, numbers: Tensor | None = None
) -> None:
    """Raise if a batch holds NaN or infinities, naming an input, or integers for a model of floats.

    Inputs are numbered from `before` on, unless their `numbers` are given.
    """
    if not x.is_floating_point():
        if not embedding_sizes(model) and not _takes_token_ids(model, x):
            raise integers_refused(x.dtype)
    # a sum is several times faster, but may overflow
    elif not x.sum().isfinite() and not x.isfinite().all():
        bad = (~x.isfinite()).flatten(1).any(1).nonzero().flatten()
        number = before + bad[0] if numbers is None else numbers[bad[0].to(numbers.device)]
        others = f"{len(bad)} such inputs in its batch"
        raise NescioError(f"input {int(number)} holds NaN or infinite values ({others})")


@contextmanager
def autograd_errors() -> Iterator[None]:
    """Say in words, in a block that takes gradients, why torch cannot differentiate a model."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:  # such as for an activation overwritten before its gradient
        raise NescioError(
            "the model cannot be differentiated, most often because it overwrites activations in "
            "place; write on copies instead (inplace=False, z = z * 2), or do without gradients. "
            f"Torch says: {error}"
        ) from error


def embedding_sizes(model: nn.Module) -> list[int]:
    """Return how many token ids each embedding of a model has; a model of floats has none."""
    sizes: list[int] = []
    for module in model.modules():
        scripted = isinstance(module, torch.jit.ScriptModule) and module.original_name
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) or scripted in LOOK_UP_KINDS:
            sizes.append(len(module.weight) if isinstance(module.weight, Tensor) else 0)
        else:  # of a graph, which has its steps in place of modules
            sizes += getattr(module, "_nescio_embedding_sizes", ())
    return sizes


def _takes_token_ids(model: nn.Module, x: Tensor) -> bool:
    """Whether a model without an embedding looks token ids up itself: it fails on floats."""
    if x.dtype not in (torch.int32, torch.int64):
        return False
    weight = next((p for p in model.parameters() if p.is_floating_point()), None)
    floats = x[:1].to(torch.float32 if weight is None else weight.dtype)
    with isolate(model) as copy:
        return from_seed(0, lambda: _fails(copy, floats), model)


def _fails(model: nn.Module, x: Tensor) -> bool:
    try:
        model(x)
    except (*TORCH_ERRORS, *USER_CODE_ERRORS):
        return True
    return False


def _unknown_token_error(
    model: nn.Module, x: Tensor, fails: Callable[[Tensor], bool]
) -> UnknownTokenError | None:
    """The error for a batch that a model `fails` on, if some of its inputs hold unknown token ids.

    Rows of a token that every embedding has show whether they do; halving finds those at fault.
    """
    sizes = embedding_sizes(model)
    # 0 may be padding, of which a whole row may be refused
    fills = (torch.full_like(x, token) for token in (0, 1)) if sizes else ()
    neutral = next((fill for fill in fills if not fails(fill) and not fails(fill[:1])), None)
    if neutral is None or not (rows := _failing(x, fails)):
        return None
    first = x[rows[0]]
    suspects = torch.unique(first[(first < 0) | (first >= min(sizes))])
    alone = (torch.where(first == token, first, neutral[0])[None] for token in suspects)
    failing = (int(token) for token, row in zip(suspects, alone, strict=True) if fails(row))
    token = next(failing, int(first.max()))
    last = max((size for size in sizes if size <= token), default=max(sizes)) - 1
    problem = f"{token}, which the model's embedding does not have; expected 0 to {last}"
    return UnknownTokenError(rows, problem)


def _failing(x: Tensor, fails: Callable[[Tensor], bool]) -> list[int]:
    """The rows of a batch that fail on their own."""
    if not fails(x):
        return []
    if len(x) == 1:
        return [0]
    half = len(x) // 2
    return _failing(x[:half], fails) + [half + row for row in _failing(x[half:], fails)]


def _indexed_by_name(error: Exception) -> bool:
    """Whether a tensor was indexed by a string, which torch takes for an index per letter."""
    line = traceback.extract_tb(error.__traceback__)[-1].line or ""
    of_index = re.search("data type 'str'|too many indices|valid indices", str(error))
    return of_index is not None and re.search(r"""\[["']""", line) is not None
