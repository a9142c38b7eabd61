"""How a table's columns become features: fitted on training rows, applied to new rows."""

import math
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from nescio.arrays import Array
from nescio.data.formats.csv import read_csv, row_place
from nescio.errors import NescioError, check_name

Table = Mapping[str, Sequence[object]]  # columns by name
MISSING = frozenset({"", "?", "na", "n/a", "nan", "null"})
TRUTH = {"true": 1.0, "false": 0.0}
IMPUTING = "(impute=True, or --impute) fills in the median or the most frequent value"
# what to do with a category never seen in training
ZEROS, WARN, REFUSE = UNSEEN_CATEGORY = ("zeros", "warn", "refuse")
MAX_CATEGORIES = 1000  # a column of names or numbers of rows would become a feature for each row


@dataclass(frozen=True)
class Column:
    """One source column: a number, or a category, which becomes a feature for each one in training.

    `fill` takes the place of a missing value; None makes a missing value an error.
    """

    name: str
    kind: str
    categories: tuple[str, ...] = ()
    fill: float | str | None = None

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features this column becomes."""
        if self.kind == "numeric":
            return (self.name,)
        return tuple(f"{self.name}={category}" for category in self.categories)

    def encode(self, table: Table, allow_missing: bool = False) -> Array:
        """Return the features `(N, F)` of a table's rows; an unseen category is all zeros.

        With `allow_missing` what is missing is NaN, and infinities are let through.
        """
        texts = [self._text(table, row, allow_missing) for row in range(len(table[self.name]))]
        missing = np.array([text is None for text in texts])
        if self.kind == "numeric":
            numbers = np.array([_number(text or "") for text in texts], dtype=np.float64)
            with np.errstate(over="ignore"):
                block = numbers.astype(np.float32)[:, None]
            for row in np.flatnonzero(~np.isfinite(block[:, 0]) & ~missing).tolist():
                if not allow_missing or np.isnan(block[row, 0]):
                    place = f"column {self.name!r}, {row_place(table, row)}"
                    raise NescioError(f"{place}: {texts[row]!r} is not a finite number")
            return block
        position = {category: i for i, category in enumerate(self.categories)}
        hot = [position.get(text or "", -1) for text in texts]
        block = np.eye(len(position) + 1, dtype=np.float32)[hot, :-1]  # −1 is all zeros
        block[missing] = np.nan
        return block

    def _text(self, table: Table, row: int, allow_missing: bool) -> str | None:
        cell = table[self.name][row]
        if not is_missing(cell):
            return str(cell).strip()
        if self.fill is None and not allow_missing:
            place = f"column {self.name!r}, {row_place(table, row)}"
            raise NescioError(f"{place}: the value is missing; imputing in training {IMPUTING}")
        return None if self.fill is None else str(self.fill)


@dataclass(frozen=True)
class Encoding:
    """The source columns in order, with what was learned from training rows.

    >>> encoding = Encoding.numeric(["age", "height"])
    >>> encoding.features
    ('age', 'height')
    """

    columns: tuple[Column, ...]

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the encoded features."""
        return tuple(name for column in self.columns for name in column.features)

    @property
    def categorical(self) -> bool:
        """Whether some columns are categories."""
        return any(column.kind != "numeric" for column in self.columns)

    def encode(
        self,
        source: Table | str | os.PathLike[str],
        allow_missing: bool = False,
        unseen_category: str = WARN,
    ) -> Tensor:
        """Return features `(N, F)`, float32, of columns by name or of a CSV file.

        Columns that are not used are ignored; a missing column is an error.

        Args:
            source: columns by name, or a CSV file.
            allow_missing: encode missing or infinite values as NaN or infinities, not as an error.
            unseen_category: a category never seen in training is all zeros, with a warning ("warn")
                or without ("zeros"); "refuse" makes its row NaN, so that a detector answers −1.
        """
        check_name("unseen_category", unseen_category, UNSEEN_CATEGORY)
        table = source if isinstance(source, Mapping) else read_csv(source)
        where = "the table" if isinstance(source, Mapping) else str(source)
        names = (column.name for column in self.columns)
        lacking = ", ".join(repr(name) for name in names if name not in table)
        if lacking:
            raise NescioError(f"{where} has no column {lacking}; it has {', '.join(table)}")
        counts = {len(table[column.name]) for column in self.columns}
        if len(counts) != 1 or counts == {0}:
            rows_given = f"{sorted(counts)} rows"
            raise NescioError(f"{where} must have columns of one length ≥ 1, got {rows_given}")
        blocks = [column.encode(table, allow_missing) for column in self.columns]
        x = torch.from_numpy(np.concatenate(blocks, axis=1))
        unseen = [] if unseen_category == ZEROS else self.unseen_categories(table)
        rows = [row for row, category in enumerate(unseen) if category]
        if rows and unseen_category == REFUSE:
            x[rows] = torch.nan
        elif rows:
            count = f"{len(rows)} of {len(x)} rows of {where}"
            first = f"the first in {row_place(table, rows[0])}: {unseen[rows[0]]}"
            hint = "unseen_category='refuse' makes them unknown to a detector, 'zeros' is silent"
            what = "have a category never seen in training, encoded as zeros"
            warnings.warn(f"{count} {what}, {first}; {hint}", stacklevel=2)
        return x

    def unseen_categories(self, table: Table) -> list[str]:
        """Return the unseen categories of each row, as `colour=violet; size=XL`, or ""."""
        rows: list[list[str]] = [[] for _ in table[self.columns[0].name]]
        for column in self.columns:
            if column.kind == "numeric":
                continue
            known = set(column.categories)
            for row, cell in zip(rows, table[column.name], strict=True):
                if not is_missing(cell) and str(cell).strip() not in known:
                    row.append(f"{column.name}={str(cell).strip()}")
        return ["; ".join(row) for row in rows]

    @classmethod
    def fitted(cls, table: Table, impute: bool = False, categorical: Iterable[str] = ()) -> Self:
        """Learn the encoding of training rows; columns of text and those named are categorical."""
        if not impute:
            check_complete(table)
        codes = set(categorical)
        return cls(tuple(_fitted(name, table[name], impute, name in codes) for name in table))

    @classmethod
    def numeric(cls, names: Iterable[str]) -> Self:
        """Return the encoding of a table that has nothing but numbers."""
        return cls(tuple(Column(name, "numeric") for name in names))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        columns = [asdict(column) for column in self.columns]
        return {"columns": [c | {"categories": list(c["categories"])} for c in columns]}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Return the encoding that `to_dict` gave."""
        dicts = plain.get("columns") if isinstance(plain, Mapping) else None
        if not isinstance(dicts, list | tuple) or not dicts:
            raise NescioError("not a table's encoding: it has no columns")
        columns = tuple(_from_dict(column) for column in dicts)
        if len({column.name for column in columns}) < len(columns):
            raise NescioError("not a table's encoding: it has two columns of one name")
        return cls(columns)


def is_missing(cell: object) -> bool:
    """Return whether a cell stands for a value that is not there."""
    return cell is None or str(cell).strip().lower() in MISSING


def check_complete(table: Table) -> None:
    """Raise if a value is missing, and say in which line or row."""
    for name, cells in table.items():
        rows = [row for row, cell in enumerate(cells) if is_missing(cell)]
        if rows and len(rows) == len(cells):
            lacks = f"has no value in any of its {len(cells)} rows"
            raise NescioError(f"column {name!r} {lacks}; leave it out")
        if rows:
            lacks = f"lacks {len(rows)} of its {len(cells)} values"
            first = row_place(table, rows[0])
            raise NescioError(f"column {name!r} {lacks}, the first in {first}; imputing {IMPUTING}")


def _from_dict(plain: Any) -> Column:
    """Return one column of plain data that may come from a file someone has tampered with."""
    wrong = NescioError(f"not a table's encoding: {repr(plain)[:100]} is no column")
    names = {field.name for field in fields(Column)}
    if not isinstance(plain, Mapping) or not names - {"fill"} <= set(plain) <= names:
        raise wrong
    name, kind, categories = plain["name"], plain["kind"], plain["categories"]
    fill: Any = plain.get("fill")
    if not isinstance(name, str) or not isinstance(categories, list | tuple):
        raise wrong
    texts = all(isinstance(text, str) for text in categories)
    if not texts or len(set(categories)) < len(categories):
        raise wrong
    if kind == "categorical" and categories and (fill is None or isinstance(fill, str)):
        return Column(name, kind, tuple(categories), fill)
    finite = type(fill) in (float, int) and abs(fill) <= sys.float_info.max
    if kind == "numeric" and not categories and (fill is None or finite):
        return Column(name, kind, fill=None if fill is None else float(fill))
    raise wrong


def _fitted(name: str, cells: Sequence[object], impute: bool, categorical: bool) -> Column:
    texts = [str(cell).strip() for cell in cells if not is_missing(cell)]
    if not texts:
        raise NescioError(f"column {name!r} has no value in the training rows")
    numbers = [_number(text) for text in texts]
    if not categorical and not any(map(math.isnan, numbers)):
        return Column(name, "numeric", fill=float(np.median(numbers)) if impute else None)
    counts = Counter(texts)
    if len(counts) > MAX_CATEGORIES:
        expected = f"numbers, or at most {MAX_CATEGORIES} categories"
        raise NescioError(f"column {name!r} has {len(counts)} different texts, not {expected}")
    most_frequent = min(counts, key=lambda text: (-counts[text], text))
    return Column(name, "categorical", tuple(sorted(counts)), most_frequent if impute else None)


def _number(text: str) -> float:
    """The number a cell holds, NaN if none; Python reads 1_000, a table does not mean it."""
    try:
        return float(text) if "_" not in text else math.nan
    except ValueError:
        return TRUTH.get(text.lower(), math.nan)
