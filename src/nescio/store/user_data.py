"""Data of the user's as a network takes them, with labels numbered as its outputs are."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from nescio.core.forward import embedding_sizes
from nescio.core.predict import predict
from nescio.data import Encoding, Samples, adapt
from nescio.data.formats.csv import read_csv
from nescio.data.load import is_table, read_parts, relabelled
from nescio.errors import NescioError
from nescio.store.run import Facts


@dataclass(frozen=True)
class UserData:
    """Known data in files of the user's, by part: "test" and perhaps "train".

    Attributes:
        paths: where each part was read from.
        samples: its inputs and labels.
        classes: the names of its classes, which its labels number.
        kinds: "images", in [0, 1], or "inputs", as they are.
        encoding: how the columns of a CSV file become features; None of other files.
    """

    paths: dict[str, Path]
    samples: dict[str, Samples]
    classes: dict[str, tuple[str, ...]]
    kinds: dict[str, str]
    encoding: Encoding | None

    @classmethod
    def read(
        cls, data: Path, train: Path | None, label: str | None, encoding: Encoding | None = None
    ) -> "UserData":
        """Read the parts; columns of a CSV file are numbers, unless there is an encoding."""
        if encoding is None and is_table(data):
            encoding = Encoding.numeric(name for name in read_csv(data) if name != label)
        paths = {"test": data} if train is None else {"test": data, "train": train}
        user = cls(paths, {}, {}, {}, encoding)
        for name, path in paths.items():
            parts = read_parts(path, label, encoding, any_shape=True)
            part = name if name in parts.samples else next(iter(parts.samples))
            samples = parts.samples[part]
            images = len(samples.shape) == 3 and part not in parts.unchanged
            user.samples[name], user.classes[name] = samples, parts.classes
            user.kinds[name] = "images" if images else "inputs"
        return user

    def check_same_kind(self) -> None:
        """Raise an error if one part is images, and the other inputs as they are."""
        if len(set(self.kinds.values())) > 1:
            parts = ", ".join(f"{self.paths[part]} has {kind}" for part, kind in self.kinds.items())
            reason = "images are scaled to [0, 1], and `inputs` are left as they are"
            raise NescioError(f"{parts}; give both in one way, since {reason}")

    def as_taken_by(self, net: nn.Module) -> tuple[int, Mapping[str, Samples]]:
        """Return how many classes a network has, and the parts as it takes them.

        Whole numbers stay such for a network that looks them up; others get floats. Images would
        then be bytes where a network expects [0, 1], so only rows of a table may stay.
        """
        floats = {part: samples.floats() for part, samples in self.samples.items()}
        whole = [part for part, samples in self.samples.items() if samples is not floats[part]]
        if "test" not in whole:
            return _outputs(net, floats["test"]), floats
        try:
            outputs = _outputs(net, self.samples["test"])
        except NescioError:
            if embedding_sizes(net) or len(self.samples["test"].shape) > 1:
                raise
            return _outputs(net, floats["test"]), floats
        if len(whole) < len(self.samples):
            difference = "the data hold integers, but the data to learn from do not"
            raise NescioError(f"{difference}; give both in one way")
        return outputs, self.samples

    def numbered(
        self, samples: Mapping[str, Samples], classes: tuple[str, ...]
    ) -> dict[str, Samples]:
        """Return the parts with labels as the network numbers them, if they have any."""
        return {part: numbered(samples[part], self.classes[part], classes) for part in samples}


def _outputs(net: nn.Module, samples: Samples) -> int:
    return predict(net, samples.take(slice(2))[0], progress=False).shape[2]


def of_run(about: Facts, path: Path, label: str | None, part: str) -> Samples:
    """Read data in the shape that the model of a run takes, with labels as it numbers them."""
    parts = read_parts(path, label, about.encoder())
    samples = adapt(parts.samples.get(part) or next(iter(parts.samples.values())), about.shape)
    return numbered(samples, parts.classes, about.classes)


def numbered(samples: Samples, names: tuple[str, ...], classes: tuple[str, ...]) -> Samples:
    """Return samples with labels as the network numbers them; those without labels keep −1."""
    if not _has_labels(samples):
        return samples
    result = relabelled(samples, names, classes, samples.name)
    if bool((result.labels < 0).any()):
        first = int(samples.labels[result.labels < 0][0])
        raise NescioError(
            f"an input has the label {names[first] if names else first!r}, which is none of the "
            f"classes {', '.join(classes)}; --class-names names them in the outputs' order"
        )
    return result


def with_labels(samples: Samples | None) -> Any:
    """Return samples, or their inputs alone if they have no labels."""
    if samples is None or _has_labels(samples):
        return samples
    return samples.take(slice(None))[0]


def _has_labels(samples: Samples) -> bool:
    return not bool((samples.labels < 0).all())
