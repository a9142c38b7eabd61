"""Unknown data by name, made for a model of known data: `held_out`, kinds of noise, `far`, any set or file."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from nescio.adversarial import ADVERSARIAL
from nescio.data import Known, Samples, adapt, load, read
from nescio.data.catalogue import NAMES
from nescio.data.noise import MADE, NOISES, made
from nescio.errors import NescioError, unknown_name

Reader = Callable[[str], Samples]


def unknown_sets(
    names: Iterable[str], known: Known, root: str | None = None, seed: int = 0, reader: Reader | None = None
) -> dict[str, Any]:
    """What `evaluate` is to judge against, by name; what an attack makes it makes itself, and so stays a name."""
    return {name: name if name in ADVERSARIAL else unknown_set(name, known, root, seed, reader) for name in names}


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
    if name == "held_out":
        if known.held_out is None:
            raise NescioError(f"no classes of {known.name} were held out; train with --hold-out, or hold_out=[…]")
        return known.held_out
    if name in MADE:
        return made(name, known.test, seed)
    if name in NAMES:
        if known.kind == "inputs":
            raise NescioError(f"{name} has values of its own range, but the network takes `inputs` as they are; give "
                              "the unknown data as a file of such")  # fmt: skip
        return adapt(load(name, root=root, impute=True).test, known.shape)
    return _from_file(name, known, "set of unknown data", ["held_out", *MADE, *ADVERSARIAL, *NAMES], reader)


def _from_file(name: str, known: Known, kind: str, others: list[str], reader: Reader | None = None) -> Samples:
    """A file's inputs, or an error that names what else there is if this cannot be one."""
    if not Path(name).exists() and not any(mark in name for mark in "/.\\"):
        raise unknown_name(kind, name, others)
    if reader is not None:
        return reader(name)
    return adapt(read(name, encoding=known.encoding), known.shape)
