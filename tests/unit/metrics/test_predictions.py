from fractions import Fraction
from math import ceil, copysign, inf, log, nan

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, log_loss

from nescio.errors import NescioError
from nescio.metrics import accuracy, brier, ece, mmc, nll, reliability

quickly = settings(max_examples=60, deadline=None, derandomize=True)
graded_answers = st.lists(st.tuples(st.integers(0, 64), st.booleans()), min_size=1, max_size=40)


def ece_by_loops(sixty_fourths, correct, bins):
    """Expected calibration error in exact fractions, one bin after the other."""
    error = Fraction(0)
    for b in range(bins):
        inside = [
            i for i, c in enumerate(sixty_fourths) if max(ceil(Fraction(c, 64) * bins) - 1, 0) == b
        ]
        error += abs(
            sum((Fraction(sixty_fourths[i], 64) - correct[i] for i in inside), Fraction(0))
        )
    return float(error / len(correct))


def softmax(seed, n=200, classes=5, dtype=np.float64):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 3, (n, classes))
    probs = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    return probs.astype(dtype), rng.integers(0, classes, n)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_mmc_is_the_mean_in_float64(dtype):
    confidence = np.full(10**6, 0.1, dtype)
    assert mmc(confidence) == pytest.approx(float(dtype(0.1)), abs=1e-12)
    assert mmc([0, 1, 1, 0]) == 0.5
    assert mmc(torch.tensor([0.25, 0.75])) == 0.5


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_accuracy_equals_scikit_learn(dtype):
    rng = np.random.default_rng(0)
    predicted, labels = (
        rng.integers(-1, 4, 500).astype(dtype),
        rng.integers(0, 4, 500).astype(dtype),
    )
    assert accuracy(predicted, labels) == accuracy_score(labels, predicted)


def test_i_do_not_know_is_never_right():
    assert accuracy([-1, -1], [0, 1]) == 0.0


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-6)])
def test_nll_equals_scikit_learn(dtype, tolerance):
    probs, labels = softmax(1)
    expected = log_loss(labels, probs, labels=range(5))
    assert nll(np.log(probs).astype(dtype), labels) == pytest.approx(expected, abs=tolerance)


def test_nll_at_its_ends():
    sure = [[0.0, -inf], [-inf, 0.0]]
    perfect = nll(sure, [0, 1])
    assert (perfect, copysign(1, perfect)) == (0.0, 1.0)
    assert nll(sure, [0, 0]) == inf
    assert nll(np.full((3, 4), log(0.25)), [0, 1, 3]) == pytest.approx(log(4), abs=1e-15)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-6)])
def test_brier_equals_the_distance_to_one_hot_rows(dtype, tolerance):
    probs, labels = softmax(2)
    expected = np.mean(
        [
            sum((p - (c == y)) ** 2 for c, p in enumerate(row))
            for row, y in zip(probs, labels, strict=True)
        ]
    )
    given = probs.astype(dtype)
    assert brier(given, labels.astype(np.uint64)) == pytest.approx(expected, abs=tolerance)
    assert (given == probs.astype(dtype)).all()


def test_brier_at_its_ends():
    sure = np.eye(3)
    assert brier(sure, [0, 1, 2]) == 0.0
    assert brier(sure, [1, 2, 0]) == 2.0
    assert brier(np.full((2, 4), 0.25), [0, 3]) == 0.75


@quickly
@given(
    graded_answers,
    st.sampled_from([1, 2, 3, 7, 15, 16, 64]),
    st.sampled_from([np.float32, np.float64]),
)
def test_ece_equals_exact_fractions(answers, bins, dtype):
    sixty_fourths, correct = [c for c, _ in answers], [right for _, right in answers]
    confidence = np.array(sixty_fourths, dtype) / dtype(64)
    assert ece(confidence, correct, bins) == pytest.approx(
        ece_by_loops(sixty_fourths, correct, bins), abs=1e-14
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bins", [5, 10, 15, 98, 100])
def test_a_confidence_on_an_edge_belongs_to_the_bin_below(bins, dtype):
    for edge in range(1, bins + 1):
        below = (edge - 0.5) / bins
        confidence = np.array(
            [edge / bins, below], dtype
        )  # one bin: the two errors are summed before |·|
        assert ece(confidence, [False, True], bins) == pytest.approx(
            abs(confidence.sum(dtype=float) - 1) / 2, abs=1e-12
        )


def test_zero_belongs_to_the_first_bin():
    assert ece([0.0, 0.5], [True, False], bins=2) == pytest.approx(abs(0.0 + 0.5 - 1) / 2)
    assert ece([0, 1], [False, True]) == 0.0


def test_the_default_is_15_bins():
    rng = np.random.default_rng(3)
    confidence, correct = rng.random(1000), rng.random(1000) < 0.5
    assert (
        ece(confidence, correct)
        == ece(confidence, correct, bins=15)
        != ece(confidence, correct, bins=14)
    )


def test_float32_rounding_above_one_is_not_an_error():
    assert mmc(np.array([1.0000001], np.float32)) == pytest.approx(1, abs=1e-6)
    assert ece(np.array([1.0000001], np.float32), [True]) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mmc([]), r"confidence has shape \(0,\); expected \(N,\) with N > 0"),
        (lambda: mmc([[0.5]]), r"confidence has shape \(1, 1\); expected \(N,\)"),
        (
            lambda: mmc([1.5, 0.5]),
            r"confidence has values from 0.5 to 1.5; expected values in \[0.0, 1.0\]",
        ),
        (lambda: mmc([-0.1]), r"confidence has values from -0.1 to -0.1; expected values in"),
        (lambda: mmc([0.5, nan]), "confidence has 1 NaN of 2 values, the first at 1"),
        (
            lambda: ece([0.5], [True, False]),
            "confidence has 1 inputs and correct has 2; expected as many",
        ),
        (lambda: ece([0.5], [True], bins=0), "bins must be an int ≥ 1, got 0"),
        (lambda: ece([0.5], [2]), r"correct has values from 2 to 2; expected values in \[0, 1\]"),
        (
            lambda: accuracy([0, 1], [0]),
            "predicted has 2 inputs and labels has 1; expected as many",
        ),
        (lambda: accuracy([0], [-1]), "labels has values from -1 to -1; expected at least 0"),
        (lambda: accuracy([-2], [0]), "predicted has values from -2 to -2; expected at least -1"),
        (lambda: accuracy([0.0], [0]), "predicted has dtype float64; expected integers"),
        (lambda: accuracy([0], [0.5]), "labels has dtype float64; expected integers"),
        (
            lambda: brier([[0.5, 0.5]], [2]),
            r"labels has values from 2 to 2; expected values in \[0, 1\]",
        ),
        (
            lambda: brier([[0.5, 0.5]], [-1]),
            r"labels has values from -1 to -1; expected values in \[0, 1\]",
        ),
        (
            lambda: brier([[0.5, 0.5]], [0, 1]),
            "probs has 1 inputs and labels has 2; expected as many",
        ),
        (lambda: brier([0.5, 0.5], [0]), r"probs has shape \(2,\); expected \(N, C\)"),
        (
            lambda: brier(np.empty((0, 3)), []),
            r"probs has shape \(0, 3\); expected \(N, C\) with N > 0 and C > 0",
        ),
        (
            lambda: brier([[1.2, -0.2]], [0]),
            r"probs has values from -0.2 to 1.2; expected values in \[0.0, 1.0\]",
        ),
        (
            lambda: brier([[0.5, 0.5], [0.5, 0.4998]], [0, 0]),
            r"row 1 of probs: the probabilities sum to 0.9998; expected 1 ± 0.0001",
        ),
        (lambda: brier([[nan, 1.0]], [0]), r"probs has 1 NaN of 2 values, the first at \(0, 0\)"),
        (lambda: brier([["a", "b"]], [0]), "probs has dtype <U1; expected real numbers"),
        (
            lambda: nll([[-1.0, -1.0]], [0]),
            r"row 0 of log_probs: the probabilities exp\(log_probs\) sum to 0.735759",
        ),
        (
            lambda: nll([[800.0, -1.0]], [0]),
            r"log_probs has values from -1 to 800; expected values in \[-inf, 0.0\]",
        ),
        (lambda: nll([[0.0, -inf]], [2]), "labels has values from 2 to 2"),
        (lambda: nll([[0.0, -inf]], [[0]]), r"labels has shape \(1, 1\); expected \(N,\)"),
        (lambda: nll([[nan, -inf]], [0]), "log_probs has 1 NaN of 2 values"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(NescioError, match=message):
        call()


def test_a_row_sum_within_tolerance_is_accepted():
    assert brier([[0.5, 0.49995]], [0]) == pytest.approx(0.5, abs=1e-4)


@quickly
@given(answers=graded_answers, bins=st.integers(1, 20))
def test_reliability_is_what_ece_sums_up(answers, bins):
    confidence, correct = (
        np.array([one for one, _ in answers]) / 64,
        [right for _, right in answers],
    )
    found = reliability(confidence, correct, bins)
    nonempty = found.count > 0
    assert np.isnan(found.accuracy[~nonempty]).all()
    assert np.isnan(found.confidence[~nonempty]).all()
    assert found.count.sum() == len(answers)
    gaps = found.count[nonempty] * np.abs(found.accuracy - found.confidence)[nonempty]
    assert gaps.sum() / len(answers) == pytest.approx(ece(confidence, correct, bins), abs=1e-12)
    inside = (found.confidence >= found.edges[:-1] - 1e-12) & (
        found.confidence <= found.edges[1:] + 1e-12
    )
    assert inside[nonempty].all()
