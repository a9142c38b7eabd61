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
            found += getattr(module, "_nescio_vocabularies", ())  # of a graph, which has its steps in place of modules
    return found


def unknown_words(model: nn.Module, x: Tensor, fails: Callable[[Tensor], bool]) -> UnknownWordError | None:
    """The error for a batch of whole numbers that a model `fails` on, if it is by what some of its inputs hold.

    A row of zeros, which every embedding knows, shows whether it is; the inputs at fault are then found by halving.
    """
    known = vocabularies(model)
    if x.is_floating_point() or not known or fails(torch.zeros_like(x)) or fails(torch.zeros_like(x[:1])):
        return None
    rows = _failing(x, fails)
    if not rows:
        return None
    values = x[rows[0]].flatten()
    alone = torch.diag(values).reshape(len(values), *x.shape[1:])  # each of the first row's values among zeros
    places = _failing(alone, fails)
    odd = int(values[places[0]]) if places else int(values.max())
    size = max((one for one in known if one <= odd), default=max(known))
    return UnknownWordError(rows, f"{odd}, which the model's embedding does not know; expected 0 to {size - 1}")


def _failing(x: Tensor, fails: Callable[[Tensor], bool]) -> list[int]:
    """The rows of a batch that fail on their own."""
    if not fails(x):
        return []
    if len(x) == 1:
        return [0]
    half = len(x) // 2
    return _failing(x[:half], fails) + [half + row for row in _failing(x[half:], fails)]
