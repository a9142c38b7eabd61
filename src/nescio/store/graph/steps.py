"""The steps of a graph: as a file has them, and ready to run."""

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

ARITHMETIC: dict[str, Callable[..., Any]] = {
    f"size.{name}": getattr(operator, name)
    for name in ("add", "sub", "mul", "floordiv", "mod", "neg")
}  # of the sizes of tensors
ITEM = "item"  # one of several results
MAX_SIZE = 2**63 - 1


@dataclass(frozen=True)
class Step:
    """One operation.

    In arguments `{"of": i}` is the result of step i (counted from 1; 0 is the input),
    `{"tensor": k}` one of the tensors, `{"name": "float32"}` a type, `{"float": "inf"}` a number
    that JSON does not have.

    Attributes:
        op: `aten.conv2d.default`, `size.mul`, or `item`.
        layer: of a linear one, the name of the user's module, so that it is a module again.
        marks: names of modules whose output the result is, and whether channels come first.
    """

    op: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    layer: str | None = None
    marks: dict[str, bool] = field(default_factory=dict)


@dataclass(frozen=True)
class GraphPlan:
    """The steps in order, the last giving the answer, and which tensors are parameters."""

    steps: tuple[Step, ...]
    parameters: tuple[bool, ...]


@dataclass(frozen=True)
class StepResult:
    """Stands for the result of a step."""

    step: int


@dataclass(frozen=True)
class StoredTensor:
    """Stands for one of the tensors."""

    index: int


@dataclass(frozen=True)
class CheckedStep:
    """A step that was checked, with what it calls, and the results that no later step needs."""

    call: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    modules: tuple[str, ...]  # that its result passes through
    over: tuple[int, ...]
