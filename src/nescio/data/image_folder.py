"""Folders of PNG and JPEG files: one sub-folder for each class, or a flat folder of images without labels."""

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError

from nescio.data.arrays import Array
from nescio.data.class_order import in_order
from nescio.data.parts import Parts
from nescio.data.samples import Samples
from nescio.errors import NescioError

_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")
_SUFFIXES = (".png", ".jpg", ".jpeg")


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
        return Parts({half: _labelled(folder / half, classes) for half in halves}, classes)
    if inside:
        return Parts({"all": _labelled(folder, classes)}, classes)
    paths = _pictures(folder)
    return Parts({"all": _samples(folder, paths, torch.full((len(paths),), -1))})


def picture_batches(folder: Path, size: int) -> Iterator[tuple[list[str], int, list[Path]]]:
    """The images in a folder that `read` takes, so many at a time: names, how many there are in all, and files."""
    inside = _folders(folder)
    if inside == ["test", "train"]:
        folder = folder / "test"
        inside = _folders(folder)
    paths = [path for name in in_order(inside) for path in _pictures(folder / name)] if inside else _pictures(folder)
    for start in range(0, len(paths), size):
        some = paths[start : start + size]
        yield [path.relative_to(folder).as_posix() for path in some], len(paths), some


def read_picture(path: Path) -> torch.Tensor:
    """One image, bytes `(1, C, H, W)`, grey or in colour as it is."""
    return _stacked([path])


def _folders(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _labelled(folder: Path, classes: Sequence[str]) -> Samples:
    if not classes:
        raise NescioError(f"{folder}: has no sub-folders; expected one for each class")
    groups = [_pictures(folder / name) if (folder / name).is_dir() else [] for name in classes]
    labels = torch.repeat_interleave(torch.arange(len(classes)), torch.tensor([len(group) for group in groups]))
    return _samples(folder, [path for group in groups for path in group], labels)


def _samples(folder: Path, paths: Sequence[Path], labels: torch.Tensor) -> Samples:
    """The pictures, which can be told apart by their column `file`."""
    return Samples(_stacked(paths), labels, {"file": np.array([path.relative_to(folder).as_posix() for path in paths])})


def _pictures(folder: Path) -> list[Path]:
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES)
    if not paths:
        raise NescioError(f"{folder}: holds no PNG or JPEG image")
    return paths


def _stacked(paths: Sequence[Path]) -> torch.Tensor:
    """Images `(N, C, H, W)`, uint8: grey if all of them are, else colour."""
    pictures = [_picture(path) for path in paths]
    size = pictures[0].shape[:2]
    for path, picture in zip(paths, pictures, strict=True):
        if picture.shape[:2] != size:
            raise NescioError(f"{path}: is {picture.shape[1]}×{picture.shape[0]}; expected {size[1]}×{size[0]} "
                              f"like {paths[0].name}")  # fmt: skip
    if any(picture.ndim == 3 for picture in pictures):
        colour = [picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, 2) for picture in pictures]
        return torch.from_numpy(np.stack(colour).transpose(0, 3, 1, 2).copy())
    return torch.from_numpy(np.stack(pictures)[:, None])


def _picture(path: Path) -> Array:
    """One image, `(H, W)` or `(H, W, 3)`; transparency is dropped, palettes become colours."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of metadata, and of palettes that hold transparency
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path, formats=("PNG", "JPEG")) as image:
                if image.mode not in _MODES:
                    raise NescioError(f"{path}: an image of mode {image.mode}; expected 8 bits per channel")
                return np.array(image.convert("L" if image.mode in ("1", "L", "LA") else "RGB"))
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise NescioError(f"{path}: {error}; refused") from error
    except NescioError:
        raise
    except (UnidentifiedImageError, EOFError, OSError, SyntaxError, ValueError) as error:
        raise NescioError(f"{path}: is not a readable PNG or JPEG image ({error})") from error
