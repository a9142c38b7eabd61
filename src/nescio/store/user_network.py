"""A network of the user's: made by a function that is named, with weights from a file that holds no code."""

import importlib
import inspect
import os
import shlex
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from nescio.core.model_state import check_model, check_values
from nescio.errors import NescioError, unknown_name

PICKLED = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle")


def made_by(spec: str) -> nn.Module:
    """The network that `package.module:factory` makes; modules in the current folder count, after installed ones.

    The factory is called without arguments: a function, a class, or a network itself. This is the one place where code
    of the user's is looked up, and it is so only under a name that the user gave.
    """
    place, mark, name = spec.partition(":")
    if not (mark and place and name) or not all(
        part.isidentifier() for part in f"{place}.{name}".split(".")
    ):
        raise NescioError(
            f"{spec!r} names no factory; expected package.module:factory, such as my_nets:make_net"
        )
    with _current_folder_last():
        found = _named(_module(place), place, name)
        if isinstance(found, nn.Module):
            return check_values(found)
        if not callable(found):
            raise NescioError(
                f"{spec} is a {type(found).__name__}; expected a function or class that makes a network, "
                "or a network"
            )
        _check_needs_nothing(found, spec)
        try:
            made = found()
        except (Exception, SystemExit) as error:  # code of the user's may raise anything
            raise NescioError(f"{spec} raised {type(error).__name__}: {error}") from error
    if not isinstance(made, nn.Module):
        raise NescioError(f"{spec} returned a {type(made).__name__}; expected a torch.nn.Module")
    return check_values(made)


def load_weights(net: nn.Module, path: str | os.PathLike[str]) -> None:
    """Put the weights of a safetensors file into a network, all of them, or say which do not fit."""
    where = os.fspath(path)
    given = _tensors(Path(path))
    own = {name: value for name, value in net.state_dict().items() if isinstance(value, Tensor)}
    there = {own[name].data_ptr() for name in given if name in own}
    # of weights that are tied a file may hold one
    missing = [
        name for name, value in own.items() if name not in given and value.data_ptr() not in there
    ]
    unexpected = [name for name in given if name not in own]
    if missing or unexpected:
        words = [f"it lacks {_some(missing)}"] * bool(missing) + [
            f"it adds {_some(unexpected)}"
        ] * bool(unexpected)
        hint = ". Names with 'module.' before them come from DataParallel: save net.module.state_dict()"
        wrapped = bool(unexpected) and all(name.startswith("module.") for name in unexpected)
        raise NescioError(
            f"{where!r} holds the weights of another network than this {type(net).__name__}: "
            f"{' and '.join(words)}{hint * wrapped}"
        )
    shapes = [
        f"{name} is {tuple(value.shape)}, not {tuple(own[name].shape)}"
        for name, value in given.items()
        if value.shape != own[name].shape
    ]
    if shapes:
        raise NescioError(
            f"{where!r} holds weights of other shapes than this {type(net).__name__} has: "
            f"{_some(shapes, '; ')}"
        )
    # clones, since memory mapped from a file is aligned differently, and then sums round differently
    net.load_state_dict({name: value.clone() for name, value in given.items()}, strict=False)
    check_model(net)


@contextmanager
def _current_folder_last() -> Iterator[None]:
    """A block in which modules of the current folder are found, but never in place of installed ones.

    Once it is over, what torch imports when it needs it cannot be a file that only happens to lie there.
    """
    here = os.getcwd()
    added = here not in sys.path
    if added:
        sys.path.append(here)
    try:
        yield
    finally:
        if added and here in sys.path:
            sys.path.remove(here)


def _module(place: str) -> Any:
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if place == missing or place.startswith(f"{missing}."):
            raise NescioError(
                f"there is no module {missing!r}, neither in the current folder nor installed"
                f"{_hidden(missing)}"
            ) from error
        raise NescioError(f"importing {place} failed: {error}") from error
    except (Exception, SystemExit) as error:  # code of the user's may raise anything
        raise NescioError(f"importing {place} raised {type(error).__name__}: {error}") from error


def _named(module: Any, place: str, name: str) -> Any:
    """What a name with or without dots stands for in a module."""
    found, where = module, f"name in {place}"
    for part in name.split("."):
        if not hasattr(found, part):
            file = getattr(module, "__file__", None) or "built in"
            known = unknown_name(where, part, _makers(found, place))
            raise NescioError(f"{known}; {place} was imported from {file}{_hidden(place)}")
        found, where = getattr(found, part), f"name in {place}:{part}"
    return found


def _makers(within: Any, place: str) -> list[str]:
    """The functions, classes and networks that a module, or a class in it, has of its own, not by importing them."""
    named = {
        name: getattr(within, name)
        for name in getattr(within, "__dict__", {})
        if not name.startswith("_")
    }
    return [
        name
        for name, one in named.items()
        if isinstance(one, nn.Module)
        or (callable(one) and getattr(one, "__module__", None) == place)
    ]


def _hidden(place: str) -> str:
    """What to add to an error if the current folder has a module of that name, and another one was imported."""
    top = place.partition(".")[0]
    own = [path for path in (Path(f"{top}.py"), Path(top)) if path.exists()]
    module = sys.modules.get(top)
    taken = [getattr(module, "__file__", None), *getattr(module, "__path__", [])]
    if (
        module is None
        or not own
        or {path.resolve() for path in own} & {Path(one).resolve() for one in taken if one}
    ):
        return ""
    return f"; {own[0]} in the current folder has the name of an installed module, which goes first: give it another name"


def _check_needs_nothing(found: Any, spec: str) -> None:
    try:
        needed = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):  # of something built in, which will tell when called
        return
    plain = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    asked = [one.name for one in needed if one.default is one.empty and one.kind not in plain]
    if asked:
        raise NescioError(
            f"{spec} needs {', '.join(asked)}; expected a factory that is called without arguments, such "
            "as a function that fills them in"
        )


def _tensors(path: Path) -> dict[str, Tensor]:
    where = str(path)
    if not path.is_file():
        raise NescioError(f"no such file: {where!r}")
    if path.suffix.lower() in PICKLED:
        raise _pickled(path)
    try:
        with safe_open(where, framework="pt") as file:
            return {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - no mapping
    except (SafetensorError, OSError, ValueError) as error:
        with path.open("rb") as raw:
            start = raw.read(2)
        if start == b"PK" and _is_npz(path):
            raise NescioError(
                f"{where!r} is a NumPy archive; expected safetensors, which it becomes with "
                "safetensors.numpy.save_file(dict(numpy.load('weights.npz')), 'weights.safetensors')"
            ) from error
        if start == b"PK" or start[:1] == b"\x80":  # what torch.save and pickle begin with
            raise _pickled(path) from error
        raise NescioError(f"{where!r} is not a whole safetensors file: {error}") from error


def _pickled(path: Path) -> NescioError:
    """The error for a pickle, with the command that makes safetensors of the weights in it, and runs no code of it."""
    target = path.with_suffix(".safetensors")
    if target.exists():
        target = path.with_name(f"{path.stem}-weights.safetensors")
    # tensors that share memory become copies, since the format cannot say so; what is no tensor is left out
    code = (
        "import sys, torch, safetensors.torch as st; w = torch.load(sys.argv[1], 'cpu', weights_only=True); "
        "w = next((w[k] for k in ('state_dict', 'model_state_dict', 'model') if k in w), w); "
        "st.save_file({k: v.clone().contiguous() for k, v in w.items() if torch.is_tensor(v)}, sys.argv[2])"
    ).replace("'", '"')
    command = shlex.join(["python", "-c", code, str(path), str(target)])
    return NescioError(
        f"{str(path)!r} is a pickle by its name or content, which may hold code, and is never read. If "
        "it holds a state_dict, alone or in a checkpoint, this makes safetensors of it, and runs none "
        f"of its code:\n{command}\nIf it holds a whole network, load that yourself where you trust it, "
        "and keep its weights alone: safetensors.torch.save_file(net.state_dict(), "
        f"{str(target)!r})"
    )


def _is_npz(path: Path) -> bool:
    """Whether a file that begins as zip files do holds arrays alone."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError):
        return False
    return bool(names) and all(name.endswith(".npy") for name in names)


def _some(names: Sequence[str], mark: str = ", ") -> str:
    """The first few names, and how many more there are."""
    return mark.join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
