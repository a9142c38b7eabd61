"""What holds for every score of logits, by membership in OF_LOGITS."""

import pytest
import torch

from nescio.errors import NescioError
from nescio.scores import GRADIENT, OF_LOGITS, SCORES, score_spec, usual_scores

pytestmark = pytest.mark.parametrize("score", OF_LOGITS)


def logits(seed, draws=3, inputs=8, classes=5):
    return 3 * torch.randn(draws, inputs, classes, generator=torch.Generator().manual_seed(seed))


def test_gives_one_finite_number_per_input(score, seed):
    values = SCORES[score](logits(seed))
    assert values.shape == (8,)
    assert values.dtype == torch.float64
    assert values.isfinite().all()


def test_higher_means_more_likely_unknown(score):
    """A prediction that is sure and undisputed scores below one that is uniform or torn."""
    sure = torch.tensor([20.0, 0.0, 0.0]).expand(2, 1, 3)
    torn = torch.tensor([[[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]]])
    values = SCORES[score](torch.cat([sure, torn], 1))
    assert values[0] < values[1]


def test_does_not_mind_the_order_of_inputs_draws_or_classes(score, seed):
    given = logits(seed)
    values = SCORES[score](given)
    torch.testing.assert_close(SCORES[score](given.flip(1)), values.flip(0), rtol=1e-12, atol=0)
    torch.testing.assert_close(SCORES[score](given.flip(0)), values, rtol=1e-12, atol=0)
    torch.testing.assert_close(SCORES[score](given.flip(2)), values, rtol=1e-12, atol=0)


def test_probabilities_alone_matter_unless_it_is_a_score_of_logits(score, seed):
    given = logits(seed).double()
    shifted = SCORES[score](given + 7.0)
    offset = -7.0 if score in ("max_logit", "energy") else 0.0
    torch.testing.assert_close(shifted, SCORES[score](given) + offset, rtol=1e-9, atol=1e-12)


def test_leaves_the_logits_alone(score, seed):
    given = logits(seed)
    before = given.clone()
    SCORES[score](given)
    assert torch.equal(given, before)


def test_one_draw(score, seed):
    one = logits(seed, draws=1)
    if SCORES[score].needs_draws:
        with pytest.raises(NescioError, match="one draw"):
            SCORES[score](one)
    else:
        torch.testing.assert_close(
            SCORES[score](one), SCORES[score](one.expand(4, -1, -1)), rtol=1e-12, atol=1e-14
        )


@pytest.mark.parametrize(
    "bad",
    [
        torch.zeros(2, 5),
        torch.zeros(2, 3, 5, dtype=torch.long),
        torch.zeros(2, 3, 0),
        torch.zeros(2, 0, 5),
        torch.full((2, 3, 5), torch.nan),
        torch.full((2, 3, 5), torch.inf),
        [[0.0, 1.0]],
        torch.tensor(1.0),
    ],
    ids=["matrix", "integers", "no classes", "no inputs", "nan", "inf", "list", "number"],
)
def test_refuses_what_are_no_logits(score, bad):
    with pytest.raises(NescioError, match="logits"):
        SCORES[score](bad)


def test_gradient_is_finite(score, seed):
    given = logits(seed).double().requires_grad_()
    SCORES[score](given).sum().backward()
    assert given.grad.isfinite().all()


def test_is_listed_by_the_name_of_its_function(score):
    assert (SCORES[score] in usual_scores(1)) != SCORES[score].needs_draws
    assert SCORES[score] in usual_scores(2)
    assert score not in GRADIENT
    assert SCORES[score].name == SCORES[score].function.__name__ == score
    assert score_spec(score) is score_spec(SCORES[score].function) is SCORES[score]
