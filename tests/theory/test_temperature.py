"""No temperature helps far away (Hein et al. 2019)."""

import pytest
import torch

import nescio
from nescio import TemperatureScaled
from nescio.audit import asymptote


@pytest.fixture(scope="module")
def model():
    known = nescio.data.load("two_moons")
    torch.manual_seed(0)
    model = nescio.methods.Softmax(nescio.models.mlp(2, 2), normalise=known.normalise)
    nescio.train(model, known.train, epochs=20, seed=0)
    return model.double().eval()


@pytest.fixture(scope="module")
def rays():
    angle = torch.linspace(0, 2 * torch.pi, 401, dtype=torch.float64)[:-1]
    return torch.stack([angle.cos(), angle.sin()], 1)


@pytest.mark.parametrize("temperature", [0.1, 3.0, 1000.0])
def test_it_is_as_certain_along_the_same_rays_and_of_the_same_classes(model, rays, temperature):
    """Division by a constant is affine: slopes and intercepts are divided, the order stays."""
    x = torch.zeros_like(rays)
    plain, scaled = (
        asymptote(one, x, rays) for one in (model, TemperatureScaled(model, temperature))
    )
    assert plain.certain.double().mean() > 0.99
    assert torch.equal(scaled.certain, plain.certain)
    assert torch.equal(scaled.winner, plain.winner)
    torch.testing.assert_close(scaled.slope, plain.slope / temperature)
    torch.testing.assert_close(scaled.start, plain.start)
    assert (scaled.limit[scaled.certain].amax(1) == 1).all()


def test_it_only_changes_how_far_that_is(model, rays):
    """Far out the confidence at temperature T and distance T·t is that at 1 and t."""
    law = asymptote(model, torch.zeros_like(rays), rays)
    gap = law.slope.diff(dim=1).abs()[:, 0]
    sure = law.certain & (gap > gap.median())
    t = 1e3 * (law.start + law.intercept.abs().amax(1) / gap)[sure, None]
    for temperature in (3.0, 1000.0):
        scaled = TemperatureScaled(model, temperature)
        near = nescio.predict(scaled, t * rays[sure])[0]
        far = nescio.predict(scaled, temperature * t * rays[sure])[0]
        plain = nescio.predict(model, t * rays[sure])[0]
        torch.testing.assert_close(far.diff(dim=1), plain.diff(dim=1), rtol=2e-3, atol=0)
        assert (near.diff(dim=1).abs() < plain.diff(dim=1).abs()).all()
        assert (nescio.predict(scaled, 1e9 * rays[sure])[0].softmax(1).amax(1) > 0.9999).all()
