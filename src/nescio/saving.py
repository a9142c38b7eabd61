"""Trained models and fitted detectors as files: weights and plain data, no pickle, no code."""

import os
from typing import Any

import torch
from torch import nn

from nescio.data.normalise import Normalise
from nescio.detectors import DETECTORS, Detector
from nescio.errors import NescioError, unknown_name
from nescio.methods import METHODS, as_method
from nescio.methods.method import Method
from nescio.models import build
from nescio.tensorfile import read_tensors, restore, state_of, write_tensors

KIND = "model"


def save(model: nn.Module, path: str | os.PathLike[str], about: dict[str, Any] | None = None) -> None:
    """Write a method, a network of `nescio.models`, or a detector over one; `about` is kept with it as plain data."""
    detector = model if isinstance(model, Detector) else None
    method = as_method(detector.model if detector else model)
    recipe = getattr(method.net, "recipe", None)
    if recipe is None:
        raise NescioError(f"a {type(method.net).__name__} cannot be made again from a file; only networks made by "
                          "nescio.models can be saved whole (keep the state_dict of others yourself)")  # fmt: skip
    if not isinstance(method.normalise, Normalise | nn.Identity):
        raise NescioError(
            f"normalise must be a nescio.data.Normalise to be saved, not {type(method.normalise).__name__}"
        )
    shape = list(method.normalise.mean.shape) if isinstance(method.normalise, Normalise) else None
    plan: dict[str, Any] = {"method": method.name, "settings": method.settings(), "network": recipe, "normalise": shape}
    tensors = state_of(method, "model")
    if detector is not None:
        plan["detector"] = {"name": detector.name, "settings": detector.settings()}
        own = {f"detector.{name}": value for name, value in detector.named_buffers() if not name.startswith("model.")}
        tensors |= own
    write_tensors(path, KIND, tensors, {"plan": plan, "about": about or {}})


def load(path: str | os.PathLike[str]) -> Method | Detector:
    """Read back what `save` wrote, in eval mode; it scores bit by bit as before."""
    return load_about(path)[0]


def load_about(path: str | os.PathLike[str]) -> tuple[Method | Detector, dict[str, Any]]:
    """What `load` gives, and the plain data that was kept with it."""
    tensors, header = read_tensors(path, KIND)
    plan, about = header.get("plan"), header.get("about")
    if not isinstance(plan, dict) or not isinstance(about, dict):
        raise NescioError(f"{os.fspath(path)!r} does not say what model it holds")
    method = _method(plan, path)
    restore(method, tensors, "model", path)
    method.eval()
    if "detector" not in plan:
        return method, about
    name = plan["detector"].get("name")
    if name not in DETECTORS:
        raise unknown_name("detector", name, DETECTORS)
    detector = DETECTORS[name](method, **plan["detector"]["settings"])
    for key, buffer in detector.named_buffers():
        if not key.startswith("model."):
            buffer.copy_(tensors[f"detector.{key}"])
    return detector, about


def _method(plan: dict[str, Any], path: str | os.PathLike[str]) -> Method:
    name, recipe, shape = plan.get("method"), plan.get("network"), plan.get("normalise")
    if name not in METHODS:
        raise unknown_name("method", name, METHODS)
    if not isinstance(recipe, dict) or not (shape is None or isinstance(shape, list)):
        raise NescioError(f"{os.fspath(path)!r} does not say what network it holds")
    normalise = None if shape is None else Normalise(torch.zeros(shape), torch.ones(shape))
    return METHODS[name](build(recipe), normalise=normalise, **plan.get("settings", {}))
