"""The steps of a graph, and what they may ask for: checked whole, before anything is run.

Functions of PyTorch's `aten` that are on a list (`operators.py`), of numbers, types and results.
"""

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch._ops import OpOverload

from nescio.errors import NescioError
from nescio.store.graph.operators import ALLOWED, guarded

ITEM = "item"  # one of several results
MAX_SIZE = 2**63 - 1
MAX_STEPS = 20_000
ARITHMETIC: dict[str, Callable[..., Any]] = {  # of the sizes of tensors
    f"size.{name}": getattr(operator, name)
    for name in ("add", "sub", "mul", "floordiv", "mod", "neg")
}
TYPES = "float16 bfloat16 float32 float64 bool uint8 int8 int16 int32 int64"
FORMATS = "contiguous_format preserve_format channels_last channels_last_3d"
NAMED: dict[str, dict[str, Any]] = {  # arguments that are no numbers, by their type in a schema
    "ScalarType": {name: getattr(torch, name) for name in TYPES.split()},
    "MemoryFormat": {name: getattr(torch, name) for name in FORMATS.split()},
    "Layout": {"strided": torch.strided},
    "Device": {"cpu": torch.device("cpu")},
}


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


def checked(plan: GraphPlan) -> tuple[CheckedStep, ...]:
    """The steps ready to run, if they are such as a network may ask for."""
    if not 0 < len(plan.steps) <= MAX_STEPS:
        raise NescioError(f"a graph of {len(plan.steps)} steps; expected 1 to {MAX_STEPS}")
    kinds, last = ["tensor"], {0: 0}  # of each result; the last step that needs it
    ready: list[CheckedStep] = []
    for number, step in enumerate(plan.steps, start=1):
        place = f"step {number} of a graph, {step.op[:100]!r}"
        check = _Arguments(kinds, len(plan.parameters), place)
        call, kind = _call(step, check, place)
        args = tuple(check.ready(one) for one in step.args)
        kwargs = {name: check.ready(one) for name, one in step.kwargs.items()}
        modules = (*([step.layer] if step.layer else []), *step.marks)
        ready.append(CheckedStep(nn.Linear if step.layer else call, args, kwargs, modules, ()))
        if step.marks and kind != "tensor":
            raise NescioError(f"{place}: only a tensor can be the output of a module")
        last |= dict.fromkeys(check.used, number)
        kinds.append(kind)
        last[number] = number
    if kinds[-1] != "tensor":
        raise NescioError("the last step of a graph must give a tensor, the answer")
    over: dict[int, list[int]] = {}
    for result, at in last.items():
        over.setdefault(at, []).append(result)
    steps = enumerate(ready, start=1)
    return tuple(replace(step, over=tuple(over.get(number, ()))) for number, step in steps)


def _call(step: Step, check: "_Arguments", place: str) -> tuple[Callable[..., Any], str]:
    """What a step calls, its arguments checked, and if it gives a "tensor", "size" or "several"."""
    if step.op == ITEM:
        two = len(step.args) == 2 and not step.kwargs
        if not (two and check.kind(step.args[0]) == "several" and _is_whole(step.args[1])):
            raise NescioError(f"{place}: expected one of several results, by its number")
        return operator.getitem, "tensor"
    if step.op in ARITHMETIC:
        count = 1 if step.op == "size.neg" else 2
        as_many = len(step.args) == count and not step.kwargs
        if not (as_many and all(check.is_size(one) for one in step.args)):
            raise NescioError(f"{place}: expected {count} sizes, which are whole numbers")
        return ARITHMETIC[step.op], "size"
    call = _operator(step.op, place)
    schema = call._schema
    positional = [one.name for one in schema.arguments if not one.kwarg_only]
    given = dict(zip(positional, step.args, strict=False))
    if len(given) < len(step.args) or given.keys() & step.kwargs.keys():
        raise NescioError(f"{place}: {len(step.args)} arguments are too many")
    given |= step.kwargs
    names = {one.name: one for one in schema.arguments}
    for name in given.keys() - names.keys():
        raise NescioError(f"{place}: it has no argument {name[:100]!r}")
    for name, one in names.items():
        if name not in given and not one.has_default_value():
            raise NescioError(f"{place}: the argument {name!r} is missing")
        if name in given and not check.fits(given[name], one.real_type):
            value, kind = repr(given[name])[:100], one.real_type
            raise NescioError(f"{place}: {value} is no {kind} for {name!r}")
    returns = [str(one.type) for one in schema.returns]
    ready = guarded(call)
    if returns in (["Tensor"], ["int"]):
        return ready, "tensor" if returns == ["Tensor"] else "size"
    if returns and all(one in ("Tensor", "List[Tensor]") for one in returns):
        return ready, "several"
    raise NescioError(f"{place}: it gives {', '.join(returns) or 'nothing'}; expected tensors")


def _operator(name: str, place: str) -> OpOverload:
    """An operator by its name, if it may be called."""
    match = re.fullmatch(r"aten\.([A-Za-z_]\w*)\.([A-Za-z_]\w*)", name)
    found: Any = torch.ops.aten
    for part in match.groups() if match else ():
        found = None if part.startswith("__") else getattr(found, part, None)
    if match is None or not isinstance(found, OpOverload):
        raise NescioError(f"{place}: there is no such operator")
    if f"{match[1]}.{match[2]}" not in ALLOWED or found._schema.is_mutable:
        raise NescioError(f"{place}: this operator is not one that a kept network may call")
    return found


class _Arguments:
    """Checks arguments of one step: what they refer to must come before it."""

    def __init__(self, kinds: Sequence[str], tensors: int, place: str) -> None:
        self.kinds, self.tensors, self.place = kinds, tensors, place
        self.used: set[int] = set()

    def kind(self, value: Any) -> str | None:
        """What an argument refers to, if it refers to anything."""
        if not isinstance(value, dict) or len(value) != 1:
            return None
        ((key, index),) = value.items()
        count = {"of": len(self.kinds), "tensor": self.tensors}.get(key)
        if count is None:
            return None
        if not _is_whole(index) or not 0 <= index < count:
            raise NescioError(
                f"{self.place}: refers to {key} {repr(index)[:50]}, where {count} come before it"
            )
        return "tensor" if key == "tensor" else self.kinds[index]

    def is_size(self, value: Any) -> bool:
        """Whether an argument is a whole number, or stands for one."""
        return self.kind(value) == "size" or (_is_whole(value) and abs(value) <= MAX_SIZE)

    def fits(self, value: Any, kind: Any) -> bool:
        """Whether an argument is of a type in a schema."""
        name = str(kind)
        if kind.kind() == "OptionalType":
            return value is None or self.fits(value, kind.getElementType())
        if kind.kind() == "ListType":
            inner = kind.getElementType()
            if isinstance(value, list):
                return all(self.fits(one, inner) for one in value)
            if self.kind(value) == "several":
                return str(inner) == "Tensor"
            one_for_all = str(inner) in ("int", "SymInt", "float")  # axes
            return one_for_all and self.fits(value, inner)
        if name in NAMED:
            is_name = isinstance(value, dict) and value.keys() == {"name"}
            return is_name and value["name"] in NAMED[name]
        if name == "bool":
            return isinstance(value, bool)
        if name == "str":
            return isinstance(value, str) and len(value) <= 200
        if name in ("int", "SymInt"):
            return self.is_size(value)
        non_finite = _non_finite(value) is not None
        number = self.is_size(value) or isinstance(value, bool | float) or non_finite
        if name in ("float", "number", "Scalar"):
            return number
        return name == "Tensor" and (number or self.kind(value) == "tensor")

    def ready(self, value: Any) -> Any:
        """A checked argument as it is given to the call."""
        if isinstance(value, list):
            return [self.ready(one) for one in value]
        if not isinstance(value, dict):
            return value
        ((key, one),) = value.items()
        if key == "of":
            self.used.add(one)
            return StepResult(one)
        if key == "tensor":
            return StoredTensor(one)
        if key == "float":
            return _non_finite(value)
        return next(names[one] for names in NAMED.values() if one in names)


def _non_finite(value: Any) -> float | None:
    values = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
    text = value["float"] if isinstance(value, dict) and value.keys() == {"float"} else None
    return values.get(text) if isinstance(text, str) else None


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
