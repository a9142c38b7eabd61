"""DUQ: kernels of the distance to a centroid of each class (van Amersfoort et al. 2020)."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nescio.core.input_gradients import input_gradient
from nescio.core.model_state import in_eval
from nescio.data.batches import as_int64, check_labels
from nescio.errors import NescioError, check_bool, check_float, check_int, check_name
from nescio.methods.double_backward import CheapDoubleBackward
from nescio.methods.kernel_method import KernelMethod, last_at_least
from nescio.models import feature_width

SIDES = ("two-sided", "one-sided")
TARGETS = ("kernel sum", "kernels", "features")  # section 2.1, and the two others of appendix C
FIRST_COUNT = 12.0  # inputs a class counts for before any was seen, about those of a batch of 128
SCALES = 1e-6, 1e6  # of length_scale and the two spreads


class DUQ(KernelMethod):
    """Kernels around a centroid per class (van Amersfoort et al. 2020).

    Logits are log-kernels, `log K_c = −‖W_c f(x) − e_c‖² / (2 n σ²)`, and its confidence is the
    largest kernel, so an input may belong to no class at all. Centroids `e_c` follow the training
    data as moving averages.

    Args:
        net: any network from inputs to features `(N, d)`.
        classes: how many there are.
        centroid_size: n, the length of a centroid; by default d.
        length_scale: σ, the unit of distances; `select_length_scale` finds one.
        gradient_penalty: λ, the weight of the penalty that keeps `‖∇ₓ Σ_c K_c‖` near 1;
            `select_penalty` finds one.
        penalty: "two-sided", or "one-sided", which only flattens (figure 4: it does not help).
        momentum: γ, how much of the centroids a step keeps.
        penalty_target: "kernel sum", or appendix C's "kernels" or "features", estimated by random
            sums (Hutchinson).
        learn_length_scale: learn a length scale for each class, starting at `length_scale`.
        weight_spread: standard deviation of the first weights `W_c`; the paper's two moons use 1.
        centroid_spread: standard deviation of the first centroids; the paper prints N(0, 0.05), its
            authors' code has 1 on two moons and FashionMNIST and 0.05 on CIFAR-10.
        shared_projection: draw one random sum for a whole batch, not one for each input (appendix
            C.2); the kernel sum needs none.
        features: d, if the network does not tell.
        normalise: what raw inputs go through first; the penalty is in what comes out of it.

    >>> model = DUQ(nescio.models.mlp(2), classes=3, momentum=0.9, normalise=known.normalise)
    >>> history = nescio.train(model, known.train, epochs=10)
    >>> model.confidence(nescio.predict(model, x)) > 0.5  # the second one is of no class
    tensor([ True, False])
    """

    name = "duq"
    score = "max_logit"
    confidence_kind = "kernel"
    exact_reach = True
    # centroids that follow within tens of steps
    small_data_settings: ClassVar[Mapping[str, Any]] = {"momentum": 0.9}
    counts: Tensor
    centroids: Tensor
    met: Tensor

    def __init__(
        self,
        net: nn.Module,
        classes: int,
        centroid_size: int | None = None,
        length_scale: float = 0.1,
        gradient_penalty: float = 0.0,
        penalty: str = "two-sided",
        momentum: float = 0.999,
        *,
        penalty_target: str = "kernel sum",
        learn_length_scale: bool = False,
        weight_spread: float = 0.05,
        centroid_spread: float = 1.0,
        shared_projection: bool = False,
        features: int | None = None,
        normalise: nn.Module | None = None,
    ) -> None:
        super().__init__(net, normalise)
        features = feature_width(net) if features is None else features
        if features is None:
            raise NescioError("this network does not tell how many features it has; say features=…")
        self.classes = check_int("classes", classes, least=2, below=2**30)
        self.features = check_int("features", features, below=2**30)
        centroid_size = self.features if centroid_size is None else centroid_size
        self.centroid_size = check_int("centroid_size", centroid_size, below=2**30)
        size = self.classes * self.centroid_size * self.features
        check_int("classes × centroid_size × features", size, below=2**40)
        self.length_scale = check_float("length_scale", length_scale, *SCALES)
        self.weight_spread = check_float("weight_spread", weight_spread, *SCALES)
        self.centroid_spread = check_float("centroid_spread", centroid_spread, *SCALES)
        self.gradient_penalty = check_float("gradient_penalty", gradient_penalty)
        self.momentum = check_float("momentum", momentum, most=1)
        if self.momentum == 1:
            raise NescioError("momentum must be < 1, or the centroids would never move")
        self.penalty = check_name("penalty (its weight is gradient_penalty)", penalty, SIDES)
        self.penalty_target = check_name("penalty_target", penalty_target, TARGETS)
        self.learn_length_scale = check_bool("learn_length_scale", learn_length_scale)
        self.shared_projection = check_bool("shared_projection", shared_projection)
        if self.gradient_penalty and any(hasattr(module, "_orig_mod") for module in net.modules()):
            problem = "networks of torch.compile cannot be differentiated twice"
            raise NescioError(f"{problem}, as a gradient penalty needs; compile after training")
        shape = self.classes, self.centroid_size
        self.weight = nn.Parameter(torch.randn(*shape, self.features) * self.weight_spread)  # W
        self.register_buffer("counts", torch.full((self.classes,), FIRST_COUNT))  # N (C,)
        self.register_buffer("centroids", torch.randn(shape) * self.centroid_spread)  # e (C, n)
        self.register_buffer("met", torch.zeros(self.classes, dtype=torch.bool))
        if learn_length_scale:
            scales = torch.full((self.classes,), math.log(self.length_scale))
            self.log_length_scale = nn.Parameter(scales)

    def forward(self, x: Tensor) -> Tensor:
        return self._log_kernels(self._features(self.normalise(x)))

    def loss(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        y = self._checked_labels(x, y)
        self._check_two_classes(y)
        x = self.normalise(x)
        if self.gradient_penalty == 0:
            logits = self._log_kernels(self._features(x))
            return cross_entropies(logits, y), logits
        leaf = not x.requires_grad  # else its gradient is wanted by the caller
        x = x.detach().requires_grad_() if leaf else x
        with CheapDoubleBackward(x if leaf else None):
            features = self._features(x)
            logits = self._log_kernels(features)
            target = features if self.penalty_target == "features" else logits.exp()
            if self.penalty_target == "kernel sum":
                summed = target.sum(1)
            else:
                summed = hutchinson(target, self.shared_projection)
            norms = gradient_norms(summed, x)
        penalty = gradient_penalty(norms, self.penalty)
        return cross_entropies(logits, y) + self.gradient_penalty * penalty, logits

    def validation_loss(self, logits: Tensor, y: Tensor) -> Tensor:
        """Return the cross-entropies of the kernels; a softmax would only compare kernels."""
        return cross_entropies(logits[0], y)

    @torch.no_grad()
    def after_step(self, x: Tensor, y: Tensor) -> None:
        """Move the centroids of the classes in the batch, by the new weights (equations 4 to 6).

        With `e = m / N`, a step is `e ← e + (1 − γ) n / N · (mean − e)` for a class with n inputs,
        of the new N. The sum m of a class long absent would shrink to nothing, as its N does.
        """
        y = self._checked_labels(x, y)
        with in_eval(self):
            features = self._features(self.normalise(x)).to(self.weight.dtype)
        one_hot = F.one_hot(y, self.classes).to(features.dtype)  # (N, C)
        present = one_hot.sum(0)
        # a small fraction of a coarse number would be lost
        with torch.autocast(features.device.type, enabled=False):
            sums = torch.einsum("cnd,cd->cn", self.weight, one_hot.T @ features)
            means = sums / present.clamp(min=1)[:, None]
        self.counts.lerp_(present, 1 - self.momentum)
        fraction = torch.where(present > 0, (1 - self.momentum) * present / self.counts, 0.0)
        self.centroids.lerp_(means, fraction[:, None])
        self.met.logical_or_(present > 0)

    def expect_all_classes(self) -> None:
        self.met.fill_(True)

    def last_known(
        self, slope: Tensor, intercept: Tensor, begin: Tensor, end: Tensor, eps: float
    ) -> Tensor:
        """Return the last t at which a kernel is ≥ `eps`; log-kernels are quadratic in t."""
        level = math.log(eps)
        return last_at_least(*self._log_kernels_along(slope, intercept), level, begin, end)

    def limit_confidence(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Return the largest kernel that does not fall along the ray."""
        a, _, c = self._log_kernels_along(slope, intercept)
        return c.masked_fill(a < 0, -torch.inf).amax(1).exp()

    def _features(self, x: Tensor) -> Tensor:
        features: Tensor = self.net(x)
        kind = type(features).__name__
        if not isinstance(features, Tensor):
            raise NescioError(f"the network must return a tensor of features, got {kind}")
        if features.shape != (len(x), self.features):
            raise NescioError(
                f"the network must return features of shape ({len(x)}, {self.features}), as this "
                f"DUQ was made for, got {tuple(features.shape)}; see features="
            )
        # in training the loop checks, and its message names the checkpoint
        if self.training_step is None and not features.isfinite().all():
            raise NescioError("the network returns features that are NaN or infinite")
        return features

    def _log_kernels(self, features: Tensor) -> Tensor:
        """Return log-kernels `(N, C)` of features `(N, d)`."""
        embedded = F.linear(features, self.weight.flatten(0, 1))
        embedded = embedded.view(-1, self.classes, self.centroid_size)
        distances = (embedded - self.centroids).square().mean(2)
        if self.learn_length_scale:
            return -0.5 * distances * torch.exp(-2 * self.log_length_scale)
        return distances * (-0.5 / self.length_scale**2)

    def _log_kernels_along(self, slope: Tensor, intercept: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return a ≤ 0, b, c of log-kernels `a t² + b t + c` along rays, `(P, C)` each."""
        weight = self.weight.detach().double()
        scale = torch.as_tensor(self.length_scale, dtype=torch.float64).expand(self.classes)
        if self.learn_length_scale:
            scale = self.log_length_scale.detach().double().exp()
        factor = -0.5 / scale.square()
        towards = torch.einsum("cnd,pd->pcn", weight, slope)
        offset = torch.einsum("cnd,pd->pcn", weight, intercept) - self.centroids.double()
        b = 2 * factor * (towards * offset).mean(2)
        return factor * towards.square().mean(2), b, factor * offset.square().mean(2)

    def _checked_labels(self, x: Tensor, y: Tensor) -> Tensor:
        """Return labels `(N,)`, or raise; the training loop has checked its own."""
        if self.training_step is not None:
            return y
        if not isinstance(y, Tensor):
            raise NescioError(f"labels must be a tensor of ints, got {type(y).__name__}")
        y = as_int64(y)
        if len(x) == 0 or len(x) != len(y):
            sizes = f"got {len(x)} and {len(y)}"
            raise NescioError(f"a batch must have as many inputs as labels, at least 1, {sizes}")
        check_labels(y, self.classes)
        return y

    def _check_two_classes(self, y: Tensor) -> None:
        if (y == y[0]).all() and not (self.met.sum() - self.met[y[0]].long()):
            raise NescioError(
                f"a batch of {len(y)} with one class only, {int(y[0])}, before any other was seen; "
                "DUQ separates classes, so its first batch must hold two: use larger batches"
            )


def gradient_norms(outputs: Tensor, x: Tensor) -> Tensor:
    """Return `‖∇ₓ Σ outputs‖₂` of each input, `(N,)`, ready to be differentiated again."""
    gradient = input_gradient(outputs, x, "a gradient penalty", create_graph=True)
    norms: Tensor = torch.linalg.vector_norm(gradient.flatten(1), dim=1)
    return norms


def gradient_penalty(norms: Tensor, side: str) -> Tensor:
    """Return `mean (‖g‖ − 1)²`, or one-sided `mean max(0, ‖g‖² − 1)`, which only flattens.

    The paper prints the two-sided one with `‖g‖²`; its authors train with `‖g‖`, as here.

    >>> norms = torch.tensor([0.0, 3.0])
    >>> gradient_penalty(norms, "two-sided"), gradient_penalty(norms, "one-sided")
    (tensor(2.5000), tensor(4.))
    """
    if side == "two-sided":
        return (norms - 1).square().mean()
    return (norms.square() - 1).clamp(min=0).mean()


def hutchinson(outputs: Tensor, shared: bool = False) -> Tensor:
    """Return a random sum of outputs `(N, K)`: in expectation, its squared gradient is theirs.

    Signs are drawn for each input, or once for all of them if they are `shared`.
    """
    signs = torch.randint_like(outputs[:1] if shared else outputs, 2, requires_grad=False)
    signs = signs.mul_(2).sub_(1)
    return (outputs * signs).sum(1)


def cross_entropies(log_kernels: Tensor, y: Tensor) -> Tensor:
    """Return the mean binary cross-entropy of kernels against one-hot labels (equation 3).

    `log K` is never computed from K, so a kernel that underflows still has its loss and gradient;
    one that rounds to 1 is taken as far from 1 as its dtype can tell.

    >>> cross_entropies(torch.tensor([[-1000.0, 0.0]]), torch.tensor([0]))
    tensor(507.9712)
    """
    labelled = F.one_hot(y, log_kernels.shape[1]).bool()
    return -torch.where(labelled, log_kernels, log1mexp(log_kernels)).mean()


def log1mexp(log_k: Tensor) -> Tensor:
    """Return `log(1 − exp(log_k))` of `log_k ≤ 0`, exact near 0 and far from it (Mächler 2012)."""
    log_k = log_k.clamp(max=-torch.finfo(log_k.dtype).eps)
    near = log_k > -math.log(2)
    # each branch gets a value with a finite gradient where the other one is taken
    close = torch.log(-torch.expm1(torch.where(near, log_k, -1.0)))
    return torch.where(near, close, torch.log1p(-torch.where(near, -1.0, log_k).exp()))
