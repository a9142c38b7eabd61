"""From a network of the user's to steps, by torch.export."""

import math
import operator
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.export import Dim, ExportedProgram

from nescio.core.model_state import preserve_state
from nescio.errors import NescioError
from nescio.store.graph.graph import Graph
from nescio.store.graph.rule import ARITHMETIC, ITEM, MAX_SIZE, GraphPlan, Step, checked

SPATIAL = (
    nn.modules.conv._ConvNd,
    nn.modules.batchnorm._NormBase,
    nn.modules.pooling._MaxPoolNd,
    nn.modules.pooling._AvgPoolNd,
    nn.modules.pooling._AdaptiveAvgPoolNd,
)  # channels come first
BARE = "linear"  # what a linear layer is called that is the whole network, and so has no name


def exported(
    net: nn.Module, x: Tensor, layers: Sequence[str] = ()
) -> tuple[GraphPlan, list[Tensor]]:
    """Return a network on the CPU as steps and tensors, for batches of any size.

    Args:
        net: of one tensor to one tensor, without choices in Python that depend on values.
        x: a batch of at least two inputs.
        layers: names of modules whose output is to be found again under the same name.
    """
    with preserve_state(net), warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of torch about itself
        net.eval()
        try:
            shapes = ({0: Dim.DYNAMIC},)
            program = torch.export.export(net, (x.clone(),), dynamic_shapes=shapes, strict=False)
            program = program.run_decompositions({})  # so that nothing writes in place
        except Exception as error:  # the network's own code is run, and may raise anything
            first = (str(error).strip() or "no reason given").splitlines()[0]
            reason = f"{type(error).__name__}: {first[:200]}"
            raise NescioError(f"torch.export cannot read it: {reason}") from error
        _check_any_batch(program)
        plan, tensors = _plan(program, net)
        checked(plan)
        found = _outputs(net, x, layers)
        return _marked(plan, tensors, x, found), tensors


def _check_any_batch(program: ExportedProgram) -> None:
    """Raise an error if Python chose other steps for batches of other sizes."""
    for node in program.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        size: Any = value.shape[0] if isinstance(value, Tensor) and value.dim() else None
        if isinstance(size, torch.SymInt):  # the batch, the one size that is not fixed
            asked = {str(guard.expr) for guard in size.node.shape_env.guards}
            asked -= {f"Ne({size}, {MAX_SIZE})"}  # true of all: of a slice, in older torch
            for question in sorted(asked):
                what = f"it asks whether {question}"
                raise NescioError(f"it does other things for batches of other sizes; {what}")


def _plan(program: ExportedProgram, net: nn.Module) -> tuple[GraphPlan, list[Tensor]]:
    signature = program.graph_signature
    kinds = [spec.kind.name for spec in signature.output_specs]
    if kinds != ["USER_OUTPUT"]:
        raise NescioError("it returns more than one tensor, or changes what it holds")
    sources = {spec.arg.name: spec for spec in signature.input_specs}
    if [spec.kind.name for spec in sources.values()].count("USER_INPUT") != 1:
        raise NescioError("it takes more than one input")
    (answer,) = next(node for node in program.graph.nodes if node.op == "output").args[0]
    needed = _needed(answer)
    modules = [(n or BARE, one) for n, one in net.named_modules() if isinstance(one, nn.Linear)]
    linear = {_where(one.weight, one.bias): name for name, one in modules}
    places: dict[Any, dict[str, int]] = {}
    steps: list[Step] = []
    tensors: list[Tensor] = []
    parameters: list[bool] = []
    for node in program.graph.nodes:
        if node not in needed:
            continue
        if node.op == "placeholder" and sources[node.name].kind.name == "USER_INPUT":
            places[node] = {"of": 0}
        elif node.op == "placeholder":
            spec = sources[node.name]
            if spec.kind.name not in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
                raise NescioError(f"it holds a {spec.kind.name.lower()}")
            held = {**program.constants, **program.state_dict}[spec.target or ""]
            places[node] = {"tensor": len(tensors)}
            tensors.append(held.detach())
            parameters.append(spec.kind.name == "PARAMETER")
        else:
            args = tuple(_plain(one, places) for one in node.args)
            kwargs = {name: _plain(one, places) for name, one in node.kwargs.items()}
            name, layer = _op_name(node.target), None
            held_by = [one for one in args[1:] if one is not None]
            if name == "aten.linear.default" and all("tensor" in one for one in held_by):
                layer = linear.get(_where(*(tensors[one["tensor"]] for one in held_by)))
            steps.append(Step(name, args, kwargs, layer))
            places[node] = {"of": len(steps)}
    return GraphPlan(tuple(steps), tuple(parameters)), tensors


def _where(weight: Tensor, bias: Tensor | None = None) -> tuple[int, int | None]:
    """What tells a linear layer from others, even if they have their weights in common."""
    return weight.data_ptr(), None if bias is None else bias.data_ptr()


def _needed(answer: Any) -> set[Any]:
    """The nodes that an answer is made of; the rest, such as checks of sizes, only look."""
    found, left = set(), [answer]
    while left:
        node = left.pop()
        if isinstance(node, torch.fx.Node) and node not in found:
            found.add(node)
            left += node.all_input_nodes
    return found


def _op_name(target: Any) -> str:
    if isinstance(target, OpOverload):
        return str(target)
    if target is operator.getitem:
        return ITEM
    for name, call in ARITHMETIC.items():
        if target is call:
            return name
    raise NescioError(f"it calls {getattr(target, '__name__', target)}, which no graph may hold")


def _plain(value: Any, places: Mapping[Any, dict[str, int]]) -> Any:
    """An argument as plain data."""
    if isinstance(value, torch.fx.Node):
        return places[value]
    if isinstance(value, list | tuple):
        return [_plain(one, places) for one in value]
    if isinstance(value, torch.dtype | torch.memory_format | torch.layout | torch.device):
        return {"name": str(value).removeprefix("torch.")}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise NescioError(f"it uses a {type(value).__name__} in an operation, which is no plain data")


def _outputs(net: nn.Module, x: Tensor, layers: Sequence[str]) -> dict[str, tuple[nn.Module, Any]]:
    """What modules return for a batch, the last time that each is run."""
    found: dict[str, tuple[nn.Module, Any]] = {}
    for name, module in net.named_modules():
        if name in layers:

            def keep(module: nn.Module, _: Any, returned: Any, name: str = name) -> None:
                # a copy, since what comes next may write over it
                found[name] = module, returned.clone() if isinstance(returned, Tensor) else returned

            module.register_forward_hook(keep)  # `preserve_state` removes it
    net(x.clone())
    return found


def _marked(
    plan: GraphPlan,
    tensors: Sequence[Tensor],
    x: Tensor,
    found: Mapping[str, tuple[nn.Module, Any]],
) -> GraphPlan:
    """The plan with a mark at the first step that makes what a module of the user's returns."""
    steps, linear = list(plan.steps), {step.layer for step in plan.steps}
    unmarked = ((name, one) for name, one in found.items() if name not in linear)
    wanted = {name: one for name, one in unmarked if isinstance(one[1], Tensor)}
    graph = Graph(plan, [one.clone() for one in tensors]).eval()
    for index, value in enumerate(graph._nescio_results(x.clone())):
        for name, (module, returned) in list(wanted.items()):
            same_type = isinstance(value, Tensor) and value.dtype == returned.dtype
            if same_type and torch.equal(value, returned):
                marks = {**steps[index].marks, name: isinstance(module, SPATIAL)}
                steps[index] = replace(steps[index], marks=marks)
                del wanted[name]
    return GraphPlan(tuple(steps), plan.parameters)
