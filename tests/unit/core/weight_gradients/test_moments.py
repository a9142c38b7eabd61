"""Moments of rows, outer products and merged parts, against numpy and scipy on all entries."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nescio.core.weight_gradients import STATISTICS
from nescio.core.weight_gradients.moments import merge, of_outer, of_rows, stack
from single_gradients import assert_close, statistics_of

EPS = torch.finfo(torch.float64).eps
SIZES = STATISTICS[:6]  # those that grow with the entries
DRAWS = {
    "normal": lambda n, p: torch.randn(n, p, dtype=torch.float64),
    "skewed": lambda n, p: torch.randn(n, p, dtype=torch.float64).exp(),
    "far from zero": lambda n, p: 1000 + torch.randn(n, p, dtype=torch.float64),
    "one large": lambda n, p: torch.cat(
        [torch.full((n, 1), -1e6), torch.rand(n, p - 1)], 1
    ).double(),
    "two values": lambda n, p: torch.randint(0, 2, (n, p)).double() - 0.3,
}


def check(moments, rows):
    for column, row in zip(moments.statistics(EPS).T, rows.numpy(), strict=True):
        assert_close(dict(zip(STATISTICS, column.tolist(), strict=True)), statistics_of(row), row)


def outer(left, right):
    return torch.einsum("np,nq->npq", left, right).flatten(1)


@pytest.mark.parametrize("kind", DRAWS)
def test_of_rows(kind, seed):
    torch.manual_seed(seed)
    rows = DRAWS[kind](5, 301)
    check(of_rows(rows), rows)


@pytest.mark.parametrize("left", DRAWS)
@pytest.mark.parametrize("right", DRAWS)
def test_of_an_outer_product(left, right, seed):
    torch.manual_seed(seed)
    a, b = DRAWS[left](4, 17), DRAWS[right](4, 29)
    check(of_outer(a, b), outer(a, b))


def test_of_an_outer_product_with_a_sum_of_zero(seed):
    """As at the last layer, where the gradient in the logits sums to zero."""
    torch.manual_seed(seed)
    a, b = torch.randn(4, 10, dtype=torch.float64), torch.rand(4, 20, dtype=torch.float64)
    a -= a.mean(1, keepdim=True)
    check(of_outer(a, b), outer(a, b))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(st.integers(2, 60), st.integers(-6, 6), st.floats(-3, 3)), min_size=1, max_size=6
    )
)
def test_of_parts_put_together(parts):
    torch.manual_seed(len(parts))
    rows = [
        10.0**power * (shift + torch.randn(3, size, dtype=torch.float64))
        for size, power, shift in parts
    ]
    check(merge([of_rows(part) for part in rows]), torch.cat(rows, 1))


def test_a_part_may_be_one_entry():
    rows = torch.tensor([[1.0, 2.0, 4.0, 8.0]], dtype=torch.float64)
    check(merge([of_rows(part) for part in rows.split(1, 1)]), rows)


def test_more_inputs_come_after_others(seed):
    torch.manual_seed(seed)
    rows = torch.randn(7, 30, dtype=torch.float64)
    together = stack([of_rows(part) for part in rows.split(3)]).statistics(EPS)
    assert torch.equal(together, of_rows(rows).statistics(EPS))


@pytest.mark.parametrize("scale", [1e-290, 1e-100, 1e-30, 1e30, 1e100, 1e290])
def test_sizes_scale_with_the_entries_and_shapes_do_not(scale, seed):
    """Though the fourth power of such entries is beyond all numbers."""
    torch.manual_seed(seed)
    rows, other = torch.randn(3, 40, dtype=torch.float64), torch.randn(3, 10, dtype=torch.float64)
    for plain, scaled in (
        (of_rows(rows), of_rows(rows * scale)),
        (of_outer(rows, other), of_outer(rows * scale, other)),
        (
            merge([of_rows(rows), of_rows(other)]),
            merge([of_rows(rows * scale), of_rows(other * scale)]),
        ),
    ):
        wanted = plain.statistics(EPS)
        wanted[: len(SIZES)] *= scale
        torch.testing.assert_close(scaled.statistics(EPS), wanted, rtol=1e-9, atol=0)


def test_a_part_that_is_nothing_beside_another_leaves_it_its_digits(seed):
    torch.manual_seed(seed)
    rows, small = (
        torch.randn(3, 40, dtype=torch.float64),
        1e-200 * torch.randn(3, 40, dtype=torch.float64),
    )
    check(merge([of_rows(small), of_rows(rows)]), torch.cat([small, rows], 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_entries_too_small_for_a_reciprocal(dtype):
    tiny = torch.finfo(dtype).smallest_normal / 64
    found = of_rows(torch.tensor([[1.0, 2.0, 3.0, 6.0]], dtype=dtype) * tiny).statistics(
        torch.finfo(dtype).eps
    )[:, 0]
    wanted = statistics_of(np.array([1.0, 2.0, 3.0, 6.0]))
    assert found.isfinite().all()
    np.testing.assert_allclose(found[6:], [wanted["skewness"], wanted["kurtosis"]], rtol=1e-5)
    np.testing.assert_allclose(found[:6], [wanted[name] * tiny for name in SIZES], rtol=1e-5)


@pytest.mark.parametrize("value", [0.0, -3.0, 0.1, 1e-40, 1e200])
def test_equal_entries_have_no_spread(value):
    rows = torch.full((2, 1000), value, dtype=torch.float64)
    for moments in (of_rows(rows), merge([of_rows(rows[:, :1]), of_rows(rows[:, 1:])])):
        found = dict(zip(STATISTICS, moments.statistics(EPS)[:, 0].tolist(), strict=True))
        assert (found["std"], found["skewness"], found["kurtosis"]) == (0.0, 0.0, 1.0)
        assert found["min"] == found["max"] == value
        np.testing.assert_allclose(
            [found["mean"], found["l1"] / 1000], [value, abs(value)], rtol=1e-12
        )


def test_entries_that_differ_by_rounding_alone_have_no_spread():
    row = torch.tensor([[0.1 + 0.2, 0.3, 0.3]], dtype=torch.float64)
    assert row.amax() > row.amin()
    assert of_rows(row).statistics(EPS)[5:, 0].tolist() == [0.0, 0.0, 1.0]
    assert of_rows(row + torch.tensor([1e-9, 0, 0])).statistics(EPS)[5, 0] > 0


def test_an_outer_product_of_zeros():
    found = merge(
        [
            of_outer(torch.zeros(1, 3), torch.zeros(1, 4)),
            of_outer(torch.zeros(1, 3), torch.ones(1, 4)),
        ]
    )
    assert found.count == 24
    assert found.statistics(EPS)[:, 0].tolist() == [0.0] * 7 + [1.0]


def test_single_precision_loses_few_digits(seed):
    torch.manual_seed(seed)
    rows = 3 + torch.randn(4, 100_000, dtype=torch.float64)
    found = of_rows(rows.float()).statistics(torch.finfo(torch.float32).eps)
    torch.testing.assert_close(found, of_rows(rows).statistics(EPS), rtol=1e-4, atol=1e-5)
