"""Dropout left on at prediction: each draw is one thinned network (*Know your limits*, after Gal & Ghahramani 2016)."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd
from torch.utils.hooks import RemovableHandle

from nescio.errors import NescioError, whole_number
from nescio.logits import softmax_confidence
from nescio.methods.draws import at_once, pieces
from nescio.methods.method import Method

DROPOUT = 0.2  # of a network made for it, when none is asked for
_FORWARDS = [kind.forward for kind in (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout,
                                       nn.FeatureAlphaDropout)]  # fmt: skip
_SATURATED = -1.7580993408473766  # where SELU, and a unit that alpha dropout silences, ends


@dataclass
class Masks:
    """The masks of one run, in the order in which the dropout modules are called."""

    drawn: list[Tensor] = field(default_factory=list)
    given: list[Tensor] = field(default_factory=list)  # to be taken in place of new ones


@dataclass
class Axes:
    """The axis of the inputs in each call of a module within one run of the network."""

    axes: list[int | None]
    calls: int = 0  # so far in this run
    masks: Masks = field(default_factory=Masks)  # those of all modules together

    def next(self) -> int | None:
        """That of the call being made; a call too many, of a network that goes by its values, counts as the last."""
        self.calls += 1
        return self.axes[min(self.calls, len(self.axes)) - 1] if self.axes else None


class MCDropout(Method):
    """A network whose dropout stays on at prediction, each draw another thinned network (Gal & Ghahramani 2016).

    Everything else, BatchNorm above all, is in eval mode. A draw is one function: its mask is the same for all inputs,
    so that an input's answer does not hang on what else is in its batch (unless the network merges the axis of inputs
    with another one before a dropout, or has dropout modules with a forward pass of their own: these have a mask for
    each input). What stands before the first dropout is computed once. In train mode it is the plain network.

    Args:
        net: a network with dropout modules (`nn.Dropout` and its kin; functional dropout cannot be found).
        normalise: what raw inputs go through first.
        samples: draws at prediction.
    """

    name = "mc_dropout"
    score = "entropy"
    sampled = True

    def __init__(self, net: nn.Module, normalise: nn.Module | None = None, samples: int = 50) -> None:
        super().__init__(net, normalise)
        self.samples = whole_number("samples", samples, below=1_000_001)
        self._axes: dict[Any, dict[_DropoutNd, Axes]] = {}  # for the shape of input met last
        if not self._dropouts():
            raise NescioError(f"this {type(net).__name__} has no dropout module with p > 0, so every draw would be the "
                              "same; make it with nn.Dropout layers (functional dropout is off at prediction), such as "
                              "nescio.models.mlp(…, dropout=0.2)")  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        x = self.normalise(x)
        if self.training:
            logits: Tensor = self.net(x)
            return logits
        draws = torch.cat([self._draws(piece) for piece in pieces(x, self.samples, self.net)], 1)
        if self.samples > 1 and _all_the_same(draws) and not self._draws_differ_at_all(x):
            raise NescioError(f"all {self.samples} draws are the same for {len(x)} inputs: the dropout modules "
                              f"({', '.join(self._dropouts())}) do not change the output. Are they used in the forward "
                              "pass, and is their p large enough?")  # fmt: skip
        return draws

    def _draws_differ_at_all(self, x: Tensor) -> bool:
        """Whether draws differ elsewhere: a few inputs may silence all units before a dropout by themselves."""
        if not x.is_floating_point():
            return False
        with torch.random.fork_rng(), torch.no_grad():
            return not _all_the_same(self._draws(torch.randn((64, *x.shape[1:]), dtype=x.dtype, device=x.device)))

    def _draws(self, x: Tensor) -> Tensor:
        """Draws `(S, N, C)`, which leave the random state as it was, so that the next piece meets the same masks."""
        with torch.random.fork_rng(), self._thinned(x) as axes:
            if type(x) is Tensor:
                return at_once(partial(self._run, x, axes), torch.arange(self.samples))
            # a tensor of another kind, as audits use, goes through one draw at a time, under the masks of a plain one
            if not axes:
                return torch.stack([self._run(x, axes, draw) for draw in range(self.samples)])
            rows = self._masks(torch.zeros(x.shape, dtype=x.dtype, device=x.device), axes)
            return torch.stack([self._run(x, axes, 0, given) for given in rows])

    def _run(self, x: Tensor, axes: list[Axes], _: Any, given: Sequence[Tensor] = ()) -> Tensor:
        """Logits `(N, C)` of one draw."""
        for one in axes:
            one.calls = 0
            one.masks.drawn, one.masks.given = [], list(given)
        logits: Tensor = self.net(x.clone())  # it may write on its input
        return logits

    def _masks(self, x: Tensor, axes: list[Axes]) -> list[list[Tensor]]:
        """The masks of each draw, S lists of one for each call."""
        shapes: list[torch.Size] = []

        def drawn(_: Tensor) -> Tensor:
            self._run(x, axes, _)
            found = axes[0].masks.drawn
            shapes[:] = [mask.shape for mask in found]
            return torch.cat([mask.flatten() for mask in found])

        rows = at_once(drawn, torch.arange(self.samples))  # (S, all entries)
        sizes = [shape.numel() for shape in shapes]
        return [[part.view(shape) for part, shape in zip(row.split(sizes), shapes, strict=True)] for row in rows]

    def loss(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.net(self.normalise(x))
        return F.cross_entropy(logits, y), logits

    def confidence(self, logits: Tensor) -> Tensor:
        return softmax_confidence(logits)

    def settings(self) -> dict[str, Any]:
        return {"samples": self.samples}

    def _dropouts(self) -> dict[str, _DropoutNd]:
        found = {name: module for name, module in self.net.named_modules() if isinstance(module, _DropoutNd)}
        return {name: module for name, module in found.items() if module.p > 0}

    def _own(self) -> list[_DropoutNd]:
        """The dropout modules that we make drop; one with a forward pass of its own is put in train mode instead."""
        return [module for module in self._dropouts().values() if type(module).forward in _FORWARDS]

    @contextmanager
    def _thinned(self, x: Tensor) -> Iterator[list[Axes]]:
        """Dropout as in training, and nothing else: our modules are in eval mode, where they hand on their input."""
        found, own = list(self._dropouts().values()), self._own()
        flags, masks = [module.training for module in found], Masks()
        hooks: list[RemovableHandle] = []
        try:
            for module in found:
                module.training = module not in own
            axes = self._axes_for(x)
            for one in axes.values():
                one.masks = masks
            hooks += [module.register_forward_hook(partial(_drop, axes[module])) for module in own]
            yield list(axes.values())
        finally:
            for hook in hooks:
                hook.remove()
            masks.drawn, masks.given = [], []  # which must not outlive the draws
            for module, flag in zip(found, flags, strict=True):
                module.training = flag

    def _axes_for(self, x: Tensor) -> dict[_DropoutNd, Axes]:
        """Of what each module sees, call by call, the axis that runs over inputs of this shape."""
        key = (tuple(x.shape[1:]), tuple(self._own()))
        if key not in self._axes:
            two, three = (self._shapes(x[:1].repeat(count, *[1] * (x.dim() - 1))) for count in (2, 3))
            self._axes = {key: {module: Axes([*map(_growing, two[module], three[module])]) for module in two}}
        return self._axes[key]

    def _shapes(self, x: Tensor) -> dict[_DropoutNd, list[torch.Size]]:
        """The shapes of what each module sees, call by call."""
        seen: dict[_DropoutNd, list[torch.Size]] = {module: [] for module in self._own()}
        hooks = [module.register_forward_hook(lambda module, _, out: seen[module].append(out.shape)) for module in seen]
        try:
            with torch.random.fork_rng(), torch.no_grad():
                self.net(x)
        finally:
            for hook in hooks:
                hook.remove()
        return seen


def _growing(two: torch.Size, three: torch.Size) -> int | None:
    """The axis that is 2 long for two inputs, and 3 for three.

    None, where inputs share an axis with something else: then every entry has a mask of its own.
    """
    return next((axis for axis, sizes in enumerate(zip(two, three, strict=False)) if sizes == (2, 3)), None)


def _all_the_same(draws: Tensor) -> bool:
    return torch.equal(draws, draws[:1].expand_as(draws))


def _drop(axes: Axes, module: _DropoutNd, _: Any, output: Tensor) -> Tensor:
    """What a dropout module does in training, with one mask for all inputs of the batch."""
    shape = list(output.shape)
    if (axis := axes.next()) is not None:
        shape[axis] = 1
    if axes.masks.given:
        drawn = axes.masks.given.pop(0)
    else:
        ones = torch.ones(shape, dtype=output.dtype, device=output.device)
        twin = copy.copy(module)
        twin.training, twin.inplace = True, False
        drawn = type(module).forward(twin, ones)  # not called, for then this hook would be
        axes.masks.drawn.append(drawn)
    if not isinstance(module, nn.AlphaDropout | nn.FeatureAlphaDropout):
        return output * drawn
    scale = drawn / (1 - _SATURATED * module.p)  # of a kept one: a(1 − α'p), and what it adds is −aα'p
    return torch.where(drawn > 0, scale * output + (drawn - scale), drawn)
