"""A network of the user's: made by a named function, with weights from a file without code."""

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


def make_network(spec: str) -> nn.Module:
    """Return the network that `package.module:factory` makes, on the CPU and in eval mode.

    The factory is called without arguments: a function, a class, or a network itself. Modules in
    the current folder count, after installed ones. This is the one place where code of the user's
    is looked up, and only under a name that the user gave.
    """
    place, mark, name = spec.partition(":")
    valid = all(part.isidentifier() for part in f"{place}.{name}".split("."))
    if not (mark and place and name and valid):
        example = "such as my_nets:make_net"
        raise NescioError(f"expected package.module:callable, {example}; got {spec!r}")
    with _current_folder_last():
        net = _named(_module(place), place, name)
        if not isinstance(net, nn.Module):
            net = _call(net, spec)
    return check_values(net).to("cpu").eval()


def _call(factory: Any, spec: str) -> nn.Module:
    if not callable(factory):
        expected = "a network, or a function or class that makes one"
        raise NescioError(f"{spec} is a {type(factory).__name__}; expected {expected}")
    try:
        parameters = [*inspect.signature(factory).parameters.values()]
    # of a built-in, which will say so when called, or of annotations that Python 3.14 looks up late
    except (TypeError, ValueError, NameError):
        parameters = []
    plain = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [p.name for p in parameters if p.default is p.empty and p.kind not in plain]
    if needed:
        expected = "a factory without arguments, such as a function that fills them in"
        raise NescioError(f"{spec} needs {', '.join(needed)}; expected {expected}")
    try:
        net = factory()
    except (Exception, SystemExit) as error:  # code of the user's may raise anything
        raise NescioError(f"{spec} raised {type(error).__name__}: {error}") from error
    if not isinstance(net, nn.Module):
        raise NescioError(f"{spec} returned a {type(net).__name__}; expected a torch.nn.Module")
    return net


def load_weights(net: nn.Module, path: str | os.PathLike[str]) -> None:
    """Load a safetensors file into a network, all of it, or say what differs."""
    where, kind = repr(os.fspath(path)), type(net).__name__
    tensors = _tensors(Path(path))
    state = {name: value for name, value in net.state_dict().items() if isinstance(value, Tensor)}
    # of tied weights a file may hold one
    loaded = {state[name].data_ptr() for name in tensors if name in state}
    absent = {name: value for name, value in state.items() if name not in tensors}
    missing = [name for name, value in absent.items() if value.data_ptr() not in loaded]
    unexpected = [name for name in tensors if name not in state]
    if missing or unexpected:
        differences = [f"it lacks {_first(missing)}"] if missing else []
        differences += [f"it adds {_first(unexpected)}"] if unexpected else []
        wrapped = bool(unexpected) and all(name.startswith("module.") for name in unexpected)
        hint = ". Names with 'module.' come from DataParallel: save net.module.state_dict()"
        what = f"{' and '.join(differences)}{hint * wrapped}"
        raise NescioError(f"{where} holds the weights of another network than this {kind}: {what}")
    pairs = {name: (value.shape, state[name].shape) for name, value in tensors.items()}
    shapes = [f"{n} is {(*a,)}, not {(*b,)}" for n, (a, b) in pairs.items() if a != b]
    if shapes:
        others = _first(shapes, "; ")
        raise NescioError(f"{where} holds weights of other shapes than this {kind} has: {others}")
    # clones, since memory mapped from a file is aligned differently, and sums round differently
    net.load_state_dict({name: value.clone() for name, value in tensors.items()}, strict=False)
    check_model(net)


@contextmanager
def _current_folder_last() -> Iterator[None]:
    """Find modules of the current folder, but never in place of installed ones.

    Afterwards, what torch imports lazily cannot be a file that happens to lie there.
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
            places = f"neither in the current folder nor installed{_shadowed(missing)}"
            raise NescioError(f"there is no module {missing!r}, {places}") from error
        raise NescioError(f"importing {place} failed: {error}") from error
    except (Exception, SystemExit) as error:  # code of the user's may raise anything
        raise NescioError(f"importing {place} raised {type(error).__name__}: {error}") from error


def _named(module: Any, place: str, name: str) -> Any:
    """What a name with or without dots stands for in a module."""
    value, where = module, f"name in {place}"
    for part in name.split("."):
        if not hasattr(value, part):
            file = getattr(module, "__file__", None) or "built in"
            error = unknown_name(where, part, _factories(value, place))
            raise NescioError(f"{error}; {place} was imported from {file}{_shadowed(place)}")
        value, where = getattr(value, part), f"name in {place}:{part}"
    return value


def _factories(scope: Any, place: str) -> list[str]:
    """The functions, classes and networks that a module, or a class in it, defines itself."""
    named = vars(scope) if hasattr(scope, "__dict__") else {}
    public = {name: v for name, v in named.items() if callable(v) and not name.startswith("_")}
    return [
        name
        for name, value in public.items()
        if isinstance(value, nn.Module) or getattr(value, "__module__", None) == place
    ]


def _shadowed(place: str) -> str:
    """A hint if the current folder has a module of that name, and another one was imported."""
    top = place.partition(".")[0]
    here = [path for path in (Path(f"{top}.py"), Path(top)) if path.exists()]
    module = sys.modules.get(top)
    files = [getattr(module, "__file__", None), *getattr(module, "__path__", [])]
    imported = {Path(file).resolve() for file in files if file}
    if module is None or not here or {path.resolve() for path in here} & imported:
        return ""
    return f"; {here[0]} in the current folder has the name of an installed module: rename it"


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
                "safetensors.numpy.save_file(dict(numpy.load('w.npz')), 'w.safetensors')"
            ) from error
        if start == b"PK" or start[:1] == b"\x80":  # what torch.save and pickle begin with
            raise _pickled(path) from error
        raise NescioError(f"{where!r} is not a whole safetensors file: {error}") from error


def _pickled(path: Path) -> NescioError:
    """The error for a pickle, with the command that makes safetensors of it, and runs no code."""
    target = path.with_suffix(".safetensors")
    if target.exists():
        target = path.with_name(f"{path.stem}-weights.safetensors")
    # tensors that share memory become copies; what is no tensor is left out
    code = (
        "import sys, torch, safetensors.torch as st; "
        "w = torch.load(sys.argv[1], 'cpu', weights_only=True); "
        "w = next((w[k] for k in ('state_dict', 'model_state_dict', 'model') if k in w), w); "
        "t = {k: v.clone().contiguous() for k, v in w.items() if torch.is_tensor(v)}; "
        "st.save_file(t, sys.argv[2])"
    ).replace("'", '"')
    command = shlex.join(["python", "-c", code, str(path), str(target)])
    return NescioError(
        f"{str(path)!r} is a pickle by its name or content, which may hold code, and is never "
        "read. If it holds a state_dict, alone or in a checkpoint, this converts it to "
        f"safetensors, and runs none of its code:\n{command}\nIf it holds a whole network, load "
        "that yourself where you trust it, and save its weights alone: "
        f"safetensors.torch.save_file(net.state_dict(), {str(target)!r})"
    )


def _is_npz(path: Path) -> bool:
    """Whether a file that begins as zip files do holds arrays alone."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError):
        return False
    return bool(names) and all(name.endswith(".npy") for name in names)


def _first(names: Sequence[str], mark: str = ", ") -> str:
    """The first few names, and how many more there are."""
    return mark.join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
