"""Where an experiment works: a folder in which each stage, once done, stays done."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from matplotlib.figure import Figure
from rich.console import Console
from rich.markup import escape

from nescio import NescioError
from nescio.data import Known, Samples
from nescio.methods import Method
from nescio.records import History, Provenance, Record, from_plain, parse_json, to_plain
from nescio.report import save_figure
from nescio.store import Source, atomic_write, check_replaceable, train_run
from papers.spent import Spent

SCALES = ("quick", "day", "paper")
STAGES = "stages.json"
R = TypeVar("R", bound=Record)
DRY_INPUTS = 64  # of each part of the data in a dry run
SPENT = "spent, s"  # beside the settings of a stage: seconds of it and of what it trained


@dataclass
class Workspace:
    """Where an experiment works, at which scale, and with how many seeds.

    Attributes:
        folder: for records and pictures.
        runs: for trained networks, which experiments share.
        dry: only one step of every stage, to see that it starts.
    """

    folder: Path
    runs: Path
    scale: str = "quick"
    seeds: int = 1
    root: str | None = None
    dry: bool = False
    console: Console = field(default_factory=lambda: Console(stderr=True))
    pictures: list[str] = field(default_factory=list)
    spent: Spent = field(default_factory=Spent)

    @property
    def quick(self) -> bool:
        """Whether settings are to fit a small machine."""
        return self.scale == "quick"

    def pick(self, quick: Any, paper: Any) -> Any:
        """Return a setting, of the quick scale or of the larger ones."""
        return quick if self.quick else paper

    def count(self, many: int, few: int = 2) -> int:
        """Return how many of something there are: trials, steps, members; few in a dry run."""
        return min(many, few) if self.dry else many

    def known(self, source: Source) -> Known:
        """Return data to learn; in a dry run only a batch of it."""
        known = source.load(self.root)
        if not self.dry:
            return known
        train = None if known.train is None else subset(known.train)
        return replace(known, train=train, test=subset(known.test))

    def few(self, samples: Samples) -> Samples:
        """Return data to evaluate on; in a dry run only a batch of it."""
        return subset(samples) if self.dry else samples

    def trained(
        self,
        name: str,
        source: Source,
        method: str,
        network: str,
        seed: int,
        own: Mapping[str, Any] | None = None,
        dropout: float | None = None,
        *,
        epochs: int,
        most: int | None = None,
        normalised: bool = True,
        **settings: Any,
    ) -> tuple[Method, History]:
        """Return the network in a run folder of that name, trained as far as it is not yet.

        Experiments that name a run alike must give it the same settings; each scale has its folder.

        Args:
            most: training inputs, if not all.
            normalised: whether the network normalises its inputs.
        """
        folder = self._shared_folder(name)
        settings = {"epochs": self.count(epochs, 1), "checkpoint_every": None, **settings}
        details = f": {method} on {source.name}, seed {seed}, epochs: {settings['epochs']}"
        self._print(folder.name, details)
        known = self.known(source)
        if most is not None and known.train is not None:
            first = torch.arange(min(most, len(known.train)))
            known = replace(known, train=known.train.select(first))
        if not normalised:
            known = replace(known, normalise=None)
        which = (source, known, method, network, "cpu", seed, own or {}, dropout, self.root)
        with self.spent.measure(folder.name):
            model, history = train_run(folder, *which, **settings)
        self.spent.set_known({folder.name: history.provenance.seconds})
        return model, history

    def shared(self, name: str, make: Callable[[Path], R]) -> R:
        """Return a record that experiments share; `make` is given its folder, and resumes there."""
        folder = self._shared_folder(name)
        self._print(folder.name)
        with self.spent.measure(folder.name):
            record = make(folder)
        if isinstance(origin := getattr(record, "provenance", None), Provenance):
            self.spent.set_known({folder.name: origin.seconds})
        return record

    def stage(self, name: str, kind: type[R], make: Callable[[], R], **settings: Any) -> R:
        """Return the record of a stage, made again if its settings changed or it cannot be read.

        `make` may train; what it trained, and how long that took, is kept with the stage.
        """
        path, stages = self.folder / f"{name}.json", self._stages()
        wanted = to_plain({"scale": self.scale, "dry": self.dry, **settings})
        old = stages.pop(name, {})
        took = from_plain(dict[str, float], old.pop(SPENT, {}), f"{STAGES}[{name!r}][{SPENT!r}]")
        if path.exists() and old == wanted and (kept := self._load(name, kind, path)) is not None:
            self.spent.set_known(took)
            return kept
        listed = bool(old)  # then it is ours, even if it cannot be read
        check_replaceable(path, f"{kind.__name__} record", force=listed)
        self._print(name)
        if old:  # a record of other settings must not pass for one of these, nor the reverse
            self._save_stages(stages)
        with self.spent.measure(path.name):
            record = make()
            used = self.spent.used()
        record.save(path, force=listed)
        took = {what: round(self.spent.seconds[what], 3) for what in sorted(used | {path.name})}
        self._save_stages({**self._stages(), name: {**wanted, SPENT: took}})
        return record

    def picture(self, name: str, figure: Figure) -> None:
        """Save a figure, named with its suffix, beside the record."""
        save_figure(figure, self.folder / name)
        self.pictures.append(name)

    @property
    def _suffix(self) -> str:
        return "" if self.quick else f"-{self.scale}"

    def _shared_folder(self, name: str) -> Path:
        """One folder never holds two scales."""
        return self.runs / f"{name}{self._suffix}{'-dry' if self.dry else ''}"

    def _load(self, name: str, kind: type[R], path: Path) -> R | None:
        """The record of a stage; None if it cannot be read."""
        try:
            record = kind.load(path)
        except NescioError as error:
            self._print(name, f": made again, since its record cannot be read: {error}")
            return None
        self._print(name, ": kept")
        return record

    def _print(self, what: str, more: str = "") -> None:
        self.console.print(f"[dim]{escape(what)}[/]{escape(more)}", highlight=False, soft_wrap=True)

    def _stages(self) -> dict[str, dict[str, Any]]:
        path = self.folder / STAGES
        if not path.exists():
            return {}
        stages, reason = None, ""
        try:
            stages = parse_json(path.read_text(encoding="utf-8"))
        except ValueError as error:
            reason = f" ({error})"
        entries = list(stages.values()) if isinstance(stages, dict) else []
        ours = [isinstance(one, dict) and {"scale", "dry"} <= one.keys() for one in entries]
        if not isinstance(stages, dict) or not ours or not all(ours):
            raise NescioError(
                f"{os.fspath(path)!r} is no list of stages{reason}; without it all are done again"
            )
        return stages

    def _save_stages(self, stages: Mapping[str, Any]) -> None:
        if not stages:
            (self.folder / STAGES).unlink(missing_ok=True)  # an empty list could be anyone's
            return
        # what is there was read before as a list of ours
        with atomic_write(self.folder / STAGES, "w", force=True) as file:
            file.write(json.dumps(stages, indent=1, ensure_ascii=False) + "\n")


def subset(samples: Samples) -> Samples:
    """Return a few inputs from all over the set, since some sets are sorted by class."""
    few = min(DRY_INPUTS, len(samples))
    return samples.select(torch.arange(few) * len(samples) // few)
