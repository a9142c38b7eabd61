"""Features of a network's layers, kept during the same forward pass as the logits."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._functorch import is_batchedtensor  # inside vmap a layer returns all draws at once
from torch.nn.functional import pad
from torch.nn.modules import pooling

from nescio.core.forward import draws_of, run
from nescio.core.logits import two_classes
from nescio.core.model_state import SharedBlock
from nescio.core.replica import is_compiled
from nescio.errors import NescioError


class NoFeaturesError(NescioError):
    """No linear layer gives a model's logits, or each of its draws has features of its own."""


HEAD = "(head)"  # stands for the input of the last linear layer
ROUNDING = 1e-5  # relative to the largest logit
_POOLS = (pooling._MaxPoolNd, pooling._AvgPoolNd, pooling._AdaptiveAvgPoolNd)
SPATIAL = (nn.modules.conv._ConvNd, nn.modules.batchnorm._NormBase, *_POOLS)


@dataclass(frozen=True)
class ForwardPass:
    """What a model computed for a batch.

    Attributes:
        logits: `(S, B, C)`.
        features: `(B, F)` of each requested layer, in the model's dtype; see HEAD.
        head: that layer, if it was requested and the model has one; of one output, with a row of
            zeros for the other class.
        head_output: what it returned, `(B, C)`: the logits, if nothing comes after it.
    """

    logits: Tensor
    features: Mapping[str, Tensor]
    head: nn.Linear | None = None
    head_output: Tensor | None = None

    def select(self, rows: Tensor) -> "ForwardPass":
        """Return the pass of some inputs of the batch."""
        rows = rows.to(self.logits.device)
        features = {name: value[rows] for name, value in self.features.items()}
        output = None if self.head_output is None else self.head_output[rows]
        return ForwardPass(self.logits[:, rows], features, self.head, output)


def head_of(forward_pass: ForwardPass, needed_by: str) -> tuple[nn.Linear, Tensor]:
    """Return the last linear layer and its output `(B, C)`; raise an error if there is none."""
    if forward_pass.head is None or forward_pass.head_output is None:
        raise NescioError(
            f"{needed_by} needs a model that ends in a linear layer, but the logits of this one "
            "come from none (those of DUQ are kernels); use a detector on features, such as "
            "Mahalanobis"
        )
    return forward_pass.head, forward_pass.head_output


def forward_with_features(model: nn.Module, x: Tensor, layers: Sequence[str] = ()) -> ForwardPass:
    """Run a model on a batch, without gradients, and keep the outputs of some layers.

    Feature maps are averaged over positions. Models with several draws have no such features.
    """
    recorder = _Recorder()
    with torch.no_grad(), _eager_mode(model), recorder.watching(model, layers):
        logits = draws_of(run(model, x.clone()), len(x))
    if layers and (len(logits) > 1 or recorder.batched):
        problem = f"the model has draws ({len(logits)}), each with features of its own"
        remedy = "give one network, such as ensemble.member(0), or use a detector on the logits"
        raise NoFeaturesError(f"{problem}; {remedy}")
    outputs = recorder.outputs
    features = {name: _rows(*outputs[name], len(x), name) for name in layers if name in outputs}
    head = head_output = None
    if HEAD in layers and HEAD not in features:
        head, features[HEAD], head_output = _head(recorder.linear_calls, logits[0], model, x)
    if missing := [name for name in layers if name not in features]:
        raise NescioError(f"no layer {missing[0]!r} with features is run. {_layers_of(model, x)}")
    return ForwardPass(logits, features, head, head_output)


def _eager_mode(model: nn.Module) -> AbstractContextManager[object]:
    """Return a block in which hooks run: code made by torch.compile may skip those added later."""
    return _force_eager if any(map(is_compiled, model.modules())) else nullcontext()


_force_eager = SharedBlock(lambda: torch.compiler.set_stance("force_eager"))


class _Recorder:
    """Outputs of watched layers, and each call of a linear one: the layer, its input and output."""

    def __init__(self) -> None:
        self.outputs: dict[str, tuple[nn.Module, Any]] = {}
        self.linear_calls: list[tuple[nn.Linear, Tensor, Tensor]] = []

    @property
    def batched(self) -> bool:
        values = [value for _, value in self.outputs.values()]
        return any(map(is_batchedtensor, [*values, *(value for _, value, _ in self.linear_calls)]))

    @contextmanager
    def watching(self, model: nn.Module, layers: Sequence[str]) -> Iterator[None]:
        """Watch layers of a model that run in this block."""
        modules = dict(model.named_modules())
        # a method whose network ends in features; of its class: a network may have such a buffer
        on_features = [m for m in modules.values() if getattr(type(m), "on_features", False)]
        watched = {name: modules[name] for name in layers if name in modules}
        if HEAD in layers and on_features:
            watched[HEAD] = on_features[0].get_submodule("net")
        plain = [(k, m) for k, m in watched.items() if not isinstance(m, torch.jit.ScriptModule)]
        hooks = [module.register_forward_hook(self._keep_output(name)) for name, module in plain]
        if HEAD in layers and not on_features:
            linear = [module for module in modules.values() if isinstance(module, nn.Linear)]
            hooks += [m.register_forward_hook(self._keep_call, with_kwargs=True) for m in linear]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _keep_output(self, name: str) -> Any:
        def hook(module: nn.Module, _: tuple[Any, ...], output: Any) -> None:
            # a copy, since what comes next may write on it
            self.outputs[name] = module, output.clone() if isinstance(output, Tensor) else output

        return hook

    def _keep_call(self, module: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> None:
        if isinstance(module, nn.Linear):
            self.linear_calls.append((module, args[0] if args else kwargs["input"], output))


def _head(
    calls: Sequence[tuple[nn.Linear, Tensor, Tensor]], logits: Tensor, model: nn.Module, x: Tensor
) -> tuple[nn.Linear, Tensor, Tensor]:
    """Return the last linear layer that gives the logits `(B, C)`, its input and its output."""
    one_output = logits.shape[1] == 2 and not logits[:, 0].any()
    for module, x_in, output in reversed(calls):
        if module.out_features == logits.shape[1] or (one_output and module.out_features == 1):
            features, head_output = (_rows(module, v, len(x), HEAD) for v in (x_in, output))
            head_output = two_classes(head_output)
            if _same_answers(head_output, logits):
                return _of_two_classes(module), features, head_output
    none_gives = "no linear layer that it runs gives the model's logits"
    reason = none_gives if calls else "the model runs no linear layer"
    raise NoFeaturesError(f"{reason}, so none has an input to use. {_layers_of(model, x)}")


def _of_two_classes(head: nn.Linear) -> nn.Linear:
    """Return a layer, or one of one output with zeros for the first of two classes."""
    if head.out_features > 1:
        return head
    # on no device, whose weights are made without drawing random numbers
    wide = nn.Linear(head.in_features, 2, bias=head.bias is not None, device="meta")
    wide.weight = nn.Parameter(pad(head.weight.detach(), (0, 0, 1, 0)), requires_grad=False)
    if head.bias is not None:
        wide.bias = nn.Parameter(pad(head.bias.detach(), (1, 0)), requires_grad=False)
    return wide


def _same_answers(head_output: Tensor, logits: Tensor) -> bool:
    """Whether logits are a layer's output up to a temperature and a shift per input.

    Or up to one non-decreasing function, such as the bound `c·tanh(z / c)`.
    """
    if torch.equal(head_output, logits):  # true of nearly all networks, and cheap to see
        return True
    a, b = ((value - value.mean(1, keepdim=True)).double() for value in (head_output, logits))
    sizes = torch.linalg.vector_norm(a, dim=1) * torch.linalg.vector_norm(b, dim=1)
    close = (a * b).sum(1) >= 0.999 * sizes
    if bool((close | ~sizes.isfinite() | ~(sizes > 0)).all()):
        return True
    ordered = logits.flatten()[head_output.flatten().argsort()].double()
    return bool((ordered.cummax(0).values - ordered <= ROUNDING * ordered.abs().amax()).all())


def _rows(module: nn.Module, output: Any, count: int, name: str) -> Tensor:
    """Return features `(B, F)` of a layer's output: the mean over positions of images or words."""
    expected = f"expected a tensor (B, …) for {count} inputs"
    if not isinstance(output, Tensor):
        raise NescioError(f"the features of {name!r} are {type(output).__name__}; {expected}")
    if output.dim() < 2 or len(output) != count or not output.is_floating_point():
        raise NescioError(f"the features of {name!r} are {tuple(output.shape)}; {expected}")
    if output.dim() == 3 and not isinstance(module, SPATIAL):
        return output.mean(1)  # (B, words, F)
    return output.flatten(2).mean(2) if output.dim() > 2 else output  # (B, F, …)


def _layers_of(model: nn.Module, x: Tensor) -> str:
    """List all modules that run, with the shapes of their outputs for one input, in order."""
    names = [name for name, _ in model.named_modules() if name]
    recorder = _Recorder()
    with torch.no_grad(), _eager_mode(model), recorder.watching(model, names):
        run(model, x[:1].clone())
    shapes = {
        name: f"{name} {tuple(output.shape[1:]) if isinstance(output, Tensor) else ''}"
        for name, (_, output) in recorder.outputs.items()
    }
    if shapes:
        return "Name one of: " + ", ".join(shapes[name] for name in names if name in shapes)
    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        return "Its modules are scripted or traced; give the network it was made from"
    return "It runs no module that has a name"
