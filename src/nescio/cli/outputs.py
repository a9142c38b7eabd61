"""Where a command may write: not over what it reads, what a run or a detector is made of, or what others wrote."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from nescio.errors import NescioError
from nescio.files import check_replaceable


def check_output(
    output: Path, kind: str, read: Iterable[Path] = (), folders: Iterable[Path] = (), own: str = ""
) -> None:
    """An error if a file would take the place of one that is read, that a folder needs, or that others wrote.

    It comes before the work whose result it is, so that none is lost.

    Args:
        output: the file to write.
        kind: of this file, as in `nescio.files`; one of the same kind may be replaced.
        read: files, and folders of images or idx files.
        folders: of runs and detectors; a file in them of which these know nothing may be replaced.
        own: the file in such a folder that the command itself writes.
    """
    if output.is_file():
        _check_needed(output, read, folders, own)
    check_replaceable(output, kind)


def _check_needed(output: Path, read: Iterable[Path], folders: Iterable[Path], own: str) -> None:
    for file in (file for path in read for file in _files(path)):
        if file.exists() and output.samefile(file):
            raise NescioError(
                f"{str(output)!r} is what is to be read, and would be replaced; give another file to write"
            )
    for folder in folders:
        for file in (folder / name for name in _kept(folder) if name != own):
            if output.samefile(file):
                raise NescioError(
                    f"{str(output)!r} belongs to the run or detector {str(folder)!r}, and would be "
                    "replaced; give another file to write"
                )


def _files(path: Path) -> Iterable[Path]:
    from nescio.data.formats.images import ImageTree
    from nescio.data.formats.published import idx_set_in

    return (idx_set_in(path) or ImageTree.below(path).images) if path.is_dir() else [path]


def _kept(folder: Path) -> Iterator[str]:
    """What is there of the files that a run or a detector consists of, and of the records beside them."""
    from nescio.store import run as runs
    from nescio.store.detector_folder import FILES

    records = (
        runs.HISTORY,
        runs.EVALUATION,
        runs.EXAMPLES,
        runs.AUDIT,
        runs.FEATURES,
        runs.REGIONS,
        runs.SCALING,
        runs.CONTEST,
        runs.RECOMMENDATION,
        runs.LENGTH_SCALE,
        runs.PENALTY,
    )
    for path in folder.iterdir() if folder.is_dir() else ():
        if (
            path.name in (*FILES, *records) or path.suffix == ".safetensors"
        ):  # of members there are several
            yield path.name
