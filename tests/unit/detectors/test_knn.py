"""Nearest neighbours: as scikit-learn finds them, in blocks, from a bounded sample."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

import nescio
from feature_data import in_disguise, plain
from nescio.detectors import KNN
from nescio.detectors.knn import GROUP, KEY_ROWS, _largest, kth_distance, unit
from nescio.errors import NescioError


def by_scikit_learn(rows, others, k):
    """The k-th smallest distance, in float64 and without its shortcut by products."""
    rows, others = (
        part.double().numpy() / np.linalg.norm(part.double().numpy(), axis=1, keepdims=True)
        for part in (rows, others)
    )
    found = NearestNeighbors(n_neighbors=k, algorithm="ball_tree").fit(others).kneighbors(rows)[0]
    return torch.tensor(found[:, -1])


@pytest.mark.parametrize("k", [1, 7, 50])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e15])
def test_score_is_the_distance_that_scikit_learn_finds(k, scale, seed):
    torch.manual_seed(seed)
    others, rows = scale * torch.randn(300, 12), scale * torch.randn(40, 12)
    detector = KNN(plain(12), k=k).fit(in_disguise(others), train=others)
    torch.testing.assert_close(
        detector.score(rows), by_scikit_learn(rows, others, k), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("block", [1, 3, 10, 64, 299, 300, 5000])
def test_blocks_of_any_size_find_the_same(block, seed, monkeypatch):
    monkeypatch.setattr("nescio.detectors.knn.KEY_ROWS", block)
    monkeypatch.setattr("nescio.detectors.knn.QUERY_ROWS", 7)
    torch.manual_seed(seed)
    rows, others = torch.randn(20, 5), torch.randn(300, 5)
    expected = torch.cdist(rows.double(), others.double()).sort(dim=1).values[:, 9]
    torch.testing.assert_close(
        kth_distance(rows, others, others.square().sum(1), 10), expected, rtol=1e-6, atol=0
    )


def test_small_distances_keep_their_digits(seed):
    """Of unit rows that are 1e-5 apart, products in float32 cannot tell how far."""
    torch.manual_seed(seed)
    row = unit(torch.randn(1, 40))
    near = unit(row + 1e-5 * torch.randn(1, 40))
    exact = (row.double() - near.double()).norm()
    assert kth_distance(row, near, near.square().sum(1), 1).item() == pytest.approx(
        exact.item(), rel=1e-12
    )
    assert kth_distance(row, row, row.square().sum(1), 1) == 0


def test_features_of_length_zero_have_a_distance():
    """1 to anything of length 1, and 0 to each other."""
    some = torch.cat([torch.zeros(3, 4), torch.eye(4)])
    detector = KNN(plain(4), k=3).fit(in_disguise(some.repeat(5, 1)), train=some)
    # the three nearest of zero are the zeros; of a unit row itself, two zeros, others at √2
    torch.testing.assert_close(
        detector.score(some[2:4]), torch.tensor([0.0, 1.0], dtype=torch.float64)
    )
    assert KNN(plain(4), k=4).fit(in_disguise(some.repeat(5, 1)), train=some).score(some[:1]) == 1


def test_length_does_not_count(seed):
    torch.manual_seed(seed)
    x = torch.rand(60, 6)
    detector = KNN(plain(6), k=2).fit(in_disguise(x), train=x)
    torch.testing.assert_close(detector.score(100 * x), detector.score(x), rtol=0, atol=1e-6)


def test_a_bounded_sample_is_kept(seed):
    torch.manual_seed(seed)
    x = torch.randn(500, 6)
    detector = KNN(plain(6), k=5, size=40, seed=seed).fit(in_disguise(x), train=x)
    assert detector.neighbours_.shape == (40, 6)
    torch.testing.assert_close(
        detector.score(x[:9]), by_scikit_learn(x[:9], detector.neighbours_, 5), rtol=1e-6, atol=1e-6
    )
    again = KNN(plain(6), k=5, size=40, seed=seed).fit(in_disguise(x), train=x)
    other = KNN(plain(6), k=5, size=40, seed=seed + 1).fit(in_disguise(x), train=x)
    assert torch.equal(again.neighbours_, detector.neighbours_)
    assert not torch.equal(other.neighbours_, detector.neighbours_)


@pytest.mark.parametrize(("kept", "k"), [(40, 1), (1000, 1), (2500, 2), (3000, 3)])
def test_by_default_k_is_a_thousandth_of_what_is_kept(kept, k, seed):
    torch.manual_seed(seed)
    x = torch.randn(kept, 3)
    default, named = (KNN(plain(3), k=one).fit(in_disguise(x[:39]), train=x) for one in (None, k))
    assert torch.equal(default.score(x[:20]), named.score(x[:20]))


def test_batch_size_does_not_count(model, known):
    detector = KNN(model).fit(known.test, train=known.train)
    scores = [detector.score(known.unseen, batch_size=size) for size in (1, 7, 1000)]
    for other in scores[1:]:
        torch.testing.assert_close(other, scores[0], rtol=1e-4, atol=1e-6)


def test_quality(model, known):
    """Measured over five seeds: 0.965 to 0.974."""
    detector = KNN(model).fit(known.test, train=known.train)
    assert nescio.metrics.auroc(detector.score(known.test), detector.score(known.unseen)) > 0.95


def test_looks_at_any_layer(model, known):
    detector = KNN(model, layer="net.1").fit(known.test, train=known.train)
    assert detector.neighbours_.shape[1] == model.net[1].out_features
    with pytest.raises(NescioError, match=r"net\.1"):
        KNN(model, layer="net.99").fit(known.test)


def test_too_few_to_learn_from():
    x = torch.rand(40, 4)
    with pytest.raises(NescioError, match=r"30 inputs .* at least 31"):
        KNN(plain(4), k=31).fit(in_disguise(x), train=x[:30])
    KNN(plain(4), k=30).fit(in_disguise(x), train=x[:30])


def test_features_that_are_not_finite():
    class Endless(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.head = torch.nn.Identity(), torch.nn.Linear(2, 2)

        def forward(self, x):
            return self.head(self.first(x / 0).clamp(-1, 1))

    x = torch.rand(40, 2) + 0.1
    with pytest.raises(NescioError, match="NaN or infinite"):
        KNN(Endless(), layer="first").fit(in_disguise(x), train=x)


@pytest.mark.parametrize(
    "how", [{"k": 0}, {"k": 1.5}, {"k": True}, {"size": 0}, {"k": 11, "size": 10}, {"seed": -1}]
)
def test_bad_arguments(how):
    with pytest.raises(NescioError, match=next(iter(how))):
        KNN(plain(2), **how)


def test_says_that_it_has_learned_nothing():
    with pytest.raises(NescioError, match="not fitted"):
        KNN(plain(2)).score(torch.rand(3, 2))


@pytest.mark.parametrize("k", [1, 7, KEY_ROWS // GROUP // 2, KEY_ROWS // GROUP])
def test_the_largest_by_groups_are_the_largest(k, seed):
    found = torch.randn(5, KEY_ROWS, generator=torch.Generator().manual_seed(seed))
    found[0, 100:] = -1.0  # ties
    values, places = _largest(found, k)
    assert torch.equal(values, found.sort(dim=1, descending=True).values[:, :k])
    assert torch.equal(found.gather(1, places), values)
    assert all(len(row.unique()) == k for row in places)
