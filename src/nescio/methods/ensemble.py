"""Several networks, each from weights and a data order of its own (Lakshminarayanan et al. 2017)."""

import copy
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nescio.core.logits import softmax_confidence
from nescio.data.arrays import tensor_bytes
from nescio.errors import NescioError, check_int
from nescio.methods.draws import with_own_weights
from nescio.methods.method import Method, check_network
from nescio.methods.side_by_side import obstacle, side_by_side, with_tensors
from nescio.seeds import derived_seed

MakeNet = Callable[[], nn.Module]


class Ensemble(Method):
    """Several networks, each trained from weights and a data order of its own (Lakshminarayanan et al. 2017).

    Members of one architecture without BatchNorm live side by side: each tensor of `net` has a first axis of members,
    and all of them are trained and run as one (a buffer that `forward` binds anew is not kept). Others are a list of
    networks, trained one after the other.

    Args:
        make_net: a function that makes a network with fresh weights, called once for each member; or the networks.
        members: how many; by default 5, or as many as are given.
        normalise: what raw inputs go through first.
        bootstrap: whether each member learns from a sample of its own, drawn from the training data with replacement.
        stacked: whether members live side by side; by default if they can.
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
        if not isinstance(bootstrap, bool):
            raise NescioError(f"bootstrap must be true or false, not {bootstrap!r}")
        if not isinstance(stacked, bool | None):
            raise NescioError(
                f"stacked must be true or false, or None for what the networks allow, not {stacked!r}"
            )
        nets = _made(make_net, members)
        why_not = obstacle(nets)
        if stacked and why_not:
            raise NescioError(
                f"the members cannot live side by side: {why_not}; leave out stacked=True"
            )
        super().__init__(
            nn.ModuleList(nets) if why_not or stacked is False else side_by_side(nets), normalise
        )
        self.stacked = not isinstance(self.net, nn.ModuleList)
        self.members, self.bootstrap = len(nets), bootstrap
        self.alone = False  # whether this is one member of another ensemble, being trained
        self.whole: dict[str, Any] = {}  # the settings of that one

    @classmethod
    def of(cls, make_net: MakeNet, normalise: nn.Module | None = None, **settings: Any) -> Self:
        return cls(make_net, normalise=normalise, **settings)

    def forward(self, x: Tensor) -> Tensor:
        x = self.normalise(x)
        if not self.stacked:
            return torch.stack(
                [net(x.clone()) for net in self._list()]
            )  # a network may write on its input
        return with_own_weights(self.net, self._state(), x)

    def loss(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """As any method's, where the batch holds the members' batches one after the other, as `order` has them."""
        if len(x) % self.members:
            raise NescioError(
                f"a batch of {len(x)} cannot be divided among {self.members} members: it holds one batch "
                "for each of them, one after the other"
            )
        x, y = self.normalise(x), y.reshape(self.members, -1)
        x = x.reshape(*y.shape, *x.shape[1:])
        if self.stacked:
            logits = with_own_weights(self.net, self._state(), x, own_inputs=True)
        else:
            logits = torch.stack([net(own) for net, own in zip(self._list(), x, strict=True)])
        total = self.objectives(
            logits, y
        ).sum()  # members share no weight, so each gets the gradient of its own
        return total - (total * (1 - 1 / self.members)).detach(), logits.flatten(
            0, 1
        )  # the mean, with that gradient

    def objectives(self, logits: Tensor, y: Tensor) -> Tensor:
        """What each member minimises, `(M,)`, from logits `(M, B, C)` and labels `(M, B)` of their batches."""
        return (
            F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none")
            .reshape(y.shape)
            .mean(1)
        )

    def order(self, inputs: int, seed: int, epoch: int) -> Tensor:
        seeds = (
            [seed]
            if self.alone
            else [derived_seed(seed, "member", member) for member in range(self.members)]
        )
        orders = torch.stack([super(Ensemble, self).order(inputs, own, epoch) for own in seeds])
        if not self.bootstrap:
            return orders
        generators = [
            torch.Generator().manual_seed(derived_seed(own, "bootstrap", 0)) for own in seeds
        ]
        samples = torch.stack(
            [torch.randint(inputs, (inputs,), generator=generator) for generator in generators]
        )
        return samples.gather(1, orders)

    def parts(self) -> Sequence[Method]:
        return [self] if self.stacked else [self._part(member) for member in range(self.members)]

    def _part(self, member: int) -> "Ensemble":
        """One member as an ensemble of its own, over the same weights."""
        settings = {**self.settings(), "members": 1, "stacked": False}
        part = type(self)([self._list()[member]], normalise=self.normalise, **settings)
        part.alone, part.whole = True, self.settings()
        return part

    def networks(self) -> Sequence[nn.Module]:
        return [self.member(member) for member in range(self.members)]

    def member(self, member: int) -> nn.Module:
        """One member as a plain network: a copy if members live side by side, else the network itself."""
        check_int("member", member, least=0, below=self.members)
        if not self.stacked:
            return self._list()[member]
        return with_tensors(
            copy.deepcopy(self.net), {name: v[member].clone() for name, v in self._state().items()}
        )

    def confidence(self, logits: Tensor) -> Tensor:
        return softmax_confidence(logits)

    def settings(self) -> dict[str, Any]:
        own = {"members": self.members, "bootstrap": self.bootstrap, "stacked": self.stacked}
        return own | self.whole  # so that a member's checkpoint is one of the whole run

    def _state(self) -> dict[str, Tensor]:
        """All tensors of the members side by side, `(M, …)` each."""
        return {**dict(self.net.named_parameters()), **dict(self.net.named_buffers())}

    def _list(self) -> Sequence[nn.Module]:
        return list(self.net.children())


def _made(make_net: Any, members: int | None) -> list[nn.Module]:
    """The members' networks, or an error if they are not several networks with weights of their own."""
    if isinstance(make_net, Sequence | nn.ModuleList):
        nets = list(make_net)
        if members not in (None, len(nets)):
            raise NescioError(f"{len(nets)} networks were given for {members} members")
    elif isinstance(make_net, nn.Module) or not callable(make_net):
        raise NescioError(
            "an ensemble is made from a function that makes a network, such as lambda: "
            "nescio.models.mlp(64, 10), or from a list of networks, not from a "
            f"{type(make_net).__name__}"
        )
    else:
        nets = [
            make_net()
            for _ in range(check_int("members", 5 if members is None else members, below=1001))
        ]
    if not nets:
        raise NescioError("an ensemble needs networks, not none")
    for net in nets:
        check_network(net)
    met: set[Any] = set()
    for place, net in enumerate(nets):
        marks = _marks(net)
        if not met.isdisjoint(marks):
            raise NescioError(
                f"member {place} has the weights of an earlier one; each needs a network of its own, "
                "with fresh weights"
            )
        met |= marks
    return nets


def _marks(net: nn.Module) -> set[Any]:
    """What no two members may have in common: the network, a weight, or the values of all weights."""
    weights = dict(net.named_parameters())
    marks: set[Any] = {id(net), *map(id, weights.values())}
    if weights and not any(
        weight.is_meta or weight.layout != torch.strided for weight in weights.values()
    ):
        bits = [tensor_bytes(weight) for weight in weights.values()]
        digest = hashlib.blake2b(torch.cat(bits).numpy().tobytes()).hexdigest()
        marks.add((digest, *((name, weight.shape) for name, weight in weights.items())))
    return marks
