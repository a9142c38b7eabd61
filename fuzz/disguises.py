"""The same numbers in other clothes, and numbers gone bad."""

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor

Array = np.ndarray[Any, Any]


def strided(array: Array) -> Array:
    """A view of every second number of a larger array."""
    if not array.ndim:
        return array
    wide = np.repeat(array, 2, axis=-1)
    return wide[..., ::2]


def tensor(array: Array) -> Tensor | Array:
    """A tensor where torch has the type."""
    try:
        return torch.from_numpy(np.ascontiguousarray(array).reshape(array.shape).copy())
    except TypeError:
        return array


def on_tensor(change: Callable[[Tensor], Any]) -> Callable[[Random, Array], Any]:
    """A disguise that tensors have; what torch cannot do so stays an array."""

    def disguise(rng: Random, array: Array) -> Any:
        made = tensor(array)
        try:
            return change(made) if isinstance(made, Tensor) else array
        except (RuntimeError, IndexError, TypeError):  # such as a nested tensor without axes
            return array

    return disguise


DISGUISES: dict[str, Callable[[Random, Array], Any]] = {
    "as it is": lambda rng, a: a,
    "as a tensor": on_tensor(lambda t: t),
    "strided": lambda rng, a: strided(a),
    "backwards": lambda rng, a: np.ascontiguousarray(a[::-1])[::-1] if a.ndim else a,
    "in Fortran's order": lambda rng, a: np.asfortranarray(a),
    "byte-swapped": lambda rng, a: a.astype(a.dtype.newbyteorder()) if a.dtype != object else a,
    "read-only": lambda rng, a: _read_only(a),
    "as a list": lambda rng, a: a.tolist(),
    "as a tuple": lambda rng, a: tuple(a.tolist()) if a.ndim else a.tolist(),
    "as objects": lambda rng, a: a.astype(object),
    "of type": lambda rng, a: _cast(
        a, rng.choice(("f2", "f4", "f8", "g", "i1", "i8", "u1", "u8", "?", "c8", "U8"))
    ),
    "in bfloat16": on_tensor(lambda t: t.to(torch.bfloat16)),
    "in half": on_tensor(lambda t: t.half()),
    "in float64": on_tensor(lambda t: t.double()),
    "in bytes": on_tensor(lambda t: (t.abs() * 50).to(torch.uint8)),
    "with a graph": on_tensor(lambda t: t.double().requires_grad_() * 1),
    "that requires grad": on_tensor(lambda t: t.float().requires_grad_()),
    "transposed": on_tensor(lambda t: t.mT.contiguous().mT if t.dim() > 1 else t),
    "expanded": on_tensor(lambda t: t[:1].expand(t.shape)),
    "sparse": on_tensor(lambda t: t.to_sparse()),
    "sparse in rows": on_tensor(lambda t: t.to_sparse_csr() if t.dim() == 2 else t.to_sparse()),
    "on meta": on_tensor(lambda t: t.to("meta")),
    "nested": on_tensor(lambda t: torch.nested.nested_tensor(list(t))),
    "conjugate": on_tensor(lambda t: torch.complex(t.double(), t.double()).conj()),
    "made in inference": on_tensor(lambda t: _in_inference(t)),
    "as a matrix": lambda rng, a: np.matrix(a) if a.ndim == 2 else a,
}
SPOILS: dict[str, Callable[[Random, Array], Array]] = {
    "with NaN": lambda rng, a: _put(rng, a, np.nan),
    "with an infinity": lambda rng, a: _put(rng, a, rng.choice((np.inf, -np.inf))),
    "huge": lambda rng, a: _put(rng, a, 3e38),
    "too huge": lambda rng, a: _put(rng, a.astype(np.float64), 1e300),
    "denormal": lambda rng, a: _put(rng, a, 1e-45),
    "negative": lambda rng, a: -a if a.dtype.kind != "b" else ~a,
    "empty": lambda rng, a: a[:0],
    "without features": lambda rng, a: a[..., :0],
    "without axes": lambda rng, a: a.reshape(-1)[:1].reshape(()),
    "flat": lambda rng, a: a.reshape(-1),
    "with an axis more": lambda rng, a: a[None],
    "one longer": lambda rng, a: np.concatenate([a, a[:1]]),
    "a column more": lambda rng, a: np.concatenate([a, a[..., :1]], -1),
    "all the same": lambda rng, a: np.full_like(a, a.reshape(-1)[0]),
    "all zero": lambda rng, a: np.zeros_like(a),
}


def plain(given: Any) -> Array | None:
    """The numbers of an argument, contiguous, in the machine's own byte order; None if it has
    none.
    """
    if isinstance(given, Tensor):
        if given.is_meta or given.is_complex() or (given.is_nested and not given.size(0)):
            return None
        with torch.no_grad():
            dense = (
                torch.stack(list(given.unbind())) if given.is_nested else given.detach().to_dense()
            )
            return (dense.float() if dense.dtype == torch.bfloat16 else dense).clone().numpy()
    array = np.array(given, dtype=None, order="C")
    if array.dtype == object:
        array = np.array(array.tolist())
    if array.dtype.kind == "U":  # scikit-learn reads numbers that are written out
        with suppress(ValueError):
            return array.astype(np.float64)
    if array.dtype.kind not in "fiub":
        return None
    return np.ascontiguousarray(
        array, dtype=np.float64 if array.dtype.kind == "f" and array.itemsize > 8 else None
    )


def _read_only(array: Array) -> Array:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def _cast(array: Array, kind: str) -> Array:
    with np.errstate(all="ignore"):
        return array.astype(kind)


def _put(rng: Random, array: Array, value: float) -> Array:
    with np.errstate(all="ignore"):
        copy = array.astype(array.dtype if array.dtype.kind == "f" else np.float64)
        copy.reshape(-1)[rng.randrange(copy.size)] = value
    return copy


def _in_inference(tensor: Tensor) -> Tensor:
    with torch.inference_mode():
        return tensor.clone()
