"""A score as a spec: its function, its parameters, and whether it compares draws."""

import ast
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from nescio.errors import NescioError, unknown_name

Score = Callable[[Tensor], Tensor]
MAX_TEXT = 200  # characters of a name with parameters
Parameter = str | int | float | None


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
        """Return the spec of a function, named after it."""
        return cls(getattr(function, "__name__", "score"), function, **facts)

    def __call__(self, *args: Any, **options: Any) -> Tensor:
        return self.function(*args, **self.parameters, **options)

    def __str__(self) -> str:
        if self.of_model and set(self.parameters) == {"layer"}:
            return f"{self.name}:{self.parameters['layer']}"
        words = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"{self.name}({words})" if words else self.name

    def parse(self, text: str) -> "ScoreSpec":
        """Return this score with the parameters of `name(parameter=literal, …)` or `name:layer`."""
        rest = text.removeprefix(self.name)
        if self.of_model and rest.startswith(":") and rest != ":":
            return replace(self, parameters={"layer": rest[1:]})
        if not rest:
            return self
        try:
            call = ast.parse(text[:MAX_TEXT], mode="eval").body
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
                raise ValueError("no parameters by name")
            values = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
        except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as error:
            raise NescioError(
                f"{text!r} is no score; expected a name, with literals for parameters, such as "
                f"{self.name}(gamma=0.1)"
            ) from error
        return self.with_parameters(**{str(name): value for name, value in values.items()})

    def with_parameters(self, **values: Any) -> "ScoreSpec":
        """Return this score with other parameters, in the order of its function's arguments."""
        _, *arguments = inspect.signature(self.function).parameters.values()
        known = [one.name for one in arguments if one.default is not one.empty]
        for name, value in values.items():
            if name not in known:
                raise unknown_name(f"parameter of {self.name}", name, known)
            if not isinstance(value, Parameter):
                raise NescioError(f"{name} of {self.name} must be a literal, got {value!r}")
        return replace(self, parameters={name: values[name] for name in known if name in values})
