"""PNG and JPEG files, alone or in folders, without trust in what they promise."""

import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from nescio.arrays import Array
from nescio.data.class_order import in_order
from nescio.data.formats.bounds import require_file, unreadable
from nescio.data.samples import Parts, Samples
from nescio.errors import NescioError

_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")
_SUFFIXES = (".png", ".jpg", ".jpeg")
_OTHER_SUFFIXES = (".tif", ".tiff", ".bmp", ".gif", ".webp", ".heic", ".avif", ".jfif")


def is_image(path: Path) -> bool:
    """Return whether the name says PNG or JPEG."""
    return path.suffix.lower() in _SUFFIXES


def read_images(paths: Sequence[Path]) -> torch.Tensor:
    """Return images of one size `(N, C, H, W)`, uint8 or, if one has 16 bits, floats in [0, 1].

    They are grey if all of them are, else in colour.
    """
    images = [_read_image(path) for path in paths]
    height, width = images[0].shape[:2]
    for path, image in zip(paths, images, strict=True):
        if image.shape[:2] != (height, width):
            size = f"{image.shape[1]}×{image.shape[0]}"
            expected = f"expected {width}×{height} like {paths[0].name}: resize them to one size"
            raise NescioError(f"{path}: is {size}; {expected}")
    if any(image.dtype != np.uint8 for image in images):
        images = [image / np.float32(np.iinfo(image.dtype).max) for image in images]
    if all(image.ndim == 2 for image in images):
        return torch.from_numpy(np.stack(images)[:, None])
    colour = [np.repeat(image[..., None], 3, 2) if image.ndim == 2 else image for image in images]
    return torch.from_numpy(np.stack(colour).transpose(0, 3, 1, 2).copy())


def _read_image(path: Path) -> Array:
    """Return an image `(H, W)` or `(H, W, 3)`, uint8, or uint16 of grey, without transparency."""
    from PIL import Image, UnidentifiedImageError  # here: scores need no images

    path = require_file(path)  # a pipe of such a name would never end
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of metadata, and of palettes that hold transparency
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path, formats=("PNG", "JPEG")) as image:
                if image.mode == "I;16":
                    return np.array(image)
                if image.mode not in _MODES:
                    expected = "8 bits per channel, or 16 of grey"
                    raise NescioError(f"{path}: must have {expected}, got mode {image.mode}")
                return np.array(image.convert("L" if image.mode in ("1", "L", "LA") else "RGB"))
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise NescioError(f"{path}: {error}; refused") from error
    except NescioError:
        raise
    except (UnidentifiedImageError, EOFError, OSError, SyntaxError, ValueError) as error:
        raise NescioError(f"{path}: is not a readable PNG or JPEG image ({error})") from error


def images_below(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the PNG and JPEG files in a folder and its sub-folders, and images of other kinds.

    A folder's own come first, in natural order; what is hidden, by a leading dot, is ignored.
    """
    paths = [path for files in _walk(folder) for path in files]
    images = [path for path in paths if is_image(path)]
    others = [path for path in paths if path.suffix.lower() in _OTHER_SUFFIXES]
    if not images:
        such = f", but {len(others)} of other kinds, such as {others[0].name}" if others else ""
        raise NescioError(f"{folder}: holds no PNG or JPEG image{such}")
    return images, others


def _walk(folder: Path) -> Iterator[list[Path]]:
    """Yield the files of each folder; links are followed, but not back to a folder one is in."""
    waiting = [(folder, frozenset[str]())]
    while waiting:
        here, above = waiting.pop()
        real = os.path.realpath(here)
        if real in above:
            continue
        folders, files = _entries(here)
        yield [here / name for name in in_order(files)]
        waiting += [(here / name, above | {real}) for name in reversed(in_order(folders))]


def _entries(folder: Path) -> tuple[set[str], set[str]]:
    """Return the names of the folders and of the files in a folder that are not hidden."""
    try:
        with os.scandir(folder) as entries:
            shown = [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        raise unreadable(folder, error) from error
    # os.path.isdir says no of links that lead nowhere, or in a circle
    inside = {e.name for e in shown if (os.path.isdir(e) if e.is_symlink() else e.is_dir())}
    return inside, {entry.name for entry in shown} - inside


def read_image_folder(folder: Path) -> Parts:
    """Read the images of one size below a folder: one sub-folder for each class, or unlabelled.

    Sub-folders `train` and `test` are the two parts. A column `file` has the paths.
    """
    halves, inside = {"all": folder}, _entries(folder)[0]
    if inside == {"train", "test"}:
        halves = {half: folder / half for half in ("train", "test")}
        inside = _entries(halves["train"])[0] | _entries(halves["test"])[0]
        if not inside:
            raise NescioError(f"{halves['train']}: must have a sub-folder for each class, got none")
    classes = tuple(in_order(inside))
    places = [half / name for half in halves.values() for name in classes] or [folder]
    groups: dict[Path, list[Path]] = {place: [] for place in places}
    for path in images_below(folder)[0]:
        if path.parent not in groups:
            first = ", ".join(place.relative_to(folder).as_posix() for place in places[:3])
            such = f"{first}{', …' * (len(places) > 3)}; expected every image in one of them"
            raise NescioError(f"{path}: lies in no folder of a class, which here are {such}")
        groups[path.parent].append(path)
    empty = [place for place, paths in groups.items() if not paths and place.is_dir()]
    samples = {}
    for part, half in halves.items():
        labels = {half / name: label for label, name in enumerate(classes)} or {folder: -1}
        paths = [path for place in labels for path in sorted(groups[place])]
        if empty or not paths:
            raise NescioError(f"{(empty or [half])[0]}: holds no PNG or JPEG image")
        y = torch.tensor([labels[path.parent] for path in paths])
        files = np.array([path.relative_to(half).as_posix() for path in paths])
        samples[part] = Samples(read_images(paths), y, {"file": files})
    return Parts(samples, classes)
