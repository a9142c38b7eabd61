from math import inf, nan

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from nescio.errors import NescioError
from nescio.metrics import (
    Separation,
    aupr_in,
    aupr_out,
    auroc,
    balanced_threshold,
    fpr_at_tpr,
    ranking,
    separation,
)

EXACT = 1e-12
SINGLES = [auroc, aupr_in, aupr_out, fpr_at_tpr]

few_values = st.lists(st.integers(-4, 4), min_size=1, max_size=30)
any_values = st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=30)
sides = st.one_of(st.tuples(few_values, few_values), st.tuples(any_values, any_values))
quickly = settings(max_examples=60, deadline=None, derandomize=True)


def by_scikit_learn(known, unknown, tpr=0.95):
    scores = np.concatenate([known, unknown]).astype(np.float64)
    is_unknown = np.repeat([0, 1], [len(known), len(unknown)])
    unknown_accepted, known_accepted, _ = roc_curve(
        1 - is_unknown, -scores, drop_intermediate=False
    )
    return Separation(
        roc_auc_score(is_unknown, scores),
        average_precision_score(1 - is_unknown, -scores),
        average_precision_score(is_unknown, scores),
        unknown_accepted[np.flatnonzero(known_accepted >= tpr)[0]],
    )


def by_sample_weight(known, unknown, prevalence):
    scores = np.concatenate([known, unknown])
    is_unknown = np.repeat([0, 1], [len(known), len(unknown)])
    weights = np.where(is_unknown, prevalence / len(unknown), (1 - prevalence) / len(known))
    return (
        average_precision_score(1 - is_unknown, -scores, sample_weight=weights),
        average_precision_score(is_unknown, scores, sample_weight=weights),
    )


def by_pairs(known, unknown):
    known, unknown = np.asarray(known)[:, None], np.asarray(unknown)[None, :]
    return ((unknown > known) + 0.5 * (unknown == known)).mean()


def by_definition_fpr(known, unknown, tpr):
    threshold = min(t for t in known if sum(k <= t for k in known) / len(known) >= tpr)
    return sum(u <= threshold for u in unknown) / len(unknown)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("decimals", [0, 1, 2, 12])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 50), (50, 1), (777, 301), (40_000, 9_000)])
def test_equal_to_scikit_learn_with_few_and_many_ties(n, m, decimals, seed):
    rng = np.random.default_rng(seed)
    known, unknown = rng.normal(0, 1, n).round(decimals), rng.normal(0.7, 2, m).round(decimals)
    assert separation(known, unknown) == pytest.approx(
        by_scikit_learn(known, unknown), abs=EXACT, rel=0
    )


@pytest.mark.parametrize("prevalence", [1e-6, 0.01, 0.3, 0.5, 0.999])
@pytest.mark.parametrize("decimals", [0, 1, 12])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 50), (50, 1), (777, 301), (40_000, 9_000)])
def test_a_prevalence_weights_both_sides_as_scikit_learn_does(n, m, decimals, prevalence):
    rng = np.random.default_rng(n)
    known, unknown = rng.normal(0, 1, n).round(decimals), rng.normal(0.7, 2, m).round(decimals)
    whole = separation(known, unknown, prevalence=prevalence)
    expected = by_sample_weight(known, unknown, prevalence)
    assert whole[1:3] == pytest.approx(expected, abs=EXACT, rel=0)
    assert aupr_in(known, unknown, prevalence=prevalence) == whole.aupr_in
    assert aupr_out(known, unknown, prevalence=prevalence) == whole.aupr_out
    assert (whole.auroc, whole.fpr) == separation(known, unknown)[::3]


@quickly
@given(sides, st.integers(1, 5), st.integers(1, 5))
def test_a_prevalence_counts_as_repeated_inputs_do(both, often, times):
    known, unknown = both
    many, more = known * often, unknown * times
    fraction = len(more) / (len(many) + len(more))
    weighted = separation(known, unknown, prevalence=fraction)
    assert weighted == pytest.approx(separation(many, more), abs=EXACT)


@pytest.mark.parametrize("metric", [aupr_in, aupr_out, separation])
@pytest.mark.parametrize("prevalence", [0, 1, -0.1, 20, nan, "half"])
def test_bad_prevalence_is_named(metric, prevalence):
    with pytest.raises(NescioError, match="prevalence must be a number strictly between 0 and 1"):
        metric([1.0], [2.0], prevalence=prevalence)


@pytest.mark.parametrize("decimals", [1, 12])
def test_single_functions_equal_the_joint_one(decimals):
    rng = np.random.default_rng(5)
    known, unknown = (
        rng.normal(0, 1, 20_011).round(decimals),
        rng.normal(1, 1, 30_001).round(decimals),
    )
    assert [metric(known, unknown) for metric in SINGLES] == list(separation(known, unknown))


@pytest.mark.parametrize("block", [1, 2, 3, 7])
@pytest.mark.parametrize("decimals", [0, 1, 12])
def test_the_size_of_the_blocks_is_of_no_account(monkeypatch, block, decimals):
    rng = np.random.default_rng(block)
    known, unknown = rng.normal(0, 1, 60).round(decimals), rng.normal(0.5, 1, 45).round(decimals)
    whole = separation(known, unknown)
    monkeypatch.setattr(ranking, "BLOCK", block)
    assert separation(known, unknown) == pytest.approx(whole, abs=1e-15, rel=0)


def test_no_block_exceeds_its_size_however_many_scores_are_equal(monkeypatch):
    sizes = []

    def watched(known, unknown, group_counts=ranking.group_counts):
        sizes.append((len(known), len(unknown)))
        return group_counts(known, unknown)

    monkeypatch.setattr(ranking, "group_counts", watched)
    rng = np.random.default_rng(0)
    known = np.concatenate([np.zeros(50_000), rng.normal(size=30_000)])
    unknown = np.concatenate([np.ones(40_000), np.zeros(20_000), rng.normal(size=30_000)])
    for one, other in [(known, unknown), (unknown, known), (known, [9.0]), ([9.0], known)]:
        sizes.clear()
        assert separation(one, other) == pytest.approx(
            by_scikit_learn(one, other), abs=EXACT, rel=0
        )
        assert sum(k + u for k, u in sizes) > 29_000  # the distinct scores, but for the pivots
        assert max(max(size) for size in sizes) < ranking.BLOCK


@pytest.mark.parametrize(
    ("known", "unknown", "expected"),
    [
        ([0, 1], [2, 3], Separation(1.0, 1.0, 1.0, 0.0)),
        ([2, 3], [0, 1], Separation(0.0, (1 / 3 + 2 / 4) / 2, (1 / 3 + 2 / 4) / 2, 1.0)),
        ([1, 1], [1, 1, 1], Separation(0.5, 2 / 5, 3 / 5, 1.0)),
        # below or at 1: one known; at 2: two known and one unknown; at 3: all
        ([1, 2], [2, 3], Separation(0.875, (1 + 2 / 3) / 2, (1 + 2 / 3) / 2, 0.5)),
        ([-inf, 0], [0, inf], Separation(0.875, (1 + 2 / 3) / 2, (1 + 2 / 3) / 2, 0.5)),
        ([-inf, inf], [inf, inf], Separation(0.75, (1 + 2 / 4) / 2, 2 / 3, 1.0)),
        ([0.0], [-0.0], Separation(0.5, 0.5, 0.5, 1.0)),
    ],
)
def test_cases_worked_by_hand(known, unknown, expected):
    assert separation(known, unknown) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    ("known", "unknown", "tpr", "expected"),
    [
        (range(1, 21), [19, 19.5, 20], 0.95, 1 / 3),  # 19 of 20 are 95 %: threshold 19
        (range(1, 22), [19, 20, 20.5, 21], 0.95, 2 / 4),  # 19.95 of 21, so 20: threshold 20
        (range(1, 20), [18, 18.5, 19, 19.5], 0.95, 3 / 4),  # 18 of 19 are 94.7 %: all must pass
        ([7], [6, 7, 8, 9], 0.95, 2 / 4),
        ([7], [6, 7, 8, 9], 0.01, 2 / 4),  # at least one known input is accepted
        ([1, 2, 2, 2], [1, 2, 3, 3], 0.5, 2 / 4),  # the tie at 2 is accepted as a whole
        ([1, 1, 1, 9], [1, 5, 9, 10], 0.75, 1 / 4),
        ([1, 1, 1, 9], [1, 5, 9, 10], 0.76, 3 / 4),
        ([1, 2, 3], [0, 4], 1.0, 1 / 2),
        ([5] * 10, [5] * 10, 0.95, 1.0),
        ([-inf, -inf, inf], [-inf, 0, inf], 2 / 3, 1 / 3),
    ],
)
def test_fpr_cases_worked_by_hand(known, unknown, tpr, expected):
    assert fpr_at_tpr(list(known), unknown, tpr) == expected
    assert separation(list(known), unknown, tpr).fpr == expected


def test_every_decimal_share_asks_for_its_own_count():
    for hundredths in range(1, 101):
        for n in range(1, 301):
            share = hundredths / 100
            assert ranking.accepted_count(n, share) == -(-hundredths * n // 100), (hundredths, n)


def test_the_default_is_95_percent():
    known, unknown = np.arange(100), np.arange(200) / 2
    assert fpr_at_tpr(known, unknown) == fpr_at_tpr(known, unknown, 0.95) == 189 / 200


@quickly
@given(sides, st.integers(1, 100))
def test_equal_to_the_definitions_on_all_pairs(both, hundredths):
    known, unknown = both
    assert auroc(known, unknown) == pytest.approx(by_pairs(known, unknown), abs=EXACT)
    assert fpr_at_tpr(known, unknown, hundredths / 100) == by_definition_fpr(
        known, unknown, hundredths / 100
    )
    assert separation(known, unknown) == pytest.approx(by_scikit_learn(known, unknown), abs=EXACT)


@quickly
@given(sides)
def test_strictly_rising_maps_change_nothing(both):
    known, unknown = (np.array(side, dtype=np.float64) for side in both)
    for rising in (
        lambda s: 8 * s - 3,
        lambda s: s**3,
        lambda s: np.where(s > 0, s * 1024, s / 1024),
    ):
        assert separation(rising(known), rising(unknown)) == separation(known, unknown)


@quickly
@given(sides)
def test_swapping_the_sides_mirrors_the_auroc(both):
    known, unknown = both
    assert auroc(known, unknown) + auroc(unknown, known) == pytest.approx(1, abs=1e-15)


@quickly
@given(sides)
def test_negated_and_swapped_sides_exchange_the_two_aupr(both):
    known, unknown = (np.array(side) for side in both)
    assert aupr_in(-unknown, -known) == pytest.approx(aupr_out(known, unknown), abs=1e-15)
    assert aupr_out(-unknown, -known) == pytest.approx(aupr_in(known, unknown), abs=1e-15)
    assert auroc(-unknown, -known) == auroc(known, unknown)


@quickly
@given(sides, st.integers(2, 4))
def test_repeating_all_data_changes_nothing(both, times):
    known, unknown = both
    once, often = separation(known, unknown), separation(known * times, unknown * times)
    assert often == pytest.approx(once, abs=1e-15)


@quickly
@given(sides, st.randoms(use_true_random=False))
def test_the_order_of_the_inputs_is_of_no_account(both, random):
    known, unknown = both
    before = separation(known, unknown)
    random.shuffle(known)
    random.shuffle(unknown)
    assert separation(known, unknown) == before


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, np.int8, np.uint8, np.int32, np.int64, np.uint64]
)
def test_each_dtype_gives_the_same_numbers(dtype):
    rng = np.random.default_rng(1)
    known, unknown = (
        rng.integers(0, 100, 30_000).astype(dtype),
        rng.integers(10, 120, 20_000).astype(dtype),
    )
    expected = by_scikit_learn(known, unknown)
    assert separation(known, unknown) == pytest.approx(expected, abs=EXACT, rel=0)
    assert separation(known.astype(np.float64), unknown) == separation(known, unknown)


def test_large_integers_are_compared_as_integers():
    large = 2**53
    assert auroc([large], [large + 1]) == 1.0  # as float64 the two are equal


def test_counts_are_exact_where_float32_sums_are_not():
    n = 3 * 10**6  # more than 2²⁴ pairs, and more inputs than BLOCK
    known, unknown = np.arange(n, dtype=np.float32), np.arange(n, dtype=np.float32)
    assert auroc(known, unknown) == 0.5
    assert fpr_at_tpr(known, unknown) == 0.95


def test_torch_tensors_and_strided_arrays_are_read_and_left_as_they_were():
    known, unknown = torch.tensor([3.0, 1.0, 2.0]), np.arange(10.0)[::-3]
    assert auroc(known, unknown) == pytest.approx(by_pairs(known.numpy(), unknown))
    separation(known, unknown)
    assert known.tolist() == [3.0, 1.0, 2.0]
    assert unknown.tolist() == [9.0, 6.0, 3.0, 0.0]


@pytest.mark.parametrize("metric", [*SINGLES, separation, balanced_threshold])
@pytest.mark.parametrize(
    ("known", "unknown", "message"),
    [
        ([], [1.0], r"known_scores has shape \(0,\); expected \(N,\) with N > 0"),
        ([1.0], [], r"unknown_scores has shape \(0,\); expected"),
        ([[1.0]], [1.0], r"known_scores has shape \(1, 1\); expected \(N,\)"),
        ([1.0], 1.0, r"unknown_scores has shape \(\); expected \(N,\)"),
        (
            [1.0, nan, nan],
            [1.0],
            r"known_scores has 2 NaN of 3 values, the first at 1; expected none",
        ),
        ([1.0], np.array([nan], np.float32), r"unknown_scores has 1 NaN of 1 values"),
        (["a"], [1.0], r"known_scores has dtype <U1; expected real numbers"),
        ([1j], [1.0], r"known_scores has dtype complex128; expected real numbers"),
        ([True], [1.0], r"known_scores has dtype bool; expected real numbers"),
    ],
)
def test_bad_scores_are_named(metric, known, unknown, message):
    with pytest.raises(NescioError, match=message):
        metric(known, unknown)


@pytest.mark.parametrize("metric", [fpr_at_tpr, separation])
@pytest.mark.parametrize("tpr", [0, -0.5, 1.0001, 95, nan])
def test_bad_tpr_is_named(metric, tpr):
    with pytest.raises(NescioError, match=r"tpr (is|must be a number)"):
        metric([1.0], [2.0], tpr)


@given(sides)
@quickly
def test_no_threshold_balances_better(pair):
    known, unknown = map(np.array, pair)

    def rate(threshold):
        return (known <= threshold).mean() / 2 + (unknown > threshold).mean() / 2

    found = balanced_threshold(known, unknown)
    places = np.concatenate([known, unknown])
    assert found in places
    rates = [rate(place) for place in places]
    assert rate(found) == pytest.approx(max(rates), abs=EXACT)
    assert found == min(
        place for place, value in zip(places, rates, strict=True) if value > max(rates) - EXACT
    )
