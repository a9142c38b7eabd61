from typing import Any

import numpy as np
import pytest
import torch

from nescio import data
from nescio.errors import NescioError


@pytest.mark.parametrize(
    "unseen",
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
def test_a_class_may_be_given_in_many_ways(unseen: Any) -> None:
    known = data.load("digits", unseen=unseen)
    assert known.classes == tuple("013456789")
    assert known.unseen is not None


@pytest.mark.parametrize("unseen", [None, (), [], np.array([], int)], ids=repr)
def test_nothing_held_out(unseen: Any) -> None:
    known = data.load("digits", unseen=unseen)
    assert len(known.classes) == 10
    assert known.unseen is None


@pytest.mark.parametrize(
    "unseen",
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
def test_what_is_no_class(unseen: Any) -> None:
    with pytest.raises(NescioError) as error:
        data.load("iris", unseen=unseen)
    assert len(str(error.value)) < 300
