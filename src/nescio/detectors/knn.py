"""Distance to the k-th nearest features of known inputs (Sun et al. 2022)."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from nescio.core.features import ForwardPass
from nescio.detectors.feature_detector import FeatureDetector
from nescio.detectors.statistics import Reservoir
from nescio.errors import NescioError, check_int
from nescio.seeds import check_seed

QUERY_ROWS, KEY_ROWS = 256, 4096  # compared at once, which bounds the memory: 4 MiB
UNIT_ROWS = 1024  # scaled at once
GROUP = 16  # columns, of which only the largest are sorted
ROWS_PER_NEIGHBOUR = 1000  # for the default k


class KNN(FeatureDetector):
    """Unknown if the k-th nearest of known inputs' unit features is far (Sun et al. 2022).

    The score is `‖z − z₍ₖ₎‖₂`, from 0 to 2. The search is exhaustive: its time grows with `size`.

    Args:
        model: any classifier with one output per input.
        layer: as for every detector on features.
        k: which neighbour; by default a thousandth of those kept, as in the paper (50 of 50 000
            images of CIFAR-10, 1000 of 1.3 million of ImageNet), or the first.
        size: how many inputs to keep the features of; of more, a random sample.
        seed: of that sample.

    >>> detector = KNN(net, k=5).fit(known.test, train=known.train)
    >>> detector.predict(x)
    tensor([ 0, -1])
    """

    name, dtype = "knn", torch.float32
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
            raise NescioError(f"k must be at most size, got k={self.k} and size={self.size}")

    def learn(self, data: Any) -> None:
        sample = Reservoir(self.size, self.seed)
        self.map_batches(data, lambda _, passed, __: sample.add(unit(self.features(passed))))
        if self.k is not None and len(sample.rows) < self.k:
            raise NescioError(
                f"{len(sample.rows)} inputs to learn from have no {self.k} nearest; give at least "
                f"{self.k}, or a smaller k"
            )
        rows = sample.finite_rows()
        self.keep(neighbours_=rows, squares_=torch.linalg.vector_norm(rows, dim=1).square())

    def score_batch(self, x: Tensor, forward_pass: ForwardPass) -> Tensor:
        rows = unit(self.learned_features(forward_pass))
        neighbours = self.neighbours_.to(rows.device)
        k = self.k or max(1, len(neighbours) // ROWS_PER_NEIGHBOUR)
        if k > len(neighbours):  # which no fit leaves so
            raise NescioError(f"KNN has kept {len(neighbours)} inputs, which have no {k} nearest")
        return kth_distance(rows, neighbours, self.squares_.to(rows.device), k)


def unit(features: Tensor) -> Tensor:
    """Divide each row `(B, F)` by its length, in float32; one of length 0 stays as it is.

    >>> unit(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    scaled = torch.empty_like(features, dtype=torch.float32, memory_format=torch.contiguous_format)
    chunks = (torch.split(rows, UNIT_ROWS) for rows in (features, scaled))
    for rows, out in zip(*chunks, strict=True):
        # in float64, which has room for squares
        length = torch.linalg.vector_norm(rows, dim=1, keepdim=True, dtype=torch.float64)
        out.copy_(rows / length.where(length > 0, 1.0))
    return scaled


def kth_distance(rows: Tensor, others: Tensor, squares: Tensor, k: int) -> Tensor:
    """Return the distance `(B,)`, in float64, of rows `(B, F)` to the k-th nearest of `(M, F)`.

    The nearest is where `⟨a, b⟩ − ‖b‖²/2` is largest; `squares` `(M,)` are the ‖b‖². Such a
    difference has no digits left for small distances, so it only selects the k-th, whose distance
    is computed anew. Products are made a block at a time, of which the best k are kept.

    >>> others = torch.tensor([[3.0], [-1.0], [2.0]])
    >>> kth_distance(torch.tensor([[0.0]]), others, others.square().sum(1), k=2)
    tensor([2.], dtype=torch.float64)
    """
    chunks = torch.split(rows, QUERY_ROWS)
    return torch.cat([_kth_distance(chunk, others, squares, k) for chunk in chunks])


def _kth_distance(rows: Tensor, others: Tensor, squares: Tensor, k: int) -> Tensor:
    best = rows.new_empty(len(rows), 0)
    index = torch.empty(len(rows), 0, dtype=torch.long, device=rows.device)
    for start in range(0, len(others), KEY_ROWS):
        block = slice(start, start + KEY_ROWS)
        products = torch.addmm(squares[block], rows, others[block].T, beta=-0.5)  # (B, block)
        values, places = _largest(products, min(k, products.shape[1]))
        best, index = torch.cat([best, values], 1), torch.cat([index, places + start], 1)
        if start:
            top = best.topk(min(k, best.shape[1]), dim=1)
            best, index = top.values, index.gather(1, top.indices)
    kth = others[index[:, -1]].double()
    distance: Tensor = torch.linalg.vector_norm(rows.double() - kth, dim=1)
    return distance


def _largest(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest of each row `(B, M)` and their places, `(B, k)` each.

    They lie among the k columns, of M / GROUP, whose maxima are largest: fewer to sort.
    """
    if values.shape[1] % GROUP or values.shape[1] // GROUP < 2 * k:
        top = values.topk(k, dim=1)
        return top.values, top.indices
    columns = values.view(len(values), GROUP, -1)  # (B, GROUP, M / GROUP)
    chosen = columns.amax(1).topk(k, dim=1).indices
    best = columns.gather(2, chosen[:, None].expand(-1, GROUP, -1)).flatten(1).topk(k, dim=1)
    row = best.indices.div(k, rounding_mode="floor")
    return best.values, chosen.gather(1, best.indices % k) + row * columns.shape[2]
