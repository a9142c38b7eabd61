from typing import Any

import numpy as np
import pytest
import torch

from nescio import data
from nescio.errors import NescioError


@pytest.mark.parametrize(
    "hold_out",
    [
        2,
        "2",
        np.int64(2),
        np.uint8(2),
        [2],
        {"2"},
        np.array([2]),
        torch.tensor([2]),
        (np.int32(2), "2"),
    ],
    ids=repr,
)
def test_a_class_may_be_given_in_many_ways(hold_out: Any) -> None:
    known = data.load("digits", hold_out=hold_out)
    assert known.classes == tuple("013456789")
    assert known.held_out is not None


@pytest.mark.parametrize("hold_out", [None, (), [], np.array([], int)], ids=repr)
def test_nothing_held_out(hold_out: Any) -> None:
    known = data.load("digits", hold_out=hold_out)
    assert len(known.classes) == 10
    assert known.held_out is None


@pytest.mark.parametrize(
    "hold_out",
    [
        True,
        [False],
        np.True_,
        [np.False_],
        1.5,
        [1.5],
        [None],
        [[1]],
        object(),
        "7" * 5000,
        ["7" * 5000],
        "2.0",
        "²",
    ],
    ids=lambda one: repr(one)[:20],
)
def test_what_is_no_class(hold_out: Any) -> None:
    with pytest.raises(NescioError) as error:
        data.load("iris", hold_out=hold_out)
    assert len(str(error.value)) < 300
