"""DUQ: distances to a centroid of each class, trained to stay sensitive to the input (van Amersfoort et al. 2020)."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nescio.core.logits import mean_kernels
from nescio.core.model_state import in_eval
from nescio.data.labelled import as_int64, check_labels
from nescio.errors import NescioError, check_float, check_int, unknown_name
from nescio.methods.double_backward import cheap_twice
from nescio.methods.kernel_method import KernelMethod, last_at_least
from nescio.methods.penalty import SIDES, gradient_penalty, hutchinson, slopes_of
from nescio.models import feature_width

TARGETS = (
    "kernel sum",
    "kernels",
    "features",
)  # what the penalty is on: section 2.1, and appendix C's two others
COUNT = 12.0  # inputs a class counts for before any was seen: about those of one batch of 128


class DUQ(KernelMethod):
    """Kernels around a centroid per class (van Amersfoort et al. 2020): unknown is what is far from all of them.

    Logits are log-kernels, `log K_c = −‖W_c f(x) − e_c‖² / (2 n σ²)`, and its confidence is the largest kernel, so an
    input may be of no class at all. Centroids `e_c` follow the training data as moving averages.

    Args:
        net: any network from inputs to features `(N, d)`.
        classes: how many there are to tell apart.
        centroid_size: n, the length of a centroid; by default d.
        length_scale: σ; distances are measured by it. `select_length_scale` finds one.
        gradient_penalty: λ, the weight of the penalty that keeps `‖∇ₓ Σ_c K_c‖` near 1; `select_penalty` finds one.
        penalty: "two-sided", or "one-sided", which only flattens (figure 4 of the paper: it does not help).
        momentum: γ, how much of the centroids a step keeps.
        penalty_target: "kernel sum", or appendix C's "kernels" or "features", estimated by random sums (Hutchinson).
        learn_length_scale: learn a length scale for each class, from `length_scale` on.
        weight_spread: standard deviation of the first weights `W_c`; the paper's two moons start from 1.
        features: d, if the network does not tell.
        normalise: what raw inputs go through first; the penalty is in what comes out of it.
    """

    name = "duq"
    score = "max_logit"
    on_features = True
    confidence_kind = "kernel"
    exact_reach = True

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
        features: int | None = None,
        normalise: nn.Module | None = None,
    ) -> None:
        super().__init__(net, normalise)
        self.classes = check_int("classes", classes, least=2, below=2**30)
        self.features = check_int(
            "features", _width(net) if features is None else features, below=2**30
        )
        self.centroid_size = check_int(
            "centroid_size", self.features if centroid_size is None else centroid_size, below=2**30
        )
        self.length_scale = check_float("length_scale", length_scale, least=1e-6, most=1e6)
        self.gradient_penalty = check_float("gradient_penalty", gradient_penalty)
        self.momentum = check_float("momentum", momentum, most=1)
        if self.momentum == 1:
            raise NescioError("momentum must be below 1, with which the centroids would never move")
        for kind, given, known in (
            ("side of the penalty (its weight is gradient_penalty)", penalty, SIDES),
            ("penalty_target", penalty_target, TARGETS),
        ):
            if given not in known:
                raise unknown_name(kind, given, known)
        if not isinstance(learn_length_scale, bool):
            raise NescioError(
                f"learn_length_scale must be True or False, not {learn_length_scale!r}"
            )
        self.penalty, self.penalty_target, self.learn_length_scale = (
            penalty,
            penalty_target,
            learn_length_scale,
        )
        self.weight_spread = check_float("weight_spread", weight_spread, least=1e-6, most=1e6)
        if self.gradient_penalty and any(hasattr(module, "_orig_mod") for module in net.modules()):
            raise NescioError(
                "torch.compile makes networks that cannot be differentiated twice, as a gradient penalty "
                "asks for; compile after training"
            )
        shape = self.classes, self.centroid_size
        size = self.classes * self.centroid_size * self.features
        check_int("classes × centroid_size × features", size, below=2**40)
        self.weight = nn.Parameter(
            torch.randn(*shape, self.features) * self.weight_spread
        )  # W (C, n, d)
        self.register_buffer("counts", torch.full((self.classes,), COUNT))  # N (C,)
        self.register_buffer("centroids", torch.randn(shape))  # e (C, n)
        self.register_buffer("met", torch.zeros(self.classes, dtype=torch.bool))
        if learn_length_scale:
            self.log_length_scale = nn.Parameter(
                torch.full((self.classes,), math.log(self.length_scale))
            )

    counts: Tensor
    centroids: Tensor
    met: Tensor

    def forward(self, x: Tensor) -> Tensor:
        return self._log_kernels(self._features(self.normalise(x)))

    def loss(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        y = self._labels(x, y)
        self._meet(y)
        x = self.normalise(x)
        if self.gradient_penalty == 0:
            logits = self._log_kernels(self._features(x))
            return cross_entropies(logits, y), logits
        own = not x.requires_grad  # else its gradient is wanted, by whoever made it
        x = x.detach().requires_grad_() if own else x
        with cheap_twice(x if own else None):
            features = self._features(x)
            logits = self._log_kernels(features)
            norms = slopes_of(self._penalised(features, logits), x)
        return cross_entropies(logits, y) + self.gradient_penalty * gradient_penalty(
            norms, self.penalty
        ), logits

    def validation_loss(self, logits: Tensor, y: Tensor) -> Tensor:
        """The cross-entropies of its kernels, as in training; a softmax would only compare them with each other."""
        return cross_entropies(logits[0], y)

    @torch.no_grad()
    def after_step(self, x: Tensor, y: Tensor) -> None:
        """Move the centroids of the classes in the batch, as the new weights see it (equations 4 to 6); others stay.

        With `e = m / N`, a step is `e ← e + (1 − γ) n / N · (mean − e)` for a class with n inputs, of the new N. The
        sum m of a class that is long absent would shrink to nothing, as its N does.
        """
        y = self._labels(x, y)
        with in_eval(self):
            features = self._features(self.normalise(x)).to(self.weight.dtype)
        own = F.one_hot(y, self.classes).to(features.dtype)  # (N, C)
        present = own.sum(0)
        with torch.autocast(
            features.device.type, enabled=False
        ):  # a small share of a coarse number would be lost
            means = (
                torch.einsum("cnd,cd->cn", self.weight, own.T @ features)
                / present.clamp(min=1)[:, None]
            )
        self.counts.lerp_(present, 1 - self.momentum)
        share = torch.where(present > 0, (1 - self.momentum) * present / self.counts, 0.0)
        self.centroids.lerp_(means, share[:, None])
        self.met.logical_or_(present > 0)

    def confidence(self, logits: Tensor) -> Tensor:
        """The paper's certainty, `max_c K_c`."""
        return mean_kernels(logits).amax(-1)

    def log_confidence(self, logits: Tensor) -> Tensor:
        return logits[0].amax(-1)

    def kernel_features(self) -> nn.Module:
        return nn.Sequential(self.normalise, self.net)

    def last_known(
        self, slope: Tensor, intercept: Tensor, begin: Tensor, end: Tensor, eps: float
    ) -> Tensor:
        """Return the last t at which a kernel is at least `eps`: each log-kernel is a concave quadratic in t."""
        parabolas = self._log_kernels_along(slope, intercept)
        return last_at_least(*parabolas, math.log(eps), begin, end)

    def limit_confidence(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Return the largest kernel that does not fall along the ray."""
        a, _, c = self._log_kernels_along(slope, intercept)
        return c.masked_fill(a < 0, -torch.inf).amax(1).exp()

    def settings(self) -> dict[str, Any]:
        names = (
            "classes",
            "centroid_size",
            "length_scale",
            "gradient_penalty",
            "penalty",
            "momentum",
            "penalty_target",
            "learn_length_scale",
            "weight_spread",
            "features",
        )
        return {name: getattr(self, name) for name in names}

    def _features(self, x: Tensor) -> Tensor:
        features: Tensor = self.net(x)
        if not isinstance(features, Tensor):
            raise NescioError(
                f"the network must return a tensor of features, not {type(features).__name__}"
            )
        if features.shape != (len(x), self.features):
            raise NescioError(
                f"the network gives features of shape {tuple(features.shape)} for {len(x)} inputs, "
                f"not ({len(x)}, {self.features}), as this DUQ was made for; see features="
            )
        if (
            self.training_step is None and not features.isfinite().all()
        ):  # in training the loop tells, and of checkpoints too
            raise NescioError("the network gives features that are NaN or infinite")
        return features

    def _log_kernels(self, features: Tensor) -> Tensor:
        """`(N, C)` of features `(N, d)`."""
        seen = F.linear(features, self.weight.flatten(0, 1)).view(
            -1, self.classes, self.centroid_size
        )
        distances = (seen - self.centroids).square().mean(2)
        if self.learn_length_scale:
            return -0.5 * distances * torch.exp(-2 * self.log_length_scale)
        return distances * (-0.5 / self.length_scale**2)

    def _log_kernels_along(self, slope: Tensor, intercept: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The log-kernels `a t² + b t + c` along features `slope · t + intercept`, `(P, C)` each, no a above 0."""
        weight = self.weight.detach().double()
        scale = torch.as_tensor(self.length_scale, dtype=torch.float64).expand(self.classes)
        if self.learn_length_scale:
            scale = self.log_length_scale.detach().double().exp()
        factor = -0.5 / scale.square()
        towards = torch.einsum("cnd,pd->pcn", weight, slope)
        offset = torch.einsum("cnd,pd->pcn", weight, intercept) - self.centroids.double()
        b = 2 * factor * (towards * offset).mean(2)
        return factor * towards.square().mean(2), b, factor * offset.square().mean(2)

    def _penalised(self, features: Tensor, logits: Tensor) -> Tensor:
        if self.penalty_target == "features":
            return hutchinson(features)
        return (
            logits.exp().sum(1) if self.penalty_target == "kernel sum" else hutchinson(logits.exp())
        )

    def _labels(self, x: Tensor, y: Tensor) -> Tensor:
        """Labels `(N,)` of the classes there are, or an error; the training loop has looked at its own."""
        if self.training_step is not None:
            return y
        if not isinstance(y, Tensor):
            raise NescioError(f"labels must be a tensor of whole numbers, not {type(y).__name__}")
        y = as_int64(y)
        if len(x) == 0 or len(x) != len(y):
            raise NescioError(
                f"a batch of {len(x)} inputs with {len(y)} labels; expected one or more of both alike"
            )
        check_labels(y, self.classes)
        return y

    def _meet(self, y: Tensor) -> None:
        """An error if no second class has been seen: there is nothing yet that a centroid could be told from."""
        if (y == y[0]).all() and not (self.met.sum() - self.met[y[0]].long()):
            raise NescioError(
                f"a batch of {len(y)} with one class only, {int(y[0])}, before any other was seen; DUQ "
                "tells classes from each other, so it must begin with a batch that holds two: use larger "
                "batches"
            )


def cross_entropies(log_kernels: Tensor, y: Tensor) -> Tensor:
    """Binary cross-entropies of kernels against one-hot labels (equation 3), the mean over inputs and classes.

    `log K` is never made from K, so a kernel that underflows still has its loss and its gradient; one that rounds to 1
    is taken as far from 1 as its type can tell.

    >>> cross_entropies(torch.tensor([[-1000.0, 0.0]]), torch.tensor([0]))
    tensor(507.9712)
    """
    own = F.one_hot(y, log_kernels.shape[1]).bool()
    return -torch.where(own, log_kernels, log1mexp(log_kernels)).mean()


def log1mexp(log_k: Tensor) -> Tensor:
    """`log(1 − exp(log_k))` of `log_k ≤ 0`, exact next to 0 and far from it (Mächler 2012)."""
    log_k = log_k.clamp(max=-torch.finfo(log_k.dtype).eps)
    near = log_k > -math.log(2)
    # what a branch is not taken for is put where its gradient is finite
    close = torch.log(-torch.expm1(torch.where(near, log_k, -1.0)))
    return torch.where(near, close, torch.log1p(-torch.where(near, -1.0, log_k).exp()))


def _width(net: nn.Module) -> int:
    width = feature_width(net)
    if width is None:
        raise NescioError("this network does not tell how many features it gives; say features=…")
    return width
