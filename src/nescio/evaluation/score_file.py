"""Score new inputs as they are read: class, confidence and scores of each row, written as CSV."""

import csv
import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from torch import Tensor

from nescio.core.logits import classes
from nescio.core.predict import map_logits
from nescio.core.replica import keep_replicas
from nescio.data import Stream
from nescio.detectors import Detector
from nescio.detectors.answers import Explanation
from nescio.evaluation.class_names import UNKNOWN
from nescio.methods.method import Method
from nescio.progress import bar
from nescio.scores import score_specs, scores_of, usual_scores

UNSEEN_CATEGORY = ["unseen_category"]  # the last column of answers to tables with categories


@dataclass
class Written:
    """How many answers were written, how many are "unknown", how many hold unseen categories."""

    count: int = 0
    unknown: int = 0
    unseen_category: int = 0
    first: str = ""  # of those, such as "3: colour=violet"

    def add(self, name: str, unseen: str, unknown: bool) -> None:
        """Count a row, with the categories in it that training never saw."""
        self.count += 1
        self.unknown += unknown
        if unseen:
            self.first = self.first or f"{name}: {unseen}"
            self.unseen_category += 1


def write_answers(
    file: IO[str],
    model: Method,
    names: Sequence[str],
    inputs: Stream,
    scores: Sequence[str],
    seed: int,
    refuse: bool = True,
) -> Written:
    """Write a trained model's answers as CSV, batch by batch, and count them.

    The columns are `input` (file or number), `class`, `confidence` and one for each score. For
    tables with categories, `unseen_category` lists those of a row that training never saw; with
    `refuse` such a row is "unknown".
    """
    specs, pending = score_specs(scores), deque[tuple[str, str]]()
    writer, written = csv.writer(file, lineterminator="\n"), Written()

    def on_batch(x: Tensor, logits: Tensor, _: Tensor | None) -> None:
        values = scores_of(specs or usual_scores(len(logits)), model, x, logits)
        if not written.count:
            last = UNSEEN_CATEGORY[: inputs.categorical]
            writer.writerow(["input", "class", "confidence", *values, *last])
        columns = (classes(logits), model.confidence(logits), *values.values())
        for label, *row in zip(*map(Tensor.tolist, columns), strict=True):
            name, unseen = pending.popleft()
            refused = refuse and unseen != ""
            answer = [UNKNOWN, *[""] * len(row)] if refused else [names[label], *row]
            writer.writerow([name, *answer, *[unseen][: inputs.categorical]])
            written.add(name, unseen, refused)

    def batches() -> Iterator[Tensor]:
        with bar(None, "score") as shown:
            for batch, count, x in inputs:
                unseen = inputs.unseen_categories or [""] * len(batch)
                pending.extend(zip(batch, unseen, strict=True))
                yield x
                shown.at(written.count, count, "")

    map_logits(model, batches(), on_batch, batch_size=inputs.batch_size, seed=seed, progress=False)
    return written


def write_verdicts(
    file: IO[str], detector: Detector, names: Sequence[str], inputs: Stream, refuse: bool = True
) -> Written:
    """Write a detector's answers as CSV, batch by batch, and count them.

    The columns are `input` (file or number), `class` (or "unknown"), `model_class` (the model's own
    prediction), `confidence`, `p_value` and `score`; inputs that have no score have an empty one,
    and the p-value 0. For tables with categories, `unseen_category` is as in `write_answers`.
    """
    writer, written = csv.writer(file, lineterminator="\n"), Written()
    columns = ["input", "class", "model_class", "confidence", "p_value", "score"]
    with bar(None, "score") as shown, keep_replicas(detector.model):
        for batch, count, x in inputs:
            if not written.count:
                writer.writerow([*columns, *UNSEEN_CATEGORY[: inputs.categorical]])
            unseen_categories = inputs.unseen_categories or [""] * len(batch)
            answers = detector.explain(x, batch_size=len(x))
            for name, answer, unseen in zip(batch, answers, unseen_categories, strict=True):
                refused = refuse and unseen != ""
                verdict = [UNKNOWN, "", "", 0.0, ""] if refused else _verdict(answer, names)
                writer.writerow([name, *verdict, *[unseen][: inputs.categorical]])
                written.add(name, unseen, refused or answer.answer < 0)
            shown.at(written.count, count, "")
    return written


def _verdict(answer: Explanation, names: Sequence[str]) -> list[str | float]:
    numbers = (answer.confidence, answer.p_value, answer.score)
    predicted = "" if answer.predicted < 0 else names[answer.predicted]
    known = UNKNOWN if answer.answer < 0 else names[answer.answer]
    return [known, predicted, *("" if math.isnan(value) else value for value in numbers)]
