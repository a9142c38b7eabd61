"""The sets that need no file: three drawn in the plane, and four that come with scikit-learn."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch

from nescio.arrays import Array
from nescio.data.known import Known, assemble, stratified
from nescio.data.samples import Samples
from nescio.data.table import Encoding

TRAIN_INPUTS, TEST_INPUTS, TEST_FRACTION = 1000, 500, 0.3


def two_moons(count: int, seed: int) -> tuple[Array, Array]:
    """Two interleaved half circles with noise 0.1, as in paper 4 (papers 1 and 2: other noise)."""
    from sklearn import datasets  # here and below: half a second of start-up

    x, y = datasets.make_moons(count, noise=0.1, random_state=seed)
    return x, y


def two_gaussians(count: int, seed: int) -> tuple[Array, Array]:
    """Two unit Gaussians at (∓1, 0) (paper 4, figure 3); the best classifier errs on 16 %."""
    generator = np.random.default_rng(seed)
    y = generator.permutation(np.arange(count) % 2)
    x = generator.normal(size=(count, 2))
    x[:, 0] += 2 * y - 1
    return x, y


def three_blobs(count: int, seed: int) -> tuple[Array, Array]:
    """Three Gaussian clusters on a triangle (paper 1, figure 1)."""
    from sklearn import datasets

    centres = [[-3, -2], [3, -2], [0, 3]]
    x, y = datasets.make_blobs(count, centers=centres, cluster_std=1.0, random_state=seed)
    return x, y


DRAWN: dict[str, tuple[Callable[[int, int], tuple[Array, Array]], tuple[str, ...]]] = {
    "two_moons": (two_moons, ("upper", "lower")),
    "two_gaussians": (two_gaussians, ("left", "right")),
    "three_blobs": (three_blobs, ("left", "right", "top")),
}


def drawn(name: str, unseen: tuple[int | str, ...], seed: int) -> Known:
    """Return a set in the plane: 1000 training and 500 test inputs, both drawn from the seed."""
    draw, classes = DRAWN[name]
    # so that no seed's test part is another's training part
    seeds = np.random.SeedSequence(seed).generate_state(2).tolist()
    parts = map(draw, (TRAIN_INPUTS, TEST_INPUTS), seeds)
    train, test = (Samples(torch.from_numpy(x).float(), torch.from_numpy(y)) for x, y in parts)
    return assemble(name, train, test, classes, unseen, Encoding.numeric(("x", "y")))


def stored(name: str, unseen: tuple[int | str, ...], seed: int) -> Known:
    """Return a set of scikit-learn's, 70 % of each class to train on and 30 % to test."""
    bunch, encoding = _bunch(name), None
    if name == "digits":
        x = torch.from_numpy(bunch.images / 16).float()[:, None]  # (1797, 1, 8, 8) in [0, 1]
    else:
        x = torch.from_numpy(bunch.data).float()
        encoding = Encoding.numeric(map(str, bunch.feature_names))
    samples = Samples(x, torch.from_numpy(bunch.target))
    train, test = map(samples.select, stratified(samples.labels, TEST_FRACTION, seed, name))
    return assemble(name, train, test, tuple(map(str, bunch.target_names)), unseen, encoding)


@cache
def _bunch(name: str) -> Any:
    """Return what scikit-learn reads, parsed once; to be copied, not changed."""
    from sklearn import datasets

    return getattr(datasets, f"load_{name}")()


LOADERS: dict[str, Callable[[str, tuple[int | str, ...], int], Known]] = {
    **dict.fromkeys(DRAWN, drawn),
    **dict.fromkeys(("digits", "breast_cancer", "wine", "iris"), stored),
}
