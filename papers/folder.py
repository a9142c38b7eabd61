"""The folder of an experiment: a record in it is gone on with, and never replaced by less or by something else."""

import os
from pathlib import Path

from nescio.errors import NescioError
from papers.reproduction import Reproduction

RECORD = "reproduction.json"


def claim(folder: Path, name: str, scale: str, seeds: int) -> None:
    """Make the folder the experiment's; an error if it has a record of another one or scale, or of more seeds."""
    path = folder / RECORD
    if path.is_file():
        kept = Reproduction.load(path)
        if (kept.name, kept.scale) != (name, scale) or kept.seeds > seeds:
            raise NescioError(
                f"{os.fspath(folder)!r} holds {_told(kept.name, kept.scale, kept.seeds)}, which "
                f"{_told(name, scale, seeds)} would replace; name another folder with -o"
            )
    folder.mkdir(parents=True, exist_ok=True)  # what stands in its way is told before the work


def _told(name: str, scale: str, seeds: int) -> str:
    return f"{name} at the scale {scale} (seeds: {seeds})"
