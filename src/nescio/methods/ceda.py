"""CEDA: also trained to be uncertain on noise (Hein et al. 2019, equations 1 to 3)."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset, default_collate

from nescio.data.batches import fingerprint, length
from nescio.data.noise import NOISES
from nescio.data.samples import Samples
from nescio.errors import NescioError, check_float, check_name, unknown_name
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
