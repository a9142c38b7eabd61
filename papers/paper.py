"""What a paper says: its numbers, its claims and its settings, from the data file in its folder."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from papers.reproduction import Claim, Deviation

FOLDERS = ("know_your_limits", "relu_overconfidence", "gradient_uncertainty", "duq")


@dataclass(frozen=True)
class Published:
    """A number of a paper, with the standard deviation over its runs where it gives one."""

    value: float
    spread: float | None = None


@dataclass(frozen=True)
class Paper:
    """A paper as its `paper.toml` has it; texts may hold {names} of values that a run fills in.

    Attributes:
        published: its numbers, in tables of tables.
        claims: what it says in words.
        deviations: lists of settings in which we are not the paper: setting, paper, ours, why.
        remarks: what we say where our runs fall short, or find what the paper does not.
    """

    number: int
    title: str
    published: Mapping[str, Any] = field(default_factory=dict)
    claims: Mapping[str, str] = field(default_factory=dict)
    deviations: Mapping[str, list[list[str]]] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)

    def at(self, *keys: str) -> Published | None:
        """Return the published number under these keys; None if the paper gives none."""
        entry: Any = self.published
        for key in keys:
            entry = entry.get(key, {})
        return None if entry == {} else Published(*entry if isinstance(entry, list) else [entry])

    def claim(self, key: str, holds: bool | None, seen: str, **values: object) -> Claim:
        """Return what the paper says under a key, with our verdict and what we saw."""
        return Claim(self.claims[key].format(**values), holds, seen)

    def deviates(self, *keys: str, **values: object) -> tuple[Deviation, ...]:
        """Return the settings under these keys in which we are not the paper."""
        rows = (row for key in keys for row in self.deviations[key])
        return tuple(Deviation(*(part.format(**values) for part in row)) for row in rows)

    def remark(self, key: str, **values: object) -> str:
        """Return our remark under a key."""
        return self.remarks[key].format(**values)


@cache
def read_paper(folder: str) -> Paper:
    """Read the data file in the folder of a paper."""
    text = (Path(__file__).with_name(folder) / "paper.toml").read_text(encoding="utf-8")
    return Paper(**tomllib.loads(text))
