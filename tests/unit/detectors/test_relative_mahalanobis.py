"""Relative Mahalanobis against scikit-learn's covariances."""

import pytest
import torch
from scipy.stats import spearmanr
from sklearn.covariance import EmpiricalCovariance

from feature_data import drawn, fitted, in_batches, others, peer, precise, separation
from nescio.data import Samples
from nescio.detectors import Mahalanobis, RelativeMahalanobis
from nescio.errors import NescioError


def test_is_the_distance_to_a_class_less_that_to_all(seed):
    data, x = drawn(seed), torch.cat([drawn(seed).inputs, others(seed)])
    whole = EmpiricalCovariance().fit(data.inputs.double().numpy())
    x = x.double()
    expected = precise(Mahalanobis, data, floor=0).score(x) - torch.from_numpy(
        whole.mahalanobis(x.numpy())
    )
    found = precise(RelativeMahalanobis, data, floor=0).score(x)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_of_one_class_there_is_nothing_to_tell(seed):
    data = drawn(seed)
    one = Samples(data.inputs, torch.ones_like(data.labels))
    with pytest.raises(NescioError, match="of one class"):
        fitted(RelativeMahalanobis, one)


def test_a_unit_that_is_never_on_counts_for_neither(seed):
    data = drawn(seed)
    data.inputs[:, 2] = 0
    detector = fitted(RelativeMahalanobis, data)
    x = data.inputs[:50].clone()
    before = detector.score(x)
    x[:, 2] = 20.0
    torch.testing.assert_close(detector.score(x), before, rtol=0, atol=1e-6)


def test_neither_batches_nor_order_matter(seed):
    data, x = drawn(seed), others(seed)
    once = fitted(RelativeMahalanobis, data).score(x)
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))
    # a difference of distances is as exact as these are in single precision, however little of them it leaves
    near = 1e-6 * float(fitted(Mahalanobis, data).score(x).max())
    for other in (in_batches(data, 7), in_batches(data, 300), data.select(order)):
        torch.testing.assert_close(
            fitted(RelativeMahalanobis, other).score(x), once, rtol=0, atol=near
        )


def test_a_class_without_inputs_is_left_out(seed):
    data = drawn(seed)
    some = data.select((data.labels != 0).nonzero().flatten())
    found = fitted(RelativeMahalanobis, some)
    renamed = fitted(RelativeMahalanobis, Samples(some.inputs, some.labels - 1))
    assert torch.equal(found.score(others(seed)), renamed.score(others(seed)))


def test_tells_digits_it_has_never_seen(seed):
    assert separation(RelativeMahalanobis, seed) > 0.94  # 0.959 to 0.972 with seeds 0 to 3


def test_ranks_as_pytorch_ood_does(seed):
    data, x = drawn(seed), others(seed)
    theirs = peer("RMD")(None).fit_features(data.inputs, data.labels)
    ours = fitted(RelativeMahalanobis, data, floor=0)
    assert spearmanr(ours.score(x), theirs.predict_features(x)).statistic > 0.9999
