"""A CSV file as columns of text."""

import csv
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from nescio.data.formats.bounds import regular, text
from nescio.errors import NescioError


class Rows(dict[str, list[str]]):
    """Columns of text by name, and the line of the file that each row ends on, as errors tell it."""

    def __init__(self, columns: Mapping[str, list[str]], lines: Sequence[int]) -> None:
        super().__init__(columns)
        self.lines = lines

    def without(self, *names: str) -> "Rows":
        """The other columns."""
        return Rows({name: cells for name, cells in self.items() if name not in names}, self.lines)


def row_place(table: Mapping[str, Sequence[object]], row: int) -> str:
    """Where a row stands, counted from 0: on a line of the file that it is from, or else by its number from 1."""
    return f"line {table.lines[row]}" if isinstance(table, Rows) else f"row {row + 1}"


def read_csv(path: str | os.PathLike[str]) -> Rows:
    """The columns of a CSV file, plain or compressed, by the names in its first row; cells without outer spaces."""
    written = text(path)
    _check_separator(written, str(path))
    reader = csv.reader(io.StringIO(written, newline=""), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        rows = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise NescioError(f"{path}, line {reader.line_num}: {error}") from error
    _check_header(header, bool(rows), str(path))
    return _columns(header, rows, str(path))


def csv_batches(path: str | os.PathLike[str], size: int) -> Iterator[Rows]:
    """The columns that `read_csv` gives, for so many rows at a time; a file that is not compressed is never held whole.

    A cell may be 128 KiB long, as everywhere, so that no line can fill the memory unseen.
    """
    path = regular(path)
    with path.open("rb") as file:
        packed = file.read(3)[:2] in (b"\x1f\x8b", b"BZ")
    source = (
        io.StringIO(text(path), newline="")
        if packed
        else path.open(encoding="utf-8-sig", newline="")
    )
    with source:
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
            raise NescioError(
                f"{path}: is not UTF-8 text (near line {reader.line_num + 1})"
            ) from error


def _check_header(header: Sequence[str], rows: bool, where: str) -> None:
    twice = sorted({name for name in header if header.count(name) > 1})
    if not header:
        raise NescioError(
            f"{where}: {'has an empty first line' if rows else 'is empty'}; expected a header and rows"
        )
    if "" in header or twice:
        what = (
            f"the column name {twice[0]!r} twice"
            if twice
            else f"the header {', '.join(map(repr, header))}"
        )
        raise NescioError(
            f"{where}: has {what}; expected one name for each column in the first row"
        )
    if not rows:
        raise NescioError(f"{where}: has a header and no rows; expected at least one")


def _columns(header: Sequence[str], rows: Sequence[tuple[int, list[str]]], where: str) -> Rows:
    """The cells of some rows, which come with their lines, by column."""
    for line, row in rows:
        if len(row) != len(header):
            raise NescioError(
                f"{where}, line {line}: {len(row)} cells; expected {len(header)} as in the header"
            )
    columns = {name: [row[i].strip() for _, row in rows] for i, name in enumerate(header)}
    return Rows(columns, [line for line, _ in rows])


def _check_separator(written: str, where: str) -> None:
    """An error for semicolons or tabs; they are not simply read, since with semicolons 1,5 may be a number."""
    header = re.sub(r'"[^"]*"', "", re.split(r"[\r\n]", written, maxsplit=1)[0])
    for mark, what in ((";", "semicolons"), ("\t", "tabs")):
        if mark in header and "," not in header:
            raise NescioError(
                f"{where}: seems to be separated by {what}; expected commas, and points in decimals"
            )
