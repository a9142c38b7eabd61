"""Every score against its formula, worked out with hundreds of digits."""

import math

import mpmath
import pytest
import torch

from nescio.scores import OF_LOGITS, usual_scores


def exact(score: str, draws: list[list[float]]) -> mpmath.mpf:
    """The textbook formula of a score for one input: draws × classes."""
    probs = []
    for logits in draws:
        weights = [mpmath.e ** mpmath.mpf(value) for value in logits]
        probs.append([weight / sum(weights) for weight in weights])
    mean = [sum(column) / len(draws) for column in zip(*probs, strict=True)]
    best, second = sorted(mean, reverse=True)[:2]

    def entropy(p):
        return -sum(value * mpmath.log(value) for value in p)

    expected = sum(entropy(p) for p in probs) / len(draws)
    columns = list(
        zip(*[[mpmath.e ** mpmath.mpf(v) for v in logits] for logits in draws], strict=True)
    )
    return {
        "max_prob": lambda: mpmath.log(1 - best),
        "margin": lambda: mpmath.log(1 - (best - second)),
        "entropy": lambda: entropy(mean),
        "normalised_entropy": lambda: entropy(mean) / mpmath.log(len(mean)),
        "max_logit": lambda: -mpmath.log(max(sum(column) for column in columns) / len(draws)),
        "energy": lambda: -mpmath.log(sum(sum(column) for column in columns) / len(draws)),
        "expected_entropy": lambda: expected,
        "mutual_information": lambda: entropy(mean) - expected,
        "variance": lambda: (
            sum(
                sum(v * v for v in c) / len(c) - (sum(c) / len(c)) ** 2
                for c in zip(*probs, strict=True)
            )
            / len(mean)
        ),
    }[score]()


EACH = [
    (name, draws)
    for name in OF_LOGITS
    for draws in (1, 3)
    if draws > 1 or not OF_LOGITS[name].needs_draws
]


@pytest.mark.parametrize(("score", "draws"), EACH)
@pytest.mark.parametrize("scale", [2e-5, 0.01, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("agree", [False, True], ids=["any", "sure-of-one-class"])
def test_score_equals_its_formula(score, draws, scale, agree, seed):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(draws, 5, 4, generator=generator, dtype=torch.float64)
    if agree:
        logits[:, :, 2] += 5 * scale
    got = OF_LOGITS[score](logits)
    with mpmath.workdps(500):
        for n in range(5):
            want = exact(score, logits[:, n].tolist())
            # these are logarithms that may be near 0, good to a rounding of 1; others in all digits
            spare = 1e-15 if score in ("margin", "max_logit", "energy") else 1e-260
            assert abs(got[n].item() - want) <= 1e-11 * abs(want) + spare


@pytest.mark.parametrize(
    ("score", "want"),
    [
        ("max_prob", math.log(0.75)),
        ("margin", 0.0),
        ("entropy", math.log(4)),
        ("normalised_entropy", 1.0),
        ("max_logit", 0.0),
        ("energy", -math.log(4)),
        ("expected_entropy", math.log(4)),
        ("variance", 0.0),
        ("mutual_information", 0.0),
    ],
)
def test_uniform_prediction(score, want):
    assert OF_LOGITS[score](torch.zeros(2, 1, 4)).item() == pytest.approx(want, abs=1e-15)


@pytest.mark.parametrize("score", ["variance", "mutual_information"])
def test_equal_draws_do_not_disagree(score, seed):
    draw = torch.randn(1, 20, 6, generator=torch.Generator().manual_seed(seed)) * 10
    assert OF_LOGITS[score](draw.expand(5, -1, -1)).abs().max() < 1e-28


def test_opposite_draws_disagree_by_log_two():
    logits = torch.tensor([[[500.0, 0.0]], [[0.0, 500.0]]])
    assert OF_LOGITS["mutual_information"](logits).item() == pytest.approx(math.log(2), rel=1e-15)
    assert OF_LOGITS["variance"](logits).item() == pytest.approx(0.25, rel=1e-15)
    assert OF_LOGITS["expected_entropy"](logits).item() < 1e-200


def test_mean_is_of_probabilities_not_of_logits():
    logits = torch.tensor([[[0.0, 2.0]], [[0.0, -20.0]]])  # the mean logit prefers class 0 strongly
    p = (1 / (1 + math.exp(-2.0)) + 1 / (1 + math.exp(20.0))) / 2
    assert OF_LOGITS["max_prob"](logits).item() == pytest.approx(math.log(min(p, 1 - p)), rel=1e-12)


@pytest.mark.parametrize(
    ("score", "draws"), [one for one in EACH if one[0] not in ("variance", "mutual_information")]
)
def test_order_survives_saturation(score, draws):
    gaps = torch.tensor(
        [20.0, 40.0, 100.0, 800.0, 5e3, 1e6, 1e9]
    )  # confidence rounds to 1.0 for all of them
    logits = torch.zeros(draws, len(gaps), 3)
    logits[:, :, 1] = gaps
    values = OF_LOGITS[score](logits)
    assert (values.diff() < 0).all(), values


@pytest.mark.parametrize("score", [spec.name for spec in usual_scores(1)])
def test_a_saturated_neighbour_changes_no_digit_and_no_gradient(score, seed):
    usual = 3 * torch.randn(
        1, 6, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    far = torch.tensor([[[5e3, 0.0, 0.0, -1.0, -2.0]]], dtype=torch.float64)
    alone, beside = usual.clone().requires_grad_(), torch.cat([usual, far], 1).requires_grad_()
    values = OF_LOGITS[score](alone), OF_LOGITS[score](beside)
    torch.testing.assert_close(values[1][:-1], values[0], rtol=1e-13, atol=0)
    for value in values:
        value.sum().backward()
    torch.testing.assert_close(beside.grad[:, :-1], alone.grad, rtol=1e-11, atol=1e-15)
    assert beside.grad.isfinite().all()


@pytest.mark.parametrize("score", ["variance", "mutual_information"])
def test_order_of_disagreement_survives_saturation(score):
    gaps = torch.tensor([20.0, 40.0, 100.0, 800.0, 5e3, 1e6])
    logits = torch.zeros(2, len(gaps), 3)
    logits[0, :, 1], logits[1, :, 1] = gaps, 1.5 * gaps
    values = OF_LOGITS[score](logits)
    assert (values.diff() < 0).all(), values
    assert (values > 0).all()


@pytest.mark.parametrize(
    "score", [name for name in OF_LOGITS if name not in ("max_logit", "energy")]
)
def test_what_all_logits_share_costs_no_digits(score, seed):
    """Powers of two, and logits with few digits, so that the sum itself is exact."""
    logits = (
        torch.randint(-40, 40, (3, 6, 5), generator=torch.Generator().manual_seed(seed)).double()
        / 8
    )
    for offset in (2.0**20, -(2.0**45)):
        assert torch.equal(OF_LOGITS[score](logits + offset), OF_LOGITS[score](logits))
