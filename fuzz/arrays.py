"""Arrays of every make into every public function.

A case makes sound arguments, then disguises one (the same numbers in another type, layout or
container) and may spoil it (NaN, other axes). Allowed are a `NescioError` and the answer that plain
contiguous copies of the same arguments get. Neither arguments nor model may be changed.
"""

from dataclasses import fields, is_dataclass
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from fuzz.calls import ARGUMENTS, Array, Call, calls
from fuzz.core import CHANGED, WRONG, Fault, Fuzzer
from fuzz.disguises import DISGUISES, SPOILS, plain
from fuzz.state import bits, check_same, model_state, process_state
from nescio.errors import NescioError

NOT_COMPARED = ("provenance", "seconds", "verdict")
OF_BAD_ROWS = {".predict": -1, ".p_value": 0}


class Arrays(Fuzzer):
    """Arrays into public functions."""

    name: ClassVar[str] = "arrays"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._make()

    def _make(self) -> None:
        self.calls = calls()
        self.states = [_state(call) for call in self.calls]

    def mend(self) -> None:
        if [_state(call) for call in self.calls] != self.states:
            self._make()

    def case(self, rng: Random) -> None:
        call = rng.choice(self.calls)
        numbers, count = np.random.default_rng(rng.randrange(2**32)), rng.choice((1, 2, 3, 7, 40))
        given: list[Any] = [ARGUMENTS[name](numbers, count) for name in call.names]
        at, changes = rng.randrange(len(given)), []
        if rng.random() < 0.3:
            changes.append(rng.choice(sorted(SPOILS)))
            given[at] = SPOILS[changes[-1]](rng, given[at])
        changes.append(rng.choice(sorted(DISGUISES)))
        given[at] = DISGUISES[changes[-1]](rng, given[at])
        self.doing = (
            f"{call.name}({', '.join(call.names)}) with {call.names[at]} {' and '.join(changes)}"
        )
        copies = [plain(one) for one in given]
        before, looks = _state(call), [_look(one) for one in given]
        try:
            found = call.function(*given)
        finally:
            check_same(before, _state(call), f"by {call.name}, the model or the process")
            if looks != [_look(one) for one in given]:
                raise Fault(CHANGED, f"{call.name} changed its arguments")
        judge(call, given, copies, found)


def judge(call: Call, given: list[Any], copies: list[Array | None], found: Any) -> None:
    """A fault if an answer is another than that of plain copies, or one where there can be none."""
    numbers = [one for one in copies if one is not None]
    if len(numbers) < len(given):
        raise Fault(WRONG, f"{call.name} answers what has no numbers")
    if call.model is not None and call.names[0] == "x" and numbers[0].dtype.kind != "f":
        raise Fault(WRONG, f"{call.name} takes {numbers[0].dtype} for floats")
    try:
        expected = call.function(
            *(_like(one, copy, call.model) for one, copy in zip(given, numbers, strict=True))
        )
    except NescioError as error:
        raise Fault(
            WRONG, f"{call.name} answers what it refuses of a plain copy: {error}"
        ) from error
    digits = 1e-2 if any(one.dtype == np.float16 for one in numbers) else 1e-4
    if not alike(found, expected, digits):
        raise Fault(WRONG, f"{call.name} answers otherwise than to a plain copy")
    for way, wanted in OF_BAD_ROWS.items():
        if call.name.endswith(way) and numbers[0].ndim == 2:
            values = np.asarray(found)[~np.isfinite(numbers[0]).all(1)]
            if (values != wanted).any():
                raise Fault(
                    WRONG, f"{call.name} of a row that is not finite is {values[0]}, not {wanted}"
                )


def alike(one: Any, other: Any, digits: float) -> bool:
    """Whether two answers are the same, but for rounding in the digits that their arguments
    have.
    """
    if isinstance(one, Tensor | np.ndarray | float | int) and not isinstance(one, bool):
        a, b = (
            v.detach().double().numpy() if isinstance(v, Tensor) else np.asarray(v)
            for v in (one, other)
        )
        if a.shape != b.shape or a.dtype.kind not in "fiub":
            return a.shape == b.shape and bool((a == b).all())
        return np.allclose(
            a.astype(np.float64), b.astype(np.float64), rtol=digits, atol=digits, equal_nan=True
        )
    if is_dataclass(one):
        names = [field.name for field in fields(one) if field.name not in NOT_COMPARED]
        return type(one) is type(other) and all(
            alike(getattr(one, n), getattr(other, n), digits) for n in names
        )
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(
            alike(a, b, digits) for a, b in zip(one, other, strict=True)
        )
    return bool(one == other)


def _state(call: Call) -> dict[str, Any]:
    return process_state() | ({} if call.model is None else model_state(call.model))


def _like(given: Any, copy: Array, model: nn.Module | None) -> Any:
    """A copy to compare with, of a tensor a tensor; in float64 where there is no model, so that no
    digits are lost.
    """
    wide = copy.astype(np.float64) if model is None and copy.dtype.kind == "f" else copy
    if not isinstance(given, Tensor):
        return wide
    return torch.from_numpy(wide) if model is None else torch.from_numpy(wide).to(given.dtype)


def _look(value: Any) -> Any:
    """All that a call could change of an argument."""
    if isinstance(value, Tensor):
        version = None if value.is_inference() else value._version
        if value.layout != torch.strided or value.is_meta or value.is_nested:
            return value.layout, version
        return (
            bits(value),
            version,
            value.requires_grad,
            value.is_leaf and value.grad is None,
            value.stride(),
        )
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.dtype.str, value.shape, value.strides, value.tobytes(), value.flags.writeable
    return repr(value)
