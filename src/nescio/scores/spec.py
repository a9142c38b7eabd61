"""A score as a spec: its function, its parameters, and whether it compares draws."""

import ast
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from nescio.core.logits import two_classes
from nescio.errors import NescioError, check_name

Score = Callable[[Tensor], Tensor]  # logits `(S, N, C)` → scores `(N,)`
MAX_TEXT = 200  # characters of a name with parameters
Parameter = str | int | float | None
Function = TypeVar("Function", bound=Callable[..., Tensor])


class ScoreError(NescioError):
    """A score of the user's raised an error, or returned what is no score."""


@dataclass(frozen=True)
class ScoreSpec:
    """A score and its parameters: calling it calls its function with them.

    Attributes:
        name: that of the function.
        function: of logits `(S, N, C)`, or of a model and its inputs if `of_model`; returns `(N,)`,
            higher = more likely unknown (OOD). Its other arguments are the score's parameters.
        needs_draws: whether it compares draws, S ≥ 2.
        parameters: those that differ from the function's defaults.
        of_model: whether it looks into the network.
        log_of: what it is the logarithm of, where papers plot that instead.

    >>> def gen(logits, gamma=0.1, top=100): ...
    >>> str(ScoreSpec.of(gen).parse("gen(top=10)"))
    'gen(top=10)'
    """

    name: str
    function: Callable[..., Tensor]
    needs_draws: bool = False
    parameters: Mapping[str, Parameter] = field(default_factory=dict, hash=False)
    of_model: bool = False
    log_of: str | None = None

    @classmethod
    def of(cls, function: Callable[..., Tensor], **facts: Any) -> "ScoreSpec":
        """Return the spec of a function, a partial or a callable object, named after it."""
        named: Any = function
        while isinstance(named, partial):
            named = named.func
        return cls(getattr(named, "__name__", type(named).__name__), function, **facts)

    def __call__(self, *args: Any, **options: Any) -> Tensor:
        if self.of_model:
            return self.function(*args, **self.parameters, **options)
        try:
            values = self.function(*args, **self.parameters, **options)
        except NescioError:
            raise
        except Exception as error:  # of the user's own function
            raise ScoreError(f"the score {self} raised {type(error).__name__}: {error}") from error
        if problem := _problem(values, count := len(args[0][0])):
            raise ScoreError(f"the score {self} must return ({count},) real numbers, got {problem}")
        return values

    def __str__(self) -> str:
        if self.of_model and set(self.parameters) == {"layer"}:
            return f"{self.name}:{self.parameters['layer']}"
        words = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"{self.name}({words})" if words else self.name

    def parse(self, text: str) -> "ScoreSpec":
        """Return this score with the parameters of `name(parameter=literal, …)` or `name:layer`."""
        suffix = text.removeprefix(self.name)
        if self.of_model and suffix.startswith(":") and suffix != ":":
            return self.with_parameters(layer=suffix[1:])
        if not suffix:
            return self
        try:
            call = ast.parse(text[:MAX_TEXT], mode="eval").body
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
                raise ValueError("no parameters by name")
            values = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
            if len(values) < len(call.keywords) or any(not word.arg for word in call.keywords):
                raise ValueError("a parameter twice, or **")
        except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as error:
            expected = f"{self.name}, which has no parameters"
            if defaults := self._defaults():
                listed = ", ".join(f"{name}={value!r}" for name, value in defaults.items())
                expected = f"{self.name} or, with other literals, {self.name}({listed})"
            raise NescioError(f"{text!r} is no score; expected {expected}") from error
        return self.with_parameters(**values)

    def with_parameters(self, **values: Any) -> "ScoreSpec":
        """Return this score with other parameters, in the order of its function's arguments."""
        known = self._defaults()
        for name, value in values.items():
            check_name(f"parameter of {self.name}", name, known)
            if not isinstance(value, Parameter):
                raise NescioError(f"{name} of {self.name} must be a literal, got {value!r}")
        changed = [n for n, default in known.items() if n in values and values[n] != default]
        return replace(self, parameters={name: values[name] for name in changed})

    def _defaults(self) -> dict[str, Any]:
        """Return the parameters that the function has, and their defaults."""
        _, *arguments = inspect.signature(self.function).parameters.values()
        return {each.name: each.default for each in arguments if each.default is not each.empty}


DECLARED: dict[Callable[..., Tensor], ScoreSpec] = {}  # of functions that declare to be scores


def declare(**facts: Any) -> Callable[[Function], Function]:
    """Return a decorator of functions that are scores; `facts` are other fields of `ScoreSpec`.

    Imported in `nescio/scores/__init__.py`, the function is in `SCORES`.

    >>> @declare(needs_draws=True)
    ... def spread(logits): ...
    """

    def declared(function: Function) -> Function:
        score = function if facts.get("of_model") else _of_two_classes(function)
        DECLARED[score] = ScoreSpec.of(score, **facts)
        return score

    return declared


def _of_two_classes(function: Function) -> Function:
    """Return a function of logits that takes one logit for each input, `(S, N, 1)`, as (0, z)."""

    @wraps(function)
    def score(logits: Tensor, *args: Any, **options: Any) -> Tensor:
        draws = isinstance(logits, Tensor) and logits.dim() == 3
        return function(two_classes(logits) if draws else logits, *args, **options)

    return cast(Function, score)


def _problem(values: object, count: int) -> str:
    """Return what values are that cannot be scores of so many inputs, or nothing."""
    if not isinstance(values, Tensor):
        return type(values).__name__
    if values.shape != (count,):
        return str(tuple(values.shape))
    if values.dtype == torch.bool or values.is_complex():
        return str(values.dtype)
    nans = int(values.isnan().sum())
    return f"NaN for {nans} of {count} inputs" if nans else ""
