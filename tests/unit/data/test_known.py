"""Unseen classes, and the split of a set by class."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from nescio import data
from nescio.data.known import stratified
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
def test_no_class_is_unseen(unseen: Any) -> None:
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


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=60), st.floats(0.05, 0.95), st.integers(0, 5)
)
def test_every_position_is_on_one_side_and_every_class_on_both(
    labels: list[int], share: float, seed: int
) -> None:
    assume(len(set(labels)) < len(labels))
    y = torch.tensor(labels)
    train, test = stratified(y, share, seed, "here")
    assert sorted(train.tolist() + test.tolist()) == list(range(len(labels)))
    for label in set(labels):
        count, held = labels.count(label), int((y[test] == label).sum())
        assert held == 0 if count == 1 else 1 <= held <= count - 1
        assert abs(held - share * count) <= 1
    again = stratified(y, share, seed, "here")
    assert torch.equal(train, again[0])


def test_one_input_of_each_class_leaves_nothing_to_test_on() -> None:
    with pytest.raises(NescioError, match="here: must have 2 or more inputs of some class"):
        stratified(torch.arange(3), 0.3, 0, "here")
