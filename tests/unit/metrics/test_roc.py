from dataclasses import FrozenInstanceError
from math import inf, nan

import numpy as np
import pytest
import sklearn.metrics
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nescio.errors import NescioError
from nescio.metrics import auroc, roc_curve

quickly = settings(max_examples=60, deadline=None, derandomize=True)
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


def test_the_result_is_frozen():
    with pytest.raises(FrozenInstanceError):
        roc_curve([0.0], [1.0]).area = 0.0


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
    with pytest.raises(NescioError, match=f"points is {points}; expected at least 2"):
        roc_curve([0.0], [1.0]).at(points)
