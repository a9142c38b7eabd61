from dataclasses import FrozenInstanceError
from itertools import pairwise, permutations
from math import inf, nan

import numpy as np
import pytest
import sklearn.metrics
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nescio.errors import NescioError
from nescio.metrics import auroc, rejection_curve, roc_curve

quickly = settings(max_examples=60, deadline=None, derandomize=True)
answers = st.lists(st.tuples(st.booleans(), st.integers(0, 3)), min_size=1, max_size=12)
others = st.lists(st.integers(0, 3), max_size=8)
scores = st.lists(st.integers(-3, 3), min_size=1, max_size=25)


def trapezoids(curve):
    return float(sklearn.metrics.auc(curve.unknown, curve.known))


def normals(seed, n, m, shift):
    rng = np.random.default_rng(seed)
    return rng.normal(size=n), rng.normal(shift, size=m)


@quickly
@given(scores, scores)
def test_the_area_is_auroc_also_with_ties(known, unknown):
    curve = roc_curve(known, unknown)
    assert curve.area == auroc(known, unknown)
    assert trapezoids(curve) == pytest.approx(curve.area, abs=1e-14)


@pytest.mark.parametrize("decimals", [1, 8])
def test_every_point_is_scikit_learns(seed, decimals):
    known, unknown = (np.round(v, decimals) for v in normals(seed, 700, 400, 1.0))
    curve = roc_curve(known, unknown)
    positive = np.repeat([1, 0], [700, 400])
    fpr, tpr, _ = sklearn.metrics.roc_curve(
        positive, -np.concatenate([known, unknown]), drop_intermediate=False
    )
    assert curve.unknown == pytest.approx(fpr, abs=1e-15)
    assert curve.known == pytest.approx(tpr, abs=1e-15)
    assert curve.area == pytest.approx(sklearn.metrics.auc(fpr, tpr), abs=1e-14)
    assert curve.area == auroc(known, unknown)


@quickly
@given(scores, scores)
def test_points_are_shares_at_or_below_each_score(known, unknown):
    curve = roc_curve(known, unknown)
    thresholds = sorted({*known, *unknown})
    assert curve.known.tolist() == [
        0,
        *(sum(s <= t for s in known) / len(known) for t in thresholds),
    ]
    assert curve.unknown.tolist() == [
        0,
        *(sum(s <= t for s in unknown) / len(unknown) for t in thresholds),
    ]


def test_known_inputs_are_the_positives():
    curve = roc_curve([0.0, 1.0], [2.0, 3.0])
    assert list(zip(curve.unknown.tolist(), curve.known.tolist(), strict=True)) == [
        (0, 0),
        (0, 0.5),
        (0, 1),
        (0.5, 1),
        (1, 1),
    ]
    assert curve.area == 1
    assert roc_curve([2.0, 3.0], [0.0, 1.0]).area == 0
    assert roc_curve([1.0, 1.0], [1.0]).area == 0.5


@pytest.mark.parametrize("shift", [-1.0, 0.0, 0.5, 1.0, 2.3, 4.0, 9.0])
@pytest.mark.parametrize(
    ("n", "m", "most"), [(10_000, 10_000, 1e-4), (10_000, 26_032, 1e-4), (300, 3000, 5e-4)]
)
def test_a_thinned_curve_keeps_its_area(seed, n, m, most, shift):
    whole = roc_curve(*normals(seed, n, m, shift))
    thin = whole.at()
    assert len(thin.known) == len(thin.unknown) == 201
    assert thin.area == whole.area
    assert trapezoids(thin) == pytest.approx(
        whole.area, abs=most
    )  # of 60 seeds the worst: 5.5e-5, 4.5e-5, 3.0e-4
    assert (thin.known[[0, -1]].tolist(), thin.unknown[[0, -1]].tolist()) == ([0, 1], [0, 1])
    assert (np.diff(thin.known) >= 0).all()
    assert (np.diff(thin.unknown) >= 0).all()
    assert thin.known + thin.unknown == pytest.approx(
        np.linspace(0, 2, 201), abs=1e-12
    )  # all of them on the curve


@pytest.mark.parametrize("points", [2, 3, 11, 101])
def test_a_staircase_is_the_worst_there_is(points):
    """Every step of the thinned curve cuts off one corner of the same size, all on one side."""
    steps = points - 1
    unknown = np.arange(steps).repeat(50)
    whole = roc_curve(np.arange(steps).repeat(50) - 0.5 + np.linspace(0, 0.1, 50 * steps), unknown)
    lost = whole.area - trapezoids(whole.at(points))
    assert lost == pytest.approx(0.5 / steps, abs=1e-12)


def test_a_short_curve_is_kept_whole():
    whole = roc_curve([0, 1, 1, 2], [1, 2, 2, 3])
    thin = whole.at(5)
    assert (thin.known.tolist(), thin.unknown.tolist()) == (
        whole.known.tolist(),
        whole.unknown.tolist(),
    )
    assert len(whole.known) == 5
    assert len(whole.at(4).known) == 4


def test_infinite_scores_rank_first_and_last():
    curve = roc_curve(torch.tensor([-inf, 0.0]), torch.tensor([inf, 1.0]))
    assert curve.known.tolist() == [0, 0.5, 1, 1, 1]
    assert curve.area == 1


def test_the_results_are_frozen():
    with pytest.raises(FrozenInstanceError):
        roc_curve([0.0], [1.0]).area = 0.0
    with pytest.raises(FrozenInstanceError):
        rejection_curve([True], [0.0]).area = 0.0


@pytest.mark.parametrize(
    ("known", "unknown", "message"),
    [
        ([nan], [1.0], "known_scores has 1 NaN"),
        ([1.0], [nan], "unknown_scores has 1 NaN"),
        ([], [1.0], r"known_scores has shape \(0,\)"),
        ([1.0], [], r"unknown_scores has shape \(0,\)"),
        ([[1.0]], [1.0], r"known_scores has shape \(1, 1\)"),
    ],
)
def test_bad_input_is_named(known, unknown, message):
    with pytest.raises(NescioError, match=message):
        roc_curve(known, unknown)


@pytest.mark.parametrize("points", [1, 0, -3])
def test_bad_points_are_named(points):
    for curve in (roc_curve([0.0], [1.0]), rejection_curve([True], [0.0])):
        with pytest.raises(NescioError, match=f"points must be an int ≥ 2, got {points}"):
            curve.at(points)


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
    """Expected accuracy of the accepted: below the marginal score, and a fair fraction at it."""
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


def test_infinite_scores_rank_first_and_last_in_rejection():
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
def test_bad_input_of_rejection_is_named(correct, known, unknown, message):
    with pytest.raises(NescioError, match=message):
        rejection_curve(correct, known, unknown)
