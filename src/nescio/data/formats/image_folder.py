"""Folders of PNG and JPEG files: one sub-folder for each class, or a flat folder of images without labels."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from nescio.data.class_order import in_order
from nescio.data.formats.image_tree import Tree
from nescio.data.formats.picture import is_picture, read_pictures
from nescio.data.parts import Parts
from nescio.data.samples import Samples
from nescio.errors import NescioError


def read_image_folder(folder: Path, older: bool = False) -> Parts:
    """The images below a folder, all of one size; sub-folders `train` and `test` are the two parts.

    Classes are in the order of `in_order`, or, as in an `older` version, in that of their letters.
    """
    try:
        inside = _folders(folder)
    except OSError as error:
        raise NescioError(f"{folder}: cannot be read ({error.strerror})") from error
    halves = ("train", "test") if inside == ["test", "train"] else ()
    names = {name for half in halves for name in _folders(folder / half)} if halves else inside
    classes = tuple(sorted(names) if older else in_order(names))
    if halves:
        if not classes:
            raise NescioError(
                f"{folder / 'train'}: has no sub-folders; expected one for each class"
            )
        _check_all_taken(folder, [folder / half / name for half in halves for name in classes])
        return Parts({half: _labelled(folder / half, classes) for half in halves}, classes)
    if inside:
        _check_all_taken(folder, [folder / name for name in classes])
        return Parts({"all": _labelled(folder, classes)}, classes)
    paths = _pictures(folder)
    return Parts({"all": _samples(folder, paths, torch.full((len(paths),), -1))})


def _folders(folder: Path) -> list[str]:
    return sorted(
        path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")
    )


def _check_all_taken(folder: Path, taken: Sequence[Path]) -> None:
    """An error if an image lies elsewhere than in the folders of the classes, and would be lost in silence."""
    places = set(taken)
    for path in Tree.below(folder).pictures:
        if path.parent not in places:
            some = ", ".join(one.relative_to(folder).as_posix() for one in taken[:3])
            raise NescioError(
                f"{path}: lies in no folder of a class, which here are {some}{', …' * (len(taken) > 3)}; "
                "expected every image in one of them"
            )


def _labelled(folder: Path, classes: Sequence[str]) -> Samples:
    groups = [_pictures(folder / name) if (folder / name).is_dir() else [] for name in classes]
    labels = torch.repeat_interleave(
        torch.arange(len(classes)), torch.tensor([len(group) for group in groups])
    )
    return _samples(folder, [path for group in groups for path in group], labels)


def _samples(folder: Path, paths: Sequence[Path], labels: torch.Tensor) -> Samples:
    """The pictures, which can be told apart by their column `file`."""
    named = np.array([path.relative_to(folder).as_posix() for path in paths])
    return Samples(read_pictures(paths), labels, {"file": named})


def _pictures(folder: Path) -> list[Path]:
    # hidden ones, such as macOS leaves beside others, are no images
    paths = sorted(
        path for path in folder.iterdir() if is_picture(path) and not path.name.startswith(".")
    )
    if not paths:
        raise NescioError(f"{folder}: holds no PNG or JPEG image")
    return paths
