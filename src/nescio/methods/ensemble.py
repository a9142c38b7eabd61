"""Several networks, trained independently (Lakshminarayanan et al. 2017)."""

import copy
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nescio.core.logits import two_classes
from nescio.data.arrays import tensor_bytes
from nescio.errors import NescioError, check_bool, check_int
from nescio.methods.method import Method, check_network
from nescio.methods.stacked import replace_tensors, run_stacked, stack_networks, why_not_stackable
from nescio.seeds import derived_seed

MakeNet = Callable[[], nn.Module]


class Ensemble(Method):
    """Networks trained from different weights and data orders (Lakshminarayanan et al. 2017).

    Members of one architecture without BatchNorm are stacked: each tensor of `net` has a first axis
    of members, and all are trained and run as one (a buffer that `forward` rebinds is not kept).
    Others are a list of networks, trained one after the other.

    Args:
        make_net: a function that makes a network with fresh weights, called once for each member;
            or the networks themselves.
        members: how many; by default 5, or as many as are given.
        normalise: what raw inputs go through first.
        bootstrap: whether each member learns from its own sample of the training data, drawn with
            replacement.
        stacked: whether members are stacked; by default if they can be.

    >>> model = Ensemble(lambda: nescio.models.mlp(2, 3), members=5)
    >>> history = nescio.train(model, known.train, epochs=1)
    >>> nescio.predict(model, x).shape  # members, inputs, classes
    torch.Size([5, 2, 3])
    """

    name = "ensemble"
    score = "entropy"
    sampled = True

    def __init__(
        self,
        make_net: MakeNet | Sequence[nn.Module],
        members: int | None = None,
        normalise: nn.Module | None = None,
        bootstrap: bool = False,
        stacked: bool | None = None,
    ) -> None:
        check_bool("bootstrap", bootstrap)
        if not isinstance(stacked, bool | None):
            raise NescioError(f"stacked must be True, False, or None to decide, got {stacked!r}")
        nets = _member_networks(make_net, members)
        why_not = why_not_stackable(nets)
        if stacked and why_not:
            raise NescioError(f"the members cannot be stacked: {why_not}; leave out stacked=True")
        stack = not why_not and stacked is not False
        super().__init__(stack_networks(nets) if stack else nn.ModuleList(nets), normalise)
        self.stacked, self.members, self.bootstrap = stack, len(nets), bootstrap
        # of one member of another ensemble, while it is trained: the settings of that one
        self.whole_settings: dict[str, Any] | None = None

    @classmethod
    def from_factory(
        cls, make_net: MakeNet, normalise: nn.Module | None = None, **settings: Any
    ) -> Self:
        return cls(make_net, normalise=normalise, **settings)

    def forward(self, x: Tensor) -> Tensor:
        x = self.normalise(x)
        if self.stacked:
            return run_stacked(self.net, self._state(), x)
        # a clone, since a network may write to its input
        return torch.stack([two_classes(net(x.clone())) for net in self._list()])

    def loss(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean loss of the members, whose batches come one after the other in `x`."""
        if len(x) % self.members:
            order = f"one batch for each of {self.members} members, one after the other"
            problem = f"{len(x)} inputs cannot be divided among them"
            raise NescioError(f"a batch holds {order}, but {problem}")
        x, y = self.normalise(x), y.reshape(self.members, -1)
        x = x.reshape(*y.shape, *x.shape[1:])
        if self.stacked:
            logits = run_stacked(self.net, self._state(), x, own_inputs=True)
        else:
            pairs = zip(self._list(), x, strict=True)
            logits = torch.stack([two_classes(net(part)) for net, part in pairs])
        # members share no weight, so the sum gives each its own gradient; the value is the mean
        total = self.objectives(logits, y).sum()
        return total - (total * (1 - 1 / self.members)).detach(), logits.flatten(0, 1)

    def objectives(self, logits: Tensor, y: Tensor) -> Tensor:
        """Return what each member minimises, `(M,)`; logits are `(M, B, C)`, labels `(M, B)`."""
        losses = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none")
        return losses.reshape(y.shape).mean(1)

    def epoch_order(self, inputs: int, seed: int, epoch: int) -> Tensor:
        seeds = [seed]
        if self.whole_settings is None:
            seeds = [derived_seed(seed, "member", member) for member in range(self.members)]
        orders = torch.stack([super(Ensemble, self).epoch_order(inputs, s, epoch) for s in seeds])
        if not self.bootstrap:
            return orders
        sources = [torch.Generator().manual_seed(derived_seed(s, "bootstrap", 0)) for s in seeds]
        samples = [torch.randint(inputs, (inputs,), generator=source) for source in sources]
        return torch.stack(samples).gather(1, orders)

    def parts(self) -> Sequence[Method]:
        return [self] if self.stacked else [self._part(member) for member in range(self.members)]

    def _part(self, member: int) -> "Ensemble":
        """Return one member as an ensemble of one, over the same weights."""
        settings = {**self.settings(), "members": 1, "stacked": False}
        part = type(self)([self._list()[member]], normalise=self.normalise, **settings)
        part.whole_settings = self.settings()
        return part

    def networks(self) -> Sequence[nn.Module]:
        return [self.member(member) for member in range(self.members)]

    def member(self, member: int) -> nn.Module:
        """Return one member as a plain network: a copy if members are stacked, else itself."""
        check_int("member", member, least=0, below=self.members)
        if not self.stacked:
            return self._list()[member]
        tensors = {name: value[member].clone() for name, value in self._state().items()}
        return replace_tensors(copy.deepcopy(self.net), tensors)

    def settings(self) -> dict[str, Any]:
        # a member's checkpoint is one of the whole run
        return super().settings() if self.whole_settings is None else self.whole_settings

    def _state(self) -> dict[str, Tensor]:
        """Return all tensors of stacked members, `(M, …)` each."""
        return {**dict(self.net.named_parameters()), **dict(self.net.named_buffers())}

    def _list(self) -> Sequence[nn.Module]:
        return list(self.net.children())


def _member_networks(make_net: Any, members: int | None) -> list[nn.Module]:
    """Return the members' networks, or raise an error if two of them share their weights."""
    if isinstance(make_net, Sequence | nn.ModuleList):
        nets = list(make_net)
        if members not in (None, len(nets)):
            raise NescioError(f"{len(nets)} networks were given for {members} members")
    elif isinstance(make_net, nn.Module) or not callable(make_net):
        source = "a function that makes a network, such as lambda: nescio.models.mlp(64, 10)"
        expected = f"made from {source}, or from a list of networks"
        raise NescioError(f"an ensemble is {expected}, got a {type(make_net).__name__}")
    else:
        count = check_int("members", 5 if members is None else members, below=1001)
        nets = [make_net() for _ in range(count)]
    if not nets:
        raise NescioError("an ensemble needs at least one network")
    marks: set[Any] = set()
    for member, net in enumerate(nets):
        check_network(net)
        if not marks.isdisjoint(new := _marks(net)):
            advice = "each needs its own network, with fresh weights"
            raise NescioError(f"member {member} has the weights of an earlier one; {advice}")
        marks |= new
    return nets


def _marks(net: nn.Module) -> set[Any]:
    """Return what no two members may share: the network, a weight, or the values of all weights."""
    weights = dict(net.named_parameters())
    marks: set[Any] = {id(net), *map(id, weights.values())}
    if weights and not any(w.is_meta or w.layout != torch.strided for w in weights.values()):
        bits = torch.cat([tensor_bytes(weight) for weight in weights.values()])
        digest = hashlib.blake2b(bits.numpy().tobytes()).hexdigest()
        marks.add((digest, *((name, weight.shape) for name, weight in weights.items())))
    return marks
