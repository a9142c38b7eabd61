"""Noise: its distributions, its seeds, and what it cannot be made from."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter

from nescio import data
from nescio.data import Samples, noise
from nescio.errors import NescioError


@pytest.fixture
def images(seed):
    return torch.rand(40, 3, 12, 10, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def rows(seed):
    return torch.randn(500, 3, generator=torch.Generator().manual_seed(seed)) * torch.tensor(
        [1.0, 10.0, 0.1]
    )


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_permuted_images_keep_their_pixels_whole(images):
    made = noise.permuted(images, generator=generator())
    before, after = (x.flatten(2).mT.numpy() for x in (images, made))  # (N, pixels, colours)
    for one, other in zip(before, after, strict=True):
        assert np.array_equal(np.unique(one, axis=0), np.unique(other, axis=0))
        assert not np.array_equal(one, other)
    orders = [
        [np.flatnonzero((b == p).all(1))[0] for p in a]
        for b, a in zip(before[:2], after[:2], strict=True)
    ]
    assert orders[0] != orders[1]  # each image has an order of its own


def test_permuted_pixels_go_anywhere_alike():
    x = torch.arange(4.0).reshape(1, 1, 2, 2).expand(8000, 1, 2, 2)
    made = noise.permuted(x, generator=generator()).flatten(1)
    counts = torch.stack([(made == value).double().mean(0) for value in range(4)])
    assert counts.numpy() == pytest.approx(0.25, abs=0.02)


def test_permuted_rows_keep_columns_and_lose_what_ties_them():
    x = torch.randn(2000, 1, generator=generator()) @ torch.tensor([[1.0, 5.0]])
    made = noise.permuted(x, generator=generator())
    assert torch.equal(made.sort(0).values, x.sort(0).values)
    assert np.corrcoef(x.T.numpy())[0, 1] > 0.999
    assert abs(np.corrcoef(made.T.numpy())[0, 1]) < 0.1


@pytest.mark.parametrize("sigma", [1.0, 1.7, 2.5])
def test_low_pass_is_a_gaussian_filter(images, sigma):
    made = noise.low_pass(images.double(), sigma)
    expected = gaussian_filter(
        images.double().numpy(), (0, 0, sigma, sigma), mode="reflect", radius=7
    )
    np.testing.assert_allclose(made.numpy(), expected, rtol=1e-12, atol=1e-14)


def test_low_pass_with_a_sigma_for_each_image(images):
    sigmas = torch.linspace(1, 2.5, len(images))
    together = noise.low_pass(images, sigmas)
    for i in (0, 17, 39):
        torch.testing.assert_close(
            together[i], noise.low_pass(images[i : i + 1], float(sigmas[i]))[0]
        )


def test_low_pass_of_images_smaller_than_the_filter():
    x = torch.rand(2, 1, 3, 5, generator=generator()).double()
    expected = gaussian_filter(x.numpy(), (0, 0, 2, 2), mode="reflect", radius=7)
    np.testing.assert_allclose(noise.low_pass(x, 2.0).numpy(), expected, rtol=1e-12)


def test_stretched_images_reach_from_0_to_1(images):
    made = noise.stretched(0.3 + 0.2 * images)
    assert (made.amin((1, 2, 3)) == 0).all()
    assert (made.amax((1, 2, 3)) == 1).all()
    low, high = images.amin((1, 2, 3), keepdim=True), images.amax((1, 2, 3), keepdim=True)
    torch.testing.assert_close(made, (images - low) / (high - low), rtol=1e-5, atol=1e-6)
    flat = torch.full((1, 1, 4, 4), 0.4)
    assert torch.equal(noise.stretched(flat), flat)


def test_the_mix_is_half_permuted_half_uniform():
    dark = torch.zeros(50, 1, 9, 9)  # permuted and filtered, it stays dark
    made = noise.mixed(dark, generator=generator())
    assert (made[:25] == 0).all()
    assert (made[25:].amax((1, 2, 3)) == 1).all()
    assert noise.mixed(dark[:5], generator=generator()).flatten(1).any(1).sum() == 2
    assert len(noise.mixed(dark[:1])) == 1


def test_the_mix_is_smooth(images):
    made = noise.mixed(images, 400, generator())
    raw = noise.uniform(images, 400, generator())
    assert made.diff(dim=3).abs().mean() < 0.4 * raw.diff(dim=3).abs().mean()


def test_sigmas_are_drawn_for_each_image_or_for_the_batch():
    def roughness(**how):
        made = noise.mixed(torch.zeros(80, 1, 64, 64), generator=generator(), **how)[
            40:
        ]  # the uniform half
        return made.diff(dim=3).abs().mean((1, 2, 3)) / made.std(
            (1, 2, 3)
        )  # it falls as sigma grows

    own, one = roughness(), roughness(one_sigma=True)
    assert own.std() > 4 * one.std()
    wide, narrow = (
        noise.low_pass(torch.rand(40, 1, 64, 64, generator=generator()), s) for s in (2.5, 1.0)
    )
    ends = [(x.diff(dim=3).abs().mean() / x.std()).item() for x in (wide, narrow)]
    assert ends[0] * 0.8 < own.min() < ends[0] * 1.2
    assert ends[1] * 0.8 < own.max() < ends[1] * 1.2


def test_rows_of_the_mix_lie_in_the_wider_box(rows):
    made = noise.mixed(rows, generator=generator())
    low, high = rows.amin(0), rows.amax(0)
    assert ((made[:250] >= low) & (made[:250] <= high)).all()
    assert ((made[250:] < low) | (made[250:] > high)).any(
        1
    ).double().mean() > 0.8  # of three columns, 26/27 outside


@pytest.mark.parametrize("name", noise.NOISES)
def test_follows_from_the_generator(name, images, rows, seed):
    for x in (images, rows, rows.double()):
        first, again = (noise.NOISES[name](x, generator=generator(seed)) for _ in range(2))
        assert torch.equal(first, again)
        assert first.shape == x.shape
        assert first.dtype == x.dtype
        assert not torch.equal(first, noise.NOISES[name](x, generator=generator(seed + 1)))
        assert noise.NOISES[name](x, 7).shape == (7, *x.shape[1:])
        torch.manual_seed(seed)
        own = noise.NOISES[name](x)
        torch.manual_seed(seed)
        assert torch.equal(own, noise.NOISES[name](x))
    made = noise.NOISES[name](images)
    assert made.min() >= 0
    assert made.max() <= 1


@pytest.mark.parametrize("name", noise.NOISES)
def test_a_set_of_it(name, images, seed):
    like = Samples((255 * images).byte(), torch.zeros(40).long())
    made = noise.samples(name, like, 1100, seed=seed)
    assert len(made) == 1100
    assert made.name == f"{name} noise"
    assert (made.labels == -1).all()
    assert made.inputs.flatten(1).unique(dim=0).shape[0] == 1100
    assert len(noise.samples(name, like)) == 40


def test_bad_input_is_reported(images):
    with pytest.raises(NescioError, match="did you mean 'mixed'"):
        noise.samples("mixd", Samples(images, torch.zeros(40).long()))
    with pytest.raises(NescioError, match="did you mean 'permuted'"):
        noise.synthetic("permutd", Samples(images, torch.zeros(40).long()))
    for bad in (torch.zeros(0, 1, 4, 4), torch.zeros(3, 1, 4, 4).long(), torch.zeros(3), [1.0]):
        with pytest.raises(NescioError, match="noise is made from a batch of floats"):
            noise.mixed(bad)
    with pytest.raises(NescioError, match="images"):
        noise.low_pass(torch.zeros(3, 4), 1.0)
    with pytest.raises(NescioError, match="images"):
        noise.stretched(torch.zeros(3, 4))
    for sigma in (0.0, -1.0, float("nan"), torch.ones(2), torch.ones(40, 1), "a"):
        with pytest.raises(NescioError, match="sigma"):
            noise.low_pass(images, sigma)
    with pytest.raises(NescioError, match="n must be"):
        noise.uniform(images, 0)
    with pytest.raises(NescioError, match="from -1 to"):
        noise.mixed(2 * images.round() - 1)


@pytest.mark.parametrize("make", [noise.uniform, noise.normal, noise.permuted, noise.stretched])
@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.to_sparse(),
        lambda x: x.to("meta"),
        lambda x: torch.nested.nested_tensor(list(x), layout=torch.jagged),
    ],
    ids=["sparse", "meta", "nested"],
)
def test_numbers_that_are_not_in_memory_are_refused(make, change, images):
    with pytest.raises(NescioError, match=r"a (sparse|nested) tensor|a tensor on the meta device"):
        make(change(images))


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


def test_what_noise_cannot_be_made_like_is_reported() -> None:
    with pytest.raises(NescioError, match="got Tensor"):
        noise.samples("uniform", torch.zeros(3, 2), 5)  # type: ignore[arg-type]
    with pytest.raises(NescioError, match="got list"):
        noise.far([1.0])  # type: ignore[arg-type]
