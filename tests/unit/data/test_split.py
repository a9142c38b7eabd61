import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from nescio.data.known import stratified
from nescio.errors import NescioError


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
    with pytest.raises(NescioError, match="here: must have at least 2 inputs of some class"):
        stratified(torch.arange(3), 0.3, 0, "here")
