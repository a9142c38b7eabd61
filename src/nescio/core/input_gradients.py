"""How a model's outputs change with its input: values and their gradients in x."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core.forward import autograd_errors, check_inputs, draws_of, fixed_draws, run
from nescio.core.model_state import check_model, check_values, deep_copy
from nescio.core.predict import read
from nescio.core.random_streams import from_seed
from nescio.data.batches import length
from nescio.errors import NescioError
from nescio.progress import bar
from nescio.seeds import check_seed

Quantities = Callable[[Tensor], Tensor]  # logits (S, B, C) → (K, B)


def input_gradient(
    values: Tensor,
    x: Tensor,
    purpose: str,
    *,
    create_graph: bool = False,
    retain_graph: bool | None = None,
) -> Tensor:
    """Return `∇ₓ Σ values`, shaped as x, or raise if x does not lead to the values.

    Args:
        values: what to differentiate, `(N,)`, each of which depends on its own input alone.
        x: inputs `(N, …)` that require a gradient.
        purpose: who needs the gradient, the subject of an error message.
        create_graph, retain_graph: as in `torch.autograd.grad`.
    """
    gradient = None
    if values.requires_grad:
        with autograd_errors():
            flags: dict[str, Any] = {"retain_graph": retain_graph, "create_graph": create_graph}
            (gradient,) = torch.autograd.grad(values.sum(), x, allow_unused=True, **flags)
    if gradient is None:
        needed = "a model that can be differentiated in its input"
        problem = "what this one returns is constant, detached or made under torch.no_grad()"
        raise NescioError(f"{purpose} needs {needed}; {problem}")
    return gradient


def quantity_gradients(
    model: nn.Module,
    data: Any,
    of: Quantities,
    *,
    norms: bool = False,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Return quantities `(K, N)` of a model's logits, and their gradients in x, `(K, N, …)`.

    A copy of the model is run in float64 and eval mode; the model itself is not touched. Each batch
    starts from the seed, as in `predict`, so that a stochastic model is one function of its input.

    Args:
        model: any module from inputs to logits `(N, C)` or draws `(S, N, C)`, differentiable in its
            input.
        data: a tensor, an array, a dataset or a loader; labels are ignored.
        of: a function of logits `(S, B, C)` giving `(K, B)`, such as several scores stacked.
        norms: return the Euclidean norms `‖∇ₓ·‖₂` `(K, N)` instead of the gradients.
        batch_size, seed, progress: as in `predict`.

    >>> model, x = nn.Linear(2, 3), torch.zeros(5, 2)
    >>> values, gradients = quantity_gradients(model, x, lambda logits: logits[0].T)
    >>> values.shape, gradients.shape
    (torch.Size([3, 5]), torch.Size([3, 5, 2]))
    """
    check_model(model)
    check_values(model)
    check_seed(seed)
    values, gradients, before = [], [], 0
    double = deep_copy(model).double().eval().requires_grad_(False)
    device = next((p.device for p in double.parameters()), None)
    with fixed_draws(double), bar(length(data), "gradients", progress) as shown:
        for x, _ in read(data, batch_size, seed):
            check_inputs(x, model, before)
            inputs = x.detach().to(device, torch.float64).clone().requires_grad_()

            def quantities(inputs: Tensor = inputs) -> Tensor:
                # a clone: the first layer may work in place
                return of(draws_of(run(double, inputs.clone()), len(inputs)))

            with torch.enable_grad():
                rows = from_seed(seed, quantities, model)
                of_row = partial(input_gradient, x=inputs, purpose="a gradient", retain_graph=True)
                stacked = torch.stack([of_row(row) for row in rows])
            values.append(rows.detach().to(x.device))
            gradients.append((_norms(stacked) if norms else stacked).to(x.device))
            before += len(x)
            shown.advance(len(x))
    return torch.cat(values, 1), torch.cat(gradients, 1)


def check_finite(names: Sequence[str], values: Tensor, gradients: Tensor) -> None:
    """Raise, naming the quantity, if values `(K, N)` or gradients `(K, N, …)` are not finite."""
    for name, value, gradient in zip(names, values, gradients, strict=True):
        bad = ~(value.isfinite() & gradient.reshape(len(value), -1).isfinite().all(1))
        if bad.any():
            inputs = f"{int(bad.sum())} of {len(bad)} inputs"
            problem = f"{name}, or its gradient in the input, is NaN or infinite for {inputs}"
            raise NescioError(f"{problem}; expected a model that is differentiable there")


def draws_and_classes(model: nn.Module, x: Tensor, *, seed: int = 0) -> tuple[int, int]:
    """Return S and C of the logits `(S, N, C)` that a model gives in float64."""
    shape: list[int] = []

    def quantities(logits: Tensor) -> Tensor:
        shape[:] = logits.shape
        return logits[:1, :, 0]

    quantity_gradients(model, x, quantities, seed=seed, progress=False)
    return shape[0], shape[2]


def _norms(gradients: Tensor) -> Tensor:
    """`(K, B)`; on the scale of the largest component, whose square underflows below 1e-162."""
    flat = gradients.flatten(2)
    scale = flat.abs().amax(2, keepdim=True)
    norms: Tensor = torch.linalg.vector_norm(flat / scale.where(scale > 0, 1.0), dim=2)
    return norms * scale.squeeze(2)
