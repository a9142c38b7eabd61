"""CEDA and ACET: also trained to be uncertain on noise (Hein et al. 2019, equations 1 to 5)."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset, default_collate

from nescio.core.attacks import Attack, ascend, freeze_weights
from nescio.core.model_state import in_eval
from nescio.data.batches import fingerprint, length
from nescio.data.noise import NOISES
from nescio.data.samples import Samples
from nescio.data.transforms import Normalise
from nescio.errors import NescioError, check_float, check_int, check_name, unknown_name
from nescio.methods.method import Method, stable_repr

OUT_LOSSES = ("confidence", "uniform")
USER_NOISE = "outliers"  # what settings call data of the user, which are not saved with a model


class CEDA(Method):
    """A softmax network that is also trained to be uncertain on noise (Hein et al. 2019).

    Its loss is the cross-entropy of known inputs plus `weight` times the mean of `max_k log p_k` of
    as many noise inputs, whose minimum, −log K, has all classes equal. Both go through the network
    in one batch, so that BatchNorm sees both.

    Args:
        net: a network from inputs to logits.
        noise: a name in `nescio.data.noise.NOISES`; or outliers of your own, a data set or a
            tensor; or a function from a batch of known inputs to as many others.
        weight: λ, of the loss on noise.
        out_loss: "confidence", as above, or "uniform", the cross-entropy to uniform classes.
        normalise: what raw inputs go through first.

    >>> model = CEDA(nescio.models.mlp(2, 3), normalise=known.normalise)
    >>> history = nescio.train(model, known.train, epochs=5)
    >>> noise = nescio.data.noise.samples("mixed", known.test)
    >>> nescio.predict(model, noise).softmax(-1).amax(-1).mean() < 0.8
    tensor(True)
    """

    name = "ceda"
    score = "max_prob"

    def __init__(
        self,
        net: nn.Module,
        noise: Any = "mixed",
        weight: float = 1.0,
        *,
        out_loss: str = "confidence",
        normalise: nn.Module | None = None,
    ) -> None:
        super().__init__(net, normalise)
        self.noise = NoiseSource(noise)
        self.weight = check_float("weight", weight)
        self.out_loss = check_name("out_loss", out_loss, OUT_LOSSES)

    def loss(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        logits, out = self(torch.cat([x, self.outliers(x)])).tensor_split([len(x)])
        return F.cross_entropy(logits, y) + self.weight * self.certainty(out).mean(), logits

    def outliers(self, x: Tensor) -> Tensor:
        """Return the noise `(N, …)` that goes with a batch."""
        return self.noise.like(x)

    def certainty(self, logits: Tensor) -> Tensor:
        """Return the penalty `(N,)` of noise inputs with logits `(N, C)`."""
        log_p = logits.log_softmax(-1)
        return log_p.amax(-1) if self.out_loss == "confidence" else -log_p.mean(-1)

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"noise": self.noise.name}

    def extra_repr(self) -> str:
        return f"noise={self.noise!r}"  # a checkpoint is resumed only with the same outliers


class ACET(CEDA):
    """CEDA whose noise is first made as certain as can be within a small ball (Hein et al. 2019).

    The search is projected gradient ascent in the maximum norm, in eval mode, of images within
    [0, 1]. Of tables, `eps` is in standard deviations of each feature, if the method normalises.

    Args:
        net: a network from inputs to logits.
        noise: a name in `nescio.data.noise.NOISES`, your own outliers, or a function; see `CEDA`.
        eps: radius of the ball.
        steps: of the search.
        step_size: length of a step; by default `eps / steps`, as in the paper.
        weight: λ, of the loss on noise.
        first_steps: steps of a search at the start of training; they grow evenly to `steps` at its
            end. By default `steps` throughout.
        out_loss: "confidence", or "uniform", the cross-entropy to the uniform distribution; the
            search raises the same.
        known_starts: how many known inputs of the batch to try, moved into the ball, as starts of a
            search beside the random one; by default none. Then it stops where the network has
            learned to have no gradient, and a stronger attack finds what is certain near by.
        normalise: what raw inputs go through first.

    >>> model = ACET(nescio.models.mlp(2, 3), steps=5, normalise=known.normalise)
    >>> history = nescio.train(model, known.train, epochs=2)
    >>> noise = nescio.data.noise.samples("mixed", known.test)
    >>> nescio.predict(model, noise).softmax(-1).amax(-1).mean() < 0.8
    tensor(True)
    """

    name = "acet"
    small_data_settings: ClassVar[Mapping[str, Any]] = {"steps": 5}

    def __init__(
        self,
        net: nn.Module,
        noise: Any = "mixed",
        eps: float = 0.3,
        steps: int = 40,
        step_size: float | None = None,
        weight: float = 1.0,
        *,
        first_steps: int | None = None,
        out_loss: str = "confidence",
        known_starts: int | None = None,
        normalise: nn.Module | None = None,
    ) -> None:
        super().__init__(net, noise, weight, out_loss=out_loss, normalise=normalise)
        if known_starts is not None:  # None, so that checkpoints from before it are resumed
            known_starts = check_int("known_starts", known_starts, least=0)
        self.known_starts = known_starts
        self.eps, self.steps = check_float("eps", eps), check_int("steps", steps, least=0)
        self.step_size = None if step_size is None else check_float("step_size", step_size)
        if first_steps is not None:
            first_steps = check_int("first_steps", first_steps, least=0)
            if first_steps > self.steps:
                raise NescioError(f"first_steps must be ≤ steps={steps}, got {first_steps}")
        self.first_steps = first_steps

    def outliers(self, x: Tensor) -> Tensor:
        noise = super().outliers(x)
        images = noise.dim() == 4
        scale = None if images or not isinstance(self.normalise, Normalise) else self.normalise.std
        how = noise, None, self.search(), (0.0, 1.0) if images else None, scale
        most = 0.0 if self.out_loss == "confidence" else math.inf
        with in_eval(self), freeze_weights(self):
            # of a clone, since a network may write to its input
            of = lambda noise, _: self.certainty(self(noise.clone()))  # noqa: E731
            return ascend(of, *how, bound=most, known=x).inputs

    def search(self) -> Attack:
        """Return the attack at this step of the training."""
        steps, now = self.steps, self.training_step
        if self.first_steps is not None and now is not None and now.steps > 1:
            done = now.step / (now.steps - 1)
            steps = round(self.first_steps + done * (self.steps - self.first_steps))
        step_size = self.eps / max(steps, 1) if self.step_size is None else self.step_size
        starts = self.known_starts or 0
        return Attack("confidence", self.eps, steps, step_size, known_starts=starts)


class NoiseSource:
    """An out-distribution: a batch of it for each batch of known inputs, from torch's generator.

    Args:
        noise: a name in `NOISES`, a data set or tensor of outliers, or a function of a batch.
    """

    def __init__(self, noise: Any) -> None:
        if isinstance(noise, Tensor) and noise.dim():
            noise = Samples(noise, torch.full((len(noise),), -1))
        if isinstance(noise, tuple) and len(noise) == 2:
            noise = Samples(*noise)
        if isinstance(noise, str):
            if noise not in (*NOISES, USER_NOISE):
                raise unknown_name("noise", noise, NOISES)
        elif isinstance(noise, Dataset):
            if isinstance(noise, IterableDataset) or not length(noise):
                raise NescioError("outliers must be a data set with positions and a length above 0")
        elif isinstance(noise, type | Tensor) or not callable(noise):
            expected = (
                f"a name ({', '.join(NOISES)}), a data set of outliers or a function of a batch"
            )
            raise NescioError(f"noise must be {expected}, got {type(noise).__name__}")
        self.noise = noise
        self.name = noise if isinstance(noise, str) else USER_NOISE

    def __deepcopy__(self, memo: dict[int, Any]) -> "NoiseSource":
        return self  # data are read, never written

    def __repr__(self) -> str:
        if isinstance(self.noise, Dataset):
            return f"{USER_NOISE}: {fingerprint(self.noise)}"
        return self.noise if self.noise == self.name else f"{self.name}: {stable_repr(self.noise)}"

    def like(self, x: Tensor) -> Tensor:
        """Return as many inputs as the batch `(N, …)` has, on its device and in its dtype."""
        noise = self._batch(x)
        if not isinstance(noise, Tensor) or noise.shape != x.shape:
            got = tuple(noise.shape) if isinstance(noise, Tensor) else type(noise).__name__
            raise NescioError(f"noise must have the shape of its batch, {(*x.shape,)}, got {got}")
        if not noise.is_floating_point():
            raise NescioError(f"noise must be floats, images in [0, 1], got {noise.dtype}")
        if not noise.isfinite().all():
            raise NescioError("the noise holds NaN or infinite values")
        return noise.detach().to(x.device, x.dtype)

    def _batch(self, x: Tensor) -> Any:
        if self.noise == USER_NOISE:
            advice = "to train it further, make it with noise=… and load its weights"
            raise NescioError(f"this model was trained with outliers not saved with it; {advice}")
        if not isinstance(self.noise, Dataset):
            return (NOISES[self.noise] if isinstance(self.noise, str) else self.noise)(x)
        index = torch.randint(len(self.noise), (len(x),))  # type: ignore[arg-type]
        if isinstance(self.noise, Samples):
            return self.noise.take(index)[0]
        try:
            batch = default_collate([self.noise[position] for position in index.tolist()])
        except (RuntimeError, TypeError) as error:
            raise NescioError(f"the outliers do not make a batch: {error}") from error
        return batch[0] if isinstance(batch, list | tuple) else batch  # labels are ignored
