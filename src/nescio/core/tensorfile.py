"""Tensors and plain data in one file, without pickle: safetensors with a JSON header."""

import hashlib
import json
import os
from collections.abc import Collection
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from nescio.data.arrays import tensor_bytes
from nescio.errors import NescioError, check_path
from nescio.files import atomic_write
from nescio.records.plain import parse_json

FORMAT = 1
FilePath = str | os.PathLike[str]
Tensors = dict[str, Tensor]


def write_tensors(
    path: FilePath, kind: str, tensors: Tensors, about: dict[str, Any], force: bool = False
) -> None:
    """Write tensors with the plain data that explain them; `kind` is that of the file."""
    # clones, since tied weights share memory, which the format cannot express
    copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    header = {"kind": kind, "format": FORMAT, **about}
    text = json.dumps({**header, "digest": _digest(copies, header)}, allow_nan=False)
    with atomic_write(path, force=force) as file:
        file.write(save(copies, {"nescio": text}))


def read_tensors(
    path: FilePath, kind: str, keys: Collection[str] | None = None
) -> tuple[Tensors, dict[str, Any]]:
    """Return the tensors and plain data of a file of that kind; `keys` are all the data may have.

    Kind and format are checked before the digest, to report a file of a newer version as such.
    """
    folder = check_path(f"the file of a {kind}", path)
    name = os.fspath(path)
    if folder.is_dir():
        files = sorted(folder.glob("*.safetensors"))
        hint = f", such as {os.fspath(files[0])!r}" if files else ""
        raise NescioError(f"{name!r} is a folder; expected the file of a {kind}{hint}")
    try:
        with safe_open(name, framework="pt") as file:
            about = parse_json((file.metadata() or {}).get("nescio", "null"))
            # clones: memory mapped from a file is aligned differently, and sums round differently
            names = file.keys()
            tensors = {key: file.get_tensor(key).clone() for key in names}
    except FileNotFoundError as error:
        raise NescioError(f"no such file: {name!r}") from error
    except (SafetensorError, OSError, ValueError) as error:
        raise NescioError(f"{name!r} is not a whole nescio {kind}: {error}") from error
    if not isinstance(about, dict) or about.pop("kind", None) != kind:
        raise NescioError(f"{name!r} is not a nescio {kind}")
    if (version := about.pop("format", None)) != FORMAT:
        reads = f"this version of nescio reads format {FORMAT}"
        raise NescioError(f"{name!r} has format {version!r}; {reads}")
    digest = about.pop("digest", None)
    if digest != _digest(tensors, {"kind": kind, "format": FORMAT, **about}):
        problem = f"its contents do not have the digest {str(digest)[:12]}…"
        problem = "it lacks the digest of its contents" if digest is None else problem
        raise NescioError(f"{name!r} is not a whole nescio {kind}: {problem}")
    if keys is not None and (unknown := sorted(about.keys() - set(keys))):
        says = f"says {', '.join(unknown)[:100]!r}, which no {kind} does"
        raise NescioError(f"{name!r} {says}; expected {', '.join(keys)}")
    return tensors, about


def _digest(tensors: Tensors, header: dict[str, Any]) -> str:
    """Of all a file holds: shows damage and careless changes, not deliberate ones."""
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name, value in sorted(tensors.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)};".encode())
        digest.update(tensor_bytes(value).numpy().data)
    return digest.hexdigest()


def prefixed_state(module: nn.Module, prefix: str) -> Tensors:
    """Return a module's state with a prefix before each name, or raise if it is not all tensors."""
    state = module.state_dict()
    for name, value in state.items():
        if not isinstance(value, Tensor):
            what = f"{name!r} in the model's state is a {type(value).__name__}"
            raise NescioError(f"{what}; only tensors can be saved")
    return {f"{prefix}.{name}": value for name, value in state.items()}


def load_prefixed_state(
    module: nn.Module, tensors: Tensors, prefix: str, path: FilePath, assign: bool = False
) -> None:
    """Load a state into a module, or raise; `assign` puts the tensors themselves there."""
    start = f"{prefix}."
    state = {k.removeprefix(start): value for k, value in tensors.items() if k.startswith(start)}
    try:
        module.load_state_dict(state, assign=assign)
    except RuntimeError as error:
        name = os.fspath(path)
        raise NescioError(f"{name!r} holds the weights of another network: {error}") from error
