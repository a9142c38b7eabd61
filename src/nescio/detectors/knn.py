"""The distance to known inputs that look alike (Sun et al. 2022)."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from nescio.core.features import ForwardPass
from nescio.detectors.on_features import FeatureDetector
from nescio.detectors.reservoir import Reservoir
from nescio.errors import NescioError, check_int
from nescio.seeds import check_seed

ROWS, BLOCK = 256, 4096  # inputs and others compared at once, which bounds the memory: 4 MiB
PIECE = 1024  # rows to scale at once
GROUP = 16  # of numbers, of which only the largest are put in order
OF_THOSE_KEPT = 1000


class KNN(FeatureDetector):
    """Known as long as the k-th nearest of known inputs' features, all of length 1, is near (Sun et al. 2022).

    The score is `‖z − z₍ₖ₎‖₂`, from 0 to 2. The search is exhaustive, so its time grows with the `size`.

    Args:
        model: any classifier with one answer for each input.
        layer: as for every detector on features.
        k: which neighbour; by default a thousandth of those kept, as in the paper (50 of 50 000 images of CIFAR-10,
            1000 of 1.3 million of ImageNet, 10 of a hundredth of these), or the first.
        size: of how many inputs to keep the features; of more, a random sample.
        seed: of that sample.
    """

    name = "knn"
    shapes: ClassVar[dict[str, str]] = {"neighbours_": "KF", "squares_": "K"}
    neighbours_: Tensor
    squares_: Tensor  # of their lengths, which are 1 or 0 but for rounding

    def __init__(
        self,
        model: nn.Module,
        layer: str | None = None,
        k: int | None = None,
        size: int = 20_000,
        seed: int = 0,
    ) -> None:
        super().__init__(model, layer)
        self.size, self.seed = check_int("size", size), check_seed(seed)
        self.k = None if k is None else check_int("k", k)
        if self.k is not None and self.k > self.size:
            raise NescioError(
                f"k={self.k} neighbours of size={self.size} that are kept; expected k to be at most size"
            )
        self.register_buffer("neighbours_", torch.empty(0, 0))
        self.register_buffer("squares_", torch.empty(0))

    def learn(self, data: Any) -> None:
        kept = Reservoir(self.size, self.seed)
        self.map_batches(data, lambda _, seen, __: kept.add(unit(self.features(seen))))
        rows = kept.rows
        if self.k is not None and len(rows) < self.k:
            raise NescioError(
                f"{len(rows)} inputs to learn from have no {self.k} nearest; give at least {self.k}, or "
                "a smaller k"
            )
        if (
            not torch.stack(rows.aminmax()).isfinite().all()
        ):  # of each would take as much memory again
            raise NescioError("the features of some inputs to learn from are NaN or infinite")
        self.keep(neighbours_=rows, squares_=torch.linalg.vector_norm(rows, dim=1).square())

    def score_batch(self, x: Tensor, seen: ForwardPass) -> Tensor:
        rows = unit(self.comparable(seen))
        others = self.neighbours_.to(rows.device)
        k = self.k or max(1, len(others) // OF_THOSE_KEPT)
        if k > len(others):  # which no fit leaves so
            raise NescioError(f"KNN has kept {len(others)} inputs, which have no {k} nearest")
        return kth_distance(rows, others, self.squares_.to(rows.device), k)

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "k": self.k, "size": self.size, "seed": self.seed}


def unit(features: Tensor) -> Tensor:
    """Each row `(B, F)` over its length, in float32; one of length 0 stays as it is.

    >>> unit(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    scaled = torch.empty_like(features, dtype=torch.float32, memory_format=torch.contiguous_format)
    for some, out in zip(torch.split(features, PIECE), torch.split(scaled, PIECE), strict=True):
        length = torch.linalg.vector_norm(
            some, dim=1, keepdim=True, dtype=torch.float64
        )  # whose squares have room
        out.copy_(some / length.where(length > 0, 1.0))
    return scaled


def kth_distance(rows: Tensor, others: Tensor, squares: Tensor, k: int) -> Tensor:
    """The distance `(B,)`, in float64, of each row `(B, F)` to the k-th nearest of the others `(M, F)`.

    The nearest is where `⟨a, b⟩ − ‖b‖²/2` is largest; `squares` `(M,)` are the ‖b‖². Such a difference has no digits
    left for small distances, so it only says which is the k-th, and the distance to that one is taken anew. Products
    are made a block at a time, of which the best k are kept.

    >>> others = torch.tensor([[3.0], [-1.0], [2.0]])
    >>> kth_distance(torch.tensor([[0.0]]), others, others.square().sum(1), k=2)
    tensor([2.], dtype=torch.float64)
    """
    return torch.cat([_kth_distance(some, others, squares, k) for some in torch.split(rows, ROWS)])


def _kth_distance(rows: Tensor, others: Tensor, squares: Tensor, k: int) -> Tensor:
    near = rows.new_empty(len(rows), 0)
    place = torch.empty(len(rows), 0, dtype=torch.long, device=rows.device)
    for start in range(0, len(others), BLOCK):
        some = others[start : start + BLOCK]
        found = torch.addmm(squares[start : start + BLOCK], rows, some.T, beta=-0.5)  # (B, block)
        values, indices = _largest(found, min(k, len(some)))
        near, place = torch.cat([near, values], 1), torch.cat([place, indices + start], 1)
        if start:
            best = near.topk(min(k, near.shape[1]), dim=1)
            near, place = best.values, place.gather(1, best.indices)
    away: Tensor = torch.linalg.vector_norm(rows.double() - others[place[:, -1]].double(), dim=1)
    return away


def _largest(found: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of each row `(B, M)` and their places, `(B, k)` each.

    They lie among the k columns, of M / GROUP, whose own maxima are largest: fewer to put in order.
    """
    if found.shape[1] % GROUP or found.shape[1] // GROUP < 2 * k:
        few = found.topk(k, dim=1)
        return few.values, few.indices
    columns = found.view(len(found), GROUP, -1)  # (B, GROUP, M / GROUP)
    top = columns.amax(1).topk(k, dim=1).indices
    best = columns.gather(2, top[:, None].expand(-1, GROUP, -1)).flatten(1).topk(k, dim=1)
    return best.values, top.gather(1, best.indices % k) + best.indices.div(
        k, rounding_mode="floor"
    ) * columns.shape[2]
