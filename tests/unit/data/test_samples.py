from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from nescio.data import Samples
from nescio.errors import NescioError


def some(count: int = 6) -> Samples:
    images = torch.arange(count * 12, dtype=torch.uint8).view(count, 3, 2, 2)
    return Samples(
        images, torch.arange(count) % 3, {"site": np.array(list("abcdef"[:count]))}, "some"
    )


def test_bytes_are_given_out_as_floats_between_zero_and_one() -> None:
    samples = Samples(torch.tensor([[0, 51, 255]], dtype=torch.uint8), torch.tensor([0]))
    assert samples[0][0].tolist() == pytest.approx([0, 0.2, 1])
    assert samples.inputs.tolist()[0] == pytest.approx([0, 0.2, 1])
    assert samples._stored.dtype == torch.uint8


def test_items_batches_and_loaders_agree() -> None:
    samples = some()
    x, y = samples.take(torch.tensor([4, 1]))
    assert torch.equal(x, torch.stack([samples[4][0], samples[1][0]]))
    assert y.tolist() == [1, 1]
    loaded = torch.cat([batch for batch, _ in DataLoader(samples, 4)])
    assert torch.equal(loaded, samples.take(slice(None))[0])
    assert len(list(samples)) == 6  # a plain for-loop ends


def test_select_takes_columns_along() -> None:
    samples = some().select(torch.tensor([0, 1, 0, 0, 0, 1]).bool(), torch.tensor([-1, -1]))
    assert samples.columns["site"].tolist() == ["b", "f"]
    assert samples.labels.tolist() == [-1, -1]
    assert torch.equal(samples.inputs[1], some().inputs[5])


def test_joined_keeps_order_and_shared_columns() -> None:
    bare = Samples(some().inputs, some().labels)
    both = Samples.joined([some(), some(2)], "both")
    assert len(both) == 8
    assert "".join(both.columns["site"]) == "abcdefab"
    assert Samples.joined([some(), bare], "mixed").columns == {}


@pytest.mark.parametrize(
    ("inputs", "labels", "said"),
    [
        (torch.zeros(3, 2, dtype=torch.int64), torch.zeros(3).long(), "int64"),
        (torch.zeros(3, 2), torch.zeros(2).long(), r"\(3,\) integers"),
        (torch.zeros(3, 2), torch.full((3,), 0.5), "float32"),
        (torch.zeros(0, 2), torch.zeros(0).long(), r"\(0, 2\)"),
        (torch.zeros(3), torch.zeros(3).long(), r"must have shape \(N, …\)"),
    ],
)
def test_what_cannot_be_samples_is_refused(
    inputs: torch.Tensor, labels: torch.Tensor, said: str
) -> None:
    with pytest.raises(NescioError, match=said):
        Samples(inputs, labels, name="bad")


def test_arrays_are_taken_as_tensors_are() -> None:
    samples = Samples(
        np.ones((3, 2), np.float32), np.arange(3, dtype=np.uint8), {"site": ["a", "b", "c"]}
    )  # type: ignore[dict-item]
    assert samples.inputs.tolist() == torch.ones(3, 2).tolist()
    assert samples.labels.dtype == torch.int64
    assert samples.select(torch.tensor([2])).columns["site"].tolist() == ["c"]


@pytest.mark.parametrize(
    ("inputs", "labels"),
    [
        ([[1.0]], [0]),
        (None, None),
        (np.array([["a"]]), np.array([0])),
        (np.zeros((1, 2), complex), np.array([0])),
        (np.zeros((1, 2)), np.array(["a"])),
        (np.zeros((1, 2)), np.array([0.5])),
        (np.float64(1), np.int64(1)),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(inputs: Any, labels: Any) -> None:
    with pytest.raises(NescioError):
        Samples(inputs, labels)


def test_a_column_of_another_length_is_refused() -> None:
    with pytest.raises(NescioError, match="'site'"):
        Samples(torch.zeros(3, 2), torch.zeros(3).long(), {"site": np.zeros(2)})
