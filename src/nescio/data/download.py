"""Published data sets, downloaded to where `load` finds them."""

import os
from pathlib import Path

from nescio.data.catalogue import CATALOGUE, NAMES, Progress, folders
from nescio.errors import NescioError, check_name


def download(
    name: str,
    root: str | os.PathLike[str] | None = None,
    base_url: str | None = None,
    progress: Progress | None = None,
    force: bool = False,
) -> tuple[Path, ...]:
    """Download a set's published files to where `load` finds them, and return their paths.

    Args:
        name: one of `NAMES` that has a public address.
        root: the folder to put them in; by default `$NESCIO_DATA`, else the user's cache.
        base_url: a mirror with files of the same names; the checksums stay those of the original.
        progress: called with a file's name, the bytes so far, and the bytes in all or None.
        force: replace files of the same names that are not the published ones.

    >>> download("mnist")  # doctest: +SKIP
    """
    entry, folder = CATALOGUE[check_name("data set", name, NAMES)], folders(root)[0]
    if not entry.remotes:
        first = next((files[0] for files in entry.sources.values()), None)
        why = f"set NESCIO_DATA to the folder that has {first}" if first else "it is embedded"
        raise NescioError(f"{name} has no public address to download it from; {why}")
    from nescio.data.fetch import fetch  # which loads pooch and requests

    return fetch(entry.remotes, folder, base_url, progress, force)
