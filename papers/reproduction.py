"""The record of an experiment of a paper, done again: its numbers beside ours."""

from dataclasses import dataclass
from typing import ClassVar

from nescio.records import Count, Provenance, Record


@dataclass(frozen=True)
class Comparison:
    """One number of a table or a figure: the paper's and ours, the mean over runs."""

    what: str  # "DUQ: AUROC, FashionMNIST against MNIST"
    paper: float | None  # None if the paper gives no number
    ours: float
    paper_spread: float | None = None
    spread: float | None = None  # None for one run
    unit: str = ""  # what stands behind the numbers, such as "%"


@dataclass(frozen=True)
class Claim:
    """What a paper says in words, as something that can be true of our runs or not."""

    says: str
    holds: bool | None  # None if our runs are too few, or too near each other, to tell
    seen: str  # what we saw, in numbers


@dataclass(frozen=True)
class Deviation:
    """A setting in which we are not the paper."""

    setting: str
    paper: str
    ours: str
    why: str = ""


@dataclass(frozen=True)
class Reproduction(Record):
    """A table or figure of a paper, made again."""

    OF_MODEL: ClassVar = False

    name: str  # in EXPERIMENTS
    paper: Count
    item: str  # "Table 2"
    title: str
    scale: str  # "quick", "day" or "paper"
    seeds: Count
    command: str
    compared: tuple[Comparison, ...]
    claims: tuple[Claim, ...]
    deviations: tuple[Deviation, ...]
    remarks: tuple[str, ...]  # where we fall short, and why
    pictures: tuple[str, ...]  # files beside the record
    provenance: Provenance
