"""A CSV file as columns of text."""

import csv
import io
import os

from nescio.data.bounds import text
from nescio.errors import NescioError


def read_csv(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """The columns of a CSV file, plain or compressed, by the names in its first row; cells without outer spaces."""
    reader = csv.reader(io.StringIO(text(path), newline=""), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        rows = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise NescioError(f"{path}, line {reader.line_num}: {error}") from error
    twice = sorted({name for name in header if header.count(name) > 1})
    if not header or "" in header or twice:
        what = (
            f"the column name {twice[0]!r} twice" if twice else f"the header {', '.join(map(repr, header)) or 'empty'}"
        )
        raise NescioError(f"{path}: has {what}; expected one name for each column in the first row")
    if not rows:
        raise NescioError(f"{path}: has a header and no rows")
    for line, row in rows:
        if len(row) != len(header):
            raise NescioError(f"{path}, line {line}: {len(row)} cells; expected {len(header)} as in the header")
    return {name: [row[i].strip() for _, row in rows] for i, name in enumerate(header)}
