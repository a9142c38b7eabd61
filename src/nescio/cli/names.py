"""Names in our tables as values of options: parsed, listed, and completed in the shell.

Torch takes seconds to load, so they are read from the source until one is unknown there.
"""

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path

import typer

from nescio.errors import NescioError, unknown_name

_CLASS = r'^    name(?:, \w+|: [\w\[\]]+)* = "(\w+)"'
_SCORE = r"^@declare\b{}[^\n]*\ndef (\w+)"
# by table: its module, the files that have the names, and the lines there
TABLES = {
    "DETECTORS": ("nescio.detectors", "detectors/*.py", _CLASS),
    "METHODS": ("nescio.methods", "methods/*.py", _CLASS),
    "NETWORKS": ("nescio.models", "models/__init__.py", r"^_FACTORIES = \((.*)\)"),
    "SCORES": ("nescio.scores", "scores/*.py", _SCORE.format("")),
    "OF_LOGITS": ("nescio.scores", "scores/*.py", _SCORE.format("(?!.*of_model)")),
    "SCHEDULES": ("nescio.training.schedule", "training/schedule.py", r"^SCHEDULES\b(.*)"),
    "AUGMENTATIONS": ("nescio.data", "data/transforms.py", r"^AUGMENTATIONS\b(.*)"),
    "NAMES": ("nescio.data", "data/catalogue.toml", r"^\[(\w+)\]"),
    "SYNTHETIC": ("nescio.data.noise", "data/noise.py", r"^SYNTHETIC = \((.*)\)"),
    "ADVERSARIAL": (
        "nescio.evaluation.unknown_sets",
        "evaluation/unknown_sets.py",
        r"^ADVERSARIAL = \(([^)]*)\)",
    ),
}


@cache
def names_in_source(table: str) -> tuple[str, ...]:
    """Return the names in one of our tables without loading it.

    >>> names_in_source("AUGMENTATIONS")
    ('crop', 'flip')
    """
    _, files, line = TABLES[table]
    found: list[str] = []
    for path in sorted(Path(__file__).parents[1].glob(files)):
        for match in re.finditer(line, path.read_text(encoding="utf-8"), re.MULTILINE):
            found += re.findall(r'"(\w+)"', match[1]) or re.findall(r"\w+", match[1])
    return tuple(sorted(found) if "*" in files else found)


def names(table: str) -> list[str]:
    """Return the names in one of our tables."""
    return list(getattr(import_module(TABLES[table][0]), table))


def complete(*tables: str, extra: str = "") -> Callable[[str], list[str]]:
    """Return what completes a word in the shell: by names in tables, and by some more."""

    def matching(incomplete: str) -> list[str]:
        known = [*extra.split(), *(name for table in tables for name in names_in_source(table))]
        return [name for name in known if name.startswith(incomplete)]

    return matching


def one_of(kind: str, table: str, *extra: str) -> Callable[[str], str]:
    """Return a parser of names in a table, whose error suggests the nearest ones."""

    def parse(word: str) -> str:
        if word in (*extra, *names_in_source(table)):
            return word
        if table == "DETECTORS" and word.partition(":")[0] in names("SCORES"):
            advice = f"use --score {word}, which fits a threshold on it"
            raise typer.BadParameter(f"{word!r} is a score, not a detector; {advice}")
        known = [*extra, *names(table)]
        if word not in known:
            raise typer.BadParameter(str(unknown_name(kind, word, known)))
        return word

    return parse


def score_in(table: str) -> Callable[[str], str]:
    """Return a parser of scores in a table, such as `gen(gamma=0.1)` or `gradient_l2:conv2`."""

    def parse(word: str) -> str:
        if word in names_in_source(table):
            return word
        from nescio import scores

        try:
            return str(scores.score_spec(word, getattr(scores, table)))
        except NescioError as error:
            raise typer.BadParameter(str(error)) from error

    return parse
