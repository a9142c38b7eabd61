"""The RBF network, which cannot be certain far away (Hein et al. 2019, theorem 3.2)."""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset

from nescio.core.forward import check_inputs, like_model
from nescio.core.logits import softmax_confidence
from nescio.data.arrays import tensor
from nescio.data.labelled import check_labels, take
from nescio.errors import NescioError, check_float, check_int, unknown_name
from nescio.methods.kernel_method import KernelMethod, last_within
from nescio.methods.multinomial import solve
from nescio.seeds import derived_seed

SOLVERS = ("auto", "exact", "steps")
MOST = 2000  # centres, if their number is not given
SAMPLE = 20_000  # inputs that k-means looks at
TRIAL = 1000  # inputs that gamma is chosen by, with half as many centres
GRID = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # values of gamma, times the inverse median squared distance
RIDGE = 1e-5  # weight of ½‖α‖² beside the mean cross-entropy
LARGEST = 2**25  # kernels, inputs times centres, that "auto" solves at once: 256 MiB
BLOCK = 2**22  # kernels held at a time in prediction
COARSE = 1e5  # γ times a squared extent from which on a matrix product would not tell distances well enough
FAR = 1e15  # no kernel reaches so far, and squares of it are still numbers


class RBFNetwork(KernelMethod):
    """Gaussian kernels around training inputs, weighed by class (Hein et al. 2019): far from all it knows nothing.

    Logits are `f_k(x) = Σ_l α_kl exp(−γ‖x − x_l‖²)`, of the normalised input. Where all kernels have died away every
    class has probability 1/K; `uniform_radius` says how far out that must be. There is no network within: `fit` finds
    the α of the smallest mean cross-entropy plus `RIDGE/2 · ‖α‖²`, a convex problem, at once. Then epochs, rates and
    weight decay do not matter. What is not given is found by `fit` first, and then kept.

    Args:
        centres: the `x_l`, raw inputs `(L, …)`; or how many, chosen by k-means; or None for all training inputs or, if
            there are more than 2000, as many by k-means.
        gamma: γ, how quickly a kernel falls; None for the one with the best likelihood on validation data (or on a
            fifth of the training data), out of six around the inverse median squared distance.
        classes: K, how many there are to tell apart.
        features: how many numbers an input has, if there are no centres yet to tell.
        solver: "exact", by L-BFGS in float64; "steps", by the batches of the training loop; "auto" for the first, or
            the second if inputs times centres are beyond 2²⁵.
        normalise: what raw inputs go through first; distances are in what comes out of it.
    """

    name = "rbf"
    score = "max_prob"
    on_features = True
    on_network = False
    exact_reach = False
    centres: Tensor

    def __init__(
        self,
        centres: Any = None,
        gamma: float | None = None,
        *,
        classes: int,
        features: int | None = None,
        solver: str = "auto",
        normalise: nn.Module | None = None,
    ) -> None:
        super().__init__(nn.Flatten(), normalise)
        self.classes = check_int("classes", classes, least=2, below=2**30)
        self.gamma = None if gamma is None else check_float("gamma", gamma, least=1e-12, most=1e12)
        if solver not in SOLVERS:
            raise unknown_name("solver", solver, SOLVERS)
        self.solver = solver
        width = None if features is None else check_int("features", features, below=2**30)
        self.count: int | None = None
        if isinstance(centres, Tensor | np.ndarray):
            place = self._given(tensor(centres), width)
        elif centres is None:
            place = torch.empty(0, width or 0)
        else:
            self.count = check_int("centres", centres, below=2**30)
            # room for those of a file or of a training to come
            place = (
                torch.empty(0, 0) if width is None else torch.full((self.count, width), torch.nan)
            )
        self.register_buffer("centres", place)  # (L, d), normalised
        self.weight = nn.Parameter(place.new_zeros(self.classes, len(place)))  # α (K, L)

    @classmethod
    def of(
        cls, make_net: Callable[[], nn.Module], normalise: nn.Module | None = None, **settings: Any
    ) -> Self:
        """The method itself; `make_net` is not asked, since there is no network within."""
        return cls(normalise=normalise, **settings)

    def forward(self, x: Tensor) -> Tensor:
        x, gamma = self._flat(x), self._chosen()
        logits = torch.zeros(len(x), self.classes, dtype=torch.float64, device=x.device)
        size = max(1, BLOCK // max(1, len(x)))
        for centres, weight in zip(
            torch.split(self.centres, size), torch.split(self.weight, size, 1), strict=True
        ):
            logits = logits + kernels(x, centres, gamma) @ weight.T.double()
        return logits.to(x.dtype)

    def loss(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        logits = self(x)
        return F.cross_entropy(logits, y) + RIDGE / 2 * self.weight.square().sum(), logits

    def confidence(self, logits: Tensor) -> Tensor:
        return softmax_confidence(logits)

    @torch.no_grad()
    def prepare(self, train: Dataset[Any], held: Dataset[Any] | None, seed: int) -> bool:
        """Choose centres and gamma if there are none, and solve for the weights unless that is left to steps."""
        if not self.weight.requires_grad:
            return False  # frozen weights; the loop says that there is nothing to train
        inputs = len(train)  # type: ignore[arg-type]
        if not self._has_centres():
            self.centres = self._choose_centres(train, inputs, seed)
            self.weight = nn.Parameter(self.weight.new_zeros(self.classes, len(self.centres)))
        if self.gamma is None:
            self.gamma = self._choose_gamma(train, held, inputs, seed)
        if self.solver == "steps" or (
            self.solver == "auto" and inputs * len(self.centres) > LARGEST
        ):
            return False
        centres = self.centres.double()
        found, labels = (
            centres.new_empty(inputs, len(centres)),
            torch.empty(inputs, dtype=torch.long),
        )
        for index in torch.split(torch.arange(inputs), max(1, min(1024, BLOCK // len(centres)))):
            x, labels[index] = self._rows(train, index)
            found[index] = kernels(x, centres, self.gamma)
        self.weight.copy_(solve(found, labels.to(found.device), self.classes, RIDGE))
        return True

    def networks(self) -> Sequence[nn.Module]:
        return []

    def kernel_features(self) -> nn.Module:
        return nn.Sequential(self.normalise, self.net)

    def last_known(
        self, slope: Tensor, intercept: Tensor, begin: Tensor, end: Tensor, eps: float
    ) -> Tensor:
        """Return the last t within `uniform_radius(eps)` of a centre, beyond which theorem 3.2 holds."""
        radius, centres = self.uniform_radius(eps), self.centres.double()
        if slope.shape[1] != centres.shape[1]:
            raise NescioError(
                f"inputs have {slope.shape[1]} features, but the centres {centres.shape[1]} each"
            )
        last = torch.minimum(last_within(slope, intercept, centres, radius), end)
        return last.masked_fill(last < begin, -torch.inf)

    def limit_confidence(self, slope: Tensor, intercept: Tensor) -> Tensor:
        return slope.new_full((len(slope),), 1 / self.classes)

    def settings(self) -> dict[str, Any]:
        count, width = self.centres.shape
        sizes = {"centres": count or self.count, "features": width or None}
        return {"classes": self.classes, **sizes, "gamma": self.gamma, "solver": self.solver}

    @torch.no_grad()
    def uniform_radius(self, eps: float) -> float:
        """The distance from all centres beyond which every probability is within `eps` of 1/K (theorem 3.2).

        `r² = log(α / log(1 + K·eps)) / γ` with `α = max_{r,k} Σ_l |α_rl − α_kl|`; 0 if that holds everywhere. Compare
        it with `distance(x)`: both are in units of the normalised input.
        """
        gamma = self._chosen()
        if check_float("eps", eps, most=1 - 1 / self.classes) == 0:
            raise NescioError(
                "eps must be above 0; only infinitely far away are all classes exactly alike"
            )
        weight = self.weight.double()
        if not weight.isfinite().all():
            raise NescioError(
                "the weights of this RBF network are NaN or infinite, and promise nothing"
            )
        rows = max(1, BLOCK // self.classes)
        widest = max(
            float(torch.cdist(block, weight, p=1).amax()) for block in torch.split(weight, rows)
        )
        gap = math.log1p(self.classes * eps)  # what two logits may differ by
        return math.sqrt(math.log(widest / gap) / gamma) if widest > gap else 0.0

    @torch.no_grad()
    def distance(self, x: Any) -> Tensor:
        """How far raw inputs are from their nearest centre, `(N,)` in float64 and units of the normalised input."""
        self._chosen()
        x = like_model(tensor(x), self)
        if x.dim() < 2:
            raise NescioError(f"inputs of shape {tuple(x.shape)}; expected (N, …)")
        check_inputs(x, self)
        flat, centres = self._flat(x).double(), self.centres.double()
        blocks = torch.split(flat, max(1, BLOCK // len(centres)))
        exact = "donot_use_mm_for_euclid_dist"
        return torch.cat(
            [torch.cdist(block, centres, compute_mode=exact).amin(1) for block in blocks]
        )

    def _has_centres(self) -> bool:
        return self.centres.numel() > 0 and bool(self.centres[0, 0].isfinite())

    def _chosen(self) -> float:
        """Gamma, or an error if it or the centres are still to be chosen."""
        if self.gamma is None or not self._has_centres():
            raise NescioError(
                "this RBF network has no centres or no gamma yet; give both, or train it with nescio.train"
            )
        return self.gamma

    def _flat(self, x: Tensor) -> Tensor:
        """Raw inputs, normalised, as rows `(N, d)` of the centres' width."""
        rows: Tensor = self.net(self.normalise(x))
        width = self.centres.shape[1]
        if width and rows.shape[1:] != (width,):
            raise NescioError(
                f"inputs of shape {tuple(x.shape)}, but the centres have {width} features each"
            )
        return rows

    def _given(self, centres: Tensor, width: int | None) -> Tensor:
        """Centres that came from outside, normalised, as rows."""
        if centres.dim() < 2 or 0 in centres.shape:
            raise NescioError(
                f"centres must be inputs (L, …), at least one, not of shape {tuple(centres.shape)}"
            )
        check_inputs(centres, self)
        rows: Tensor = (
            self.net(self.normalise(centres.to(torch.get_default_dtype()))).detach().clone()
        )
        if width is not None and rows.shape[1] != width:
            raise NescioError(
                f"centres of {rows.shape[1]} features were given, but features={width}"
            )
        if not rows.isfinite().all():
            raise NescioError("the centres hold NaN or infinite values once they are normalised")
        return rows

    def _rows(self, data: Dataset[Any], index: Tensor) -> tuple[Tensor, Tensor]:
        """Normalised inputs `(n, d)`, and labels, at some positions."""
        parts = []
        for some in torch.split(index, 1024):
            x, y = take(data, some)
            x = like_model(x, self)
            check_inputs(x, self, numbers=some)
            check_labels(y, self.classes)
            parts.append((self._flat(x), y))
        return torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])

    def _choose_centres(self, train: Dataset[Any], inputs: int, seed: int) -> Tensor:
        count = min(inputs, MOST) if self.count is None else self.count
        if count > inputs:
            raise NescioError(
                f"{count} centres were asked for, but there are only {inputs} training inputs"
            )
        if count == inputs:
            return self._rows(train, torch.arange(inputs))[0]
        sample = _some(inputs, max(SAMPLE, count), derived_seed(seed, "centres", 0))
        return _k_means(self._rows(train, sample)[0], count, derived_seed(seed, "k-means", 0))

    def _choose_gamma(
        self, train: Dataset[Any], held: Dataset[Any] | None, inputs: int, seed: int
    ) -> float:
        """The value out of a grid that gives validation data the best likelihood, in a problem of moderate size."""
        if inputs < 2:
            raise NescioError(
                "gamma is chosen by data set aside, which takes at least 2 training inputs; give gamma=…"
            )
        index = _some(inputs, TRIAL, derived_seed(seed, "gamma", 0))
        aside = max(1, len(index) // 5) if held is None else 0
        x, y = self._rows(train, index[aside:])
        if held is None:
            judge_x, judge_y = self._rows(train, index[:aside])
        else:
            some = _some(len(held), TRIAL, derived_seed(seed, "gamma", 1))  # type: ignore[arg-type]
            judge_x, judge_y = self._rows(held, some)
        centres = self.centres[
            _some(len(self.centres), TRIAL // 2, derived_seed(seed, "gamma", 2))
        ].double()
        apart, judge_apart = (squared_distances(rows, centres) for rows in (x, judge_x))
        positive = apart[apart > 1e-12 * apart.amax()]  # that of an input to itself tells nothing
        scale = 1 / float(positive.median()) if len(positive) else 1.0
        y, judge_y = y.to(apart.device), judge_y.to(apart.device)

        def surprise(gamma: float) -> float:
            weight = solve((-gamma * apart).exp(), y, self.classes, RIDGE, near=1e-6)
            return float(
                self.validation_loss(((-gamma * judge_apart).exp() @ weight.T)[None], judge_y)
            )

        return min((min(max(times * scale, 1e-12), 1e12) for times in GRID), key=surprise)


def kernels(x: Tensor, centres: Tensor, gamma: float) -> Tensor:
    """`exp(−γ‖x − c‖²)`, `(N, L)` in float64, of rows `(N, d)` and centres `(L, d)`."""
    return (-gamma * squared_distances(x, centres, gamma)).exp()


def squared_distances(x: Tensor, centres: Tensor, gamma: float = 0.0) -> Tensor:
    """`‖x − c‖²`, `(N, L)` in float64, by one matrix product where that is good enough for a kernel of this gamma.

    A product costs roundings of the squared extent of the centres, measured from their middle; where gamma makes them
    count, each difference is taken by itself.
    """
    x, centres = x.double(), centres.double()
    middle = centres.mean(0)
    x, centres = (x - middle).clamp(-FAR, FAR), centres - middle
    squares = centres.square().sum(1)
    if gamma * float(squares.detach().amax()) > COARSE:
        return torch.cdist(x, centres, compute_mode="donot_use_mm_for_euclid_dist").square()
    return (x.square().sum(1, keepdim=True) + squares - 2 * x @ centres.T).clamp(min=0)


def _some(total: int, most: int, seed: int) -> Tensor:
    """At most so many of all positions, in an order drawn by the seed."""
    return torch.randperm(total, generator=torch.Generator().manual_seed(seed))[:most]


def _k_means(rows: Tensor, count: int, seed: int) -> Tensor:
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.exceptions import ConvergenceWarning

    means = MiniBatchKMeans(count, n_init=3, random_state=seed % 2**32)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ConvergenceWarning
        )  # fewer distinct inputs than centres: some are then equal
        means.fit(rows.cpu().numpy())
    return torch.as_tensor(means.cluster_centers_).to(rows)
