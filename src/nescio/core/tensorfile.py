"""Tensors and plain data in one file, without pickle: safetensors with a JSON header, whole or not there."""

import hashlib
import json
import os
from collections.abc import Collection
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from nescio.data.arrays import tensor_bytes
from nescio.errors import NescioError
from nescio.files import atomic_write
from nescio.records.json_text import parse_json

FORMAT = 1


def write_tensors(
    path: str | os.PathLike[str],
    kind: str,
    tensors: dict[str, Tensor],
    about: dict[str, Any],
    force: bool = False,
) -> None:
    """Write tensors with the plain data that explains them; `kind` says what the file is (a checkpoint, a model)."""
    # clones, since tied weights share memory, which the format cannot express
    own = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    plain = {"kind": kind, "format": FORMAT, **about}
    header = {"nescio": json.dumps({**plain, "digest": _digest(own, plain)}, allow_nan=False)}
    with atomic_write(path, force=force) as file:
        file.write(save(own, header))


def read_tensors(
    path: str | os.PathLike[str], kind: str, keys: Collection[str] | None = None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a file of that kind back: its tensors and its plain data, which may have these keys alone, if any are given.

    Kind and format come before the digest, so that a file of a newer version says that it is one.
    """
    name = os.fspath(path)
    try:
        with safe_open(name, framework="pt") as file:
            about = parse_json((file.metadata() or {}).get("nescio", "null"))
            # clones, since memory mapped from a file is aligned differently, and then sums round differently
            tensors = {key: file.get_tensor(key).clone() for key in file.keys()}  # noqa: SIM118 - no mapping
    except FileNotFoundError as error:
        raise NescioError(f"no such file: {name!r}") from error
    except (SafetensorError, OSError, ValueError) as error:
        raise NescioError(f"{name!r} is not a whole nescio {kind}: {error}") from error
    if not isinstance(about, dict) or about.get("kind") != kind:
        raise NescioError(f"{name!r} is not a nescio {kind}")
    if (version := about.get("format")) != FORMAT:
        raise NescioError(
            f"{name!r} has format {version!r}; this version of nescio reads format {FORMAT}"
        )
    digest = about.pop("digest", None)
    if digest is None:
        raise NescioError(
            f"{name!r} is not a whole nescio {kind}: it lacks the digest of its contents"
        )
    if digest != _digest(tensors, about):
        raise NescioError(
            f"{name!r} is not a whole nescio {kind}: its contents do not have the digest {str(digest)[:12]}…"
        )
    rest = {key: value for key, value in about.items() if key not in ("kind", "format")}
    if keys is not None and (strange := sorted(rest.keys() - set(keys))):
        raise NescioError(
            f"{name!r} says {', '.join(strange)[:100]!r}, which no {kind} does; expected {', '.join(keys)}"
        )
    return tensors, rest


def _digest(tensors: dict[str, Tensor], plain: dict[str, Any]) -> str:
    """Of all a file holds: tells damage and careless changes, though not those of someone who writes a new digest."""
    found = hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
    for name, value in sorted(tensors.items()):
        found.update(f"{name} {value.dtype} {tuple(value.shape)};".encode())
        found.update(tensor_bytes(value).numpy().data)
    return found.hexdigest()


def state_of(module: torch.nn.Module, prefix: str) -> dict[str, Tensor]:
    """A module's state with a prefix before each name, or an error if it is more than tensors."""
    state = module.state_dict()
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise NescioError(
                f"{name!r} in the model's state is a {type(value).__name__}; only tensors can be saved"
            )
    return {f"{prefix}.{name}": value for name, value in state.items()}


def restore(
    module: torch.nn.Module,
    tensors: dict[str, Tensor],
    prefix: str,
    path: str | os.PathLike[str],
    assign: bool = False,
) -> None:
    """Put a state back into a module, or say why the two do not fit; `assign` puts the very tensors there."""
    state = {
        name.removeprefix(f"{prefix}."): value
        for name, value in tensors.items()
        if name.startswith(f"{prefix}.")
    }
    try:
        module.load_state_dict(state, assign=assign)
    except RuntimeError as error:
        raise NescioError(
            f"{os.fspath(path)!r} holds the weights of another network: {error}"
        ) from error
