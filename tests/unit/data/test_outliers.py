import pytest
import torch

from nescio.data.outliers import (
    IMAGES,
    ROWS,
    TOKENS,
    averaged,
    inverted,
    make_outliers,
    pasted,
    patches,
    scaled,
    strokes,
)
from nescio.errors import NescioError


@pytest.fixture
def generator(seed):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def images(generator):
    return torch.rand(30, 3, 10, 13, generator=generator), torch.arange(30) % 3


def marked(classes):
    """Images that say which input, and so which class, each pixel comes from."""
    return torch.arange(len(classes)).float()[:, None, None, None].expand(-1, 1, 8, 8).contiguous()


def test_two_in_one_are_of_different_classes(generator):
    y = torch.tensor([0] * 20 + [1] * 3 + [2] * 7)
    x = marked(y)
    halves = pasted(x, y, generator)
    means = averaged(x, y, generator)[:, 0, 0, 0]
    for index in range(30):
        found = halves[index].unique().tolist()
        assert len(found) == 2
        assert index in found
        assert (halves[index] == index).sum() == 32  # of 64 pixels
        assert {y[int(one)].item() for one in found} != {y[index].item()}
        other = 2 * means[index] - index
        assert other in range(30)
        assert y[int(other)] != y[index]


def test_every_input_of_another_class_is_as_likely_a_partner(generator):
    y = torch.tensor([0] * 4 + [1, 2, 2])
    partners = torch.stack(
        [2 * averaged(marked(y), y, generator)[:, 0, 0, 0] - torch.arange(7) for _ in range(3000)]
    )
    share = (partners[:, 4:5] == torch.arange(7)).double().mean(0)  # of the one input of class 1
    torch.testing.assert_close(
        share, torch.tensor([1, 1, 1, 1, 0, 1, 1]) / 6.0, rtol=0, atol=0.03, check_dtype=False
    )


def test_one_class_alone_still_makes_outliers(generator):
    x = torch.rand(5, 4, generator=generator)
    assert averaged(x, torch.zeros(5).long(), generator).shape == x.shape


def test_patches_move_whole(generator, images):
    x, y = images
    made = patches(x, y, generator)
    assert not torch.equal(made, x)
    torch.testing.assert_close(made.sort(dim=3).values.sum(), x.sum())
    assert torch.equal(
        made[:, :, :, 12:], x[:, :, :, 12:]
    )  # 13 pixels are four patches of 3, and one left over
    places = [(r, c) for r in range(0, 10, 2) for c in range(0, 12, 3)]
    whole, moved = (
        {tuple(one[0, 0, r : r + 2, c : c + 3].flatten().tolist()) for r, c in places}
        for one in (x, made)
    )
    assert moved == whole


def test_closed_forms(generator):
    x = torch.tensor([[[[0.0, 1.0], [0.0, 0.0]]], [[[0.5, 0.5], [0.5, 0.5]]]])
    y = torch.tensor([0, 1])
    assert inverted(x, y, generator).tolist() == (1 - x).tolist()
    assert strokes(x, y, generator)[0, 0].tolist() == [[1.0, 1.0], [0.0, 0.0]]
    far = scaled(x, y, generator)
    factor = (far - x.mean(0)) / (x - x.mean(0)).where(x != x.mean(0), torch.nan)
    assert 3 <= factor[~factor.isnan()].min() <= factor[~factor.isnan()].max() <= 10


@pytest.mark.parametrize("shape", [(40, 1, 8, 8), (40, 3, 5, 7), (40, 6), (40, 5, 3), (2, 1, 8, 8)])
def test_each_kind_keeps_the_shape_and_follows_from_the_seed(shape, generator):
    x, y = torch.rand(shape, generator=generator), torch.arange(shape[0]) % 4
    before = x.clone()
    found, again, other = (make_outliers(x, y, seed) for seed in (0, 0, 1))
    assert list(found) == list(IMAGES if len(shape) == 4 else ROWS)
    for name, made in found.items():
        assert made.shape == x.shape
        assert made.isfinite().all()
        assert torch.equal(made, again[name])
    assert any(not torch.equal(found[name], other[name]) for name in found)
    assert torch.equal(x, before)


def test_images_in_other_units_are_made_in_theirs(images):
    x, y = images
    plain, moved = (
        make_outliers((x - x.min()) / (x.max() - x.min()), y),
        make_outliers(10 * x - 3, y),
    )
    room, low = 10 * (x.max() - x.min()), 10 * x.min() - 3
    for name in plain:
        torch.testing.assert_close(moved[name], low + room * plain[name], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", [torch.int64, torch.int32])
def test_words_are_out_of_order_of_two_or_by_chance_and_always_some_that_were_seen(generator, kind):
    y = torch.arange(40) % 3
    x = (1000 * torch.arange(40)[:, None] + 7 * torch.arange(9)).to(
        kind
    )  # each says its input and place
    before, found, other = x.clone(), make_outliers(x, y), make_outliers(x, y, 1)
    assert list(found) == list(TOKENS)
    for name, made in found.items():
        assert (made.shape, made.dtype) == (x.shape, kind)
        assert torch.isin(made, x).all()
        assert torch.equal(made, make_outliers(x, y)[name])
        assert not torch.equal(made, other[name])
        assert not torch.equal(made, x)
    assert torch.equal(x, before)
    assert torch.equal(found["permuted"].sort(1).values, x)
    assert (found["permuted"] != x).any(1).all()
    assert torch.equal(found["pasted"][:, :5], x[:, :5])
    for name in ("pasted", "averaged"):
        assert torch.equal(found[name] % 1000, x % 1000)  # places are kept
        owner = found[name] // 1000
        mine = owner == torch.arange(40)[:, None]
        partner = owner.where(~mine, -1).amax(1, keepdim=True)
        assert ((owner == partner) | mine).all()
        assert (y[partner[:, 0]] != y).all()
    assert 0.4 < (found["averaged"] == x).double().mean() < 0.6
    rare = torch.tensor([[1, 1, 1, 2]] * 1000)
    assert (
        0.45 < (make_outliers(rare, torch.arange(1000) % 2)["uniform"] == 2).double().mean() < 0.55
    )


def test_refuses_what_is_no_batch_of_floats_or_words():
    for bad in (torch.ones(4, 3).bool(), torch.ones(4), torch.ones(4).long()):
        with pytest.raises(NescioError, match="floats"):
            make_outliers(bad, torch.zeros(4).long())
