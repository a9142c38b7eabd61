"""Readers by format: those the catalogue names, and the one a path's looks ask for."""

from collections.abc import Callable
from pathlib import Path

import torch

from nescio.data.formats import published
from nescio.data.formats.idx import idx_set_in, read_idx, read_idx_set
from nescio.data.formats.image_folder import read_image_folder
from nescio.data.formats.npz import read_npy, read_npz
from nescio.data.formats.picture import is_picture, read_pictures
from nescio.data.parts import Parts
from nescio.data.samples import Samples
from nescio.data.sources.catalogue import Entry
from nescio.errors import NescioError

FORMATS: dict[str, Callable[[tuple[Path, ...], Entry], Parts]] = {
    "npz": lambda paths, entry: read_npz(paths[0], entry.classes, entry.columns),
    "idx": lambda paths, entry: read_idx_set(paths, entry.classes),
    "emnist": lambda paths, entry: published.read_emnist(paths, entry.classes),
    "emnist_zip": lambda paths, entry: published.read_emnist_zip(paths[0], entry.classes),
    "cifar": lambda paths, entry: published.read_cifar(paths[0], entry.classes),
    "cifar_tar": lambda paths, entry: published.read_cifar_tar(paths[0], entry.classes),
    "usps": lambda paths, entry: published.read_usps(paths, entry.classes),
    "libsvm": lambda paths, entry: published.read_libsvm(paths, entry.classes),
}


def is_table(path: Path) -> bool:
    """Whether the name says CSV, plain or compressed."""
    return path.name.lower().endswith((".csv", ".csv.gz", ".csv.bz2"))


def parts_at(path: Path, any_shape: bool = False, older: bool = False) -> Parts:
    """What a path holds, by its name, or by what is in it if it is a folder.

    `any_shape` is as in `read_npz`, `older` as in `read_image_folder`.
    """
    if path.is_dir():
        files = idx_set_in(path)
        return read_image_folder(path, older) if files is None else read_idx_set(files)
    if path.suffix.lower() == ".npz":
        return read_npz(path, any_shape=any_shape)
    if path.suffix.lower() == ".npy":
        return read_npy(path)
    if is_picture(path):
        return Parts({"all": Samples(read_pictures([path]), torch.tensor([-1]))})
    if "ubyte" in path.name or "idx" in path.name:
        return read_idx(path)
    raise NescioError(
        f"{path}: of no known format; expected .csv (also .csv.gz, .csv.bz2), .npz, .npy, an idx file "
        "(…-ubyte, .idx), a PNG or JPEG image (.png, .jpg, .jpeg) or a folder"
    )
