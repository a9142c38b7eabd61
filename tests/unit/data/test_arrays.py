"""Bytes of tensors of any layout."""

import numpy as np
import pytest
import torch
from torch import nn

from nescio.core.tensorfile import read_tensors, write_tensors
from nescio.data import Samples
from nescio.data.arrays import tensor_bytes
from nescio.data.batches import fingerprint, halves
from nescio.methods import Ensemble
from nescio.store.model_file import fingerprint as model_fingerprint

WIDE = torch.arange(24, dtype=torch.float32).reshape(4, 6)
LAYOUTS = [
    WIDE,
    WIDE[:, ::2],
    WIDE.T,
    WIDE[1:2, 0],
    WIDE[:1, :1],
    WIDE[0, 0],
    WIDE[:0],
    WIDE.half(),
    WIDE > 3,
]


@pytest.mark.parametrize(
    "values", LAYOUTS, ids=lambda values: f"{tuple(values.shape)}-{values.stride()}"
)
def test_bytes_are_those_of_numpy(values):
    assert tensor_bytes(values).numpy().tobytes() == np.ascontiguousarray(values.numpy()).tobytes()


def test_nothing_is_copied_that_is_contiguous():
    assert tensor_bytes(WIDE).data_ptr() == WIDE.data_ptr()


class Scaled(nn.Module):
    """A network with a single weight that is a part of a larger tensor."""

    def __init__(self, at: int):
        super().__init__()
        self.layer, self.scale = nn.Linear(2, 3), nn.Parameter(WIDE[1:2, at])

    def forward(self, x):
        return self.layer(x) * self.scale


def test_a_single_value_with_a_stride_has_a_checksum(tmp_path):
    assert model_fingerprint(Scaled(0)) != model_fingerprint(Scaled(1))
    write_tensors(tmp_path / "file", "kind", {"a": WIDE[1:2, 0]}, {})
    assert torch.equal(read_tensors(tmp_path / "file", "kind")[0]["a"], WIDE[1:2, 0])
    assert "crc" in fingerprint(Samples(WIDE[:1, :1], torch.arange(6).reshape(3, 2)[1:2, 0]))
    assert len(Ensemble([Scaled(0), Scaled(1)]).networks()) == 2
    first, second = halves([WIDE[row : row + 1, ::6] for row in range(4)])
    assert sum(len(x) for half in (first, second) for x, _ in half) == 4
