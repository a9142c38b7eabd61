"""Priors: densities and divergences against torch.distributions and against integrals."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm
from torch import distributions as D

from nescio.errors import NescioError
from nescio.methods.prior import Gaussian, ScaleMixture, make_prior

MIXTURE = (0.25, 1.0, 0.05)


@pytest.fixture
def weights(seed):
    return torch.randn(200, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * 2


def density(w, share, std_1, std_2):
    return share * norm.pdf(w, 0, std_1) + (1 - share) * norm.pdf(w, 0, std_2)


def integrated(mean, std, prior):
    """`KL(N(mean, std²) ‖ prior)` by quadrature."""

    def inner(w):
        return norm.pdf(w, mean, std) * (norm.logpdf(w, mean, std) - np.log(density(w, *prior)))

    return quad(inner, mean - 12 * std, mean + 12 * std, points=[0.0], limit=500, epsabs=1e-12)[0]


@pytest.mark.parametrize("std", [0.01, 1.0, 30.0])
def test_density_of_a_gaussian(weights, std):
    want = D.Normal(torch.tensor(0.0).double(), std).log_prob(weights)
    torch.testing.assert_close(Gaussian(std).log_prob(weights), want, rtol=1e-12, atol=1e-12)


def test_density_of_a_mixture(weights):
    share, one, two = torch.tensor(MIXTURE, dtype=torch.float64)
    parts = D.Normal(torch.zeros(2).double(), torch.stack([one, two]))
    want = D.MixtureSameFamily(D.Categorical(torch.stack([share, 1 - share])), parts).log_prob(
        weights
    )
    torch.testing.assert_close(
        ScaleMixture(*MIXTURE).log_prob(weights), want, rtol=1e-12, atol=1e-12
    )


def test_densities_hold_where_they_underflow():
    far = torch.tensor([100.0], dtype=torch.float64)
    want = -0.5 * 100.0**2 - 0.5 * math.log(2 * math.pi) + math.log(0.25)
    assert ScaleMixture(*MIXTURE).log_prob(far).item() == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("std", [0.1, 1.0, 5.0])
def test_divergence_of_gaussians_is_the_closed_form(weights, std):
    spread = weights.abs() + 0.01
    prior = D.Normal(torch.zeros(200).double(), std)
    want = D.kl_divergence(D.Normal(weights, spread), prior).sum()
    torch.testing.assert_close(
        Gaussian(std).divergence(weights, spread, weights[None]), want, rtol=1e-12, atol=0
    )


def test_divergence_of_gaussians_is_the_integral():
    mean, spread = (
        torch.tensor([0.7], dtype=torch.float64),
        torch.tensor([0.3], dtype=torch.float64),
    )
    found = Gaussian(0.5).divergence(mean, spread, mean).item()
    assert found == pytest.approx(integrated(0.7, 0.3, (0.5, 0.5, 0.5)), rel=1e-9)


def test_divergence_from_itself_is_zero():
    zeros, twos = torch.zeros(7, dtype=torch.float64), torch.full((7,), 2.0, dtype=torch.float64)
    assert Gaussian(2.0).divergence(zeros, twos, zeros).item() == 0


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (0.4, 0.1), (-0.05, 0.02), (2.0, 0.5)])
def test_sampled_divergence_from_a_mixture_is_the_integral(mean, std, seed):
    torch.manual_seed(seed)
    m, s, prior = (
        torch.tensor([mean]).double(),
        torch.tensor([std]).double(),
        ScaleMixture(*MIXTURE),
    )
    estimates = torch.stack(
        [prior.divergence(m, s, m + s * torch.randn(20, 1).double()) for _ in range(2000)]
    )
    off = estimates.std() / math.sqrt(2000)
    assert abs(estimates.mean() - integrated(mean, std, MIXTURE)) < 5 * off


def test_a_mixture_of_equals_is_a_gaussian(weights):
    torch.testing.assert_close(
        ScaleMixture(0.3, 0.7, 0.7).log_prob(weights), Gaussian(0.7).log_prob(weights)
    )


def test_divergence_from_a_mixture_is_summed_over_weights_and_averaged_over_draws(weights):
    prior, spread = ScaleMixture(*MIXTURE), weights.abs() + 0.01
    drawn = torch.stack([weights + spread, weights - 2 * spread])
    each = D.Normal(weights, spread).entropy().sum()
    want = -sum(np.log(density(w.numpy(), *MIXTURE)).sum() for w in drawn) / 2 - each
    torch.testing.assert_close(prior.divergence(weights, spread, drawn), want)


@pytest.mark.parametrize("prior", [Gaussian(0.5), ScaleMixture(*MIXTURE)])
def test_gradients_of_the_divergence(prior):
    noise = torch.randn(4, 3, dtype=torch.float64)
    start = [
        torch.randn(3, dtype=torch.float64, requires_grad=True),
        torch.rand(3).double().add_(0.1).requires_grad_(),
    ]
    assert torch.autograd.gradcheck(
        lambda mean, std: prior.divergence(mean, std, mean + std * noise), start
    )


STD = "prior must be a number"
MIXED_STD = "the std of a mixture must be"
FRACTION = "the fraction of a mixture must be"
THREE = "prior must be a std, or"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (0, STD),
        (0.0, STD),
        (-1, STD),
        (math.nan, STD),
        (math.inf, STD),
        (True, STD),
        (None, STD),
        ("1", STD),
        ("abc", STD),
        ({"std": 1}, STD),
        (10**400, STD),
        (10**5000, STD),
        ((), THREE),
        ((1.0,), THREE),
        ((0.5, 1), THREE),
        ((0.5, 1, 2, 3), THREE),
        ([[0.5, 1, 1]], THREE),
        ((0, 1, 1), FRACTION),
        ((1, 1, 1), FRACTION),
        ((1.5, 1, 1), FRACTION),
        ((0.5, -1, 1), MIXED_STD),
        ((0.5, 1, 0), MIXED_STD),
        ((0.5, 1, math.nan), MIXED_STD),
        ((0.5, 1, math.inf), MIXED_STD),
        ((0.5, "1", 1), MIXED_STD),
        ((0.5, True, 1), MIXED_STD),
    ],
    ids=lambda value: str(value)[:20] if not isinstance(value, int) else "number",
)
def test_bad_priors_are_refused(given, message):
    with pytest.raises(NescioError, match=message):
        make_prior(given)


@pytest.mark.parametrize("given", [2, 2.0, np.float32(2), np.int64(2)], ids=repr)
def test_numbers_of_any_type_are_standard_deviations(given):
    assert make_prior(given) == Gaussian(2.0)


def test_lists_as_in_files_are_mixtures():
    assert make_prior([0.25, 1, 0.05]) == make_prior(MIXTURE) == ScaleMixture(*MIXTURE)
