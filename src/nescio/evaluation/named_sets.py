"""The named sets of unknown data that a model is judged by, and those among them that are made from the known data."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from nescio.data.noise import MADE, made
from nescio.errors import NescioError, unknown_name
from nescio.evaluation.adversarial import ADVERSARIAL, adversarial_set, in_memory
from nescio.methods.method import Method
from nescio.records import Against

KNOWN = "known"  # what the known data are called beside them


def named_sets(unknown: Mapping[str, Any] | Sequence[str] | None) -> Mapping[str, Any]:
    """Unknown data by name, or an error; a name alone stands for what it names."""
    if isinstance(unknown, list | tuple) and all(isinstance(name, str) for name in unknown):
        unknown = {name: name for name in unknown}
    sets = {} if unknown is None else unknown
    if not isinstance(sets, Mapping) or not all(isinstance(name, str) for name in sets):
        raise NescioError(
            "unknown data must come with names: {'noise': data, …}, or be names of what can be made"
        )
    if KNOWN in sets:
        raise NescioError("unknown data may not be called 'known': the name is taken")
    return sets


def made_set(
    name: str,
    method: Method,
    known: Any,
    attacked: int,
    *,
    batch_size: int,
    seed: int,
    progress: bool | None,
) -> tuple[Any, Against | None]:
    """What a name stands for, made from the known data; of an attack, tried on so many inputs, also how it went."""
    if name not in (*MADE, *ADVERSARIAL):
        raise unknown_name("set of unknown data", name, (*MADE, *ADVERSARIAL))
    if name not in ADVERSARIAL:
        return made(name, in_memory(known), seed), None
    found = adversarial_set(
        name, method, known, attacked, batch_size=batch_size, seed=seed, progress=progress
    )
    return found.samples, Against(found.tried, **asdict(found.how))
