"""The gate for arrays and tensors from outside: plain numbers, or an error. It needs no torch."""

import re
from typing import Any

import numpy as np

from nescio.errors import NescioError

Array = np.ndarray[Any, Any]
# torch's names of types that numpy has too, and of some that it has not
NUMPY = re.compile("float(16|32|64)|u?int(8|16|32|64)|bool")
FLOATS = re.compile("bfloat16|float8_e[45]m[23]fn?u?z?")


def is_tensor(values: Any) -> bool:
    """Whether this is one of torch's, known without importing it."""
    return hasattr(values, "detach") and hasattr(values, "layout")


def is_array(values: Any) -> bool:
    """Whether this is a tensor, an array, or what can become one, such as a table of pandas."""
    return is_tensor(values) or hasattr(type(values), "__array__") or isinstance(values, memoryview)


def plain(values: Any) -> Any:
    """Return the tensor, or raise if it is none whose numbers lie in memory one by one."""
    kind, layout = _name(values.dtype), _name(values.layout)
    if values.is_nested:
        raise NescioError("a nested tensor given; expected one whose rows have the same shape")
    if values.is_quantized:
        raise NescioError(
            f"a quantized tensor ({kind}) given; expected plain numbers: call .dequantize()"
        )
    if layout != "strided":
        raise NescioError(
            f"a sparse tensor ({layout}) given; expected a dense one: call .to_dense()"
        )
    if values.is_meta or type(values).__name__ == "FakeTensor":
        raise NescioError("a tensor on the meta device given, which has a shape but no values")
    if not NUMPY.fullmatch(kind) and not FLOATS.fullmatch(kind):
        raise NescioError(f"a tensor of {kind} given; expected real numbers")
    if values.is_neg():
        values = values.resolve_neg()
    if values.is_inference():
        values = values.clone()  # one made in inference mode takes part in no gradient
    if kind in ("uint16", "uint32", "uint64"):
        _check_signed(values.detach().cpu().numpy())
        return values.long()  # torch has hardly any operations for them, nor for float8
    return values.float() if kind.startswith("float8") else values


def as_array(values: Any) -> Array:
    """Return an array of anything numpy can read: numbers, texts or objects."""
    if is_tensor(values):
        values = plain(values).detach().cpu()
        values = values.double() if FLOATS.fullmatch(_name(values.dtype)) else values
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        missing = int(np.ma.getmaskarray(values).sum())
        raise NescioError(f"a masked array given, with {missing} values missing; expected all")
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:  # such as of ragged lists
        kind = type(values).__name__
        raise NescioError(f"a {kind} given that makes no array: {error}") from error
    return array.astype(np.float64) if array.dtype == np.longdouble else array


def numbers(values: Any) -> Array:
    """Return an array of real numbers, in memory that torch can share, or raise."""
    kind = type(values).__name__
    if is_array(values):
        array = as_array(values)
        kind = f"an array of {array.dtype}"
    if not is_array(values) or array.dtype.kind not in "fiub":
        raise NescioError(f"{kind} given; expected a tensor or an array of numbers")
    unsigned = array.dtype.kind == "u" and array.dtype.itemsize > 1
    if unsigned:
        _check_signed(array)
    dtype = np.dtype(np.int64) if unsigned else array.dtype.newbyteorder("=")
    flags, forwards = array.flags, min(array.strides, default=0) >= 0
    usable = flags.c_contiguous and flags.writeable and forwards and array.dtype == dtype
    return array if usable else np.array(array, dtype=dtype, order="C")


def items(name: str, collection: Any) -> list[Any]:
    """Return what a sequence, array or tensor holds as a list of Python's values, or raise."""
    if is_array(collection) and (array := as_array(collection)).ndim > 0:
        values: list[Any] = array.tolist()
        return values
    try:
        return list(collection)
    except TypeError as error:
        raise NescioError(f"{name}={collection!r}; expected a sequence") from error


def integers_refused(dtype: Any) -> NescioError:
    """Return the error for integers, such as bytes of images, where a model takes floats."""
    return NescioError(
        f"inputs must be floating point (images in [0, 1]), not {dtype}, for a model without an "
        "embedding; divide bytes of images by 255, or call .float()"
    )


def _check_signed(array: Array) -> None:
    if array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise NescioError(f"{array.max()} given; expected integers of at most 64 bits with a sign")


def _name(of: Any) -> str:
    return str(of).removeprefix("torch.")
