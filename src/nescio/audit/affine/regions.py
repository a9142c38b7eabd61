"""The linear region of an input: a network's law around it, and the half-spaces that bound it.

From each input one ray leaves along each axis. The slopes of a value along these rays are its
gradient, so that one pass of laws also gives the affine function behind each choice of ReLU and
pooling; where one is 0, the region has a face.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nescio.arrays import Array
from nescio.audit.affine.asymptote import check_logits_law, float64_copy
from nescio.audit.affine.choices import PADDING, Rays, track_modules
from nescio.audit.affine.laws import Law, NotAffineError
from nescio.core.forward import check_inputs, run
from nescio.data.arrays import tensor
from nescio.errors import NescioError, check_int

BATCH_RAYS = 256
ROUNDING = 1e-13  # fraction of a layer's largest value that may be no more than rounding


class Faces(Rays):
    """Rays, `each` (K) from each of M points, that choose by the value there, and the faces met.

    What is exactly 0 is not above 0, as for autograd. With directions `toward` `(M, K)`, what is 0
    up to `reach` is chosen as an infinitely small step farther on. Choices and faces are kept only
    with `keep`.
    """

    def __init__(
        self, points: int, each: int, like: Tensor, keep: bool, toward: Tensor | None, reach: float
    ) -> None:
        super().__init__(points * each, like)
        self.points, self.each, self.keep = points, each, keep
        self.toward, self.reach = toward, reach
        self._choices: list[Array] = [np.zeros((points, 0), np.uint8)]
        self._margins: list[Tensor] = [like.new_zeros(points, 0)]
        self._gradients: list[Tensor] = [like.new_zeros(points, each, 0)]

    def above(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Return where `slope · t + intercept` is above 0 at the points."""
        value, gradient = self._at_points(slope, intercept)
        above = value > 0
        if self.toward is not None:
            met = value.abs() <= self._slack(value, gradient)
            above = torch.where(met, self._rise(gradient, self.toward) > 0, above)
        if self.keep:
            sign = torch.where(above, 1.0, -1.0).to(value.dtype)
            choices = np.packbits(above.flatten(1).cpu().numpy(), axis=1)
            self._add(choices, sign * value, sign.unsqueeze(1) * gradient)
        return above.repeat_interleave(self.each, 0)

    def largest(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Return which of the last axis is the largest at the points, `(…, 1)`."""
        value, gradient = self._at_points(slope, intercept)
        index = value.argmax(-1, keepdim=True)
        if self.toward is not None:
            lead, steeper = _lead(value, gradient, index)
            met = lead <= self._slack(value.where(value != PADDING, 0.0), steeper)
            rise = self._rise(gradient, self.toward).masked_fill(~met, -torch.inf)
            index = rise.argmax(-1, keepdim=True)
        if self.keep:
            choices = index.flatten(1).cpu().numpy().astype("<u4", order="C")
            self._add(choices.view(np.uint8), *_lead(value, gradient, index))
        return index.repeat_interleave(self.each, 0)

    def faces(self) -> tuple[Tensor, Tensor]:
        """Return margins `(M, U)` of the functions behind choices, and gradients `(M, U, K)`."""
        return torch.cat(self._margins, 1), torch.cat(self._gradients, 2).transpose(1, 2)

    def patterns(self) -> list[bytes]:
        """Return the choices at each point; points share a region exactly if they share these."""
        return [row.tobytes() for row in np.concatenate(self._choices, 1)]

    def _at_points(self, slope: Tensor, intercept: Tensor) -> tuple[Tensor, Tensor]:
        """Return values `(M, …)` and gradients `(M, K, …)`."""
        if len(slope) != self.points * self.each:
            how = "moves the axis of the inputs, as several draws do"
            raise NotAffineError(f"{how}, so that they get mixed up")
        shape = (self.points, self.each, *slope.shape[1:])
        # values of one ray for all: rounding must not make them choose differently
        return intercept.reshape(shape)[:, 0], slope.reshape(shape)

    def _slack(self, value: Tensor, gradient: Tensor) -> Tensor:
        """Return how large each value `(M, …)` may be on a face that is met."""
        most = value.abs().reshape(self.points, -1).amax(1).view(-1, *[1] * (value.dim() - 1))
        slack: Tensor = self.reach * gradient.norm(dim=1) + ROUNDING * most
        return slack

    def _rise(self, gradient: Tensor, toward: Tensor) -> Tensor:
        """Return slopes `(M, …)` in the direction that the points go."""
        return torch.einsum("mk...,mk->m...", gradient, toward)

    def _add(self, choices: Array, margin: Tensor, gradient: Tensor) -> None:
        self._choices.append(choices)
        self._margins.append(margin.flatten(1))
        self._gradients.append(gradient.flatten(2))


def _lead(value: Tensor, gradient: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """Return by how much one of the last axis exceeds the others, and the gradient of that."""
    padding = value == PADDING
    steeper = gradient.gather(-1, index.unsqueeze(1).expand(*gradient.shape[:-1], 1)) - gradient
    lead = (value.gather(-1, index) - value).masked_fill(padding, torch.inf)
    return lead, steeper.masked_fill(padding.unsqueeze(1), 0.0)


def local_affine(
    model: nn.Module, x: Any, *, batch_size: int = BATCH_RAYS
) -> tuple[Tensor, Tensor]:
    """Return V `(N, C, D)` and a `(N, C)` with `f(z) = V z + a` in the linear region of each x.

    The model is run in float64 and eval mode. On a face V is that of the side where the unit is
    off, as autograd's is. Inputs z are flattened.

    Args:
        model: a network of linear, convolutional, pooling and ReLU-like layers, in any arrangement.
        x: inputs `(N, …)`, of D numbers each.
        batch_size: rays at a time; D leave each input.

    >>> net = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 2)).requires_grad_(False)
    >>> net[0].weight[:], net[0].bias[:] = torch.tensor([[1.0, 2.0]]), torch.tensor([-1.0])
    >>> net[2].weight[:], net[2].bias[:] = torch.tensor([[3.0], [0.0]]), torch.tensor([0.0, 1.0])
    >>> V, a = local_affine(net, torch.tensor([[1.0, 1.0]]))
    >>> V.tolist(), a.tolist()
    ([[[3.0, 6.0], [0.0, 0.0]]], [[-3.0, 1.0]])
    """
    x = _check_points(model, x)
    size = max(1, check_int("batch_size", batch_size) // x[0].numel())
    with float64_copy(model, x) as double:
        parts = [laws_around(double, points, batch_size=batch_size)[:2] for points in x.split(size)]
    slope, value = (torch.cat(values) for values in zip(*parts, strict=True))
    return slope, value - torch.einsum("ncd,nd->nc", slope, x.flatten(1))


@dataclass(frozen=True)
class Region:
    """Where a network is one affine function: all z with `normals · (z − x) ≤ margins`, flattened.

    There is a half-space for each choice that depends on the input; most are redundant.

    Attributes:
        x: `(…)`, the input it is around.
        normals, margins: `(F, D)` and `(F,)`.
        slope, value: `(C, D)` and `(C,)`; within, the logits are `slope · (z − x) + value`.
        pattern: the choices of all units, which distinguish regions.
    """

    x: Tensor
    normals: Tensor
    margins: Tensor
    slope: Tensor
    value: Tensor
    pattern: bytes

    @property
    def half_spaces(self) -> tuple[Tensor, Tensor]:
        """A `(F, D)` and b `(F,)`: the region is all z with `A z ≤ b`."""
        return self.normals, self.margins + self.normals @ self.x.flatten()

    @property
    def distance(self) -> float:
        """From x to the nearest face; infinite if there is none."""
        distances = self.margins / self.normals.norm(dim=1)
        return float(distances.min()) if len(distances) else math.inf

    def contains(self, z: Any) -> Tensor:
        """Return whether inputs `(N, …)`, or one `(…)`, lie within, faces included: `(N,)`."""
        return (self._steps(z) @ self.normals.T <= self.margins).all(-1)

    def at(self, z: Any) -> Tensor:
        """Return logits `(N, C)`, or `(C,)`, of the law at some inputs."""
        return self._steps(z) @ self.slope.T + self.value

    def _steps(self, z: Any) -> Tensor:
        """Return flattened steps from x, `(N, D)` or `(D,)`."""
        z = tensor(z)
        if self.x.shape not in (z.shape, z.shape[1:]):
            shapes = f"{tuple(z.shape)} for a region of inputs {tuple(self.x.shape)}"
            raise NescioError(f"inputs of shape {shapes}")
        check_inputs(z.reshape(-1, *self.x.shape), nn.Identity())
        steps: Tensor = (z.double() - self.x).flatten(z.dim() - self.x.dim())
        return steps


def region(model: nn.Module, x: Any, *, batch_size: int = BATCH_RAYS) -> Region:
    """Return the linear region of one input `(…)`, with every half-space that bounds it.

    An input on a face belongs to the side where the unit is off. The half-spaces take D numbers for
    each unit: gigabytes for a large network on images. Arguments are as in `local_affine`.

    >>> here = region(net, x[0])
    >>> torch.allclose(here.value.float(), net(x[0]))
    True
    >>> here.slope.shape  # of the logits there
    torch.Size([3, 2])
    """
    x = _check_points(model, tensor(x).unsqueeze(0))
    with float64_copy(model, x) as double:
        slope, value, passes = laws_around(double, x, keep=True, batch_size=batch_size)
    margins = passes[0].faces()[0][0]
    gradients = torch.cat([faces.faces()[1][0] for faces in passes], 1)[:, : x.numel()]
    real = (gradients != 0).any(1)
    pattern = passes[0].patterns()[0]
    return Region(x[0], -gradients[real], margins[real], slope[0], value[0], pattern)


def laws_around(
    model: nn.Module,
    x: Tensor,
    keep: bool = False,
    toward: Tensor | None = None,
    reach: float = 0.0,
    batch_size: int = BATCH_RAYS,
) -> tuple[Tensor, Tensor, list[Faces]]:
    """Return slopes `(M, C, D)` and values `(M, C)` of the logits at points, and all faces.

    Where a point has too many axes they are shared out among passes, all of one size and so of the
    same rounding: each chooses as the others do. Of the last pass the axes beyond D go nowhere.
    """
    axes = x[0].numel()
    passes = -(-axes // check_int("batch_size", batch_size)) if toward is None else 1
    each = -(-axes // passes)
    steps = torch.eye(each * passes, axes, dtype=x.dtype, device=x.device)
    slopes, values = [], []
    for directions in steps.view(passes, each, *x.shape[1:]):
        faces = Faces(len(x), each, x, keep, toward, reach)
        directions = directions.repeat(len(x), *[1] * (x.dim() - 1))
        with track_modules(model, faces):
            logits = run(model, Law(directions, x.repeat_interleave(each, 0), faces))
        law = check_logits_law(logits, len(directions), model)
        if law.dim() == 3:
            got = f"{tuple(law.shape)}: several draws, or logits of a batch, and no one law"
            remedy = "give one network, such as ensemble.member(0), and region one input"
            raise NescioError(f"the model returns {got}; {remedy}")
        slopes.append(law.slope.view(len(x), each, -1))
        value = law.intercept.view(len(x), each, -1)[:, 0]
        values.append(faces)
    return torch.cat(slopes, 1)[:, :axes].transpose(1, 2), value, values


def _check_points(model: nn.Module, x: Any) -> Tensor:
    """Return inputs `(N, …)` in float64, or raise an error."""
    x = tensor(x)
    check_inputs(x, model)
    if x.dim() < 2 or x.numel() == 0:
        shape = tuple(x.shape)
        raise NescioError(f"inputs of shape {shape}; expected (N, …), or one (…) for a region")
    double: Tensor = x.double()
    return double
