"""Whole numbers as inputs, such as words by their number: which models take them, and which numbers they know."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from nescio.errors import NescioError

LOOK_UP = ("Embedding", "EmbeddingBag")


class UnknownWordError(NescioError):
    """Inputs hold numbers that no embedding of the model has.

    Attributes:
        rows: which inputs, by their number.
        holds: what the first of them holds.
    """

    def __init__(self, rows: Sequence[int], holds: str) -> None:
        super().__init__(f"input {rows[0]} holds {holds}")
        self.rows, self.holds = list(rows), holds


def vocabularies(model: nn.Module) -> list[int]:
    """How many numbers each embedding of a model knows; none if it has no embedding, and takes floats."""
    found: list[int] = []
    for module in model.modules():
        scripted = isinstance(module, torch.jit.ScriptModule) and module.original_name in LOOK_UP
        if scripted or isinstance(module, nn.Embedding | nn.EmbeddingBag):
            table = module.weight
            found.append(len(table) if isinstance(table, Tensor) else 0)
        else:
            found += getattr(
                module, "_nescio_vocabularies", ()
            )  # of a graph, which has its steps in place of modules
    return found


def unknown_words(
    model: nn.Module, x: Tensor, fails: Callable[[Tensor], bool]
) -> UnknownWordError | None:
    """The error for a batch of words that a model `fails` on, if it is by what some of its inputs hold.

    Rows of a word that every embedding knows show whether it is; the inputs at fault are then found by halving.
    """
    known = vocabularies(model)
    fills = (
        torch.full_like(x, word) for word in (0, 1)
    )  # 0 may be padding, of which a whole row may be refused
    neutral = (
        next((one for one in fills if not fails(one) and not fails(one[:1])), None)
        if known
        else None
    )
    if neutral is None or not (rows := _failing(x, fails)):
        return None
    first = x[rows[0]]
    suspects = torch.unique(first[(first < 0) | (first >= min(known))])
    alone = (torch.where(first == word, first, neutral[0])[None] for word in suspects)
    word = next(
        (int(word) for word, row in zip(suspects, alone, strict=True) if fails(row)),
        int(first.max()),
    )
    size = max((one for one in known if one <= word), default=max(known))
    return UnknownWordError(
        rows, f"{word}, which the model's embedding does not know; expected 0 to {size - 1}"
    )


def _failing(x: Tensor, fails: Callable[[Tensor], bool]) -> list[int]:
    """The rows of a batch that fail on their own."""
    if not fails(x):
        return []
    if len(x) == 1:
        return [0]
    half = len(x) // 2
    return _failing(x[:half], fails) + [half + row for row in _failing(x[half:], fails)]
