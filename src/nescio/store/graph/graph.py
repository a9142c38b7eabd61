"""A network made of steps, and its file: tensors in safetensors, steps as JSON."""

import os
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from nescio.core.tensorfile import read_tensors, write_tensors
from nescio.errors import NescioError
from nescio.records import from_plain, to_plain
from nescio.store.graph.rule import MAX_SIZE, GraphPlan, Step, StepResult, StoredTensor, checked

KIND = "graph"  # of a file
STORE = "(tensors)"  # no module of the user's is called so
EMBEDDING = "aten.embedding.default"


class Graph(nn.Module):
    """A network made of steps, run as any other."""

    def __init__(self, plan: GraphPlan, tensors: Sequence[Tensor]) -> None:
        super().__init__()
        store = nn.Module()
        for index, (tensor, is_parameter) in enumerate(zip(tensors, plan.parameters, strict=True)):
            if is_parameter:
                parameter = nn.Parameter(tensor, requires_grad=tensor.is_floating_point())
                store.register_parameter(str(index), parameter)
            else:
                store.register_buffer(str(index), tensor)
        self.add_module(STORE, store)
        self._nescio_steps = checked(plan)
        embeddings = (step for step in plan.steps if step.op == EMBEDDING)
        self._nescio_embedding_sizes = [_vocabulary(step, tensors) for step in embeddings]
        marks = {name: first for step in plan.steps for name, first in step.marks.items()}
        for name in sorted(
            marks, key=lambda name: name.count(".")
        ):  # what holds others comes first
            _add(self, name, ChannelsFirst(1) if marks[name] else nn.Identity())
        weights: dict[str, tuple[Any, ...]] = {}
        for step in plan.steps:
            if step.layer is None:
                continue
            if weights.get(step.layer) != step.args[1:]:  # else the same layer runs again
                _add(self, step.layer, _linear(step, store._parameters))
            weights[step.layer] = step.args[1:]

    def forward(self, x: Tensor) -> Any:
        """What the network makes of a batch."""
        return deque(self._nescio_results(x), maxlen=1).pop()

    def _nescio_results(self, x: Tensor) -> Iterator[Any]:
        """The result of each step."""
        values: dict[int, Any] = {0: x}
        modules = dict(self.named_modules())
        tensors = modules[STORE]

        def put(value: Any) -> Any:
            if isinstance(value, StepResult):
                return values[value.step]
            if isinstance(value, StoredTensor):
                return getattr(tensors, str(value.index))
            return [put(item) for item in value] if isinstance(value, list) else value

        for number, step in enumerate(self._nescio_steps, start=1):
            call = modules[step.modules[0]] if step.call is nn.Linear else step.call
            given = step.args[:1] if step.call is nn.Linear else step.args
            value = call(*map(put, given), **{name: put(arg) for name, arg in step.kwargs.items()})
            if isinstance(value, int) and abs(value) > MAX_SIZE:
                raise NescioError(f"step {number} of a graph makes a size beyond all bounds")
            for name in step.modules[step.call is nn.Linear :]:
                value = modules[name](value)
            values[number] = value
            yield value
            for gone in step.over:
                del values[gone]


def _vocabulary(step: Step, tensors: Sequence[Tensor]) -> int:
    """How many rows the table of an embedding has; 0 if it is worked out by earlier steps."""
    table = step.args[0] if step.args else step.kwargs.get("weight")
    index = table.get("tensor") if isinstance(table, dict) else None
    return 0 if index is None else len(tensors[index])


def _linear(step: Step, own: Mapping[str, nn.Parameter | None]) -> nn.Linear:
    """The module of a linear step."""
    used = [arg for arg in step.args[1:] if arg is not None]
    found = [own.get(str(arg.get("tensor"))) for arg in used if isinstance(arg, dict)]
    weight, bias = (*found, None, None)[:2]
    plain = step.op == "aten.linear.default" and not step.kwargs
    plain = plain and (len(used) > 1) == (bias is not None)
    if not plain or weight is None or weight.dim() != 2:
        raise NescioError(f"{step.layer!r} of a graph is no linear layer with weights of its own")
    made = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    made.weight = weight
    if bias is not None:
        made.bias = bias
    return made


def _add(graph: Graph, name: str, module: nn.Module) -> None:
    """Put a module where the user's network has it."""
    parts = name.split(".")
    if len(parts) > 100 or not all(re.fullmatch(r"[\w -]{1,200}", part) for part in parts):
        raise NescioError(f"{name[:100]!r} in a graph is no name of a module")
    parent: nn.Module = graph
    for number, part in enumerate(parts, start=1):
        inner = parent._modules.get(part)
        if inner is not None and number == len(parts):
            raise NescioError(f"a graph has two modules called {name[:100]!r}")
        if inner is None:
            if hasattr(parent, part) or hasattr(nn.Linear, part):
                reserved = f"{name[:100]!r} in a graph is no name of a module; {part!r} is reserved"
                raise NescioError(reserved)
            inner = module if number == len(parts) else nn.Module()
            parent.add_module(part, inner)
        parent = inner


class ChannelsFirst(nn.AvgPool1d):
    """Marks features with channels before positions, as convolutions and pooling return."""

    def forward(self, x: Tensor) -> Tensor:
        return x


def write_graph(path: str | os.PathLike[str], plan: GraphPlan, tensors: Sequence[Tensor]) -> None:
    """Keep a network in a file."""
    named = {str(index): tensor for index, tensor in enumerate(tensors)}
    write_tensors(path, KIND, named, {"plan": to_plain(plan)})


def read_graph(path: str | os.PathLike[str]) -> Graph:
    """Read a network, in eval mode; an error, before anything is run, if it may not be."""
    tensors, header = read_tensors(path, KIND, ("plan",))
    where = repr(os.fspath(path))
    plan: GraphPlan = from_plain(GraphPlan, header.get("plan"), where)
    if tensors.keys() != {str(index) for index in range(len(plan.parameters))}:
        raise NescioError(f"{where} lacks tensors of its graph, or has others")
    try:
        return Graph(plan, [tensors[str(index)] for index in range(len(tensors))]).eval()
    except NescioError as error:
        raise NescioError(f"{where}: {error}") from error
