"""What a method learns not to know: noise made from each batch, or inputs that the user brings."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, default_collate

from nescio.data.labelled import fingerprint, stable_repr
from nescio.data.noise import NOISES
from nescio.data.samples import Samples
from nescio.errors import NescioError, unknown_name

BROUGHT = "outliers"  # what settings call data of the user's, which are not saved with a model


class Outliers:
    """An out-distribution: a batch of it for each batch of known inputs, drawn from torch's global generator.

    Args:
        noise: a name in `nescio.data.noise.NOISES`, a data set or tensor of outliers, or a function of a batch.
    """

    def __init__(self, noise: Any) -> None:
        if isinstance(noise, Tensor) and noise.dim():
            noise = Samples(noise, torch.full((len(noise),), -1))
        if isinstance(noise, tuple) and len(noise) == 2:
            noise = Samples(*noise)
        if isinstance(noise, str) and noise not in (*NOISES, BROUGHT):
            raise unknown_name("noise", noise, NOISES)
        if isinstance(noise, type | Tensor) or not (
            isinstance(noise, str | Dataset) or callable(noise)
        ):
            raise NescioError(
                f"noise must be a name ({', '.join(NOISES)}), a data set of outliers or a function of a "
                f"batch, not {type(noise).__name__}"
            )
        if isinstance(noise, Dataset) and (
            isinstance(noise, IterableDataset) or not hasattr(noise, "__len__") or len(noise) == 0
        ):
            raise NescioError(
                "a data set of outliers must have a length above 0, and items by position"
            )
        self.noise = noise

    def __deepcopy__(self, memo: dict[int, Any]) -> "Outliers":
        return self  # data are read, never written

    @property
    def name(self) -> str:
        """A name in `NOISES`, or "outliers" for what the user brought."""
        return self.noise if isinstance(self.noise, str) else BROUGHT

    def __repr__(self) -> str:
        if isinstance(self.noise, Dataset):
            return f"{BROUGHT}: {fingerprint(self.noise)}"
        return (
            self.noise if isinstance(self.noise, str) else f"{BROUGHT}: {stable_repr(self.noise)}"
        )

    def like(self, x: Tensor) -> Tensor:
        """As many inputs as the batch `(N, …)` has, on its device and in its type."""
        made = self._made(x)
        if not isinstance(made, Tensor) or made.shape != x.shape:
            given = tuple(made.shape) if isinstance(made, Tensor) else type(made).__name__
            raise NescioError(
                f"noise for inputs of shape {tuple(x.shape)} has the shape {given}; expected the same"
            )
        if not made.is_floating_point():
            raise NescioError(f"the noise is {made.dtype}; expected floats, images in [0, 1]")
        if not made.isfinite().all():
            raise NescioError("the noise holds NaN or infinite values")
        return made.detach().to(x.device, x.dtype)

    def _made(self, x: Tensor) -> Any:
        if self.noise == BROUGHT:
            raise NescioError(
                "this model learned from outliers that are not saved with it; to train it further, make "
                "it with noise=… and load its weights"
            )
        if isinstance(self.noise, Dataset):
            return self._taken(torch.randint(len(self.noise), (len(x),)))  # type: ignore[arg-type]
        make: Callable[[Tensor], Any] = (
            NOISES[self.noise] if isinstance(self.noise, str) else self.noise
        )
        return make(x)

    def _taken(self, index: Tensor) -> Any:
        """Inputs at some positions; their labels, if they have any, do not matter."""
        if isinstance(self.noise, Samples):
            return self.noise.take(index)[0]
        try:
            batch = default_collate([self.noise[position] for position in index.tolist()])
        except (RuntimeError, TypeError) as error:
            raise NescioError(f"the outliers do not make a batch: {error}") from error
        return batch[0] if isinstance(batch, list | tuple) else batch
