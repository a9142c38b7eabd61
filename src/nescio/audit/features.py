"""Features of an input, by position or by name."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nescio.arrays import items
from nescio.errors import NescioError, check_int, unknown_name


def feature_names(names: Any, width: int) -> list[str]:
    """A name for each of `width` features: those given, checked, or their numbers."""
    if names is None:
        return [f"feature {position}" for position in range(width)]
    if isinstance(names, str) or not isinstance(names, Sequence | np.ndarray):
        raise NescioError(f"names={names!r}; expected a name for each feature")
    found = [str(name) for name in items("names", names)]
    if len(found) != width or len(set(found)) != width:
        again = len(found) - len(set(found))
        raise NescioError(
            f"{len(found)} names, {again} of them given before; expected {width} distinct ones, "
            "one for each feature"
        )
    return found


def positions(features: Any, names: Sequence[str], default: Sequence[int]) -> list[int]:
    """Positions of the features given by position or name, each once; the default if None is given."""
    if features is None:
        return list(default)
    alone = isinstance(features, str) or not hasattr(features, "__iter__")
    given = [features] if alone else items("features", features)
    return list(dict.fromkeys(_position(one, names) for one in given))


def _position(given: Any, names: Sequence[str]) -> int:
    if not isinstance(given, str):
        return check_int("a feature's position", given, least=0, below=len(names))
    if given not in names:
        raise unknown_name("feature", given, names)
    return names.index(given)
