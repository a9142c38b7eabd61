"""Dropout left on at prediction (*Know your limits*, after Gal & Ghahramani 2016)."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from nescio.core.logits import two_classes
from nescio.core.random_streams import RandomStream, new_generator, preserve_generators
from nescio.core.replica import isolate
from nescio.errors import NescioError, check_int
from nescio.methods.method import Method
from nescio.methods.stacked import chunks, map_stacked
from nescio.seeds import derived_seed

DROPOUT = 0.2  # of a network made for it, unless asked otherwise
_ELEMENTS = (nn.Dropout, nn.AlphaDropout)  # drop single entries; the others drop whole channels
_ALPHA = (nn.AlphaDropout, nn.FeatureAlphaDropout)
_KNOWN = (*_ELEMENTS, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.FeatureAlphaDropout)
_FORWARDS = [kind.forward for kind in _KNOWN]
_AXES_OF_ONE = {nn.Dropout1d: 2, nn.Dropout3d: 4}  # axes that such a layer takes for one input
_SATURATED = -1.7580993408473766  # limit of SELU, and the value of units that alpha dropout drops

Axes = list[int | None]  # the axis of inputs in what each call of a dropout module returns


class MCDropout(Method):
    """A network whose dropout stays on at prediction (Gal & Ghahramani 2016).

    Everything else, such as BatchNorm, is in eval mode. A draw is one function: its mask is the
    same for all inputs, so that the result of an input does not depend on the rest of its batch
    (unless the network merges the axis of inputs with another before a dropout, or has dropout
    modules with their own forward pass: these have a mask for each input). What comes before the
    first dropout is computed once. In train mode it is the plain network.

    Args:
        net: a network with dropout modules (`nn.Dropout` and its kin, not functional dropout).
        normalise: what raw inputs go through first.
        samples: draws at prediction.

    >>> model = MCDropout(nescio.models.mlp(2, 3, dropout=0.5), samples=10)
    >>> nescio.predict(model, x).shape  # draws, inputs, classes
    torch.Size([10, 2, 3])
    """

    name = "mc_dropout"
    score = "entropy"
    sampled = True
    default_dropout = DROPOUT

    def __init__(
        self, net: nn.Module, normalise: nn.Module | None = None, samples: int = 50
    ) -> None:
        super().__init__(net, normalise)
        self.samples = check_int("samples", samples, below=1_000_001)
        self._axes = _AxesCache()
        if not _dropouts(net):
            raise NescioError(
                f"this {type(net).__name__} has no dropout module with p > 0, so all draws would "
                "be the same; give it nn.Dropout layers (functional dropout is off at prediction), "
                "such as nescio.models.mlp(…, dropout=0.2)"
            )

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            return super().forward(x)
        x = self.normalise(x)
        seed = int(torch.randint(2**62, (), generator=new_generator()))  # of a pass, or torch's own
        with isolate(self.net) as net:  # which gets hooks
            layers = ((name, type(m), getattr(m, "p", None)) for name, m in net.named_modules())
            key = (tuple(x.shape[1:]), *layers)
            masked = _MaskedNetwork(net, x, seed, self.samples, self._axes.last.get(key))
            self._axes.last = {key: masked.axes}
            draws = torch.cat([masked.draws(chunk) for chunk in chunks(x, self.samples, net)], 1)
            if self.samples > 1 and _all_equal(draws) and not masked.ever_differs(x):
                raise NescioError(
                    f"all {self.samples} draws are the same for {len(x)} inputs: the dropout "
                    f"modules ({', '.join(_dropouts(net))}) do not change the output. Are they "
                    "used in the forward pass, and is their p large enough?"
                )
        return draws

    def loss(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        logits = super().forward(x)
        return F.cross_entropy(logits, y), logits


@dataclass
class _AxesCache:
    """The axes for the network and the shape of input met last, an object that replicas share."""

    last: dict[Any, Axes] = field(default_factory=dict)


class _MaskedNetwork:
    """A network in eval mode whose dropout modules drop, each draw by its own masks.

    A mask follows from the seed, the draw and the position of the call in a run, so that all
    inputs get the same ones.
    """

    def __init__(self, net: nn.Module, x: Tensor, seed: int, samples: int, axes: Any) -> None:
        self.net, self.seed, self.samples = net, seed, samples
        dropouts = _dropouts(net).values()
        self.hooked = [module for module in dropouts if type(module).forward in _FORWARDS]
        # modules with their own forward pass are in train mode, and draw from torch's generator
        self.foreign = [module for module in dropouts if module not in self.hooked]
        self.masks: dict[int, Tensor] = {}  # (S, …) for each call within a run
        self.draw: Any = 0
        self.calls = 0
        self.axes: Axes = self._find_axes(x) if axes is None else axes
        for module in self.foreign:
            module.training = True
        for module in self.hooked:
            module.register_forward_hook(self._drop)

    def draws(self, x: Tensor) -> Tensor:
        """Return draws `(S, N, C)`."""
        with RandomStream(self.seed) if self.foreign else nullcontext():
            if type(x) is Tensor:
                return map_stacked(partial(self._run, x), torch.arange(self.samples))
            # a tensor of another type, as audits use, goes through one draw at a time
            return torch.stack([self._run(x, draw) for draw in range(self.samples)])

    def ever_differs(self, x: Tensor) -> bool:
        """Return whether draws differ elsewhere: a few inputs may silence all units."""
        if not x.is_floating_point():
            return False
        source = torch.Generator().manual_seed(derived_seed(self.seed, "elsewhere", 0))
        others = torch.randn((64, *x.shape[1:]), dtype=x.dtype, generator=source).to(x.device)
        with torch.no_grad():
            return not _all_equal(self.draws(others))

    def _run(self, x: Tensor, draw: Any) -> Tensor:
        """Return logits `(N, C)` of one draw, or of all where the draw is an index inside vmap."""
        self.draw, self.calls = draw, 0
        output: Tensor = self.net(x.clone())  # it may write to its input
        return two_classes(output)

    def _find_axes(self, x: Tensor) -> Axes:
        """Return the axis that is 2 long for two inputs and 3 for three, for each call.

        None where inputs share an axis with something else: there every entry has its own mask.
        """
        shapes = [self._output_shapes(x[:1].repeat(n, *[1] * (x.dim() - 1))) for n in (2, 3)]
        calls = [[*zip(two, three, strict=False)] for two, three in zip(*shapes, strict=False)]
        return [sizes.index((2, 3)) if (2, 3) in sizes else None for sizes in calls]

    def _output_shapes(self, x: Tensor) -> list[torch.Size]:
        """Return what shapes hooked modules return, call by call, before they are hooked."""
        shapes: list[torch.Size] = []
        hooks = [
            module.register_forward_hook(lambda _, __, output: shapes.append(output.shape))
            for module in self.hooked
        ]
        with preserve_generators(), torch.no_grad():
            self.net(x)
        for hook in hooks:
            hook.remove()
        return shapes

    def _drop(self, module: _DropoutNd, _: Any, output: Tensor) -> Tensor:
        """Do what a dropout module does in training, with one mask for all inputs of the batch."""
        mask = self._mask(module, output)
        # an index of one axis: vmap of older torch (2.6, 2.9) cannot take one of none
        keep: Tensor = mask[torch.as_tensor(self.draw, device=mask.device).reshape(1)][0]
        if module.p == 1:
            return output * 0
        if not isinstance(module, _ALPHA):
            return output * (keep / (1 - module.p))
        # as alpha dropout preserves mean and variance
        scale = ((_SATURATED**2 * module.p + 1) * (1 - module.p)) ** -0.5
        dropped: Tensor = output * (keep * scale) + scale * _SATURATED * (1 - keep - module.p)
        return dropped

    def _mask(self, module: _DropoutNd, output: Tensor) -> Tensor:
        """Return ones for entries to keep and zeros for those to drop, `(S, …)`."""
        call, self.calls = self.calls, self.calls + 1
        # a call too many, of a network that depends on its values, counts as the last
        axis = self.axes[min(call, len(self.axes) - 1)] if self.axes else None
        shape = self.samples, *_mask_shape(module, output.shape, axis)
        if call not in self.masks or self.masks[call].shape != shape:
            # numpy's numbers, since torch's would be drawn once more for each draw inside vmap
            drawn = np.random.default_rng((self.seed, call)).random(shape, dtype=np.float32)
            keep = torch.from_numpy(drawn >= module.p)
            self.masks[call] = keep.to(output.device, output.dtype)
        return self.masks[call]


def _mask_shape(module: _DropoutNd, shape: Sequence[int], axis: int | None) -> tuple[int, ...]:
    """Return the shape of one mask, shared by the inputs along an axis."""
    sizes = [1 if at == axis else size for at, size in enumerate(shape)]
    if isinstance(module, _ELEMENTS):
        return tuple(sizes)
    one_input = any(isinstance(module, k) and len(sizes) == n for k, n in _AXES_OF_ONE.items())
    leading = 1 if one_input else 2
    return (*sizes[:leading], *[1] * (len(sizes) - leading))


def _dropouts(net: nn.Module) -> dict[str, _DropoutNd]:
    return {name: m for name, m in net.named_modules() if isinstance(m, _DropoutNd) and m.p > 0}


def _all_equal(draws: Tensor) -> bool:
    return torch.equal(draws, draws[:1].expand_as(draws))
