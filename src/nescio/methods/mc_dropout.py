"""Dropout left on at prediction: each draw is one thinned network (*Know your limits*, after Gal & Ghahramani 2016)."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from nescio.errors import NescioError, whole_number
from nescio.logits import softmax_confidence
from nescio.methods.draws import at_once, pieces
from nescio.methods.method import Method

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
    sampled = True  # whether it returns several draws, which SAMPLED scores compare

    def __init__(self, net: nn.Module, normalise: nn.Module | None = None, samples: int = 50) -> None:
        super().__init__(net, normalise)
        self.samples = whole_number("samples", samples, below=1_000_001)
        if not self._dropouts():
            raise NescioError(f"this {type(net).__name__} has no dropout module with p > 0, so every draw would be the "
                              "same; make it with nn.Dropout layers (functional dropout is off at prediction), such as "
                              "nescio.models.mlp(…, dropout=0.2)")  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        x = self.normalise(x)
        if self.training:
            logits: Tensor = self.net(x)
            return logits
        with self._thinned():
            draws = torch.cat([self._draws(piece) for piece in pieces(x, self.samples)], 1)
        if self.samples > 1 and _all_the_same(draws) and not self._draws_differ_at_all(x):
            raise NescioError(f"all {self.samples} draws are the same for {len(x)} inputs: the dropout modules "
                              f"({', '.join(self._dropouts())}) do not change the output. Are they used in the forward "
                              "pass, and is their p large enough?")  # fmt: skip
        return draws

    def _draws_differ_at_all(self, x: Tensor) -> bool:
        """Whether draws differ elsewhere: a few inputs may silence all units before a dropout by themselves."""
        if not x.is_floating_point():
            return False
        with torch.random.fork_rng(), torch.no_grad(), self._thinned():
            return not _all_the_same(self._draws(torch.randn((64, *x.shape[1:]), dtype=x.dtype, device=x.device)))

    def _draws(self, x: Tensor) -> Tensor:
        """Draws `(S, N, C)`, which leave the random state as it was, so that the next piece meets the same masks."""
        with torch.random.fork_rng():
            return at_once(lambda _: self.net(x), torch.arange(self.samples))

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

    @contextmanager
    def _thinned(self) -> Iterator[None]:
        """Dropout as in training, and nothing else: its modules are in eval mode, where they hand on their input."""
        modules = list(self._dropouts().values())
        flags = [module.training for module in modules]
        hooks = [module.register_forward_hook(_drop) for module in modules]
        try:
            for module in modules:
                module.training = False
            yield
        finally:
            for module, flag, hook in zip(modules, flags, hooks, strict=True):
                module.training = flag
                hook.remove()


def _all_the_same(draws: Tensor) -> bool:
    return torch.equal(draws, draws[:1].expand_as(draws))


def _drop(module: _DropoutNd, _: Any, output: Tensor) -> Tensor:
    """What a dropout module does in training, with one mask for all inputs of the batch."""
    ones = torch.ones((1, *output.shape[1:]), dtype=output.dtype, device=output.device)
    twin = copy.copy(module)
    twin.training, twin.inplace = True, False
    drawn: Tensor = type(module).forward(twin, ones)  # not called, for then this hook would be
    if not isinstance(module, nn.AlphaDropout | nn.FeatureAlphaDropout):
        return output * drawn
    scale = drawn / (1 - _SATURATED * module.p)  # of a kept one: a(1 − α'p), and what it adds is −aα'p
    return torch.where(drawn > 0, scale * output + (drawn - scale), drawn)
