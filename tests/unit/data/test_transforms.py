"""Normalisation, adaptation to a shape, and augmentation."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from nescio.data import Normalise, Samples, adapt
from nescio.data.transforms import AUGMENTATIONS, random_crop, random_flip
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


def test_means_that_are_not_per_channel_are_explained() -> None:
    module = Normalise(torch.zeros(3), torch.ones(3))
    with pytest.raises(NescioError, match=r"for images, mean and std are \(3, 1, 1\)"):
        module(torch.zeros(2, 3, 8, 8))


def test_images_of_any_size_and_saved_buffers() -> None:
    module = Normalise(torch.full((1, 1, 1), 0.5), torch.full((1, 1, 1), 2.0))
    assert torch.equal(module(torch.ones(2, 1, 3, 7)), torch.full((2, 1, 3, 7), 0.25))
    assert set(module.state_dict()) == {"mean", "std"}


def test_a_scale_of_zero_is_refused() -> None:
    with pytest.raises(NescioError, match="std must be positive"):
        Normalise(torch.zeros(2), torch.tensor([1.0, 0.0]))


def bytes_of(count: int, *shape: int) -> Samples:
    images = torch.randint(
        256, (count, *shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    return Samples(images, torch.arange(count) % 2, {"i": np.arange(count)}, "photographs")


def test_grey_is_the_mean_over_channels() -> None:
    grey = adapt(bytes_of(5, 3, 4, 4), (1, 4, 4))
    assert grey._stored.dtype == torch.uint8
    expected = bytes_of(5, 3, 4, 4)._stored.numpy().astype(float).mean(1, keepdims=True)
    assert np.abs(grey._stored.numpy() - expected).max() <= 0.5
    assert torch.equal(grey.labels, torch.arange(5) % 2)
    assert grey.columns["i"].tolist() == [0, 1, 2, 3, 4]


def test_colour_repeats_grey() -> None:
    grey = bytes_of(4, 1, 4, 4)
    assert torch.equal(adapt(grey, (3, 4, 4))._stored, grey._stored.repeat(1, 3, 1, 1))


@pytest.mark.parametrize("size", [(28, 28), (16, 40)])
def test_the_size_changes_as_pillow_does_it(size: tuple[int, int]) -> None:
    photographs = bytes_of(3, 1, 32, 32)
    resized = adapt(photographs, (1, *size))._stored
    for image, ours in zip(photographs._stored, resized, strict=True):
        theirs = Image.fromarray(image[0].numpy()).resize(size[::-1], Image.Resampling.BILINEAR)
        assert np.abs(ours[0].numpy().astype(int) - np.array(theirs).astype(int)).max() <= 1


def test_floats_stay_floats_and_chunks_do_not_matter() -> None:
    x = torch.rand(1030, 3, 4, 4)
    samples = Samples(x, torch.zeros(1030).long())
    small = adapt(samples, (1, 2, 2))
    assert small.inputs.dtype == torch.float32
    assert small.inputs.shape == (1030, 1, 2, 2)
    assert torch.equal(
        small.inputs[1025:], adapt(Samples(x[1025:], torch.zeros(5).long()), (1, 2, 2)).inputs
    )
    assert adapt(samples, (3, 4, 4)) is samples


@pytest.mark.parametrize(("given", "wanted"), [((3,), (1, 2, 2)), ((1, 2, 2), (2, 2, 2))])
def test_what_cannot_be_adapted(given: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    with pytest.raises(NescioError, match="cannot take the shape"):
        adapt(Samples(torch.rand(2, *given), torch.zeros(2).long()), wanted)


def test_tables_of_another_width_are_reported_with_their_width() -> None:
    with pytest.raises(NescioError, match=r"^wines has 3 features; expected 4$"):
        adapt(Samples(torch.rand(2, 3), torch.zeros(2).long(), name="wines"), (4,))


def test_each_crop_is_a_window_of_the_padded_image() -> None:
    torch.manual_seed(0)
    x = torch.rand(60, 2, 5, 6)
    padded = torch.nn.functional.pad(x, (2, 2, 2, 2))
    seen = set()
    for image, crop in zip(padded, random_crop(x, 2), strict=True):
        places = [
            (i, j)
            for i in range(5)
            for j in range(5)
            if torch.equal(image[:, i : i + 5, j : j + 6], crop)
        ]
        assert len(places) == 1
        seen.add(places[0])
    assert len(seen) > 15  # of 25: each image moves on its own


def test_a_flip_mirrors_about_half_of_the_images() -> None:
    torch.manual_seed(0)
    x = torch.rand(400, 1, 3, 5)
    flipped = random_flip(x)
    same = (flipped == x).flatten(1).all(1)
    assert torch.equal(flipped[~same], x[~same].flip(-1))
    assert 150 < same.sum() < 250


@pytest.mark.parametrize("name", list(AUGMENTATIONS))
def test_augmentations_follow_the_global_seed_and_want_images(name: str) -> None:
    x = torch.rand(9, 1, 6, 6)
    results = []
    for _ in range(2):
        torch.manual_seed(3)
        results.append(AUGMENTATIONS[name](x))
    assert torch.equal(*results)
    assert results[0].shape == x.shape
    with pytest.raises(NescioError, match=r"\(9, 36\)"):
        AUGMENTATIONS[name](x.flatten(1))
