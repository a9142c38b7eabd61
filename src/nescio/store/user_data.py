"""Data of the user's as a network takes them: floats or whole numbers, with labels numbered as its outputs are."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from nescio.core.forward import embedding_sizes
from nescio.core.predict import predict
from nescio.data import Encoding, Samples, adapt
from nescio.data.formats.csv import read_csv
from nescio.data.read import is_table, read_parts, relabelled
from nescio.errors import NescioError
from nescio.store.run import Facts


def taken(net: nn.Module, parts: Mapping[str, Samples]) -> tuple[int, Mapping[str, Samples]]:
    """How many classes a network answers, and the parts as it takes them: whole numbers as such, or else as floats.

    Those of images would then be bytes where a network expects [0, 1], so only rows of a table are.
    """
    floats = {part: samples.floats() for part, samples in parts.items()}
    words = [part for part, samples in parts.items() if samples is not floats[part]]
    if "test" not in words:
        return _outputs(net, floats["test"]), floats
    try:
        outputs = _outputs(net, parts["test"])
    except NescioError:
        if embedding_sizes(net) or len(parts["test"].shape) > 1:
            raise
        return _outputs(net, floats["test"]), floats
    if len(words) < len(parts):
        raise NescioError(
            "the data hold whole numbers, but the data to learn from do not; give both in one way"
        )
    return outputs, parts


def _outputs(net: nn.Module, samples: Samples) -> int:
    """How many classes a network answers."""
    return predict(net, samples.take(slice(2))[0], progress=False).shape[2]


def columns(path: Path, label: str | None) -> Encoding | None:
    """The columns of a CSV file that go to the network, as numbers; None of other files."""
    if not is_table(path):
        return None
    return Encoding.numeric(name for name in read_csv(path) if name != label)


def read(
    path: Path, label: str | None, encoding: Encoding | None, part: str
) -> tuple[Samples, tuple[str, ...], str]:
    """The part of that name, or what there is, the names of its classes, and whether it is "images" or "inputs"."""
    parts = read_parts(path, label, encoding, any_shape=True)
    part = part if part in parts.samples else next(iter(parts.samples))
    samples = parts.samples[part]
    images = len(samples.shape) == 3 and part not in parts.unchanged
    return samples, parts.classes, "images" if images else "inputs"


def of_run(about: Facts, path: Path, label: str | None, part: str) -> Samples:
    """Data in the shape that the model of a run takes, with labels as it numbers them, or −1."""
    parts = read_parts(path, label, about.encoder())
    samples = adapt(parts.samples.get(part) or next(iter(parts.samples.values())), about.shape)
    found = labelled(samples, parts.classes, about.classes)
    return found if isinstance(found, Samples) else samples


def labelled(samples: Samples, own: tuple[str, ...], classes: tuple[str, ...]) -> Any:
    """Samples with labels as the network numbers them, or the inputs alone if they have none."""
    if bool((samples.labels < 0).all()):
        return samples.take(slice(None))[0]
    found = relabelled(samples, own, classes, samples.name)
    if bool((found.labels < 0).any()):
        first = int(samples.labels[found.labels < 0][0])
        raise NescioError(
            f"an input has the label {own[first] if own else first!r}, which is none of the "
            f"classes {', '.join(classes)}; --class-names names them in the outputs' order"
        )
    return found
