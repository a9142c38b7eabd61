"""Unknown data by name, made for a model of known data: `held_out`, `uniform`, `normal`, `far`, any set or file."""

from pathlib import Path

from nescio.data import Known, Samples, adapt, load, read
from nescio.data.catalogue import NAMES
from nescio.data.noise import far, normal, uniform
from nescio.errors import NescioError, unknown_name

MADE = ("held_out", "uniform", "normal", "far")  # these follow from the known data itself


def unknown_set(name: str, known: Known, root: str | None = None, seed: int = 0) -> Samples:
    """The inputs that a name stands for, in the shape the known data has."""
    if name == "held_out":
        if known.held_out is None:
            raise NescioError(f"no classes of {known.name} were held out; train with --hold-out, or hold_out=[…]")
        return known.held_out
    if name == "uniform":
        return uniform(known.test, len(known.test), seed=seed)
    if name == "normal":
        return normal(known.test, len(known.test), seed=seed)
    if name == "far":
        return far(known.test)
    if name in NAMES:
        return adapt(load(name, root=root, impute=True).test, known.shape)
    if not Path(name).exists() and not any(mark in name for mark in "/.\\"):
        raise unknown_name("set of unknown data", name, [*MADE, *NAMES])
    return adapt(read(name, encoding=known.encoding), known.shape)
