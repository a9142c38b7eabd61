"""New inputs from a file, answered row by row as they are read: class, confidence and scores, or "unknown"."""

import csv
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import IO

from torch import Tensor

from nescio.data import Stream
from nescio.detectors import Detector
from nescio.detectors.explanation import Explanation
from nescio.logits import classes
from nescio.methods.method import Method
from nescio.naming import UNKNOWN
from nescio.predict import sweep
from nescio.progress import bar
from nescio.scores import score_names, scores_of, usual_scores


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


def write_answers(
    file: IO[str], model: Method, names: Sequence[str], inputs: Stream, scores: Sequence[str], seed: int
) -> int:
    """Write a trained model's answers as CSV, each batch as it comes, and say how many there were.

    The columns are `input` (file or number), `class`, `confidence` and one for each score; numbers keep all digits.
    """
    wanted, called, rows = score_names(scores), deque[str](), _Rows(file)

    def visit(x: Tensor, logits: Tensor, _: Tensor | None) -> None:
        found = scores_of(wanted or usual_scores(len(logits)), model, x, logits)
        columns = [classes(logits).tolist(), model.confidence(logits).tolist(), *(s.tolist() for s in found.values())]
        answers = ([called.popleft(), names[kind], *rest] for kind, *rest in zip(*columns, strict=True))
        rows.add(["input", "class", "confidence", *found], answers)

    def batches() -> Iterator[Tensor]:
        with bar(None, "score") as shown:
            for batch, count, x in inputs:
                called.extend(batch)
                yield x
                shown.at(rows.count, count, "")

    sweep(model, batches(), visit, batch_size=inputs.batch_size, seed=seed, progress=False)
    return rows.count


def write_verdicts(file: IO[str], detector: Detector, names: Sequence[str], inputs: Stream) -> tuple[int, int]:
    """Write a detector's answers as CSV, each batch as it comes; how many there were, and how many were unknown.

    The columns are `input` (file or number), `class` (or "unknown"), `model_class` (what the model alone would say),
    `confidence` (its own), `p_value` and `score`. Of inputs that have none the last is empty, and
    the p-value 0.
    """
    rows, unknown = _Rows(file), 0
    header = ["input", "class", "model_class", "confidence", "p_value", "score"]
    with bar(None, "score") as shown:
        for called, count, x in inputs:
            found = detector.explain(x, batch_size=len(x))
            rows.add(header, ([name, *_verdict(one, names)] for name, one in zip(called, found, strict=True)))
            unknown += sum(one.answer < 0 for one in found)
            shown.at(rows.count, count, "")
    return rows.count, unknown


def _verdict(one: Explanation, names: Sequence[str]) -> list[str | float]:
    own = "" if one.claimed < 0 else names[one.claimed]
    numbers = ["" if math.isnan(value) else value for value in (one.confidence, one.p_value, one.score)]
    return [UNKNOWN if one.answer < 0 else names[one.answer], own, *numbers]
