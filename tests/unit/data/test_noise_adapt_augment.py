from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from nescio import data
from nescio.data import Samples, adapt, noise
from nescio.data.transforms import AUGMENTATIONS, random_crop, random_flip
from nescio.errors import NescioError


def bytes_of(count: int, *shape: int) -> Samples:
    images = torch.randint(
        256, (count, *shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    return Samples(images, torch.arange(count) % 2, {"i": np.arange(count)}, "photographs")


def test_uniform_images_fill_the_unit_cube() -> None:
    made = noise.samples("uniform", bytes_of(3, 1, 6, 6), 500, seed=1)
    assert made.shape == (1, 6, 6)
    assert made.labels.unique().tolist() == [-1]
    assert made.inputs.min() >= 0
    assert made.inputs.max() < 1
    assert made.inputs.mean().item() == pytest.approx(0.5, abs=0.01)
    assert torch.equal(
        made.inputs, noise.samples("uniform", bytes_of(3, 1, 6, 6), 500, seed=1).inputs
    )


def test_uniform_tables_fill_three_times_the_box() -> None:
    like = Samples(torch.tensor([[0.0, 10.0], [2.0, 10.0], [1.0, 40.0]]), torch.zeros(3).long())
    x = noise.samples("uniform", like, 4000).inputs
    assert x.amin(0).tolist() == pytest.approx([-2, -20], abs=0.5)
    assert x.amax(0).tolist() == pytest.approx([4, 70], abs=0.5)


def test_normal_images_are_cut_to_the_unit_cube() -> None:
    x = noise.samples("normal", bytes_of(3, 1, 6, 6), 2000, seed=1).inputs
    assert x.shape == (2000, 1, 6, 6)
    inside = (x > 0) & (x < 1)
    assert inside.double().mean().item() == pytest.approx(0.3829, abs=0.01)  # P(|z| < ½)
    assert (x == 0).double().mean().item() == pytest.approx(0.3085, abs=0.01)
    assert torch.equal(x, noise.samples("normal", bytes_of(3, 1, 6, 6), 2000, seed=1).inputs)
    assert not torch.equal(x, noise.samples("normal", bytes_of(3, 1, 6, 6), 2000, seed=2).inputs)


def test_normal_tables_have_the_means_and_three_times_the_spread() -> None:
    like = Samples(torch.tensor([[0.0, 10.0], [2.0, 10.0], [1.0, 40.0]]), torch.zeros(3).long())
    x = noise.samples("normal", like, 20_000).inputs
    assert x.mean(0).tolist() == pytest.approx([1, 20], abs=0.7)
    assert x.std(0).tolist() == pytest.approx([3 * (2 / 3) ** 0.5, 3 * 200**0.5], rel=0.03)


@pytest.mark.parametrize("n", [0, 2.5, "3", True])
def test_what_is_no_number_of_noise_inputs(n: Any) -> None:
    with pytest.raises(NescioError, match="n must be"):
        noise.samples("uniform", bytes_of(3, 1, 6, 6), n)
    with pytest.raises(NescioError, match="seed"):
        noise.samples("uniform", bytes_of(3, 1, 6, 6), 2, seed=-1)
    assert len(noise.samples("uniform", bytes_of(3, 1, 6, 6), np.int64(2))) == 2  # type: ignore[arg-type]


def test_far_multiplies_the_distance_to_the_mean() -> None:
    known = data.load("iris").test
    moved, mean = noise.far(known, 50.0), known.inputs.mean(0)
    ratio = (moved.inputs - mean).norm(dim=1) / (known.inputs - mean).norm(dim=1)
    assert ratio.numpy() == pytest.approx(50, rel=1e-4)
    assert moved.labels.unique().tolist() == [-1]
    with pytest.raises(NescioError, match="beyond"):
        noise.far(known, 1e39)


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


def test_tables_of_another_width_are_told_how_wide() -> None:
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


def test_what_noise_cannot_be_made_like_is_told() -> None:
    with pytest.raises(NescioError, match="got Tensor"):
        noise.samples("uniform", torch.zeros(3, 2), 5)  # type: ignore[arg-type]
    with pytest.raises(NescioError, match="got list"):
        noise.far([1.0])  # type: ignore[arg-type]
