"""Dropout left on at prediction: each draw is one thinned network (*Know your limits*, after Gal & Ghahramani 2016)."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
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


class MCDropout(Method):
    """A network whose dropout stays on at prediction, each draw another thinned network (Gal & Ghahramani 2016).

    Everything else, BatchNorm above all, is in eval mode. A draw is one function: its mask is the same for all inputs,
    so that an input's answer does not hang on what else is in its batch. What stands before the first dropout is
    computed once. In train mode it is the plain network, with dropout as usual.

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
        self._axes: dict[_DropoutNd, int | None] = {}  # of the inputs, in what each dropout module sees; found once
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
        with torch.random.fork_rng(), self._thinned(x):
            return at_once(lambda _: self.net(x.clone()), torch.arange(self.samples))  # it may write on its input

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
        """The dropout modules we make drop; one with a forward pass of its own says itself when it does."""
        return [module for module in self._dropouts().values() if type(module).forward in _FORWARDS]

    @contextmanager
    def _thinned(self, x: Tensor) -> Iterator[None]:
        """Dropout as in training, and nothing else: its modules are in eval mode, where they hand on their input."""
        modules = self._own()
        flags = [module.training for module in modules]
        hooks: list[RemovableHandle] = []
        try:
            for module in modules:
                module.training = False
            if self._axes.keys() != set(modules):
                self._axes = self._found_axes(x)
            hooks += [module.register_forward_hook(partial(_drop, self._axes)) for module in modules]
            yield
        finally:
            for hook in hooks:
                hook.remove()
            for module, flag in zip(modules, flags, strict=True):
                module.training = flag

    def _found_axes(self, x: Tensor) -> dict[_DropoutNd, int | None]:
        """Which axis of what each module sees runs over the inputs: the one that grows with them, if there is one."""
        seen: dict[_DropoutNd, list[torch.Size]] = {module: [] for module in self._own()}
        for count in (2, 3):
            hooks = [
                module.register_forward_hook(lambda module, _, out: seen[module].append(out.shape)) for module in seen
            ]
            try:
                with torch.random.fork_rng(), torch.no_grad():
                    self.net(x[:1].repeat(count, *[1] * (x.dim() - 1)))
            finally:
                for hook in hooks:
                    hook.remove()
        return {module: _growing(shapes[0], shapes[-1]) if shapes else None for module, shapes in seen.items()}


def _growing(two: torch.Size, three: torch.Size) -> int | None:
    """The axis that is half as long again for three inputs as for two."""
    return next((axis for axis, (a, b) in enumerate(zip(two, three, strict=False)) if 3 * a == 2 * b), None)


def _all_the_same(draws: Tensor) -> bool:
    return torch.equal(draws, draws[:1].expand_as(draws))


def _drop(axes: dict[_DropoutNd, int | None], module: _DropoutNd, _: Any, output: Tensor) -> Tensor:
    """What a dropout module does in training, with one mask for all inputs of the batch."""
    shape = list(output.shape)
    if (axis := axes.get(module)) is not None:
        shape[axis] = 1
    ones = torch.ones(shape, dtype=output.dtype, device=output.device)
    twin = copy.copy(module)
    twin.training, twin.inplace = True, False
    drawn: Tensor = type(module).forward(twin, ones)  # not called, for then this hook would be
    if not isinstance(module, nn.AlphaDropout | nn.FeatureAlphaDropout):
        return output * drawn
    scale = drawn / (1 - _SATURATED * module.p)  # of a kept one: a(1 − α'p), and what it adds is −aα'p
    return torch.where(drawn > 0, scale * output + (drawn - scale), drawn)
