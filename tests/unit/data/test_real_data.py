"""The real files, where NESCIO_DATA says they are; counts and moments as published."""

import os
from collections import Counter

import numpy as np
import pytest
import torch

from nescio import data
from nescio.errors import NescioError

pytestmark = pytest.mark.skipif(
    "NESCIO_DATA" not in os.environ, reason="NESCIO_DATA names no folder of data files"
)

PARTS = {  # train, test, shape, classes
    "fashion_mnist": (60000, 10000, (1, 28, 28), 10),
    "emnist_digits": (None, 10000, (1, 28, 28), 10),
    "nist_letters": (None, 2990, (1, 28, 28), 26),
    "notmnist": (None, 10000, (1, 28, 28), 10),
    "omniglot": (None, 4840, (1, 28, 28), 242),
    "svhn": (None, 5000, (3, 32, 32), 10),
    "pima_diabetes": (538, 230, (8,), 2),
    "german_credit": (700, 300, (61,), 2),
}


@pytest.mark.parametrize("name", list(PARTS))
def test_sizes_and_shapes(name: str) -> None:
    known, (train, test, shape, classes) = data.load(name), PARTS[name]
    assert (None if known.train is None else len(known.train), len(known.test)) == (train, test)
    assert (known.shape, len(known.classes)) == (shape, classes)
    assert known.test._stored.dtype == (torch.uint8 if len(shape) == 3 else torch.float32)
    assert known.test.labels.unique().numel() == classes
    assert (known.normalise is None) == (train is None)


def test_mnist_is_mnist() -> None:
    known = data.load("mnist", unseen=[9])
    assert known.train is not None
    assert known.unseen is not None
    assert torch.bincount(known.train.labels).tolist() == [
        5923,
        6742,
        5958,
        6131,
        5842,
        5421,
        5918,
        6265,
        5851,
    ]
    assert len(known.unseen) == 5949 + 1009
    assert len(known.test) == 10000 - 1009


def test_cifar_has_the_published_moments() -> None:
    known = data.load("cifar10")
    assert known.train is not None
    assert (len(known.train), len(known.test), known.shape) == (12000, 10000, (3, 32, 32))
    assert torch.bincount(known.test.labels).tolist() == [1000] * 10
    fitted = data.Normalise.fitted(data.Samples.joined([known.train, known.test], "both"))
    assert fitted.mean.flatten().tolist() == pytest.approx([0.4914, 0.4822, 0.4465], abs=0.005)
    assert fitted.std.flatten().tolist() == pytest.approx([0.2470, 0.2435, 0.2616], abs=0.005)
    small = data.adapt(known.test.select(torch.arange(100)), (1, 28, 28))
    assert small._stored.float().mean().item() == pytest.approx(
        known.test._stored[:100].float().mean().item(), abs=0.5
    )


def test_hearts_come_from_four_hospitals() -> None:
    with pytest.raises(NescioError, match=r"heart_disease: column '.*' lacks"):
        data.load("heart_disease")
    known = data.load("heart_disease", impute=True)
    assert known.train is not None
    whole = data.Samples.joined([known.train, known.test], "both")
    healthy = Counter(whole.columns["site"][whole.labels.numpy() == 0].tolist())
    assert Counter(whole.columns["site"].tolist()) == {
        "cleveland": 303,
        "hungarian": 294,
        "switzerland": 123,
        "va": 200,
    }
    assert healthy == {"cleveland": 164, "hungarian": 188, "switzerland": 8, "va": 51}
    assert known.classes == ("healthy", "disease")
    assert not any(feature.startswith(("site", "num")) for feature in known.features)


def test_adult_keeps_its_own_division() -> None:
    known = data.load("adult", impute=True)
    assert known.train is not None
    assert known.encoding is not None
    assert [torch.bincount(part.labels).tolist() for part in (known.train, known.test)] == [
        [32561 - 7841, 7841],
        [16281 - 3846, 3846],
    ]
    assert known.features[0] == "age"
    assert np.isfinite(known.test.inputs.numpy()).all()


def test_tables_have_their_published_class_counts() -> None:
    for name, counts in {
        "pima_diabetes": [500, 268],
        "german_credit": [700, 300],
        "credit_default": [23364, 6636],
    }.items():
        known = data.load(name)
        assert known.train is not None
        both = torch.bincount(known.train.labels) + torch.bincount(known.test.labels)
        assert both.tolist() == counts


def test_omniglot_has_its_alphabets() -> None:
    alphabets = Counter(data.load("omniglot").test.columns["alphabet"].tolist())
    assert len(alphabets) == 8
    assert alphabets["Greek"] == 24 * 20
