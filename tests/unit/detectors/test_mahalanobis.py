"""Mahalanobis, plain and relative, against scikit-learn's covariances."""

import pytest
import torch
from scipy.stats import spearmanr
from sklearn.covariance import EmpiricalCovariance
from torch import nn

import nescio
from feature_data import (
    C,
    F,
    drawn,
    fitted,
    head,
    in_batches,
    in_disguise,
    others,
    peer,
    precise,
    separation,
)
from nescio.data import Samples
from nescio.detectors import Mahalanobis, RelativeMahalanobis


def expected(data, x):
    """scikit-learn's distances to class means, in float64."""
    rows, labels = data.inputs.double(), data.labels
    means = torch.stack([rows[labels == label].mean(0) for label in labels.unique()])
    place = torch.searchsorted(labels.unique(), labels)
    spread = EmpiricalCovariance(assume_centered=True).fit((rows - means[place]).numpy())
    return torch.stack(
        [torch.from_numpy(spread.mahalanobis((x.double() - mean).numpy())) for mean in means]
    ).amin(0)


@pytest.mark.parametrize("floor", [0, 1e-3])
def test_agrees_with_scikit_learn(seed, floor):
    data, x = drawn(seed), torch.cat([drawn(seed).inputs, others(seed)])
    found = precise(Mahalanobis, data, floor=floor).score(x.double())
    torch.testing.assert_close(found, expected(data, x), rtol=1e-9, atol=1e-9)
    rounded = fitted(Mahalanobis, data, floor=floor).score(x)
    torch.testing.assert_close(rounded, expected(data, x), rtol=1e-3, atol=1e-4)


def test_a_mean_far_from_zero_costs_no_digits(seed):
    """Distances of some units, with features around 10 000, where float32 has 3 decimals."""
    data, x = drawn(seed), others(seed)
    near = fitted(Mahalanobis, data, floor=0)
    far = fitted(Mahalanobis, Samples((data.inputs + 1e4), data.labels), floor=0)
    torch.testing.assert_close(far.score(x + 1e4), near.score(x), rtol=2e-2, atol=2e-2)
    exact = Samples(data.inputs.double() + 1e4, data.labels)
    found = precise(Mahalanobis, exact, floor=0).score(x.double() + 1e4)
    torch.testing.assert_close(found, expected(exact, x.double() + 1e4), rtol=1e-7, atol=1e-7)


def test_neither_batches_nor_order_matter(seed):
    data, x = drawn(seed), others(seed)
    once = fitted(Mahalanobis, data).score(x)
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))
    for other in (in_batches(data, 7), in_batches(data, 300), data.select(order)):
        torch.testing.assert_close(fitted(Mahalanobis, other).score(x), once, rtol=1e-5, atol=1e-5)
    detector = fitted(Mahalanobis, data)
    torch.testing.assert_close(detector.score(x, batch_size=3), once, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("floor", [0, 0.1])
def test_a_unit_that_known_inputs_never_turn_on_is_evidence(seed, floor):
    data = drawn(seed)
    data.inputs[:, 2] = 0
    detector = fitted(Mahalanobis, data, floor=floor)
    x = data.inputs[:50].clone()
    before = detector.score(x)
    x[:, 2] = 20.0
    assert before.isfinite().all()
    assert (detector.score(x) > before + 1).all()


def test_fewer_inputs_than_features(seed):
    wide = nn.Linear(40, 3)
    x = torch.randn(120, 40, generator=torch.Generator().manual_seed(seed))
    train = Samples(x[:20], torch.arange(20) % 3)
    detector = Mahalanobis(wide).fit(x[20:], train=train)
    assert nescio.metrics.auroc(detector.score(x[20:]), detector.score(3 * x[20:])) > 0.99


def test_a_class_without_inputs_is_never_the_nearest(seed):
    data = drawn(seed)
    some = data.select((data.labels != 1).nonzero().flatten())
    detector = precise(Mahalanobis, some, floor=0)
    assert detector.means_.shape == (C - 1, F)
    found = detector.score(others(seed).double())
    torch.testing.assert_close(found, expected(some, others(seed)), rtol=1e-9, atol=1e-9)


def test_one_class_and_inputs_all_alike():
    one = Samples(torch.randn(50, F), torch.full((50,), 2))
    found = precise(Mahalanobis, one, floor=0).score(one.inputs.double())
    torch.testing.assert_close(found, expected(one, one.inputs), rtol=1e-9, atol=1e-9)
    alike = Samples(torch.ones(50, F), torch.zeros(50, dtype=torch.long))
    found = fitted(Mahalanobis, alike).score(torch.stack([torch.ones(F), torch.zeros(F)]))
    assert found.tolist() == pytest.approx(
        [0, F], rel=1e-12
    )  # there is no other unit than that of the features


def test_data_without_labels_have_the_classes_of_the_model(seed):
    data, model = drawn(seed), head()
    own = Samples(data.inputs, nescio.predict(model, data.inputs)[0].argmax(1))
    bare, labelled = (
        Mahalanobis(model).fit(in_disguise(data), train=train) for train in (data.inputs, own)
    )
    assert torch.equal(bare.score(data), labelled.score(data))


def test_refuses_labels_that_the_model_does_not_know(seed):
    data = drawn(seed)
    for labels in (data.labels + 1, data.labels - 1):
        with pytest.raises(nescio.NescioError, match=r"0 … 2 for 3 classes"):
            Mahalanobis(head()).fit(in_disguise(data), train=Samples(data.inputs, labels))


def test_refuses_bad_settings_and_a_score_before_a_fit():
    for floor in (-0.1, "a", True, float("nan")):
        with pytest.raises(nescio.NescioError, match="floor"):
            Mahalanobis(head(), floor=floor)
    with pytest.raises(nescio.NescioError, match="is not fitted"):
        Mahalanobis(head()).score(torch.zeros(2, F))


def test_any_layer_can_be_named(seed):
    net = nn.Sequential(nn.Linear(F, 8), nn.ReLU(), nn.Linear(8, C))
    data = drawn(seed)
    by_name, by_itself = (
        Mahalanobis(net, layer).fit(in_disguise(data), train=data) for layer in ("1", None)
    )
    assert torch.equal(by_name.score(data), by_itself.score(data))
    assert not torch.equal(
        Mahalanobis(net, "0").fit(in_disguise(data), train=data).score(data), by_name.score(data)
    )


def test_tells_digits_it_has_never_seen(seed):
    assert (
        separation(Mahalanobis, seed) > 0.89
    )  # 0.917 to 0.936 with seeds 0 to 3; without a floor from 0.895 on


def test_ranks_as_pytorch_ood_does(seed):
    data, x = drawn(seed), others(seed)
    theirs = peer("Mahalanobis")(None).fit_features(data.inputs, data.labels)
    ours = fitted(Mahalanobis, data, floor=0)
    assert spearmanr(ours.score(x), theirs.predict_features(x)).statistic > 0.9999


@pytest.mark.parametrize("kind", [Mahalanobis, RelativeMahalanobis, nescio.Combined])
def test_no_input_is_so_far_away_that_it_is_known(kind, seed):
    """Products of features and means overflow from 1e19 on; their difference is then anything."""
    torch.manual_seed(seed)
    labels = torch.arange(400) % 2
    rows = torch.randn(400, 2) + 20 * labels[:, None]
    detector = kind(nn.Linear(2, 2)).fit(
        (rows[:200], labels[:200]), train=(rows[200:], labels[200:])
    )
    ways = torch.nn.functional.normalize(torch.randn(50, 2))
    for size in (1e3, 1e15, 1e19, 1e30, 1e36, 1e37, 1e38):
        assert (detector.predict(ways * size) == -1).all(), size


@pytest.mark.parametrize("apart", [1e2, 1e3, 1e4])
def test_classes_far_apart_cost_no_digits(apart, seed):
    generator = torch.Generator().manual_seed(seed)
    centres = apart * torch.randn(C, F, generator=generator)
    labels = torch.arange(2000) % C
    data = Samples(centres[labels] + torch.randn(2000, F, generator=generator), labels)
    x = centres[labels[:200]] + torch.randn(200, F, generator=generator)
    found = fitted(Mahalanobis, data, floor=0).score(x)
    torch.testing.assert_close(found, expected(data, x), rtol=1e-3, atol=1e-5 * apart)


@pytest.mark.parametrize("apart", [1e2, 1e3, 1e4])
def test_of_classes_in_close_pairs_the_nearer_is_found(apart, seed):
    generator = torch.Generator().manual_seed(seed)
    pairs = (apart * torch.randn(10, F, generator=generator)).repeat_interleave(2, 0)
    centres = pairs + 3 * torch.randn(20, F, generator=generator)
    labels = torch.arange(4000) % 20
    data = Samples(centres[labels] + torch.randn(4000, F, generator=generator), labels)
    x = centres[labels[:200]] + torch.randn(200, F, generator=generator)
    found = fitted(Mahalanobis, data, model=head(classes=20), floor=0).score(x)
    torch.testing.assert_close(found, expected(data, x), rtol=1e-3, atol=1e-5 * apart)


def test_relative_is_the_distance_to_a_class_less_that_to_all(seed):
    data, x = drawn(seed), torch.cat([drawn(seed).inputs, others(seed)])
    whole = EmpiricalCovariance().fit(data.inputs.double().numpy())
    x = x.double()
    expected = precise(Mahalanobis, data, floor=0).score(x) - torch.from_numpy(
        whole.mahalanobis(x.numpy())
    )
    found = precise(RelativeMahalanobis, data, floor=0).score(x)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_relative_needs_two_classes(seed):
    data = drawn(seed)
    one = Samples(data.inputs, torch.ones_like(data.labels))
    with pytest.raises(nescio.NescioError, match="of one class"):
        fitted(RelativeMahalanobis, one)


def test_relative_a_unit_that_is_never_on_counts_for_neither(seed):
    data = drawn(seed)
    data.inputs[:, 2] = 0
    detector = fitted(RelativeMahalanobis, data)
    x = data.inputs[:50].clone()
    before = detector.score(x)
    x[:, 2] = 20.0
    torch.testing.assert_close(detector.score(x), before, rtol=0, atol=1e-6)


def test_relative_neither_batches_nor_order_matter(seed):
    data, x = drawn(seed), others(seed)
    once = fitted(RelativeMahalanobis, data).score(x)
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))
    # a difference of distances is as exact as these are in single precision
    near = 1e-6 * float(fitted(Mahalanobis, data).score(x).max())
    for other in (in_batches(data, 7), in_batches(data, 300), data.select(order)):
        torch.testing.assert_close(
            fitted(RelativeMahalanobis, other).score(x), once, rtol=0, atol=near
        )


def test_relative_a_class_without_inputs_is_left_out(seed):
    data = drawn(seed)
    some = data.select((data.labels != 0).nonzero().flatten())
    found = fitted(RelativeMahalanobis, some)
    renamed = fitted(RelativeMahalanobis, Samples(some.inputs, some.labels - 1))
    assert torch.equal(found.score(others(seed)), renamed.score(others(seed)))


def test_relative_separates_digits_it_has_never_seen(seed):
    assert separation(RelativeMahalanobis, seed) > 0.94  # 0.959 to 0.972 with seeds 0 to 3


def test_relative_ranks_as_pytorch_ood_does(seed):
    data, x = drawn(seed), others(seed)
    theirs = peer("RMD")(None).fit_features(data.inputs, data.labels)
    ours = fitted(RelativeMahalanobis, data, floor=0)
    assert spearmanr(ours.score(x), theirs.predict_features(x)).statistic > 0.9999
