"""How a table's columns become features: fitted on the training rows, kept with the model, applied to new rows."""

import math
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.data.formats.csv import read_csv, row_place
from nescio.errors import NescioError, unknown_name

_MISSING = frozenset({"", "?", "na", "n/a", "nan", "null"})
_TRUTH = {"true": 1.0, "false": 0.0}
_IMPUTING = "(impute=True, or --impute) fills in the median or the most frequent value"
ZEROS, WARN, REFUSE = UNSEEN = (
    "zeros",
    "warn",
    "refuse",
)  # what becomes of a category never seen in training
_MOST_CATEGORIES = 1000  # a column of names or numbers of rows would become a feature for each row


@dataclass(frozen=True)
class Column:
    """One source column: a number, or a category that becomes one feature for each category seen in training.

    `fill` takes the place of a missing value; None makes a missing value an error.
    """

    name: str
    kind: str
    categories: tuple[str, ...] = ()
    fill: float | str | None = None

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features this column becomes."""
        return (
            (self.name,)
            if self.kind == "numeric"
            else tuple(f"{self.name}={one}" for one in self.categories)
        )

    def encode(
        self, table: Mapping[str, Sequence[object]], gaps: bool = False
    ) -> np.ndarray[Any, Any]:
        """The features `(N, F)` of a table's rows; a category that was not seen in training is all zeros.

        With `gaps` what is missing is NaN, and infinities are let through.
        """
        cells = table[self.name]
        lost = np.array(
            [gaps and self.fill is None and is_missing(cell) for cell in cells], dtype=bool
        )
        texts = ["" if lost[row] else self._filled(table, row) for row in range(len(cells))]
        if self.kind == "numeric":
            numbers = np.array([_number(one) for one in texts], dtype=np.float64)
            with np.errstate(over="ignore"):
                block = numbers.astype(np.float32)[:, None]
            for row in np.flatnonzero(~np.isfinite(block[:, 0]) & ~lost).tolist():
                if not gaps or np.isnan(block[row, 0]):
                    raise NescioError(
                        f"column {self.name!r}, {row_place(table, row)}: {texts[row]!r} is not a finite "
                        "number"
                    )
            return block
        places = {one: i for i, one in enumerate(self.categories)}
        hot = np.array([places.get(one, -1) for one in texts])
        block = np.zeros((len(texts), len(self.categories)), dtype=np.float32)
        block[np.flatnonzero(hot >= 0), hot[hot >= 0]] = 1
        block[lost] = np.nan
        return block

    def unseen_category(self, table: Mapping[str, Sequence[object]]) -> list[str]:
        """Of each row the category that was not seen in training, as `colour=violet`, or nothing."""
        known = set(self.categories)
        cells = ("" if is_missing(cell) else str(cell).strip() for cell in table[self.name])
        return [f"{self.name}={cell}" if cell and cell not in known else "" for cell in cells]

    def _filled(self, table: Mapping[str, Sequence[object]], row: int) -> str:
        cell = table[self.name][row]
        if not is_missing(cell):
            return str(cell).strip()
        if self.fill is None:
            raise NescioError(
                f"column {self.name!r}, {row_place(table, row)}: the value is missing; imputing in "
                f"training {_IMPUTING}"
            )
        return str(self.fill)


_FIELDS = {field.name for field in fields(Column)}


@dataclass(frozen=True)
class Encoding:
    """The source columns in order; what is learned from training rows is in them, so new rows are encoded alike."""

    columns: tuple[Column, ...]

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the encoded features."""
        return tuple(name for column in self.columns for name in column.features)

    def encode(
        self,
        source: Mapping[str, Sequence[object]] | str | os.PathLike[str],
        gaps: bool = False,
        unseen_category: str = WARN,
    ) -> Tensor:
        """Features `(N, F)`, float32, of columns by name or of a CSV file; columns that are not used are ignored.

        A missing column, or a cell that is no number where one is needed, is an error; with `gaps`, a cell that is
        missing or not finite makes its features NaN or infinite instead.

        A category never seen in training becomes a block of zeros, with a warning; with `unseen="zeros"` without one;
        with "refuse" all features of its row are NaN, so that a detector answers −1.
        """
        if unseen_category not in UNSEEN:
            raise unknown_name("way with unseen categories", unseen_category, UNSEEN)
        table = source if isinstance(source, Mapping) else read_csv(source)
        where = "the table" if isinstance(source, Mapping) else str(source)
        lacking = [column.name for column in self.columns if column.name not in table]
        if lacking:
            raise NescioError(
                f"{where} has no column {', '.join(map(repr, lacking))}; it has {', '.join(table)}"
            )
        counts = {len(table[column.name]) for column in self.columns}
        if len(counts) != 1 or counts == {0}:
            raise NescioError(
                f"{where} has columns of {sorted(counts)} rows; expected one number, at least 1"
            )
        blocks = [column.encode(table, gaps) for column in self.columns]
        x = torch.from_numpy(np.concatenate(blocks, axis=1))
        marks = [] if unseen_category == ZEROS else self.unseen_category(table)
        rows = [row for row, mark in enumerate(marks) if mark]
        if rows and unseen_category == REFUSE:
            x[rows] = torch.nan
        elif rows:
            warnings.warn(
                f"{len(rows)} of {len(x)} rows of {where} hold a category never seen in training, which is "
                f"all zeros, the first in {row_place(table, rows[0])}: {marks[rows[0]]}; unseen='refuse' "
                "makes them unknown to a detector, unseen='zeros' is silent",
                stacklevel=2,
            )
        return x

    @property
    def categorical(self) -> bool:
        """Whether some columns are categories."""
        return any(column.kind != "numeric" for column in self.columns)

    def unseen_category(self, table: Mapping[str, Sequence[object]]) -> list[str]:
        """Of each row of a table the categories never seen in training, as `colour=violet`, or nothing."""
        columns = [
            column.unseen_category(table) for column in self.columns if column.kind != "numeric"
        ]
        marks = ("; ".join(filter(None, row)) for row in zip(*columns, strict=True))
        return list(marks) if columns else [""] * len(table[self.columns[0].name])

    @classmethod
    def fitted(
        cls,
        table: Mapping[str, Sequence[object]],
        impute: bool = False,
        categorical: Iterable[str] = (),
    ) -> "Encoding":
        """Learn the encoding of these training rows; columns of text, and those named, are categorical."""
        if not impute:
            check_complete(table)
        forced = set(categorical)
        return cls(
            tuple(_fitted(name, cells, impute, name in forced) for name, cells in table.items())
        )

    @classmethod
    def numeric(cls, names: Iterable[str]) -> "Encoding":
        """The encoding of a table that holds nothing but numbers."""
        return cls(tuple(Column(name, "numeric") for name in names))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "columns": [
                asdict(column) | {"categories": list(column.categories)} for column in self.columns
            ]
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Encoding":
        """The encoding that `to_dict` gave."""
        given = plain.get("columns") if isinstance(plain, Mapping) else None
        if not isinstance(given, list | tuple) or not given:
            raise NescioError("not a table's encoding: it has no columns")
        columns = tuple(_from_dict(one) for one in given)
        if len({column.name for column in columns}) < len(columns):
            raise NescioError("not a table's encoding: it has two columns of one name")
        return cls(columns)


def is_missing(cell: object) -> bool:
    """Whether a cell stands for a value that is not there."""
    return cell is None or str(cell).strip().lower() in _MISSING


def check_complete(table: Mapping[str, Sequence[object]]) -> None:
    """An error if a value is missing, with its line or row."""
    for name, cells in table.items():
        rows = [row for row, cell in enumerate(cells) if is_missing(cell)]
        if rows and len(rows) == len(cells):
            raise NescioError(
                f"column {name!r} has no value in any of its {len(cells)} rows; leave it out"
            )
        if rows:
            raise NescioError(
                f"column {name!r} lacks {len(rows)} of its {len(cells)} values, the first in "
                f"{row_place(table, rows[0])}; imputing {_IMPUTING}"
            )


def _from_dict(one: Any) -> Column:
    """One column of plain data that may come from a file someone has tampered with."""
    wrong = NescioError(f"not a table's encoding: {repr(one)[:100]} is no column")
    if not isinstance(one, Mapping) or not {"name", "kind", "categories"} <= set(one) <= _FIELDS:
        raise wrong
    name, kind, categories, fill = one["name"], one["kind"], one["categories"], one.get("fill")
    if not isinstance(name, str) or not isinstance(categories, list | tuple):
        raise wrong
    if not all(isinstance(text, str) for text in categories) or len(set(categories)) < len(
        categories
    ):
        raise wrong
    if kind == "categorical" and categories and (fill is None or isinstance(fill, str)):
        return Column(name, kind, tuple(categories), fill)
    if kind == "numeric" and not categories and (fill is None or _is_finite(fill)):
        return Column(name, kind, fill=None if fill is None else float(fill))
    raise wrong


def _is_finite(fill: object) -> bool:
    return (
        isinstance(fill, float | int)
        and not isinstance(fill, bool)
        and abs(fill) <= sys.float_info.max
    )


def _fitted(name: str, cells: Sequence[object], impute: bool, categorical: bool) -> Column:
    texts = [str(cell).strip() for cell in cells if not is_missing(cell)]
    if not texts:
        raise NescioError(f"column {name!r} has no value in the training rows")
    numbers = [_number(one) for one in texts]
    if not categorical and not any(math.isnan(one) for one in numbers):
        return Column(name, "numeric", fill=float(np.median(numbers)) if impute else None)
    counts = Counter(texts)
    if len(counts) > _MOST_CATEGORIES:
        raise NescioError(
            f"column {name!r} has {len(counts)} different texts; expected numbers, or at most "
            f"{_MOST_CATEGORIES} categories"
        )
    return Column(
        name,
        "categorical",
        tuple(sorted(counts)),
        min(counts, key=lambda one: (-counts[one], one)) if impute else None,
    )


def _number(one: str) -> float:
    """The number a cell holds, NaN if none."""
    try:
        return (
            float(one) if "_" not in one else math.nan
        )  # Python reads 1_000; a table does not mean it
    except ValueError:
        return _TRUTH.get(one.lower(), math.nan)
