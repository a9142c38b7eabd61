"""Scores at the ends of what floating point holds."""

import math

import pytest
import torch

from nescio.errors import NescioError
from nescio.scores import OF_LOGITS
from nescio.scores.output import in_order


def test_in_order_is_the_exponential_and_then_a_tail_without_a_jump():
    values = torch.tensor(
        [0.0, -1.0, -599.999999, -600.000001, -601.0, -1e9, -1e200], dtype=torch.float64
    )
    found = in_order(values)
    assert found[:3].tolist() == pytest.approx(
        [1.0, math.exp(-1), math.exp(-599.999999)], rel=1e-12
    )
    assert found[3] / found[2] == pytest.approx(1.0, abs=1e-5)
    assert (found.diff() < 0).all()
    assert (found >= 0).all()


@pytest.mark.parametrize("score", OF_LOGITS)
@pytest.mark.parametrize(
    "logits",
    [
        [[[1.0, 2.0, 3.0]], [[1.0, 2.0, 3.0]]],
        [[[0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0]]],
        [[[900.0, 0.0, 1.0]], [[800.0, 0.0, 2.0]]],
        [[[0.0, 0.0, -400.0]], [[0.0, 0.0, -450.0]]],
    ],
    ids=["equal draws", "uniform", "saturated", "tied"],
)
def test_values_and_gradients_are_finite(score, logits):
    given = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    value = OF_LOGITS[score](given)
    value.sum().backward()
    assert value.isfinite().all()
    assert given.grad.isfinite().all()


def test_a_tie_has_no_margin_and_a_near_tie_a_small_one():
    logits = torch.tensor([[[1.0, 1.0, 0.0], [1.0, 1.0 - 1e-10, 0.0]]], dtype=torch.float64)
    p = 1 / (2 + math.exp(-1.0))
    assert OF_LOGITS["margin"](logits).tolist() == pytest.approx([0.0, -p * 1e-10], rel=1e-5, abs=0)


def test_variance_of_a_class_far_below_the_others_does_not_vanish():
    small, smaller = (
        [[[0.0, 0.0, -a]], [[0.0, 0.0, -b]]] for a, b in ((400.0, 450.0), (800.0, 900.0))
    )
    assert (
        OF_LOGITS["variance"](torch.tensor(small))
        > OF_LOGITS["variance"](torch.tensor(smaller))
        > 0
    )


@pytest.mark.parametrize("score", OF_LOGITS)
def test_logits_too_large_for_their_differences_are_refused(score):
    with pytest.raises(NescioError, match="beyond"):
        OF_LOGITS[score](torch.tensor([[[1e305, -1e305]], [[0.0, 1.0]]], dtype=torch.float64))


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("score", OF_LOGITS)
def test_shorter_floats_are_taken_at_their_word(score, kind, seed):
    logits = torch.randn(3, 10, 5, generator=torch.Generator().manual_seed(seed)).to(kind)
    assert torch.equal(OF_LOGITS[score](logits), OF_LOGITS[score](logits.double()))
