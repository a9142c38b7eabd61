"""Dropout left on at prediction: each draw is one thinned network (*Know your limits*, after Gal & Ghahramani 2016)."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from nescio.core.logits import softmax_confidence
from nescio.core.random_streams import RandomStream, new_generator, preserve_generators
from nescio.core.replica import isolate
from nescio.errors import NescioError, check_int
from nescio.methods.draws import at_once, pieces
from nescio.methods.method import Method
from nescio.seeds import derived_seed

DROPOUT = 0.2  # of a network made for it, when none is asked for
_FORWARDS = [
    kind.forward
    for kind in (
        nn.Dropout,
        nn.Dropout1d,
        nn.Dropout2d,
        nn.Dropout3d,
        nn.AlphaDropout,
        nn.FeatureAlphaDropout,
    )
]
_WITHOUT_BATCH = {
    nn.Dropout1d: 2,
    nn.Dropout3d: 4,
}  # axes of an input that such a layer takes for a single one
_SATURATED = -1.7580993408473766  # where SELU, and a unit that alpha dropout silences, ends


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

    def __init__(
        self, net: nn.Module, normalise: nn.Module | None = None, samples: int = 50
    ) -> None:
        super().__init__(net, normalise)
        self.samples = check_int("samples", samples, below=1_000_001)
        self._axes = _Axes()
        if not _dropouts(net):
            raise NescioError(
                f"this {type(net).__name__} has no dropout module with p > 0, so every draw would be the "
                "same; make it with nn.Dropout layers (functional dropout is off at prediction), such as "
                "nescio.models.mlp(…, dropout=0.2)"
            )

    def forward(self, x: Tensor) -> Tensor:
        x = self.normalise(x)
        if self.training:
            logits: Tensor = self.net(x)
            return logits
        seed = int(
            torch.randint(2**62, (), generator=new_generator())
        )  # of a pass, or as torch's generator stands
        with isolate(self.net) as net:  # which is hooked
            key = (
                tuple(x.shape[1:]),
                *((name, type(one), getattr(one, "p", None)) for name, one in net.named_modules()),
            )
            thinned = _Thinned(net, x, seed, self.samples, self._axes.known.get(key))
            self._axes.known = {key: thinned.axes}
            draws = torch.cat([thinned.draws(piece) for piece in pieces(x, self.samples, net)], 1)
            if self.samples > 1 and _all_the_same(draws) and not thinned.differ_at_all(x):
                raise NescioError(
                    f"all {self.samples} draws are the same for {len(x)} inputs: the dropout modules "
                    f"({', '.join(_dropouts(net))}) do not change the output. Are they used in the "
                    "forward pass, and is their p large enough?"
                )
        return draws

    def loss(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.net(self.normalise(x))
        return F.cross_entropy(logits, y), logits

    def confidence(self, logits: Tensor) -> Tensor:
        return softmax_confidence(logits)

    def settings(self) -> dict[str, Any]:
        return {"samples": self.samples}


@dataclass
class _Axes:
    """The axes of inputs, call by call, for the network and the shape of input met last, which replicas share."""

    known: dict[Any, list[int | None]] = field(default_factory=dict)


class _Thinned:
    """A network in eval mode whose dropout modules drop, each draw by masks of its own.

    A mask follows from the seed, the draw and the place of the call in a run, so that all inputs meet the same ones.
    """

    def __init__(
        self,
        net: nn.Module,
        x: Tensor,
        seed: int,
        samples: int,
        axes: list[int | None] | None = None,
    ) -> None:
        self.net, self.seed, self.samples = net, seed, samples
        found = _dropouts(net).values()
        self.own = [module for module in found if type(module).forward in _FORWARDS]
        # one with a forward pass of its own is in train mode, and draws from torch's generator
        self.foreign = [module for module in found if module not in self.own]
        self.masks: dict[int, Tensor] = {}  # (S, …) for each call within a run
        self.draw: Any = 0
        self.calls = 0
        self.axes = (
            self._found_axes(x) if axes is None else axes
        )  # that of the inputs, call by call
        for module in self.foreign:
            module.training = True
        for module in self.own:
            module.register_forward_hook(self._drop)

    def draws(self, x: Tensor) -> Tensor:
        """Draws `(S, N, C)`."""
        with self._random_state():
            if type(x) is Tensor:
                return at_once(partial(self._run, x), torch.arange(self.samples))
            # a tensor of another kind, as audits use, goes through one draw at a time
            return torch.stack([self._run(x, draw) for draw in range(self.samples)])

    def differ_at_all(self, x: Tensor) -> bool:
        """Whether draws differ elsewhere: a few inputs may silence all units before a dropout by themselves."""
        if not x.is_floating_point():
            return False
        source = torch.Generator().manual_seed(derived_seed(self.seed, "elsewhere", 0))
        others = torch.randn((64, *x.shape[1:]), dtype=x.dtype, generator=source).to(x.device)
        with torch.no_grad():
            return not _all_the_same(self.draws(others))

    def _random_state(self) -> AbstractContextManager[object]:
        return RandomStream(self.seed) if self.foreign else nullcontext()

    def _run(self, x: Tensor, draw: Any) -> Tensor:
        """Logits `(N, C)` of one draw, or of all at once where the draw is an index inside vmap."""
        self.draw, self.calls = draw, 0
        logits: Tensor = self.net(x.clone())  # it may write on its input
        return logits

    def _found_axes(self, x: Tensor) -> list[int | None]:
        two, three = (self._shapes(x[:1].repeat(count, *[1] * (x.dim() - 1))) for count in (2, 3))
        return [*map(_growing, two, three)]

    def _shapes(self, x: Tensor) -> list[torch.Size]:
        """The shapes of what dropout modules of ours return, call by call, while they still hand on their input."""
        seen: list[torch.Size] = []
        hooks = [
            module.register_forward_hook(lambda _, __, out: seen.append(out.shape))
            for module in self.own
        ]
        with preserve_generators(), torch.no_grad():
            self.net(x)
        for hook in hooks:
            hook.remove()
        return seen

    def _drop(self, module: _DropoutNd, _: Any, output: Tensor) -> Tensor:
        """What a dropout module does in training, with one mask for all inputs of the batch."""
        keep: Tensor = self._mask(module, output)[self.draw]
        if module.p == 1:
            return output * 0
        if not isinstance(module, nn.AlphaDropout | nn.FeatureAlphaDropout):
            return output * (keep / (1 - module.p))
        scale = (
            (_SATURATED**2 * module.p + 1) * (1 - module.p)
        ) ** -0.5  # as alpha dropout keeps mean and variance
        dropped: Tensor = output * (keep * scale) + scale * _SATURATED * (1 - keep - module.p)
        return dropped

    def _mask(self, module: _DropoutNd, output: Tensor) -> Tensor:
        """Ones for what is kept, zeros for what is dropped, of each draw, `(S, …)`."""
        call, self.calls = self.calls, self.calls + 1
        # a call too many, of a network that goes by its values, counts as the last
        axis = self.axes[min(call, len(self.axes) - 1)] if self.axes else None
        shape = _noise_shape(module, output.shape, axis)
        known = self.masks.get(call)
        if known is None or known.shape[1:] != shape:
            # numpy's numbers, since those of torch would be drawn once more for each draw inside vmap
            numbers = np.random.default_rng((self.seed, call)).random(
                (self.samples, *shape), dtype=np.float32
            )
            known = self.masks[call] = torch.from_numpy(numbers >= module.p).to(
                output.device, output.dtype
            )
        return known


def _noise_shape(module: _DropoutNd, shape: Sequence[int], axis: int | None) -> tuple[int, ...]:
    """The shape of one mask, which inputs along an axis share; some modules drop whole channels."""
    sizes = [1 if at == axis else size for at, size in enumerate(shape)]
    if isinstance(module, nn.Dropout | nn.AlphaDropout):
        return tuple(sizes)
    single = any(
        isinstance(module, kind) and len(sizes) == axes for kind, axes in _WITHOUT_BATCH.items()
    )
    channels = 1 if single else 2
    return (*sizes[:channels], *[1] * (len(sizes) - channels))


def _dropouts(net: nn.Module) -> dict[str, _DropoutNd]:
    return {
        name: one for name, one in net.named_modules() if isinstance(one, _DropoutNd) and one.p > 0
    }


def _growing(two: torch.Size, three: torch.Size) -> int | None:
    """The axis that is 2 long for two inputs, and 3 for three.

    None, where inputs share an axis with something else: then every entry has a mask of its own.
    """
    return next(
        (axis for axis, sizes in enumerate(zip(two, three, strict=False)) if sizes == (2, 3)), None
    )


def _all_the_same(draws: Tensor) -> bool:
    return torch.equal(draws, draws[:1].expand_as(draws))
