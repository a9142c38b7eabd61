"""The RBF network, which cannot be certain far away (Hein et al. 2019, theorem 3.2)."""

import math
import warnings
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset

from nescio.core.forward import check_inputs, like_model
from nescio.data.arrays import tensor
from nescio.data.batches import check_labels, take
from nescio.errors import NescioError, check_float, check_int, check_name
from nescio.methods.kernel_method import EXACT, KernelMethod, last_within, squared_distances
from nescio.seeds import derived_seed

SOLVERS = ("auto", "exact", "steps")
MAX_CENTRES = 2000  # if their number is not given
K_MEANS_INPUTS = 20_000
GAMMA_INPUTS = 1000  # inputs to choose gamma by, with half as many centres
GAMMA_GRID = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # times the inverse median squared distance
GAMMA_RANGE = 1e-12, 1e12
RIDGE = 1e-5  # weight of ½‖α‖² beside the mean cross-entropy
MAX_SOLVED = 2**25  # kernels, inputs × centres, that "auto" solves at once: 256 MiB
BLOCK = 2**22  # kernels held at a time in prediction
MAX_RESTARTS = 50


class RBFNetwork(KernelMethod):
    """Gaussian kernels around training inputs, weighed by class (Hein et al. 2019).

    Logits are `f_k(x) = Σ_l α_kl exp(−γ‖x − x_l‖²)`, of the normalised input. Where all kernels
    vanish every class has probability 1/K; `uniform_radius` says how far out that is. There is no
    network within: `train` finds the α of the smallest mean cross-entropy plus `RIDGE/2 · ‖α‖²`, a
    convex problem, at once; epochs, learning rate and weight decay then do not matter. What is not
    given is chosen by `train` first, and then kept.

    Args:
        centres: the `x_l`, raw inputs `(L, …)`; or how many, chosen by k-means; or None for all
            training inputs or, if there are more than 2000, as many by k-means.
        gamma: γ, how fast a kernel falls; None for the one with the best likelihood on validation
            data (or on a fifth of the training data), out of six around the inverse median squared
            distance.
        classes: K, how many there are.
        features: how many numbers an input has, if there are no centres yet to tell.
        solver: "exact", by L-BFGS in float64; "steps", by the batches of the training loop; "auto"
            for the first, or the second if inputs × centres exceed 2²⁵.
        normalise: what raw inputs go through first; distances are in what comes out of it.

    >>> model = RBFNetwork(centres=20, classes=3, features=2, normalise=known.normalise)
    >>> history = nescio.train(model, known.train)
    >>> nescio.predict(model, x)[0, 1].softmax(-1)  # far away all classes are alike
    tensor([0.3333, 0.3333, 0.3333])
    """

    name = "rbf"
    score = "max_prob"
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
        self.gamma = None if gamma is None else check_float("gamma", gamma, *GAMMA_RANGE)
        self.solver = check_name("solver", solver, SOLVERS)
        width = None if features is None else check_int("features", features, below=2**30)
        self.count: int | None = None
        if isinstance(centres, Tensor | np.ndarray):
            rows = self._given_centres(tensor(centres), width)
        elif centres is None:
            rows = torch.empty(0, width or 0)
        else:
            self.count = check_int("centres", centres, below=2**30)
            # room for those of a file or of a training to come
            rows = torch.full((self.count if width else 0, width or 0), torch.nan)
        self.register_buffer("centres", rows)  # (L, d), normalised
        self.weight = nn.Parameter(rows.new_zeros(self.classes, len(rows)))  # α (K, L)

    def forward(self, x: Tensor) -> Tensor:
        x, gamma = self._flat(x), self._chosen_gamma()
        logits = torch.zeros(len(x), self.classes, dtype=torch.float64, device=x.device)
        size = max(1, BLOCK // max(1, len(x)))
        blocks = torch.split(self.centres, size), torch.split(self.weight, size, 1)
        for centres, weight in zip(*blocks, strict=True):
            logits = logits + kernels(x, centres, gamma) @ weight.T.double()
        return logits.to(x.dtype)

    def loss(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        logits = self(x)
        return F.cross_entropy(logits, y) + RIDGE / 2 * self.weight.square().sum(), logits

    @torch.no_grad()
    def prepare(self, train: Dataset[Any], validation: Dataset[Any] | None, seed: int) -> bool:
        """Choose centres and gamma if there are none, and solve for the weights unless by steps."""
        if not self.weight.requires_grad:
            return False  # frozen weights; the loop raises that there is nothing to train
        inputs = len(train)  # type: ignore[arg-type]
        if not self._has_centres():
            self.centres = self._choose_centres(train, inputs, seed)
            self.weight = nn.Parameter(self.weight.new_zeros(self.classes, len(self.centres)))
        if self.gamma is None:
            self.gamma = self._choose_gamma(train, validation, inputs, seed)
        centres = self.centres.double()
        too_many = self.solver == "auto" and inputs * len(centres) > MAX_SOLVED
        if self.solver == "steps" or too_many:
            return False
        rows = centres.new_empty(inputs, len(centres))
        labels = torch.empty(inputs, dtype=torch.long)
        for index in torch.split(torch.arange(inputs), max(1, min(1024, BLOCK // len(centres)))):
            x, labels[index] = self._rows(train, index)
            rows[index] = kernels(x, centres, self.gamma)
        self.weight.copy_(solve_softmax(rows, labels.to(rows.device), self.classes))
        return True

    def last_known(
        self, slope: Tensor, intercept: Tensor, begin: Tensor, end: Tensor, eps: float
    ) -> Tensor:
        """Return the last t within `uniform_radius(eps)` of a centre; theorem 3.2 holds beyond."""
        radius, centres = self.uniform_radius(eps), self.centres.double()
        if (width := slope.shape[1]) != centres.shape[1]:
            raise NescioError(f"inputs have {width} features, centres {centres.shape[1]} each")
        last = torch.minimum(last_within(slope, intercept, centres, radius), end)
        return last.masked_fill(last < begin, -torch.inf)

    def limit_confidence(self, slope: Tensor, intercept: Tensor) -> Tensor:
        return slope.new_full((len(slope),), 1 / self.classes)

    def settings(self) -> dict[str, Any]:
        count, width = self.centres.shape
        return super().settings() | {"centres": count or self.count, "features": width or None}

    @torch.no_grad()
    def uniform_radius(self, eps: float) -> float:
        """Return the distance from all centres beyond which every p is within `eps` of 1/K.

        `r² = log(α / log(1 + K·eps)) / γ` with `α = max_{r,k} Σ_l |α_rl − α_kl|` (theorem 3.2); 0
        if that holds everywhere. Compare it with `distance(x)`: both are of normalised inputs.
        """
        gamma = self._chosen_gamma()
        if check_float("eps", eps, most=1 - 1 / self.classes) == 0:
            raise NescioError("eps must be above 0; classes are equal only infinitely far away")
        weight = self.weight.double()
        if not weight.isfinite().all():
            raise NescioError("the weights of this RBF network are NaN or infinite")
        blocks = torch.split(weight, max(1, BLOCK // self.classes))
        widest = max(float(torch.cdist(block, weight, p=1).amax()) for block in blocks)
        gap = math.log1p(self.classes * eps)  # what two logits may differ by
        return math.sqrt(math.log(widest / gap) / gamma) if widest > gap else 0.0

    @torch.no_grad()
    def distance(self, x: Any) -> Tensor:
        """Return the distance `(N,)` of raw inputs to their nearest centre, once normalised."""
        self._chosen_gamma()
        x = like_model(tensor(x), self)
        if x.dim() < 2:
            raise NescioError(f"inputs must have the shape (N, …), got {tuple(x.shape)}")
        check_inputs(x, self)
        flat, centres = self._flat(x).double(), self.centres.double()
        blocks = torch.split(flat, max(1, BLOCK // len(centres)))
        return torch.cat([torch.cdist(b, centres, compute_mode=EXACT).amin(1) for b in blocks])

    def _has_centres(self) -> bool:
        return self.centres.numel() > 0 and bool(self.centres[0, 0].isfinite())

    def _chosen_gamma(self) -> float:
        """Return gamma, or raise if it or the centres are still to be chosen."""
        if self.gamma is None or not self._has_centres():
            raise NescioError("this RBF network has no centres or gamma; give both, or train it")
        return self.gamma

    def _flat(self, x: Tensor) -> Tensor:
        """Return raw inputs, normalised, as rows `(N, d)` of the centres' width."""
        rows: Tensor = self.net(self.normalise(x))
        width = self.centres.shape[1]
        if width and rows.shape[1:] != (width,):
            raise NescioError(f"inputs of shape {tuple(x.shape)}, but centres of {width} features")
        return rows

    def _given_centres(self, centres: Tensor, width: int | None) -> Tensor:
        """Return centres given by the user, normalised, as rows."""
        if centres.dim() < 2 or 0 in centres.shape:
            raise NescioError(f"centres must be inputs (L, …), L ≥ 1, got {tuple(centres.shape)}")
        check_inputs(centres, self)
        centres = centres.to(torch.get_default_dtype())
        rows: Tensor = self.net(self.normalise(centres)).detach().clone()
        if width is not None and rows.shape[1] != width:
            raise NescioError(f"the centres have {rows.shape[1]} features, but features={width}")
        if not rows.isfinite().all():
            raise NescioError("the centres hold NaN or infinite values once they are normalised")
        return rows

    def _rows(self, data: Dataset[Any], index: Tensor) -> tuple[Tensor, Tensor]:
        """Return normalised inputs `(n, d)` and labels at some positions."""
        parts = []
        for batch in torch.split(index, 1024):
            x, y = take(data, batch)
            x = like_model(x, self)
            check_inputs(x, self, numbers=batch)
            check_labels(y, self.classes)
            parts.append((self._flat(x), y))
        return torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])

    def _choose_centres(self, train: Dataset[Any], inputs: int, seed: int) -> Tensor:
        count = min(inputs, MAX_CENTRES) if self.count is None else self.count
        if count > inputs:
            raise NescioError(f"centres must be ≤ the {inputs} training inputs, got {count}")
        if count == inputs:
            return self._rows(train, torch.arange(inputs))[0]
        sample = _subset(inputs, max(K_MEANS_INPUTS, count), derived_seed(seed, "centres", 0))
        return _k_means(self._rows(train, sample)[0], count, derived_seed(seed, "k-means", 0))

    def _choose_gamma(
        self, train: Dataset[Any], validation: Dataset[Any] | None, inputs: int, seed: int
    ) -> float:
        """Return the value of a grid with the best likelihood on validation data, or on a fifth."""
        if inputs < 2:
            raise NescioError("choosing gamma takes at least 2 training inputs; give gamma=…")
        seeds = [derived_seed(seed, "gamma", i) for i in range(3)]
        index = _subset(inputs, GAMMA_INPUTS, seeds[0])
        aside = max(1, len(index) // 5) if validation is None else 0
        x, y = self._rows(train, index[aside:])
        if validation is None:
            test_x, test_y = self._rows(train, index[:aside])
        else:
            size = len(validation)  # type: ignore[arg-type]
            test_x, test_y = self._rows(validation, _subset(size, GAMMA_INPUTS, seeds[1]))
        centres = self.centres[_subset(len(self.centres), GAMMA_INPUTS // 2, seeds[2])].double()
        distances, test = (squared_distances(rows, centres) for rows in (x, test_x))
        positive = distances[distances > 1e-12 * distances.amax()]  # not of an input to itself
        scale = 1 / float(positive.median()) if len(positive) else 1.0
        y, test_y = y.to(distances.device), test_y.to(distances.device)

        def test_loss(gamma: float) -> float:
            weight = solve_softmax((-gamma * distances).exp(), y, self.classes, tolerance=1e-6)
            return float(self.validation_loss(((-gamma * test).exp() @ weight.T)[None], test_y))

        low, high = GAMMA_RANGE
        return min((min(max(factor * scale, low), high) for factor in GAMMA_GRID), key=test_loss)


def kernels(x: Tensor, centres: Tensor, gamma: float) -> Tensor:
    """Return `exp(−γ‖x − c‖²)`, `(N, L)` in float64, of rows `(N, d)` and centres `(L, d)`."""
    return (-gamma * squared_distances(x, centres, gamma)).exp()


def solve_softmax(rows: Tensor, y: Tensor, classes: int, tolerance: float = 1e-9) -> Tensor:
    """Return the `w` `(C, F)` that minimises `mean −log softmax(rows · wᵀ)_y + RIDGE/2 · ‖w‖²`.

    Rows are `(N, F)` in float64. The ridge makes the problem strictly convex, with one optimum even
    if a plane separates the classes; no entry of the gradient is above the tolerance there.
    """
    from scipy.optimize import minimize  # a third of a second of start-up, rarely needed

    one_hot = F.one_hot(y, classes).to(rows)  # (N, C)

    def objective(flat: object) -> tuple[float, object]:
        w = torch.as_tensor(flat).to(rows).view(classes, -1)
        log_p = (rows @ w.T).log_softmax(1)
        loss = -(log_p * one_hot).sum() / len(rows) + RIDGE / 2 * w.square().sum()
        slope = (log_p.exp() - one_hot).T @ rows / len(rows) + RIDGE * w
        return float(loss), slope.flatten().cpu().numpy()

    w = torch.zeros(classes * rows.shape[1], dtype=torch.float64).numpy()
    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 0.0, "gtol": tolerance, "maxcor": 30}
    for _ in range(MAX_RESTARTS):  # a step that gains nothing ends a search short of the optimum
        result = minimize(objective, w, jac=True, method="L-BFGS-B", options=options)
        w = result.x
        if abs(result.jac).max() <= tolerance:
            break
    return torch.from_numpy(w).to(rows).view(classes, -1)


def _subset(total: int, most: int, seed: int) -> Tensor:
    """Return at most so many of all positions, in random order."""
    return torch.randperm(total, generator=torch.Generator().manual_seed(seed))[:most]


def _k_means(rows: Tensor, count: int, seed: int) -> Tensor:
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.exceptions import ConvergenceWarning

    means = MiniBatchKMeans(count, n_init=3, random_state=seed % 2**32)
    with warnings.catch_warnings():
        # fewer distinct inputs than centres: some are then equal
        warnings.simplefilter("ignore", ConvergenceWarning)
        means.fit(rows.cpu().numpy())
    return torch.as_tensor(means.cluster_centers_).to(rows)
