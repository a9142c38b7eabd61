import math

import pytest
import torch

from nescio.core.logits import classes, log_probs, mean_log_probs, softmax_confidence


def test_log_probs_keep_both_ends(seed):
    logits = torch.tensor([[[800.0, 0.0, -3.0], [0.0, 0.0, 0.0]]])
    log_p, log_q = log_probs(logits)
    assert log_q[0, 0, 0].item() == pytest.approx(-800 + math.log1p(math.exp(-3)), rel=1e-15)
    assert log_p[0, 0, 1].item() == pytest.approx(-800, rel=1e-15)
    torch.testing.assert_close(log_p[0, 1].exp(), torch.full((3,), 1 / 3, dtype=torch.float64))
    torch.testing.assert_close(log_q[0, 1].exp(), torch.full((3,), 2 / 3, dtype=torch.float64))


def test_halves_add_up_to_one(seed):
    logits = 4 * torch.randn(5, 50, 7, generator=torch.Generator().manual_seed(seed)).double()
    for log_p, log_q in (log_probs(logits), mean_log_probs(logits)):
        torch.testing.assert_close(
            log_p.exp() + log_q.exp(), torch.ones_like(log_p), rtol=1e-14, atol=0
        )
    torch.testing.assert_close(
        mean_log_probs(logits)[0].exp(), logits.softmax(-1).mean(0), rtol=1e-13, atol=0
    )


def test_confidence_is_the_largest_mean_probability(seed):
    logits = torch.randn(3, 20, 4, generator=torch.Generator().manual_seed(seed)).double()
    torch.testing.assert_close(softmax_confidence(logits), logits.softmax(-1).mean(0).amax(-1))


def test_class_is_that_of_the_mean_probability():
    logits = torch.tensor([[[0.0, 1.0, 0.0]], [[9.0, 0.0, 8.9]], [[0.0, 1.0, 0.0]]])
    assert logits.mean(0).argmax(-1).item() == 0
    assert classes(logits).item() == logits.softmax(-1).mean(0).argmax(-1).item() == 1
