import math
from typing import Any

import numpy as np
import pytest
import torch
from sklearn import datasets

from nescio import data
from nescio.errors import NescioError

EMBEDDED = [one.name for one in data.status() if one.where == "embedded"]


@pytest.mark.parametrize("name", EMBEDDED)
def test_an_embedded_set_is_whole_and_the_same_each_time(name: str) -> None:
    known, again, other = data.load(name), data.load(name), data.load(name, seed=1)
    assert known.train is not None
    assert again.train is not None
    assert other.train is not None
    assert torch.equal(known.train.inputs, again.train.inputs)
    assert torch.equal(known.test.inputs, again.test.inputs)
    assert not torch.equal(known.train.inputs[:50], other.train.inputs[:50])
    for part in (known.train, known.test):
        assert sorted(part.labels.unique().tolist()) == list(range(len(known.classes)))
        assert part.inputs.isfinite().all()
    assert known.kind == ("image" if name == "digits" else "tabular")
    assert len(known.features) == (0 if name == "digits" else known.shape[0])
    assert known.unseen is None
    if known.kind == "tabular":  # a CSV of new rows can be encoded
        assert known.encoding is not None
        table = dict(zip(known.features, known.test.inputs.T.tolist(), strict=True))
        assert torch.equal(known.encoding.encode(table), known.test.inputs)


def test_digits_are_scikit_learns_divided_by_sixteen() -> None:
    known, bunch = data.load("digits"), datasets.load_digits()
    assert known.train is not None
    assert known.shape == (1, 8, 8)
    joined = torch.cat([known.train.inputs, known.test.inputs]).flatten(1).double().numpy()
    assert sorted(map(tuple, joined * 16)) == sorted(map(tuple, bunch.data))
    assert len(known.test) == pytest.approx(0.3 * 1797, abs=6)
    assert joined.max() == 1


@pytest.mark.parametrize("name", ["wine", "iris", "breast_cancer"])
def test_parts_share_no_row_and_keep_the_classes_shares(name: str) -> None:
    known, bunch = data.load(name), getattr(datasets, f"load_{name}")()
    assert known.train is not None
    whole = torch.bincount(torch.from_numpy(bunch.target))
    test = torch.bincount(known.test.labels)
    assert torch.equal(test + torch.bincount(known.train.labels), whole)
    assert (test / whole - 0.3).abs().max() < 0.02
    assert known.classes == tuple(bunch.target_names)


def test_the_gaussians_are_where_they_should_be() -> None:
    known = data.load("two_gaussians")
    assert known.train is not None
    x, y = known.train.inputs, known.train.labels
    for label, centre in ((0, -1.0), (1, 1.0)):
        assert x[y == label].mean(0).tolist() == pytest.approx([centre, 0], abs=0.15)
        assert x[y == label].std(0).tolist() == pytest.approx([1, 1], abs=0.1)
    errors = ((x[:, 0] > 0) != (y == 1)).double().mean()
    assert errors.item() == pytest.approx(
        0.5 * math.erfc(1 / math.sqrt(2)), abs=0.035
    )  # Φ(−1) = 15.9 %


def test_drawn_parts_are_independent_and_of_the_stated_size() -> None:
    known = data.load("two_moons", seed=3)
    assert known.train is not None
    assert (len(known.train), len(known.test)) == (1000, 500)
    assert torch.cdist(known.train.inputs, known.test.inputs).min() > 0


def test_unseen_digits_are_all_digits_of_these_classes() -> None:
    whole, known = data.load("digits"), data.load("digits", unseen=[7, "8", 9])
    assert whole.train is not None
    assert known.train is not None
    assert known.unseen is not None
    assert known.classes == tuple("0123456")
    assert known.unseen.labels.unique().tolist() == [-1]
    counts = np.bincount(datasets.load_digits().target)
    assert len(known.unseen) == counts[7:].sum()
    assert len(known.train) + len(known.test) == counts[:7].sum()
    kept = whole.train.labels < 7
    assert torch.equal(known.train.inputs, whole.train.inputs[kept])
    assert not torch.equal(known.normalise.mean, whole.normalise.mean)  # type: ignore[union-attr]


def test_kept_classes_are_renumbered_in_order() -> None:
    whole, known = data.load("iris"), data.load("iris", unseen=["versicolor"])
    assert known.classes == ("setosa", "virginica")
    expected = whole.test.labels[whole.test.labels != 1].div(2, rounding_mode="floor")
    assert torch.equal(known.test.labels, expected)


@pytest.mark.parametrize(
    ("unseen", "said"),
    [
        ([3], "0 to 2"),
        (["versicolour"], "did you mean 'versicolor'"),
        ([0, 1], "at least 2 classes, got 1"),
        ([-1], "0 to 2"),
        ([1.5], "must be names or positions"),
    ],
)
def test_a_class_that_cannot_be_unseen(unseen: list[Any], said: str) -> None:
    with pytest.raises(NescioError, match=said):
        data.load("iris", unseen=unseen)


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(NescioError, match="did you mean 'digits'"):
        data.load("digit")
