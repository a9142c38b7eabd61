"""A CSV file as columns of text."""

import csv
import io
import os
import re

from nescio.data.bounds import text
from nescio.errors import NescioError


def read_csv(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """The columns of a CSV file, plain or compressed, by the names in its first row; cells without outer spaces."""
    written = text(path)
    _check_separator(written, str(path))
    reader = csv.reader(io.StringIO(written, newline=""), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        rows = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise NescioError(f"{path}, line {reader.line_num}: {error}") from error
    twice = sorted({name for name in header if header.count(name) > 1})
    if not header:
        raise NescioError(f"{path}: {'has an empty first line' if rows else 'is empty'}; expected a header and rows")
    if "" in header or twice:
        what = f"the column name {twice[0]!r} twice" if twice else f"the header {', '.join(map(repr, header))}"
        raise NescioError(f"{path}: has {what}; expected one name for each column in the first row")
    if not rows:
        raise NescioError(f"{path}: has a header and no rows; expected at least one")
    for line, row in rows:
        if len(row) != len(header):
            raise NescioError(f"{path}, line {line}: {len(row)} cells; expected {len(header)} as in the header")
    return {name: [row[i].strip() for _, row in rows] for i, name in enumerate(header)}


def _check_separator(written: str, where: str) -> None:
    """An error for semicolons or tabs; they are not simply read, since with semicolons 1,5 may be a number."""
    header = re.sub(r'"[^"]*"', "", re.split(r"[\r\n]", written, maxsplit=1)[0])
    for mark, what in ((";", "semicolons"), ("\t", "tabs")):
        if mark in header and "," not in header:
            raise NescioError(f"{where}: seems to be separated by {what}; expected commas, and points in decimals")
