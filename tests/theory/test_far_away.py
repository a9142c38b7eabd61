"""Far away a softmax on a ReLU network becomes certain, whatever the score (papers 1 and 2)."""

import pytest
import torch

import nescio
from nescio.scores import usual_scores


@pytest.fixture(scope="module")
def model():
    known = nescio.data.load("two_moons")
    torch.manual_seed(0)
    model = nescio.methods.Softmax(nescio.models.mlp(2, 2), normalise=known.normalise)
    nescio.train(model, known.train, epochs=20, seed=0)
    return model.double()


def test_confidence_tends_to_one_along_almost_every_ray(model):
    """Theorem 3.1 of Hein et al. 2019."""
    angle = torch.linspace(0, 2 * torch.pi, 1001, dtype=torch.float64)[:-1]
    rays = torch.stack([angle.cos(), angle.sin()], 1)
    confidence = [
        model.confidence(nescio.predict(model, scale * rays)).mean()
        for scale in (1e1, 1e2, 1e4, 1e6)
    ]
    assert confidence == sorted(confidence)
    assert confidence[-1] > 0.999


@pytest.mark.parametrize(
    "score", [spec.name for spec in usual_scores(1) if spec.name not in ("max_logit", "energy")]
)
def test_no_score_of_probabilities_notices_that_it_has_left(model, score):
    """Every such score keeps falling as inputs are scaled, also where p rounds to 1."""
    generator = torch.Generator().manual_seed(1)
    rays = torch.randn(300, 2, generator=generator, dtype=torch.float64)
    values = torch.stack(
        [nescio.scores.SCORES[score](nescio.predict(model, s * rays)) for s in (1e3, 1e4, 1e5, 1e6)]
    )
    assert (values.diff(dim=0) < 0).double().mean() > 0.99
