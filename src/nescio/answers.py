"""New inputs from a file, scored row by row: class, confidence, and every score."""

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import torch
from torch import Tensor

from nescio.data import Encoding, Samples, adapt, read
from nescio.data.csv_file import read_csv
from nescio.data.formats import is_table
from nescio.errors import NescioError
from nescio.logits import classes
from nescio.methods.method import Method
from nescio.predict import sweep
from nescio.runs import Facts
from nescio.scores import score_names, scores_of, usual_scores

Table = list[tuple[str, Sequence[str | float]]]  # columns, in order


def inputs_for(facts: Facts, path: Path) -> Tensor | Samples:
    """The inputs of a CSV or npz file or a folder of images, in the shape the model takes."""
    if not path.exists():
        raise NescioError(f"no such file or folder: {str(path)!r}")
    if not is_table(path):
        return adapt(read(path), facts.shape)
    encoder = facts.encoder()
    return encoder.encode(path) if encoder is not None else _pixels(path, facts.shape)


def _pixels(path: Path, shape: tuple[int, ...]) -> Tensor:
    """Images as rows of numbers, one column for each pixel, in order."""
    table = read_csv(path)
    if len(table) != math.prod(shape):
        raise NescioError(f"{str(path)!r} has {len(table)} columns, but an image {shape} has {math.prod(shape)} pixels")
    values = Encoding.numeric(tuple(table)).encode(table)
    if values.min() < 0 or values.max() > 1:
        raise NescioError(
            f"{str(path)!r}: pixels must lie in [0, 1], but range from {values.min():g} to {values.max():g}"
        )
    return values.reshape(-1, *shape)


def answer(
    model: Method, facts: Facts, data: Tensor | Samples, scores: Sequence[str], batch_size: int, seed: int
) -> Table:
    """The columns `input` (file or number), `class`, `confidence` and one per score, with a row for each input."""
    names = score_names(scores)
    parts: list[tuple[Tensor, Tensor, dict[str, Tensor]]] = []  # classes, confidences, scores of each batch

    def visit(x: Tensor, logits: Tensor, _: Tensor | None) -> None:
        found = scores_of(names or usual_scores(len(logits)), model, x, logits)
        parts.append((classes(logits), model.confidence(logits), found))

    sweep(model, data, visit, batch_size=batch_size, seed=seed)
    kinds, confidences, found = zip(*parts, strict=True)
    files = data.columns.get("file") if isinstance(data, Samples) else None
    chosen = torch.cat(kinds).tolist()
    table: Table = [
        ("input", [str(index) for index in range(len(chosen))] if files is None else files.tolist()),
        ("class", [facts.classes[index] for index in chosen]),
        ("confidence", torch.cat(confidences).tolist()),
    ]
    return table + [(name, torch.cat([batch[name] for batch in found]).tolist()) for name in found[0]]


def write_answers(table: Table, file: IO[str]) -> None:
    """The columns as CSV; numbers keep all their digits."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([name for name, _ in table])
    writer.writerows(zip(*[column for _, column in table], strict=True))
