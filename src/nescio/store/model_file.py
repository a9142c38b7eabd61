"""Trained models and fitted detectors as files: weights and plain data, no pickle, no code.

A network of ours is made again by its name and arguments. One of the user's is not in the file of a
detector over it: it must be given to `load`, and is recognised by a fingerprint of its weights.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from nescio.core import tensorfile
from nescio.core.model_state import check_model
from nescio.core.tensorfile import FilePath
from nescio.data.arrays import tensor_bytes
from nescio.data.transforms import Normalise
from nescio.detectors import DETECTORS, Detector
from nescio.detectors.learned import (
    StoredRule,
    check_complete,
    learned_by,
    restore_learned,
    restore_rule,
    rule_of,
)
from nescio.errors import NescioError, check_name
from nescio.methods import METHODS, Method, as_method, method_class
from nescio.methods.method import with_newer_settings
from nescio.methods.temperature import TemperatureScaled, split_temperature, temperatures_within
from nescio.models import build
from nescio.records import from_plain, to_plain

KIND = "model"
LEARNED = "detector."  # before the names of what a detector learned
# a model may be cast to another of them
FLOATS = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
T = TypeVar("T", Method, Detector)
Loaded = Method | Detector | TemperatureScaled


@dataclass(frozen=True)
class ModelPlan:
    """How to make the model of a file again, by names in our tables and plain arguments.

    A detector over a network of the user's has only the `fingerprint` of that; `bare` is a network
    without a method. A `temperature` divides the logits of what is made.
    """

    method: str
    settings: dict[str, Any]
    network: dict[str, Any]
    detector: str | None
    detector_settings: dict[str, Any]
    fingerprint: str | None = None
    bare: bool = False
    temperature: float | None = None
    rule: StoredRule | None = None


def save(
    model: nn.Module, path: FilePath, about: dict[str, Any] | None = None, force: bool = False
) -> None:
    """Save a method, a network of `nescio.models`, or a detector over any network.

    Args:
        model: what to save; a detector over a network of your own is saved without that network,
            and `load` asks for it.
        path: of the file.
        about: plain data to keep with it.
        force: replace any file; by default only a saved model or detector is replaced.

    >>> nescio.save(nescio.Mahalanobis(net).fit(known.test), "detector.nescio")
    >>> nescio.load("detector.nescio", model=net).predict(x)
    tensor([ 0, -1])
    """
    try:
        write_model(model, path, about, force)
    except OSError as error:
        reason = error.strerror or error
        raise NescioError(f"{os.fspath(path)!r} cannot be written: {reason}") from error


def write_model(
    model: nn.Module, path: FilePath, about: dict[str, Any] | None = None, force: bool = False
) -> None:
    """As `save`; if the file cannot be written, the error is that of the system."""
    detector = model if isinstance(model, Detector) else None
    network, temperature = split_temperature(model if detector is None else detector.model)
    method = as_method(network)
    for thing, table in ((method, METHODS), (detector, DETECTORS)):
        if thing is not None and table.get(thing.name) is not type(thing):
            raise NescioError(f"a {type(thing).__name__} is in no table, so could not be loaded")
    recipe = _recipe(method.networks())
    if recipe is None and detector is None:
        kind = type(method.networks()[0]).__name__
        whole = "only networks made by nescio.models, and not changed since, can be saved whole"
        raise NescioError(f"this {kind} cannot be made again from a file; {whole}")
    name, settings = (None, {}) if detector is None else (detector.name, detector.settings())
    ours = recipe is not None
    plan = ModelPlan(
        method.name,
        method.settings() if ours else _identifying_settings(method),
        recipe or {},
        name,
        settings,
        fingerprint=None if ours else fingerprint(method),
        bare=ours and method is not network,
        temperature=temperature,
        rule=None if detector is None else rule_of(detector),
    )
    tensors: dict[str, Tensor] = {}
    if ours:
        if not isinstance(method.normalise, Normalise | nn.Identity):
            kind = type(method.normalise).__name__
            raise NescioError(f"normalise must be a nescio.data.Normalise, got {kind}")
        _check_state(method.state_dict(), method, "this model could not be loaded again")
        tensors = tensorfile.prefixed_state(method, "model")
    if detector is not None:
        check_complete(detector)
        tensors |= {f"{LEARNED}{key}": value for key, value in learned_by(detector).items()}
    header = {"plan": to_plain(plan), "about": to_plain(about or {})}
    tensorfile.write_tensors(path, KIND, tensors, header, force)


def load(path: FilePath, model: nn.Module | None = None) -> Loaded:
    """Load what `save` wrote, in eval mode; its scores are bit-identical.

    A detector over a network of your own needs that network as `model`, with the same weights.

    >>> nescio.save(nescio.methods.Softmax(nescio.models.mlp(2, 3)), "model.nescio")
    >>> type(nescio.load("model.nescio")).__name__
    'Softmax'
    """
    return load_about(path, model)[0]


def load_about(path: FilePath, model: nn.Module | None = None) -> tuple[Loaded, dict[str, Any]]:
    """As `load`, with the plain data that was kept with it."""
    tensors, header = tensorfile.read_tensors(path, KIND, ("plan", "about"))
    where = repr(os.fspath(path))
    plan = from_plain(ModelPlan, header.get("plan"), where)
    about = from_plain(dict[str, Any], header.get("about"), where)
    if model is not None:
        network = _check_given(plan, model, where)
    else:
        method = _model(plan, tensors, path)
        if plan.detector is None and plan.temperature is None:
            return method, about
        network = method.net if plan.bare else method
    if plan.temperature is not None:
        training = network.training  # eval() would change a network of the user's, too
        network = TemperatureScaled(network, plan.temperature)
        network.training = training
        if plan.detector is None:
            return network, about
    name = plan.detector or ""
    kind = DETECTORS[check_name("detector", name, DETECTORS)]
    detector = _make(kind, name, plan.detector_settings, network)
    restore_learned(detector, _with_prefix(tensors, LEARNED), where)
    restore_rule(detector, plan.rule, where)
    return detector, about


def _with_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def fingerprint(model: nn.Module) -> str:
    """Return a digest of the names, types, shapes and values of a model's weights and buffers."""
    digest = hashlib.sha256()
    for name, value in (*sorted(model.state_dict().items()), *_non_persistent(model)):
        if isinstance(value, Tensor):
            digest.update(f"{name} {value.dtype} {tuple(value.shape)};".encode())
            digest.update(tensor_bytes(value).numpy().data)
    return digest.hexdigest()


def _non_persistent(model: nn.Module) -> list[tuple[str, Tensor]]:
    """The buffers that are not persistent, by name; a scripted module may not know of any."""
    return sorted(
        (f"{prefix}.{name}", buffer)
        for prefix, module in model.named_modules(remove_duplicate=False)
        for name in getattr(module, "_non_persistent_buffers_set", ())
        if isinstance(buffer := getattr(module, name, None), Tensor)
    )


def holds_model(detector: Detector) -> bool:
    """Return whether a detector's file holds its model too, as one of ours."""
    return _recipe(as_method(detector.model).networks()) is not None


def _check_given(plan: ModelPlan, model: nn.Module, where: str) -> nn.Module:
    """The user's model, or an error if it is not the one a file was made with."""
    check_model(model)
    unscaled, temperature = split_temperature(model)
    if temperature is not None and temperature == plan.temperature:
        model = unscaled
    if plan.fingerprint is None:
        raise NescioError(f"{where} holds its own model; load it without one")
    if plan.detector is None or fingerprint(as_method(model)) != plan.fingerprint:
        raise NescioError(
            f"{where} was made with another model than this {type(model).__name__}: weights, their "
            "names or types differ. Expected the model of the detector, with the same weights"
        )
    method = as_method(model)
    given = method.name, to_plain(_identifying_settings(method))
    if given != (plan.method, to_plain(with_newer_settings(plan.settings, method))):
        difference = f"is {_call(plan.method, plan.settings)}, not {_call(*given)}"
        raise NescioError(f"{where} was made with a model that has these weights, but {difference}")
    return model


def _identifying_settings(method: Method) -> dict[str, Any]:
    """What a method does that its weights do not show: its settings, and temperatures within it."""
    temperatures = temperatures_within(method)
    return method.settings() | ({"temperatures": temperatures} if temperatures else {})


def _call(name: str, settings: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in settings.items())})"


def _model(plan: ModelPlan, tensors: dict[str, Tensor], path: FilePath) -> Method:
    where = repr(os.fspath(path))
    if plan.fingerprint is not None:
        problem = f"{where} is a detector over a network of your own, which it does not hold"
        raise NescioError(f"{problem}; give it: nescio.load(path, model=net)")
    if plan.detector is None and _with_prefix(tensors, LEARNED):
        raise NescioError(f"{where} holds what a detector learned, but says it is none")
    method = _skeleton(plan, tensors, where)
    _check_state(_with_prefix(tensors, "model."), method, f"{where} holds no sound model")
    tensorfile.load_prefixed_state(method, tensors, "model", path, assign=True)
    return method.eval()


def _recipe(nets: Sequence[nn.Module]) -> dict[str, Any] | None:
    """How the networks of a method can be made again, or None if they cannot."""
    if not nets:
        return {}
    recipe: dict[str, Any] | None = getattr(nets[0], "recipe", None)
    if recipe is None or any(getattr(net, "recipe", None) != recipe for net in nets):
        return None
    return recipe if all(_is_unchanged(net, recipe) for net in nets) else None


def _is_unchanged(net: nn.Module, recipe: dict[str, Any]) -> bool:
    """Whether a network still is what its recipe makes: a layer may have been replaced since."""
    with torch.device("meta"):
        again = build(recipe)
    states = net.state_dict(), again.state_dict()
    shapes = [{key: value.shape for key, value in state.items()} for state in states]
    return repr(net) == repr(again) and shapes[0] == shapes[1]


def _check_state(state: dict[str, Tensor], method: Method, what: str) -> None:
    """Raise an error if a state has other types than the model's own, or values not finite."""
    model_state, layers = method.state_dict(), dict[str, torch.dtype]()
    for name, value in state.items():
        kind = model_state[name].dtype if name in model_state else value.dtype
        if value.dtype != kind and not {value.dtype, kind} <= FLOATS:
            raise NescioError(f"{what}: {name!r} is {value.dtype}, not {kind}")
        if value.dtype in FLOATS:
            layer = layers.setdefault(name.rpartition(".")[0], value.dtype)
            if value.dtype != layer:
                raise NescioError(f"{what}: {name!r} is {value.dtype}, its layer holds {layer} too")
            if not value.isfinite().all():
                raise NescioError(f"{what}: {name!r} holds NaN or infinite values")


def _skeleton(plan: ModelPlan, tensors: dict[str, Tensor], where: str) -> Method:
    """The model without memory for its weights, so that promising a giant costs nothing."""
    mean, std = (tensors.get(f"model.normalise.{name}") for name in ("mean", "std"))
    if mean is not None and std is not None and not {mean.dtype, std.dtype} <= FLOATS:
        kinds = f"{mean.dtype} and {std.dtype}"
        raise NescioError(f"{where} holds a normalisation of {kinds}; expected floats")
    normalise = None if mean is None or std is None else Normalise(mean, std)
    with torch.device("meta"):
        make = method_class(plan.method).from_factory
        return _make(make, plan.method, plan.settings, lambda: build(plan.network), normalise)


def _make(make: Callable[..., T], what: str, settings: dict[str, Any], *parts: Any) -> T:
    try:
        return make(*parts, **settings)
    except TypeError as error:  # settings it does not have, or of the wrong type
        raise NescioError(f"{what!r} cannot be made from {settings}: {error}") from error
