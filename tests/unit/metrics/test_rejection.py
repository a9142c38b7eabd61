from dataclasses import FrozenInstanceError
from itertools import pairwise, permutations
from math import inf, nan

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nescio.errors import NescioError
from nescio.metrics import rejection_curve

quickly = settings(max_examples=60, deadline=None, derandomize=True)
answers = st.lists(st.tuples(st.booleans(), st.integers(0, 3)), min_size=1, max_size=12)
others = st.lists(st.integers(0, 3), max_size=8)


def over_all_orders(hits, scores):
    """Accuracy of what is kept, mean over every order of the inputs that respects the scores."""
    orders = [
        o
        for o in permutations(range(len(scores)))
        if all(scores[a] <= scores[b] for a, b in pairwise(o))
    ]
    curves = [
        [sum(hits[i] for i in o[:kept]) / kept for kept in range(len(o), 0, -1)] for o in orders
    ]
    return np.mean(curves, axis=0)


def one_by_one(hits, scores):
    """Expected accuracy of what is kept: what lies below the marginal score, and a fair share of what has it."""
    accuracy = []
    for kept in range(len(scores), 0, -1):
        marginal = sorted(scores)[kept - 1]
        below = [h for h, s in zip(hits, scores, strict=True) if s < marginal]
        equal = [h for h, s in zip(hits, scores, strict=True) if s == marginal]
        accuracy.append((sum(below) + (kept - len(below)) * sum(equal) / len(equal)) / kept)
    return accuracy


@pytest.mark.parametrize(
    "scores", [[1, 1, 1, 1, 1], [1, 2, 1, 2, 1], [3, 2, 2, 1, 1], [1, 2, 3, 4, 5]]
)
@pytest.mark.parametrize("hits", [[1, 0, 1, 0, 0], [1, 1, 1, 1, 1], [0, 0, 1, 1, 1]])
def test_ties_are_the_mean_over_all_orders(hits, scores):
    assert rejection_curve(hits, scores).accuracy == pytest.approx(
        over_all_orders(hits, scores), abs=1e-15
    )


@quickly
@given(answers, others)
def test_equal_to_rejecting_one_by_one(known, unknown_scores):
    correct, known_scores = [c for c, _ in known], [s for _, s in known]
    curve = rejection_curve(correct, known_scores, unknown_scores or None)
    scores, n = known_scores + unknown_scores, len(known) + len(unknown_scores)
    assert curve.accuracy == pytest.approx(
        one_by_one(correct + [False] * len(unknown_scores), scores), abs=1e-14
    )
    assert curve.rejected.tolist() == [i / n for i in range(n)]
    assert curve.maximum.tolist() == [min(1, len(known) / (n - i)) for i in range(n)]
    assert curve.area == pytest.approx(sum(curve.accuracy) / n)
    assert curve.maximum_area == pytest.approx(sum(curve.maximum) / n)
    assert (curve.accuracy <= curve.maximum + 1e-15).all()


@quickly
@given(answers, others.filter(bool), st.randoms(use_true_random=False))
def test_the_order_of_the_inputs_is_of_no_account(known, unknown, random):
    def curve():
        return rejection_curve([c for c, _ in known], [s for _, s in known], unknown)

    before = curve()
    random.shuffle(known)
    random.shuffle(unknown)
    assert curve().accuracy.tolist() == before.accuracy.tolist()
    assert curve().area == before.area


def test_a_score_that_knows_everything_reaches_the_maximum():
    curve = rejection_curve([True] * 6, [0, 1, 2, 3, 4, 5], [6, 7, 8])
    assert curve.accuracy.tolist() == curve.maximum.tolist()
    assert curve.area == curve.maximum_area
    assert curve.maximum.tolist() == [6 / 9, 6 / 8, 6 / 7, 1, 1, 1, 1, 1, 1]


def test_wrong_answers_on_known_inputs_count_as_wrong():
    curve = rejection_curve([True, False, True, False], [1, 2, 3, 4])
    assert curve.accuracy.tolist() == [2 / 4, 2 / 3, 1 / 2, 1]
    assert curve.maximum.tolist() == [1, 1, 1, 1]
    assert curve.area == pytest.approx((2 / 4 + 2 / 3 + 1 / 2 + 1) / 4)


def test_a_score_without_information_keeps_the_accuracy_flat():
    curve = rejection_curve([True, False, True, True], [0, 0, 0, 0], [0, 0, 0, 0])
    assert curve.accuracy == pytest.approx(np.full(8, 3 / 8), abs=1e-15)


def test_infinite_scores_rank_first_and_last():
    curve = rejection_curve(
        torch.tensor([True, False]), torch.tensor([-inf, inf]), torch.tensor([0.0])
    )
    assert curve.accuracy.tolist() == [1 / 3, 1 / 2, 1]


@pytest.mark.parametrize(
    ("n", "points", "expected"),
    [(1, 101, 1), (7, 101, 7), (101, 101, 101), (5000, 101, 101), (10, 2, 2)],
)
def test_thinned_curve_keeps_ends_spacing_and_areas(n, points, expected):
    rng = np.random.default_rng(n)
    full = rejection_curve(rng.random(n) < 0.8, rng.normal(size=n))
    thin = full.at(points)
    assert len(thin.rejected) == len(thin.accuracy) == len(thin.maximum) == expected
    assert thin.rejected == pytest.approx(
        np.linspace(0, (n - 1) / n, expected), abs=0.5 / n + 1e-12
    )
    assert (np.diff(thin.rejected) > 0).all()
    places = np.searchsorted(full.rejected, thin.rejected)
    assert thin.accuracy.tolist() == full.accuracy[places].tolist()
    assert (thin.rejected[0], thin.rejected[-1]) == (full.rejected[0], full.rejected[-1])
    assert (thin.area, thin.maximum_area) == (full.area, full.maximum_area)


def test_the_default_is_101_points():
    assert len(rejection_curve([True] * 1000, np.arange(1000)).at().rejected) == 101


def test_the_result_is_frozen():
    with pytest.raises(FrozenInstanceError):
        rejection_curve([True], [0.0]).area = 0.0


@pytest.mark.parametrize(
    ("correct", "known", "unknown", "message"),
    [
        ([True], [1.0, 2.0], None, "correct has 1 inputs and known_scores has 2; expected as many"),
        (
            [True],
            [1.0, 2.0],
            [1.0],
            "correct has 1 inputs and known_scores has 2; expected as many",
        ),
        ([True], [nan], None, "known_scores has 1 NaN"),
        ([True], [1.0], [nan], "unknown_scores has 1 NaN"),
        ([True], [1.0], [], r"unknown_scores has shape \(0,\)"),
        ([], [], None, r"correct has shape \(0,\)"),
        ([[True]], [1.0], None, r"correct has shape \(1, 1\)"),
        ([2], [1.0], None, r"correct has values from 2 to 2; expected values in \[0, 1\]"),
        ([0.5], [1.0], None, "correct has dtype float64; expected bool, or integers 0 and 1"),
    ],
)
def test_bad_input_is_named(correct, known, unknown, message):
    with pytest.raises(NescioError, match=message):
        rejection_curve(correct, known, unknown)


@pytest.mark.parametrize("points", [1, 0, -3])
def test_bad_points_are_named(points):
    with pytest.raises(NescioError, match=f"points is {points}; expected at least 2"):
        rejection_curve([True], [0.0]).at(points)
