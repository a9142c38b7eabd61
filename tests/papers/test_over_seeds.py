"""Means over runs beside a paper's number, and verdicts: clear or not."""

import math

import pytest
import torch
from scipy import stats

from papers.over_seeds import CLEAR, above, above_in_pairs, all_of, over_seeds
from papers.paper import Published


def test_one_run_has_no_spread():
    found = over_seeds("AUROC", [0.25])
    assert (found.ours, found.spread, found.paper, found.paper_spread) == (0.25, None, None, None)


def test_shares_become_per_cent():
    found = over_seeds("accuracy", [0.91, 0.93], Published(92.4, 0.2), "%")
    assert (found.ours, found.spread, found.paper, found.paper_spread) == pytest.approx(
        (92, 2**0.5, 92.4, 0.2), 1e-5
    )
    assert over_seeds("accuracy", [0.5], 50.0, "%").ours == 50.0


@pytest.fixture
def groups(seed):
    """Many pairs of groups of runs, some apart and some not."""
    draws = torch.Generator().manual_seed(seed)
    return [
        (
            torch.randn(3 + n % 3, generator=draws).tolist(),
            (torch.randn(4, generator=draws) + n / 20).tolist(),
        )
        for n in range(60)
    ]


def test_independent_runs_are_compared_by_the_standard_error_of_welch(groups):
    seen = set()
    for ours, theirs in groups:
        t = stats.ttest_ind(ours, theirs, equal_var=False).statistic
        wanted = None if abs(t) <= CLEAR else bool(t > 0)
        assert above(ours, theirs) is wanted
        seen.add(wanted)
    assert seen >= {None, False}
    assert all(
        above(theirs, ours) is (None if found is None else not found)
        for ours, theirs in groups
        for found in [above(ours, theirs)]
    )


def test_pairs_are_compared_by_their_differences(groups):
    for ours, theirs in groups:
        count = min(map(len, (ours, theirs)))
        t = stats.ttest_rel(ours[:count], theirs[:count]).statistic
        assert above_in_pairs(ours[:count], theirs[:count]) is (
            None if abs(t) <= CLEAR else bool(t > 0)
        )


def test_of_single_runs_the_numbers_decide():
    assert above([0.6], [0.5]) is True
    assert above([0.5], [0.5]) is False
    assert above_in_pairs([0.5], [0.6]) is False


def test_a_single_run_is_taken_to_spread_like_the_others():
    others = [0.1, 0.3]  # their standard deviation is 0.2 / √2
    error = 0.2 / math.sqrt(2) * math.sqrt(1 / 2 + 1)
    assert above([0.2 + 1.99 * error], others) is None
    assert above([0.2 + 2.01 * error], others) is True


def test_equal_means_are_not_clear_where_runs_spread():
    assert above([0.4, 0.6], [0.5, 0.5]) is None


def test_all_of_nothing_holds():
    assert all_of([]) is True
