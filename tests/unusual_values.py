"""Arrays and tensors as they come from outside: some mean what plain ones do, others mean
nothing.
"""

import warnings

import numpy as np
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

N, D, C = 12, 4, 3


class ArrayLike:
    """What says itself how to become an array, as a table of pandas does."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.array, dtype=dtype)


def usable(x):
    """Other forms of a tensor `(N, …)` of float32 values that float16 has, too."""
    a = x.numpy()
    frozen = a.copy()
    frozen.flags.writeable = False
    with torch.inference_mode():
        inferred = x.clone()
    return {
        "array": a,
        "double": x.double(),
        "half": x.half(),
        "bfloat16": x.bfloat16(),
        "half array": a.astype(np.float16),
        "long double": a.astype(np.longdouble),
        "requires grad": x.clone().requires_grad_(),
        "with a graph": x.clone().requires_grad_() * 1,
        "of inference mode": inferred,
        "parameter": nn.Parameter(x.clone()),
        "negative strides": a[::-1].copy()[::-1],
        "Fortran order": np.asfortranarray(a),
        "other byte order": a.astype(">f4"),
        "read-only": frozen,
        "nothing masked": np.ma.masked_array(a),
        "negative bit": torch.complex(x, -x).conj().imag,
        "array-like": ArrayLike(a),
        "strided": np.repeat(a, 2, 0)[::2],
    }


def useless(x):
    """What no function can take for numbers `(N, D)` in place of a tensor."""
    a = x.numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, of kinds that are new to it
        sparse = {
            "sparse": x.to_sparse(),
            "sparse rows": x.to_sparse_csr(),
            "sparse columns": x.to_sparse_csc(),
            "sparse blocks": x.to_sparse_bsr((2, 2)),
            "quantized": torch.quantize_per_tensor(x, 0.1, 0, torch.quint8),
            "nested": torch.nested.nested_tensor([x[:2], x[:3]]),
            "jagged": torch.nested.nested_tensor([x[:2], x[:3]], layout=torch.jagged),
        }
        with FakeTensorMode():
            sparse["fake"] = torch.rand(N, D)
    return sparse | {
        "meta": x.to("meta"),
        "complex": x.to(torch.complex64),
        "complex array": a.astype(complex),
        "objects": a.astype(object),
        "nothings": np.full((N, D), None),
        "structured": np.zeros(N, [("a", "f4"), ("b", "f4")]),
        "texts": a.astype(str),
        "byte texts": a.astype("S5"),
        "dates": np.zeros((N, D), "M8[s]"),
        "array-like of text": ArrayLike(a.astype(str)),
        "masked": np.ma.masked_array(a, mask=a >= a.min()),
        "ragged": [[1.0, 2.0], [3.0]],
        "no rows": x[:0],
        "no rows, array": a[:0],
        "no columns": x[:, :0],
        "none at all": torch.empty(0),
        "scalar": torch.tensor(1.5),
        "scalar array": np.array(1.5),
        "bytes": b"abc",
        "dict": {"x": x},
        "set": {1.5},
        "object": object(),
        "module": nn.Identity(),
        "type": torch.Tensor,
        "function": len,
        "ellipsis": ...,
    }


def whole_numbers(x):
    """What is no input for a network of floats, also if it would take it."""
    a = x.numpy()
    return {
        "bytes of images": (x * 255).byte(),
        "bytes, array": (a * 255).astype(np.uint8),
        "int64": (x * 9).long(),
        "int32": (x * 9).int(),
        "uint16": (x * 9).to(torch.uint16),
        "uint64 array": (a * 9).astype(np.uint64),
        "truths": x > 0.5,
        "truths, array": a > 0.5,
    }
