"""Unknown data by name, made for a model of known data: `unseen`, kinds of noise, `far`, any set or file."""

import os
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from nescio.data import Known, Samples, adapt, load, read
from nescio.data.noise import MADE, NOISES, made
from nescio.data.sources.catalogue import NAMES
from nescio.data.table import ZEROS
from nescio.errors import NescioError, unknown_name
from nescio.evaluation.adversarial import ADVERSARIAL
from nescio.evaluation.named_sets import KNOWN

Reader = Callable[[str], Samples]


def unknown_sets(
    names: Iterable[str],
    known: Known,
    root: str | None = None,
    seed: int = 0,
    reader: Reader | None = None,
) -> dict[str, Any]:
    """What `evaluate` is to judge against, by name; what an attack makes it makes itself, and so stays a name."""
    return {
        name: word if word in ADVERSARIAL else unknown_set(word, known, root, seed, reader)
        for name, word in set_names(names).items()
    }


def set_names(given: Iterable[str]) -> dict[str, str]:
    """What to call each set of unknown data: as it was given or, of a file or folder, by its stem.

    Where that is what another set is called, or one that is made, as much of the path is added as tells it apart.

    >>> set_names(["noise", "data/notmnist.npz", "data/far.csv.gz"])
    {'noise': 'noise', 'notmnist': 'data/notmnist.npz', 'far.csv.gz': 'data/far.csv.gz'}
    """
    special = {KNOWN, "unseen", *MADE, *ADVERSARIAL}
    ours = {*special, *NAMES}
    words = {word if word in ours else os.path.abspath(word): word for word in given}  # each once
    ways = {where: [where] if where in ours else _ways(Path(where)) for where in words}
    while True:
        first = {where: names[0] for where, names in ways.items()}
        taken = Counter([*special, *first.values()])
        clash = [where for where in words if where not in ours and taken[first[where]] > 1]
        if not clash:
            return {first[where]: word for where, word in words.items()}
        for where in clash:
            ways[where].pop(0)


def _ways(path: Path) -> list[str]:
    """Names for a file or folder, from its stem to the whole of its path."""
    stem = (
        path.name
        if path.is_dir()
        else Path(path.name.removesuffix(".gz").removesuffix(".bz2")).stem
    )
    return [
        stem or str(path),
        *(str(Path(*path.parts[-parts:])) for parts in range(1, len(path.parts) + 1)),
    ]


def outliers(name: str, known: Known, root: str | None = None) -> Samples:
    """Inputs to learn not to know: the training part of a data set, or a file, in the shape the known data has."""
    if name in NAMES:
        found = load(name, root=root, impute=True)
        return adapt(found.test if found.train is None else found.train, known.shape)
    return _from_file(name, known, "noise", [*NOISES, *NAMES])


def unknown_set(
    name: str, known: Known, root: str | None = None, seed: int = 0, reader: Reader | None = None
) -> Samples:
    """The inputs that a name stands for, in the shape the known data has; `reader` reads files, if they are others."""
    if name == "unseen":
        if known.unseen is None:
            raise NescioError(
                f"no classes of {known.name} were held out; train with --unseen, or unseen=[…]"
            )
        return known.unseen
    if name in MADE:
        return made(name, known.test, seed)
    if name in NAMES:
        if known.kind == "inputs":
            raise NescioError(
                f"{name} has values of its own range, but the network takes `inputs` as they are; give "
                "the unknown data as a file of such"
            )
        return adapt(load(name, root=root, impute=True).test, known.shape)
    return _from_file(
        name, known, "set of unknown data", ["unseen", *MADE, *ADVERSARIAL, *NAMES], reader
    )


def _from_file(
    name: str, known: Known, kind: str, others: list[str], reader: Reader | None = None
) -> Samples:
    """A file's inputs, or an error that names what else there is if this cannot be one."""
    if not Path(name).exists() and not any(mark in name for mark in "/.\\"):
        raise unknown_name(kind, name, others)
    if reader is not None:
        return reader(name)
    return adapt(read(name, encoding=known.encoding, unseen_category=ZEROS), known.shape)
