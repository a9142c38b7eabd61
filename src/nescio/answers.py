"""New inputs from a file, scored row by row: class, confidence, and every score."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np
import torch
from torch import Tensor

from nescio.data import Samples, adapt, read
from nescio.data.csv_file import read_csv
from nescio.errors import NescioError, unknown_name
from nescio.logits import classes
from nescio.methods.method import Method
from nescio.predict import predict
from nescio.runs import Facts
from nescio.scores import OUTPUT, SCORES

Table = list[tuple[str, Sequence[str | float]]]  # columns, in order


def inputs_for(facts: Facts, path: Path) -> Tensor | Samples:
    """The inputs of a CSV or npz file or a folder of images, in the shape the model takes."""
    if not path.exists():
        raise NescioError(f"no such file or folder: {str(path)!r}")
    if ".csv" not in path.suffixes:
        return adapt(read(path), facts.shape)
    encoder = facts.encoder()
    return encoder.encode(path) if encoder is not None else _numbers(path, facts)


def _numbers(path: Path, facts: Facts) -> Tensor:
    """Rows of plain numbers: features by name, or the pixels of an image in order."""
    table = read_csv(path)
    size = int(np.prod(facts.shape))
    names = list(facts.features) if set(facts.features) <= set(table) else list(table)
    if facts.features and set(facts.features) - set(table):
        missing = next(name for name in facts.features if name not in table)
        raise NescioError(f"{str(path)!r} has no column {missing!r}; the model takes {', '.join(facts.features)}")
    if len(names) != size:
        raise NescioError(f"{str(path)!r} has {len(names)} columns, but one input has {size} values {facts.shape}")
    columns = np.empty((len(table[names[0]]), size), dtype=np.float32)
    for place, name in enumerate(names):
        try:
            columns[:, place] = np.asarray(table[name], dtype=np.float32)
        except ValueError as error:
            raise NescioError(f"{str(path)!r}, column {name!r}: {error}") from error
    return torch.from_numpy(columns).reshape(-1, *facts.shape)


def answer(
    model: Method, facts: Facts, data: Tensor | Samples, scores: Sequence[str], batch_size: int, seed: int
) -> Table:
    """The columns `input`, `class`, `confidence` and one for each score, with a row for each input."""
    for name in scores:
        if name not in SCORES:
            raise unknown_name("score", name, SCORES)
    logits = predict(model, data, batch_size=batch_size, seed=seed)
    names = scores or list(SCORES if len(logits) > 1 else OUTPUT)
    found: Table = [
        ("input", [str(index) for index in range(logits.shape[1])]),
        ("class", [facts.classes[index] for index in classes(logits).tolist()]),
        ("confidence", model.confidence(logits).tolist()),
    ]
    return found + [(name, SCORES[name](logits).tolist()) for name in names]


def write_answers(table: Table, file: IO[str]) -> None:
    """The columns as CSV; numbers keep all their digits."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([name for name, _ in table])
    writer.writerows(zip(*[column for _, column in table], strict=True))
