"""How good the predictions on known inputs are: accuracy, likelihood and calibration."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from nescio.arrays import Array
from nescio.errors import check_int
from nescio.metrics import arrays

BINS = 15  # of a calibration error, as usual


def mmc(confidence: ArrayLike) -> float:
    """Return the mean maximal confidence: the mean over inputs of the largest probability.

    (1/N) Σ_i max_c p_ic, confidence (N,) in [0, 1]; should be high on known inputs and low on
    unknown ones.

    >>> mmc([0.5, 1.0, 0.75])
    0.75
    """
    return float(arrays.confidence_vector(confidence).mean(dtype=np.float64))


def accuracy(predicted: ArrayLike, labels: ArrayLike) -> float:
    """Return the fraction of inputs whose predicted class is their label; −1 never is.

    (1/N) Σ_i [predicted_i = label_i], both (N,) integers, labels ≥ 0.

    >>> accuracy([0, 1, -1, 2], [0, 1, 2, 0])
    0.5
    """
    guess = arrays.integer_vector("predicted", predicted, low=-1)
    truth = arrays.integer_vector("labels", labels, low=0)
    arrays.check_length("predicted", guess, "labels", truth)
    return int(np.count_nonzero(guess == truth)) / len(truth)


def nll(log_probs: ArrayLike, labels: ArrayLike) -> float:
    """Return the mean negative log-likelihood of the labels, in nats; smaller is better.

    −(1/N) Σ_i log p_{i, label_i}, log_probs (N, C) with rows whose exponentials sum to 1, labels
    (N,) in 0 … C − 1. It is inf when a label was given probability 0.

    >>> round(nll([[-0.6931471805599453, -0.6931471805599453]], [1]), 6)
    0.693147
    """
    rows = arrays.probability_rows("log_probs", log_probs, log=True)
    truth = arrays.integer_vector("labels", labels, low=0, classes=rows.shape[1])
    arrays.check_length("log_probs", rows, "labels", truth)
    mean = float(rows[np.arange(len(rows)), truth].mean(dtype=np.float64))
    return 0.0 - mean  # a perfect answer is not −0.0


def brier(probs: ArrayLike, labels: ArrayLike) -> float:
    """Return the Brier score: mean squared distance to the one-hot label; 0 (best) to 2.

    (1/N) Σ_i Σ_c (p_ic − [c = label_i])², probs (N, C) with rows that sum to 1, labels (N,) in 0 …
    C − 1.

    >>> brier([[0.5, 0.5], [1.0, 0.0]], [0, 1])
    1.25
    """
    rows = arrays.probability_rows("probs", probs)
    truth = arrays.integer_vector("labels", labels, low=0, classes=rows.shape[1])
    arrays.check_length("probs", rows, "labels", truth)
    distance = rows.astype(np.float64)
    distance[np.arange(len(rows)), truth] -= 1
    return float(np.square(distance, out=distance).sum()) / len(rows)


def ece(confidence: ArrayLike, correct: ArrayLike, bins: int = BINS) -> float:
    """Return the expected calibration error: how far confidence and accuracy differ, by bin.

    Σ_b (n_b / N) |accuracy_b − mean confidence_b| over the bins ((b − 1)/B, b/B], where 0 goes to
    the first. Confidence (N,) in [0, 1], correct (N,) bool; 0 is perfect.

    >>> ece([0.75, 0.75, 0.25, 0.25], [True, True, False, True], bins=2)
    0.25
    """
    count, confidence_sum, hits = _binned(confidence, correct, bins)
    return float(np.abs(hits - confidence_sum).sum()) / int(count.sum())


@dataclass(frozen=True)
class Reliability:
    """Of each bin `(B,)` of `ece`: count, mean confidence and accuracy, NaN if it is empty."""

    edges: Array  # (B + 1,)
    count: Array
    confidence: Array
    accuracy: Array


def reliability(confidence: ArrayLike, correct: ArrayLike, bins: int = BINS) -> Reliability:
    """Return accuracy against confidence, in the bins of `ece`.

    >>> curve = reliability([0.75, 0.75, 0.25, 0.25], [True, True, False, True], bins=2)
    >>> curve.confidence, curve.accuracy
    (array([0.25, 0.75]), array([0.5, 1. ]))
    """
    count, confidence_sum, hits = _binned(confidence, correct, bins)
    per_input = np.where(count > 0, 1 / np.maximum(count, 1), np.nan)
    edges = np.linspace(0.0, 1.0, bins + 1)
    return Reliability(edges, count, confidence_sum * per_input, hits * per_input)


def _binned(confidence: ArrayLike, correct: ArrayLike, bins: int) -> tuple[Array, Array, Array]:
    """Of each bin: the number of inputs, the sum of confidences, the number of correct ones."""
    values, hits = arrays.confidence_vector(confidence), arrays.correct_vector(correct)
    arrays.check_length("confidence", values, "correct", hits)
    bins = check_int("bins", bins)
    # edges in the confidence's dtype, so that 0.2 falls on the edge 3/15 in float32 as in float64
    upper = (np.arange(1, bins) / bins).astype(values.dtype)
    bin_of = upper.searchsorted(values, side="left")
    totals = partial(np.bincount, bin_of, minlength=bins)
    return totals(), totals(values), totals(hits)
