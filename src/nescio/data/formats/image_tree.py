"""All PNG and JPEG files in a folder and in the folders in it, whatever these are called: what is there to score."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nescio.data.class_order import in_order
from nescio.data.formats.picture import is_picture
from nescio.errors import NescioError

_OTHERS = (".tif", ".tiff", ".bmp", ".gif", ".webp", ".heic", ".avif", ".jfif")


@dataclass(frozen=True)
class Tree:
    """The images in a folder, each folder's own before those of its sub-folders, in the order in which people count.

    What is hidden, its name beginning with a point, is passed over.

    Attributes:
        pictures: PNG and JPEG files.
        others: files that are images of other kinds, by their names.
    """

    pictures: tuple[Path, ...]
    others: tuple[Path, ...] = ()

    @classmethod
    def below(cls, folder: Path) -> "Tree":
        """The images in a folder; an error if there are none that can be read."""
        found = [path for files in _walked(folder) for path in files]
        pictures = tuple(path for path in found if is_picture(path))
        others = tuple(path for path in found if path.suffix.lower() in _OTHERS)
        if not pictures:
            beside = (
                f", but {len(others)} of other kinds, such as {others[0].name}" if others else ""
            )
            raise NescioError(f"{folder}: holds no PNG or JPEG image{beside}")
        return cls(pictures, others)


def _walked(folder: Path) -> Iterator[list[Path]]:
    """The files of each folder; links are followed, but not back to a folder that one is in."""
    waiting = [(folder, frozenset[str]())]
    while waiting:
        here, above = waiting.pop()
        real = os.path.realpath(here)
        if real in above:
            continue
        try:
            with os.scandir(here) as entries:
                kinds = {one.name: one.is_dir() for one in entries if not one.name.startswith(".")}
        except OSError as error:
            raise NescioError(f"{here}: cannot be read ({error.strerror})") from error
        yield [here / name for name in in_order(name for name in kinds if not kinds[name])]
        inside = in_order(name for name in kinds if kinds[name])
        waiting += [(here / name, above | {real}) for name in reversed(inside)]
