import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nescio.data import Normalise, Samples
from nescio.errors import NescioError


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([(1,), (5,), (1, 3, 4), (3, 2, 2), (2, 3)]),
    st.integers(2, 3000),
    st.sampled_from([0.0, 1e4, -3e5]),
)
def test_fitted_agrees_with_numpy(shape: tuple[int, ...], count: int, offset: float) -> None:
    x = np.random.default_rng(count).normal(offset, 2.0, (count, *shape)).astype(np.float32)
    axes = (0, 2, 3) if len(shape) == 3 else 0
    fitted = Normalise.fitted(Samples(torch.from_numpy(x), torch.zeros(count).long()))
    expected = x.astype(np.float64).mean(axes), x.astype(np.float64).std(axes)
    assert fitted.mean.shape == ((shape[0], 1, 1) if len(shape) == 3 else shape)
    np.testing.assert_allclose(
        fitted.mean.numpy().reshape(expected[0].shape), expected[0], rtol=1e-6, atol=1e-6
    )
    np.testing.assert_allclose(
        fitted.std.numpy().reshape(expected[1].shape), expected[1], rtol=1e-5
    )


def test_fitted_on_bytes_speaks_of_the_floats_a_model_sees() -> None:
    images = torch.randint(256, (2500, 3, 4, 4), dtype=torch.uint8)  # more than one chunk
    fitted = Normalise.fitted(Samples(images, torch.zeros(2500).long()))
    x = images.numpy() / 255.0
    np.testing.assert_allclose(fitted.mean.flatten(), x.mean((0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(fitted.std.flatten(), x.std((0, 2, 3)), rtol=1e-6)


def test_a_constant_feature_is_centred_and_keeps_its_scale() -> None:
    x = torch.stack([torch.full((5000,), 0.1), torch.randn(5000)], 1)
    fitted = Normalise.fitted(Samples(x, torch.zeros(5000).long()))
    assert fitted.std[0] == 1
    assert torch.equal(fitted(x)[:, 0], torch.zeros(5000))
    assert fitted(x)[:, 1].std(correction=0).item() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("wrong", [(4, 5), (4,), (4, 2, 1), ()])
def test_a_table_of_the_wrong_width_is_refused(wrong: tuple[int, ...]) -> None:
    for features in (1, 2):
        with pytest.raises(NescioError, match=rf"must be \(N, {features}\)"):
            Normalise(torch.zeros(features), torch.ones(features))(torch.zeros(wrong))


@pytest.mark.parametrize("wrong", [(2, 3, 4, 4), (1, 4, 4), (2, 1)])
def test_images_of_the_wrong_channels_are_refused(wrong: tuple[int, ...]) -> None:
    with pytest.raises(NescioError, match=r"must be \(N, 1, H, W\)"):
        Normalise(torch.zeros(1, 1, 1), torch.ones(1, 1, 1))(torch.zeros(wrong))


def test_images_of_any_size_and_saved_buffers() -> None:
    module = Normalise(torch.full((1, 1, 1), 0.5), torch.full((1, 1, 1), 2.0))
    assert torch.equal(module(torch.ones(2, 1, 3, 7)), torch.full((2, 1, 3, 7), 0.25))
    assert set(module.state_dict()) == {"mean", "std"}


def test_a_scale_of_zero_is_refused() -> None:
    with pytest.raises(NescioError, match="std must be positive"):
        Normalise(torch.zeros(2), torch.tensor([1.0, 0.0]))
