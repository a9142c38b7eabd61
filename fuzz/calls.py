"""Every public function of arrays, and sound arguments for it."""

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import nescio
from fuzz import subjects
from nescio import audit, metrics, scores
from nescio.core.attacks import Attack, attack
from nescio.data import Samples, noise
from nescio.detectors import DETECTORS
from nescio.errors import NescioError
from nescio.sklearn import NescioClassifier

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]

AUDITS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "asymptote": (("x", "direction"), {}),
    "trace": (("x", "direction"), {}),
    "certain_from": (("x", "direction"), {}),
    "local_affine": (("x",), {}),
    "region": (("x",), {}),
    "regions_in": (("window",), {}),
    "monotone": (("low", "high"), {"points": 16}),
    "per_feature": (("x",), {}),
    "scaling": (("x",), {"alphas": [1.0, 10.0]}),
    "overconfidence": (("x",), {"trials": 4, "rays": 1}),
}


def _log_probs(rng: np.random.Generator, n: int) -> Array:
    logits = rng.normal(size=(n, 3))
    return logits - np.log(np.exp(logits).sum(1, keepdims=True))


ARGUMENTS: dict[
    str, Callable[[np.random.Generator, int], Array]
] = {  # by the names that public functions give them
    "known_scores": lambda rng, n: rng.normal(size=n),
    "unknown_scores": lambda rng, n: rng.normal(1, 1, size=n),
    "confidence": lambda rng, n: rng.uniform(0, 1, n),
    "correct": lambda rng, n: rng.integers(0, 2, n) > 0,
    "predicted": lambda rng, n: rng.integers(-1, 3, n),
    "labels": lambda rng, n: rng.integers(0, 3, n),
    "probs": lambda rng, n: np.exp(_log_probs(rng, n)),
    "log_probs": _log_probs,
    "logits": lambda rng, n: rng.normal(size=(2, n, 3)) * 3,
    "x": lambda rng, n: rng.normal(size=(n, 2)).astype(np.float32),
    "direction": lambda rng, n: rng.normal(size=(n, 2)).astype(np.float32),
    "window": lambda rng, n: np.array([[-1.0, 1.0], [-2.0, 2.0]]) * n,
    "low": lambda rng, n: -rng.uniform(1, 2, 2),
    "high": lambda rng, n: rng.uniform(1, 2, 2),
}


class AnyType(nn.Module):
    """A network that takes bytes and words for numbers without a word."""

    def __init__(self) -> None:
        super().__init__()
        self.net = subjects.net()

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x.float())


@dataclass(frozen=True)
class Call:
    """A function of arrays, by the names of these, and the model that it asks, if there is one."""

    name: str
    function: Function
    names: tuple[str, ...]
    model: nn.Module | None = None


def calls() -> list[Call]:
    """All of them, over models made anew."""
    net = subjects.net()
    odd = {
        "any type": AnyType().eval(),
        "scripted": _scripted(net),
        "meta": subjects.net().to("meta"),
    }
    models = {**subjects.methods(), **odd}
    return [
        *_of_numbers(),
        *(
            Call(f"audit.{name}", _over(net, getattr(audit, name), **how), of, net)
            for name, (of, how) in AUDITS.items()
        ),
        *(
            Call(f"predict {name}", _over(model, nescio.predict), ("x",), model)
            for name, model in models.items()
        ),
        *(
            Call(f"{name} of {kind}", _over(model, function), ("x",), model)
            for name, function in scores.GRADIENT.items()
            for kind, model in (("net", net), ("a scripted net", odd["scripted"]))
        ),
        *(call for name in DETECTORS for call in _of_detector(name, net)),
        *_of_labelled(net),
        *_of_scikit_learn(),
    ]


def _of_numbers() -> list[Call]:
    """Metrics, scores of logits, and what makes data."""
    tables = {
        "metrics": {name: getattr(metrics, name) for name in metrics.__all__},
        "scores": scores.OF_LOGITS,
    }
    found = [
        Call(
            f"{home}.{name}",
            function,
            tuple(one for one in inspect.signature(function).parameters if one in ARGUMENTS),
        )
        for home, table in tables.items()
        for name, function in table.items()
        if inspect.isfunction(function)
    ]
    noisy, like = (
        {name: getattr(noise, name) for name in ("uniform", "normal", "permuted")},
        nn.Identity(),
    )
    for name, function in noisy.items():  # over a model, since what is drawn hangs on the type
        found.append(
            Call(f"noise.{name}", lambda x, f=function: f(x, generator=_generator()), ("x",), like)
        )
    return [*found, Call("Samples", lambda x, labels: Samples(x, labels).inputs, ("x", "labels"))]


def _of_detector(name: str, net: nn.Module) -> list[Call]:
    detector = subjects.detector(name, net)
    ways = ("score", "predict", "p_value", "explain")
    fit = Call(f"{name}.fit", lambda x: DETECTORS[name](net).fit(x).threshold_, ("x",), net)
    return [*(Call(f"{name}.{way}", getattr(detector, way), ("x",), detector) for way in ways), fit]


def _of_labelled(net: nn.Module) -> list[Call]:
    """What takes inputs with labels, or beside others."""
    how, known = Attack("loss", steps=2), subjects.some(0, 9)
    pairs: dict[str, Function] = {
        "attack": lambda x, labels: tuple(attack(net, (x, labels), how, box=None)),
        "evaluate": lambda x, labels: nescio.evaluate(net, (x, labels)).known,
        "TemperatureScaled.fit": lambda x, labels: (
            nescio.TemperatureScaled(net).fit((x, labels)).temperature
        ),
    }
    alone: dict[str, Function] = {
        "evaluate on unknown": lambda x: nescio.evaluate(net, known, {"u": x}).unknown,
        "examples": lambda x: nescio.examples(net, known, {"u": x}, each=1).unknown,
    }
    found = [Call(name, function, ("x", "labels"), net) for name, function in pairs.items()]
    return found + [Call(name, function, ("x",), net) for name, function in alone.items()]


def _of_scikit_learn() -> list[Call]:
    """The classifier, which takes whole numbers for floats and refuses by errors of Python's own,
    as there is usual.
    """
    classifier = NescioClassifier("softmax", hidden=(4,), epochs=1, random_state=0)
    classifier.fit(*(part.numpy() for part in subjects.some(0, 60).take(slice(60))))

    def refusing(function: Function) -> Function:
        def call(x: Any) -> Any:
            try:
                return function(x)
            except (ValueError, TypeError) as error:
                raise NescioError(str(error)) from error

        return call

    ways = ("predict", "predict_proba", "uncertainty")
    return [Call(f"scikit-learn {way}", refusing(getattr(classifier, way)), ("x",)) for way in ways]


def _over(model: nn.Module, function: Function, **how: Any) -> Function:
    return lambda *given: function(model, *given, **how)


def _scripted(net: nn.Module) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch would rather export it
        return torch.jit.script(net)


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
