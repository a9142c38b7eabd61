"""CSV files as columns of text."""

import csv
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from nescio.data.formats.bounds import read_text, require_file, unreadable
from nescio.errors import NescioError


class Rows(dict[str, list[str]]):
    """Columns of text by name, and the line of the file that each row ends on, for errors."""

    def __init__(self, columns: Mapping[str, list[str]], lines: Sequence[int]) -> None:
        super().__init__(columns)
        self.lines = lines

    def without(self, *names: str) -> "Rows":
        """Return the other columns."""
        return Rows({name: cells for name, cells in self.items() if name not in names}, self.lines)


def row_place(table: Mapping[str, Sequence[object]], row: int) -> str:
    """Say where a row stands: its line in the file, or without a file its number from 1."""
    return f"line {table.lines[row]}" if isinstance(table, Rows) else f"row {row + 1}"


def read_csv(path: str | os.PathLike[str]) -> Rows:
    """Return the columns of a CSV file, plain or compressed, by the names in its first row."""
    (rows,) = csv_batches(path, None)
    return rows


def csv_batches(path: str | os.PathLike[str], size: int | None) -> Iterator[Rows]:
    """Yield the columns of `size` rows at a time, or of all; cells without outer spaces.

    A file that is not compressed is never held whole. A cell may be 128 KiB long, as everywhere, so
    that no line can fill the memory unseen.
    """
    path = require_file(path)
    try:
        with path.open("rb") as file:
            packed = file.read(3)[:2] in (b"\x1f\x8b", b"BZ")
    except OSError as error:
        raise unreadable(path, error) from error
    unpacked = io.StringIO(read_text(path), newline="") if packed else None
    with unpacked or path.open(encoding="utf-8-sig", newline="") as source:
        reader = csv.reader(source, strict=True)
        try:
            _check_separator(source.readline(2**20), str(path))
            source.seek(0)
            header = [name.strip() for name in next(reader, [])]
            filled = ((reader.line_num, row) for row in reader if row)
            rows = list(islice(filled, size))
            _check_header(header, bool(rows), str(path))
            while rows:
                yield _columns(header, rows, str(path))
                rows = list(islice(filled, size))
        except csv.Error as error:
            raise NescioError(f"{path}, line {reader.line_num}: {error}") from error
        except UnicodeDecodeError as error:
            line = reader.line_num + 1
            raise NescioError(f"{path}: is not UTF-8 text (near line {line})") from error


def _check_header(header: Sequence[str], rows: bool, where: str) -> None:
    if not header:
        got = "has an empty first line" if rows else "is empty"
        raise NescioError(f"{where}: {got}; expected a header and rows")
    twice = sorted({name for name in header if header.count(name) > 1})
    if "" in header or twice:
        got = f"the column name {twice[0]!r} twice" if twice else f"the header {header}"
        raise NescioError(f"{where}: has {got}; expected one name for each column in line 1")
    if not rows:
        raise NescioError(f"{where}: has a header and no rows; expected at least one")


def _columns(header: Sequence[str], rows: Sequence[tuple[int, list[str]]], where: str) -> Rows:
    for line, row in rows:
        if len(row) != len(header):
            expected = f"{len(header)} cells as in the header"
            raise NescioError(f"{where}, line {line}: expected {expected}, got {len(row)}")
    columns = {name: [row[i].strip() for _, row in rows] for i, name in enumerate(header)}
    return Rows(columns, [line for line, _ in rows])


def _check_separator(first_line: str, where: str) -> None:
    """Refuse semicolons and tabs instead of guessing, since 1,5 may be a number with semicolons."""
    header = re.sub(r'"[^"]*"', "", first_line)
    for mark, what in ((";", "semicolons"), ("\t", "tabs")):
        if mark in header and "," not in header:
            hint = "expected commas, and points in decimals"
            raise NescioError(f"{where}: seems to be separated by {what}; {hint}")
