"""The sets that need no file: three drawn in the plane, and four small real ones that come with scikit-learn."""

from collections.abc import Callable

import numpy as np
import torch

from nescio.data.arrays import Array
from nescio.data.known import Known, assemble
from nescio.data.samples import Samples
from nescio.data.split import stratified
from nescio.data.table import Encoding

_TRAIN, _TEST = 1000, 500


def two_moons(count: int, seed: int) -> tuple[Array, Array]:
    """Two interleaved half circles with noise 0.1, as in paper 4; papers 1 and 2 have them with other noise."""
    from sklearn import (
        datasets,  # here and below: half a second of start-up for those who never ask
    )

    x, y = datasets.make_moons(count, noise=0.1, random_state=seed)
    return x, y


def two_gaussians(count: int, seed: int) -> tuple[Array, Array]:
    """Two unit Gaussians at (∓1, 0), overlapping around x = 0 (paper 4, figure 3); the best classifier errs in 16 %."""
    generator = np.random.default_rng(seed)
    y = generator.permutation(np.arange(count) % 2)
    x = generator.normal(size=(count, 2))
    x[:, 0] += 2 * y - 1
    return x, y


def three_blobs(count: int, seed: int) -> tuple[Array, Array]:
    """Three Gaussian clusters on a triangle (paper 1, figure 1)."""
    from sklearn import datasets

    x, y = datasets.make_blobs(
        count, centers=[[-3, -2], [3, -2], [0, 3]], cluster_std=1.0, random_state=seed
    )
    return x, y


DRAWN: dict[str, tuple[Callable[[int, int], tuple[Array, Array]], tuple[str, ...]]] = {
    "two_moons": (two_moons, ("upper", "lower")),
    "two_gaussians": (two_gaussians, ("left", "right")),
    "three_blobs": (three_blobs, ("left", "right", "top")),
}
STORED = ("digits", "breast_cancer", "wine", "iris")


def drawn(name: str, unseen: tuple[int | str, ...], seed: int) -> Known:
    """A set in the plane: 1000 inputs to train on and 500 to test, both drawn from the seed."""
    draw, classes = DRAWN[name]
    seeds = np.random.SeedSequence(seed).generate_state(
        2
    )  # so that no seed's test part is another's training part
    train, test = (
        Samples(torch.from_numpy(x).float(), torch.from_numpy(y))
        for x, y in (draw(_TRAIN, int(seeds[0])), draw(_TEST, int(seeds[1])))
    )
    return assemble(name, train, test, classes, unseen, Encoding.numeric(("x", "y")))


def stored(name: str, unseen: tuple[int | str, ...], seed: int) -> Known:
    """A set of scikit-learn's, 70 % of each class to train on and 30 % to test, divided by the seed."""
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    if name == "digits":
        x = torch.from_numpy(bunch.images / 16).float()[:, None]  # (1797, 1, 8, 8) in [0, 1]
    else:
        x = torch.from_numpy(bunch.data).float()
    encoding = None if name == "digits" else Encoding.numeric(map(str, bunch.feature_names))
    samples = Samples(x, torch.from_numpy(bunch.target))
    train, test = stratified(samples.labels, 0.3, seed, name)
    classes = tuple(map(str, bunch.target_names))
    return assemble(name, samples.select(train), samples.select(test), classes, unseen, encoding)
