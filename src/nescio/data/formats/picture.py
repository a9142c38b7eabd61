"""One PNG or JPEG file as an array, without trust in what it promises."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError

from nescio.data.arrays import Array
from nescio.data.formats.bounds import regular
from nescio.errors import NescioError

_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")
_SUFFIXES = (".png", ".jpg", ".jpeg")


def is_picture(path: Path) -> bool:
    """Whether the name says PNG or JPEG."""
    return path.suffix.lower() in _SUFFIXES


def read_pictures(paths: Sequence[Path]) -> torch.Tensor:
    """Images of one size `(N, C, H, W)`: grey if all of them are, else colour; uint8 or, if one has 16 bits, floats."""
    pictures = [_picture(path) for path in paths]
    size = pictures[0].shape[:2]
    for path, picture in zip(paths, pictures, strict=True):
        if picture.shape[:2] != size:
            raise NescioError(
                f"{path}: is {picture.shape[1]}×{picture.shape[0]}; expected {size[1]}×{size[0]} "
                f"like {paths[0].name}"
            )
    if any(picture.dtype != np.uint8 for picture in pictures):
        pictures = [_floats(picture) for picture in pictures]
    if any(picture.ndim == 3 for picture in pictures):
        colour = [
            picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, 2)
            for picture in pictures
        ]
        return torch.from_numpy(np.stack(colour).transpose(0, 3, 1, 2).copy())
    return torch.from_numpy(np.stack(pictures)[:, None])


def _picture(path: Path) -> Array:
    """One image, `(H, W)` or `(H, W, 3)`, uint8, or uint16 where it has so many bits of grey.

    Transparency is dropped, palettes become colours.
    """
    path = regular(path)  # a pipe of such a name would never end
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of metadata, and of palettes that hold transparency
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path, formats=("PNG", "JPEG")) as image:
                if image.mode == "I;16":
                    return np.array(image)
                if image.mode not in _MODES:
                    raise NescioError(
                        f"{path}: an image of mode {image.mode}; expected 8 bits per channel, or 16 of grey"
                    )
                return np.array(image.convert("L" if image.mode in ("1", "L", "LA") else "RGB"))
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise NescioError(f"{path}: {error}; refused") from error
    except NescioError:
        raise
    except (UnidentifiedImageError, EOFError, OSError, SyntaxError, ValueError) as error:
        raise NescioError(f"{path}: is not a readable PNG or JPEG image ({error})") from error


def _floats(picture: Array) -> Array:
    """Whole numbers as floats in [0, 1]."""
    scaled: Array = picture / np.float32(np.iinfo(picture.dtype).max)
    return scaled
