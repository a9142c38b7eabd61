"""Trained models and fitted detectors as files: weights and plain data, no pickle, no code.

A network of ours is made again by its name and arguments. One of the user's is not in the file of a detector over it:
it is given again when that is loaded, and known by a fingerprint of its weights.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from nescio.core.model_state import check_model
from nescio.core.tensorfile import read_tensors, restore, state_of, write_tensors
from nescio.data.arrays import tensor_bytes
from nescio.data.transforms import Normalise
from nescio.detectors import DETECTORS, Detector
from nescio.detectors.learned import check_whole, learned_by, put_in
from nescio.errors import NescioError, unknown_name
from nescio.methods import METHODS, as_method
from nescio.methods.method import Method
from nescio.methods.temperature import TemperatureScaled
from nescio.models import build
from nescio.records import from_plain, to_plain

KIND = "model"
FLOATS = {
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
}  # a model may be cast to another of them
T = TypeVar("T", Method, Detector)


@dataclass(frozen=True)
class Plan:
    """How to make the model of a file again, by names in our tables and plain arguments.

    A detector over a network of the user's has only the `fingerprint` of that; `bare` is a network without a method. A
    `temperature` divides the logits of what is made.
    """

    method: str
    settings: dict[str, Any]
    network: dict[str, Any]
    detector: str | None
    detector_settings: dict[str, Any]
    fingerprint: str | None = None
    bare: bool = False
    temperature: float | None = None


def save(
    model: nn.Module,
    path: str | os.PathLike[str],
    about: dict[str, Any] | None = None,
    force: bool = False,
) -> None:
    """Write a method, a network of `nescio.models`, either at a temperature, or a detector over any network.

    Args:
        model: what to write; of a detector over a network of your own that network is left out, and `load` asks for it.
        path: of the file.
        about: plain data to keep with it.
        force: whether it may take the place of any file; else only of a model or detector that was saved.
    """
    try:
        write_model(model, path, about, force)
    except OSError as error:
        raise NescioError(
            f"{os.fspath(path)!r} cannot be written: {error.strerror or error}"
        ) from error


def write_model(
    model: nn.Module,
    path: str | os.PathLike[str],
    about: dict[str, Any] | None = None,
    force: bool = False,
) -> None:
    """What `save` does; if the file cannot be written, the error is that of the system."""
    detector = model if isinstance(model, Detector) else None
    given = model if detector is None else detector.model
    temperature = given.temperature if isinstance(given, TemperatureScaled) else None
    given = given.model if isinstance(given, TemperatureScaled) else given
    method = as_method(given)
    for thing, table in ((method, METHODS), (detector, DETECTORS)):
        if thing is not None and table.get(thing.name) is not type(thing):
            raise NescioError(
                f"a {type(thing).__name__} is in none of our tables, so it could not be loaded again"
            )
    recipe = _recipe(method.networks())
    if recipe is None and detector is None:
        raise NescioError(
            f"this {type(method.networks()[0]).__name__} cannot be made again from a file; only networks "
            "made by nescio.models, and not changed since, can be saved whole"
        )
    name, settings = (None, {}) if detector is None else (detector.name, detector.settings())
    if recipe is None:
        plan = Plan(
            method.name,
            _telling(method),
            {},
            name,
            settings,
            fingerprint=fingerprint(method),
            temperature=temperature,
        )
    else:
        plan = Plan(
            method.name,
            method.settings(),
            recipe,
            name,
            settings,
            bare=method is not given,
            temperature=temperature,
        )
    if detector is not None:
        check_whole(detector)
    state = {} if recipe is None else _sound_state(method)
    learned = (
        {}
        if detector is None
        else {f"detector.{key}": value for key, value in learned_by(detector)}
    )
    write_tensors(
        path, KIND, state | learned, {"plan": to_plain(plan), "about": to_plain(about or {})}, force
    )


def load(
    path: str | os.PathLike[str], model: nn.Module | None = None
) -> Method | Detector | TemperatureScaled:
    """Read back what `save` wrote, in eval mode; it scores bit by bit as before.

    Args:
        path: of the file.
        model: of a detector over a network of your own, that network, with the same weights.
    """
    return load_about(path, model)[0]


def load_about(
    path: str | os.PathLike[str], model: nn.Module | None = None
) -> tuple[Method | Detector | TemperatureScaled, dict[str, Any]]:
    """What `load` gives, and the plain data that was kept with it."""
    tensors, header = read_tensors(path, KIND, ("plan", "about"))
    where = repr(os.fspath(path))
    plan = from_plain(Plan, header.get("plan"), where)
    about = from_plain(dict[str, Any], header.get("about"), where)
    if model is not None:
        given = _given(plan, model, where)
    else:
        method = _model(plan, tensors, path)
        if plan.detector is None and plan.temperature is None:
            return method, about
        given = method.net if plan.bare else method
    if plan.temperature is not None:
        scaled = TemperatureScaled(given, plan.temperature)
        scaled.training, given = (
            given.training,
            scaled,
        )  # eval() would change a network of the user's, too
        if plan.detector is None:
            return given, about
    detector = _made(
        _entry(DETECTORS, "detector", plan.detector or ""),
        plan.detector or "",
        plan.detector_settings,
        given,
    )
    put_in(
        detector,
        {key[9:]: value for key, value in tensors.items() if key.startswith("detector.")},
        where,
    )
    return detector, about


def fingerprint(model: nn.Module) -> str:
    """What tells a model from others: a digest of the names, types, shapes and values of its weights and buffers.

    Buffers that no state_dict has come last, so that of a model without them it is what it ever was.
    """
    digest = hashlib.sha256()
    for name, value in (*sorted(model.state_dict().items()), *_loose(model)):
        if isinstance(value, Tensor):
            digest.update(f"{name} {value.dtype} {tuple(value.shape)};".encode())
            digest.update(tensor_bytes(value).numpy().data)
    return digest.hexdigest()


def _loose(model: nn.Module) -> list[tuple[str, Tensor]]:
    """The buffers that are not persistent, by name."""
    return sorted(
        (f"{prefix}.{name}", buffer)
        for prefix, module in model.named_modules(remove_duplicate=False)
        for name in getattr(
            module, "_non_persistent_buffers_set", ()
        )  # a scripted module may have none
        if isinstance(buffer := getattr(module, name, None), Tensor)
    )


def holds_model(detector: Detector) -> bool:
    """Whether the file of a detector holds its model too, as one of ours, so that none is given when it is loaded."""
    return _recipe(as_method(detector.model).networks()) is not None


def _given(plan: Plan, model: nn.Module, where: str) -> nn.Module:
    """The user's model, if it is the one a file was made with."""
    check_model(model)
    if isinstance(model, TemperatureScaled) and model.temperature == plan.temperature:
        model = model.model
    if plan.fingerprint is None:
        raise NescioError(f"{where} holds its own model; load it without one")
    if plan.detector is None or fingerprint(as_method(model)) != plan.fingerprint:
        raise NescioError(
            f"{where} was made with another model than this {type(model).__name__}: weights, their names "
            "or types differ. Expected what the detector was made on, with the same weights"
        )
    method = as_method(model)
    own = method.name, to_plain(_telling(method))
    if own != (plan.method, plan.settings):
        made = _called(plan.method, plan.settings)
        raise NescioError(
            f"{where} was made with a model that has these weights, but is {made}, not {_called(*own)}"
        )
    return model


def _telling(method: Method) -> dict[str, Any]:
    """What a method does with its weights that these do not tell: its settings, and temperatures within it."""
    temperatures = [
        one.temperature for one in method.modules() if isinstance(one, TemperatureScaled)
    ]
    return method.settings() | ({"temperatures": temperatures} if temperatures else {})


def _called(name: str, settings: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in settings.items())})"


def _model(plan: Plan, tensors: dict[str, Tensor], path: str | os.PathLike[str]) -> Method:
    """The model of a file that holds one."""
    where = repr(os.fspath(path))
    if plan.fingerprint is not None:
        raise NescioError(
            f"{where} is a detector over a network of your own, which it does not hold; give it: "
            "nescio.load(path, model=net)"
        )
    if plan.detector is None and any(name.startswith("detector.") for name in tensors):
        raise NescioError(f"{where} holds what a detector learned, but says it is none")
    method = _skeleton(plan, tensors, where)
    state = {
        key.removeprefix("model."): value
        for key, value in tensors.items()
        if key.startswith("model.")
    }
    _check_state(state, method, f"{where} holds no sound model")
    restore(method, tensors, "model", path, assign=True)
    return method.eval()


def _recipe(nets: Sequence[nn.Module]) -> dict[str, Any] | None:
    """How the networks of a method can be made again, or None if they cannot."""
    if not nets:
        return {}
    recipe: dict[str, Any] | None = getattr(nets[0], "recipe", None)
    same = recipe is not None and all(
        getattr(net, "recipe", None) == recipe and _same(net, recipe) for net in nets
    )
    return recipe if same else None


def _sound_state(method: Method) -> dict[str, Tensor]:
    """The tensors of a model that a file can hold, or an error if it could not be loaded again."""
    if not isinstance(method.normalise, Normalise | nn.Identity):
        raise NescioError(
            f"normalise must be a nescio.data.Normalise, not {type(method.normalise).__name__}"
        )
    _check_state(method.state_dict(), method, "this model could not be loaded again")
    return state_of(method, "model")


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
                raise NescioError(
                    f"{what}: {name!r} is {value.dtype}, but its layer holds {layer} too"
                )
            if not value.isfinite().all():
                raise NescioError(f"{what}: {name!r} holds NaN or infinite values")


def _skeleton(plan: Plan, tensors: dict[str, Tensor], where: str) -> Method:
    """The model without memory for its weights: a file that promises a giant costs nothing until it proves true."""
    mean, std = (tensors.get(f"model.normalise.{name}") for name in ("mean", "std"))
    if mean is not None and std is not None and not {mean.dtype, std.dtype} <= FLOATS:
        raise NescioError(
            f"{where} holds a normalisation of {mean.dtype} and {std.dtype}; expected floats"
        )
    normalise = None if mean is None or std is None else Normalise(mean, std)
    with torch.device("meta"):
        make = _entry(METHODS, "method", plan.method).of
        return _made(make, plan.method, plan.settings, lambda: build(plan.network), normalise)


def _made(make: Callable[..., T], what: str, settings: dict[str, Any], *parts: Any) -> T:
    try:
        return make(*parts, **settings)
    except TypeError as error:  # settings it does not have, or of the wrong type
        raise NescioError(f"{what!r} cannot be made from {settings}: {error}") from error


def _entry(table: dict[str, type[T]], kind: str, name: str) -> type[T]:
    if name not in table:
        raise unknown_name(kind, name, table)
    return table[name]
