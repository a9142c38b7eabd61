"""New inputs from a file, answered row by row as they are read: class, confidence and scores, or "unknown"."""

import csv
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from torch import Tensor

from nescio.core.logits import classes
from nescio.core.predict import map_logits
from nescio.data import Stream
from nescio.detectors import Detector
from nescio.detectors.explanation import Explanation
from nescio.evaluation.class_names import UNKNOWN
from nescio.methods.method import Method
from nescio.progress import bar
from nescio.scores import score_specs, scores_of, usual_scores

UNSEEN = ["unseen"]  # the last column of answers to tables with categories


class _Rows:
    """Rows of a CSV file, written as they come."""

    def __init__(self, file: IO[str]) -> None:
        self._writer = csv.writer(file, lineterminator="\n")
        self._begun = False
        self.count = 0

    def add(self, header: Sequence[str], rows: Iterable[Sequence[str | float]]) -> None:
        """Write rows, before the first of all also the header."""
        if not self._begun:
            self._writer.writerow(header)
            self._begun = True
        for row in rows:
            self._writer.writerow(row)
            self.count += 1


@dataclass
class Written:
    """How many answers were written, how many of them are "unknown", and how many inputs hold unseen categories."""

    count: int = 0
    unknown: int = 0
    unseen_category: int = 0
    first: str = ""  # of those, such as "3: colour=violet"

    def mark(self, name: str, unseen_category: str) -> str:
        """The categories of an input that were not seen, counted."""
        if unseen_category:
            self.first = self.first or f"{name}: {unseen_category}"
            self.unseen_category += 1
        return unseen_category


def write_answers(
    file: IO[str],
    model: Method,
    names: Sequence[str],
    inputs: Stream,
    scores: Sequence[str],
    seed: int,
    refuse: bool = True,
) -> Written:
    """Write a trained model's answers as CSV, each batch as it comes, and say how many there were.

    The columns are `input` (file or number), `class`, `confidence` and one for each score; numbers keep all digits. Of
    tables with categories, `unseen` has those of a row that training did not; with `refuse` such a row is "unknown".
    """
    wanted, called, rows, told = (
        score_specs(scores),
        deque[tuple[str, str]](),
        _Rows(file),
        Written(),
    )

    def on_batch(x: Tensor, logits: Tensor, _: Tensor | None) -> None:
        found = scores_of(wanted or usual_scores(len(logits)), model, x, logits)
        columns = [
            classes(logits).tolist(),
            model.confidence(logits).tolist(),
            *(s.tolist() for s in found.values()),
        ]
        answers = [row(names[kind], rest) for kind, *rest in zip(*columns, strict=True)]
        rows.add(["input", "class", "confidence", *found, *UNSEEN[: inputs.categorical]], answers)

    def row(kind: str, rest: list[float]) -> list[str | float]:
        name, mark = called.popleft()
        last = [told.mark(name, mark)] if inputs.categorical else []
        if mark and refuse:
            told.unknown += 1
            return [name, UNKNOWN, *[""] * len(rest), *last]
        return [name, kind, *rest, *last]

    def batches() -> Iterator[Tensor]:
        with bar(None, "score") as shown:
            for batch, count, x in inputs:
                called.extend(zip(batch, inputs.unseen_category or [""] * len(batch), strict=True))
                yield x
                shown.at(rows.count, count, "")

    map_logits(model, batches(), on_batch, batch_size=inputs.batch_size, seed=seed, progress=False)
    told.count = rows.count
    return told


def write_verdicts(
    file: IO[str], detector: Detector, names: Sequence[str], inputs: Stream, refuse: bool = True
) -> Written:
    """Write a detector's answers as CSV, each batch as it comes, and say how many there were.

    The columns are `input` (file or number), `class` (or "unknown"), `model_class` (what the model alone would say),
    `confidence` (its own), `p_value` and `score`. Of inputs that have no score it is empty, and the p-value
    0. Of tables with categories, `unseen` has those of a row that training did not; with `refuse` such a row is
    "unknown", too.
    """
    rows, told = _Rows(file), Written()
    header = [
        "input",
        "class",
        "model_class",
        "confidence",
        "p_value",
        "score",
        *UNSEEN[: inputs.categorical],
    ]
    with bar(None, "score") as shown:
        for called, count, x in inputs:
            found = detector.explain(x, batch_size=len(x))
            marks = inputs.unseen_category or [""] * len(called)
            for name, one, mark in zip(called, found, marks, strict=True):
                refused = refuse and mark != ""
                verdict = [UNKNOWN, "", "", 0.0, ""] if refused else _verdict(one, names)
                rows.add(header, [[name, *verdict, *[told.mark(name, mark)][: inputs.categorical]]])
                told.unknown += refused or one.answer < 0
            shown.at(rows.count, count, "")
    told.count = rows.count
    return told


def _verdict(one: Explanation, names: Sequence[str]) -> list[str | float]:
    own = "" if one.claimed < 0 else names[one.claimed]
    numbers = [
        "" if math.isnan(value) else value for value in (one.confidence, one.p_value, one.score)
    ]
    return [UNKNOWN if one.answer < 0 else names[one.answer], own, *numbers]
