"""Trained models and fitted detectors as files: weights and plain data, no pickle, no code."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from nescio.data.normalise import Normalise
from nescio.detectors import DETECTORS, Detector
from nescio.errors import NescioError, unknown_name
from nescio.methods import METHODS, as_method
from nescio.methods.method import Method
from nescio.models import build
from nescio.records import from_plain, to_plain
from nescio.tensorfile import read_tensors, restore, state_of, write_tensors

KIND = "model"
FLOATS = {torch.float16, torch.bfloat16, torch.float32, torch.float64}  # a model may be cast to another of them
T = TypeVar("T", Method, Detector)


@dataclass(frozen=True)
class Plan:
    """How to make the model of a file again, by names in our tables and plain arguments."""

    method: str
    settings: dict[str, Any]
    network: dict[str, Any]
    detector: str | None
    detector_settings: dict[str, Any]


def save(model: nn.Module, path: str | os.PathLike[str], about: dict[str, Any] | None = None) -> None:
    """Write a method, a network of `nescio.models`, or a detector over one; `about` is kept with it as plain data."""
    detector = model if isinstance(model, Detector) else None
    method = as_method(model if detector is None else detector.model)
    recipe = _recipe(method.networks())
    for thing, table in ((method, METHODS), (detector, DETECTORS)):
        if thing is not None and table.get(thing.name) is not type(thing):
            raise NescioError(f"a {type(thing).__name__} is in none of our tables, so it could not be loaded again")
    if not isinstance(method.normalise, Normalise | nn.Identity):
        raise NescioError(f"normalise must be a nescio.data.Normalise, not {type(method.normalise).__name__}")
    name, settings = (None, {}) if detector is None else (detector.name, detector.settings())
    plan = Plan(method.name, method.settings(), recipe, name, settings)
    learned = {} if detector is None else {f"detector.{key}": value for key, value in _learned(detector)}
    state = state_of(method, "model")
    _check_state(method.state_dict(), method, "this model could not be loaded again")
    write_tensors(path, KIND, state | learned, {"plan": to_plain(plan), "about": to_plain(about or {})})


def load(path: str | os.PathLike[str]) -> Method | Detector:
    """Read back what `save` wrote, in eval mode; it scores bit by bit as before."""
    return load_about(path)[0]


def load_about(path: str | os.PathLike[str]) -> tuple[Method | Detector, dict[str, Any]]:
    """What `load` gives, and the plain data that was kept with it."""
    tensors, header = read_tensors(path, KIND)
    where = repr(os.fspath(path))
    plan = from_plain(Plan, header.get("plan"), where)
    about = from_plain(dict[str, Any], header.get("about"), where)
    method = _skeleton(plan, tensors, where)
    state = {key.removeprefix("model."): value for key, value in tensors.items() if key.startswith("model.")}
    _check_state(state, method, f"{where} holds no sound model")
    restore(method, tensors, "model", path, assign=True)
    method.eval()
    if plan.detector is None:
        return method, about
    make = _entry(DETECTORS, "detector", plan.detector)
    detector = _made(make, plan.detector, plan.detector_settings, method)
    _learn(detector, {key[9:]: value for key, value in tensors.items() if key.startswith("detector.")}, where)
    return detector, about


def _learn(detector: Detector, found: dict[str, Tensor], where: str) -> None:
    """Put in what a file says a detector learned, or an error if no fit could have left it so."""
    room = dict(_learned(detector))
    if odd := room.keys() ^ found.keys():
        names = ", ".join(sorted(odd))
        raise NescioError(f"{where} does not hold what this detector learns: it lacks or adds {names}")
    for key, buffer in room.items():
        value = found[key]
        if value.shape != buffer.shape or value.dtype != buffer.dtype:
            raise NescioError(f"{where}: the detector's {key} is {value.dtype} {tuple(value.shape)}; expected "
                              f"{buffer.dtype} {tuple(buffer.shape)}")  # fmt: skip
        buffer.copy_(value)
    fitted = [bool(value.isfinite().all()) for value in found.values() if value.numel()]
    if any(fitted) and not all(fitted):  # what was never fitted is NaN throughout
        raise NescioError(f"{where}: what the detector learned is in part NaN or infinite")


def _recipe(nets: Sequence[nn.Module]) -> dict[str, Any]:
    """How the networks of a method can be made again, or an error if they cannot."""
    if not nets:
        return {}
    recipe: dict[str, Any] | None = getattr(nets[0], "recipe", None)
    for net in nets:
        if recipe is None or getattr(net, "recipe", None) != recipe or not _same(net, recipe):
            raise NescioError(f"this {type(net).__name__} cannot be made again from a file; only networks made by "
                              "nescio.models, and not changed since, can be saved whole")  # fmt: skip
    return recipe or {}


def _same(net: nn.Module, recipe: dict[str, Any]) -> bool:
    """Whether a network still is what its recipe makes: a layer may have been replaced since."""
    with torch.device("meta"):
        again = build(recipe)
    shapes = [{key: value.shape for key, value in one.state_dict().items()} for one in (net, again)]
    return repr(net) == repr(again) and shapes[0] == shapes[1]


def _check_state(state: dict[str, Tensor], method: Method, what: str) -> None:
    """An error if a state is none that a model can have: of other types than its own, or with values run away."""
    own, layers = method.state_dict(), dict[str, torch.dtype]()
    for name, value in state.items():
        kind = own[name].dtype if name in own else value.dtype
        if value.dtype != kind and not {value.dtype, kind} <= FLOATS:
            raise NescioError(f"{what}: {name!r} is {value.dtype}, not {kind}")
        if value.dtype in FLOATS:
            layer = layers.setdefault(name.rpartition(".")[0], value.dtype)
            if value.dtype != layer:
                raise NescioError(f"{what}: {name!r} is {value.dtype}, but its layer holds {layer} too")
            if not value.isfinite().all():
                raise NescioError(f"{what}: {name!r} holds NaN or infinite values")


def _skeleton(plan: Plan, tensors: dict[str, Tensor], where: str) -> Method:
    """The model without memory for its weights: a file that promises a giant costs nothing until it proves true."""
    mean, std = (tensors.get(f"model.normalise.{name}") for name in ("mean", "std"))
    if mean is not None and std is not None and not {mean.dtype, std.dtype} <= FLOATS:
        raise NescioError(f"{where} holds a normalisation of {mean.dtype} and {std.dtype}; expected floats")
    normalise = None if mean is None or std is None else Normalise(mean, std)
    with torch.device("meta"):
        make = _entry(METHODS, "method", plan.method).of
        return _made(make, plan.method, plan.settings, lambda: build(plan.network), normalise)


def _learned(detector: Detector) -> list[tuple[str, Tensor]]:
    return [(key, buffer) for key, buffer in detector.named_buffers() if not key.startswith("model.")]


def _made(make: Callable[..., T], what: str, settings: dict[str, Any], *parts: Any) -> T:
    try:
        return make(*parts, **settings)
    except TypeError as error:  # settings it does not have, or of the wrong type
        raise NescioError(f"{what!r} cannot be made from {settings}: {error}") from error


def _entry(table: dict[str, type[T]], kind: str, name: str) -> type[T]:
    if name not in table:
        raise unknown_name(kind, name, table)
    return table[name]
