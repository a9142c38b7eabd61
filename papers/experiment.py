"""What a reproduction is, and the ground it stands on: a folder in which each stage, once done, stays done."""

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

from nescio.data import Known, Samples, status
from nescio.errors import NescioError
from nescio.files import MARKS, atomic_write, check_replaceable
from nescio.methods.method import Method
from nescio.records import History, Provenance, Record, from_plain, to_plain
from nescio.records.json_text import parse_json
from nescio.report.figures import save_figure
from nescio.store.run import Source, train_run
from papers.folder import RECORD, claim
from papers.reproduction import Claim, Compared, Differs, Reproduction
from papers.spent import Spent

SCALES = ("quick", "paper")
STAGES = "stages.json"
# so that one that we wrote may be replaced
MARKS["list of stages"] = rb'\A\{\s*"[^"]+": \{\s*"scale": "\w+",\s*"dry": '
R = TypeVar("R", bound=Record)
FEW = 64  # inputs of each part in a dry run
SPENT = "spent, s"  # beside the settings of a stage: seconds of it and of what it trained


@dataclass(frozen=True)
class Found:
    """What an experiment ends with: numbers beside the paper's, what the paper says, what is not as in the paper."""

    compared: tuple[Compared, ...] = ()
    claims: tuple[Claim, ...] = ()
    differs: tuple[Differs, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper that can be made again.

    Attributes:
        name: "duq-table2".
        item: "Table 2".
        needs: data sets that must be at hand; () if those embedded are enough.
        paper_needs: those at paper scale, if they are others.
        scales: at which it can be run.
        seeds: how many are usual at a scale; 1 where nothing is said.
        once: whether no seed has a part in it, so that it is run once.
    """

    name: str
    paper: int
    item: str
    title: str
    run: Callable[["Work"], Found]
    needs: tuple[str, ...] = ()
    paper_needs: tuple[str, ...] | None = None
    scales: tuple[str, ...] = SCALES
    seeds: Mapping[str, int] = field(default_factory=dict)
    once: bool = False

    def needed(self, scale: str) -> tuple[str, ...]:
        """The data sets it needs at a scale."""
        return self.needs if scale == "quick" or self.paper_needs is None else self.paper_needs

    def missing(self, scale: str, root: str | None = None) -> list[str]:
        """The data sets it needs that are not at hand."""
        here = {one.name for one in status(root) if one.present}
        return [name for name in self.needed(scale) if name not in here]


@dataclass
class Work:
    """Where an experiment works, how large, and how often.

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
        """A setting, by scale."""
        return quick if self.quick else paper

    def count(self, many: int, few: int = 2) -> int:
        """How many of something: trials, steps, members; few in a dry run."""
        return min(many, few) if self.dry else many

    def known(self, source: Source) -> Known:
        """Data to learn; of a dry run only a batch of it."""
        known = source.load(self.root)
        return (
            replace(
                known,
                train=None if known.train is None else some(known.train),
                test=some(known.test),
            )
            if self.dry
            else known
        )

    def few(self, samples: Samples) -> Samples:
        """Data to judge by; of a dry run only a batch of it."""
        return some(samples) if self.dry else samples

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
        **settings: Any,
    ) -> tuple[Method, History]:
        """A network of a run folder of that name: found there, gone on with, or trained, on `most` inputs if given.

        Experiments that name a run alike must give it the same settings; another scale has a folder of its own.
        """
        folder = self._shared_folder(name)
        settings = {"epochs": self.count(epochs, 1), "checkpoint_every": None, **settings}
        self._say(
            folder.name, f": {method} on {source.name}, seed {seed}, epochs: {settings['epochs']}"
        )
        known = self.known(source)
        if most is not None and known.train is not None:
            known = replace(
                known, train=known.train.select(torch.arange(min(most, len(known.train))))
            )
        with self.spent.on(folder.name):
            model, history = train_run(
                folder,
                source,
                known,
                method,
                network,
                "cpu",
                seed,
                own or {},
                dropout,
                self.root,
                **settings,
            )
        self.spent.knows({folder.name: history.provenance.seconds})
        return model, history

    def shared(self, name: str, make: Callable[[Path], R]) -> R:
        """A record that experiments share: `make` is given its folder, in which it must find again what it did."""
        folder = self._shared_folder(name)
        self._say(folder.name)
        with self.spent.on(folder.name):
            record = make(folder)
        if isinstance(origin := getattr(record, "provenance", None), Provenance):
            self.spent.knows({folder.name: origin.seconds})
        return record

    def stage(self, name: str, kind: type[R], make: Callable[[], R], **settings: Any) -> R:
        """The record of a stage: as it was kept if its settings are the same and it can be read, else made and kept.

        `make` may train; what it trained, and how long that took, is kept with the stage.
        """
        path, stages = self.folder / f"{name}.json", self._stages()
        wanted, kept = (
            to_plain({"scale": self.scale, "dry": self.dry, **settings}),
            stages.pop(name, {}),
        )
        took = from_plain(dict[str, float], kept.pop(SPENT, {}), f"{STAGES}[{name!r}][{SPENT!r}]")
        if path.exists() and kept == wanted and (found := self._kept(name, kind, path)) is not None:
            if not took and isinstance(origin := getattr(found, "provenance", None), Provenance):
                took = {path.name: origin.seconds}  # of a list from before times were kept in it
            self.spent.knows(took)
            return found
        listed = bool(kept)  # then it is ours, even if it cannot be read
        check_replaceable(path, f"{kind.__name__} record", force=listed)
        self._say(name)
        if kept:  # a record of other settings must not pass for one of these, nor the new one for one of those
            self._keep(stages)
        with self.spent.on(path.name):
            record = make()
            used = self.spent.within()
        record.save(path, force=listed)
        took = {what: round(self.spent.seconds[what], 3) for what in sorted(used | {path.name})}
        self._keep({**self._stages(), name: {**wanted, SPENT: took}})
        return record

    def picture(self, name: str, figure: Figure) -> None:
        """Keep a figure, named with its suffix, beside the record."""
        save_figure(figure, self.folder / name)
        self.pictures.append(name)

    def _shared_folder(self, name: str) -> Path:
        """In which it is trained or made; one folder never holds two scales."""
        return self.runs / f"{name}{'' if self.quick else '-paper'}{'-dry' if self.dry else ''}"

    def _kept(self, name: str, kind: type[R], path: Path) -> R | None:
        """The record of a stage; None if it cannot be read, which is said."""
        try:
            record = kind.load(path)
        except NescioError as error:
            self._say(name, f": made again, since its record cannot be read: {error}")
            return None
        self._say(name, ": kept")
        return record

    def _say(self, what: str, more: str = "") -> None:
        self.console.print(f"[dim]{escape(what)}[/]{escape(more)}", highlight=False, soft_wrap=True)

    def _stages(self) -> dict[str, dict[str, Any]]:
        path = self.folder / STAGES
        if not path.exists():
            return {}
        try:
            found = parse_json(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise NescioError(
                f"{os.fspath(path)!r} is no list of stages ({error}); without it all are done again"
            ) from error
        if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
            raise NescioError(
                f"{os.fspath(path)!r} is no list of stages; without it all are done again"
            )
        return found

    def _keep(self, stages: Mapping[str, Any]) -> None:
        if not stages:
            (self.folder / STAGES).unlink(missing_ok=True)  # an empty list could be anyone's
            return
        with atomic_write(self.folder / STAGES, "w") as file:
            file.write(json.dumps(stages, indent=1, ensure_ascii=False) + "\n")


def some(samples: Samples) -> Samples:
    """A few inputs, from all over the set, since some are sorted by class."""
    few = min(FEW, len(samples))
    return samples.select(torch.arange(few) * len(samples) // few)


def reproduce(experiment: Experiment, work: Work, command: str) -> Reproduction:
    """Run an experiment to its record, which is written to the folder; what it already did is not done again.

    The time in the record is that of all its stages and of all networks it used, whenever they were made.
    """
    if work.scale not in experiment.scales:
        raise NescioError(
            f"{experiment.name} is run at the scale {' or '.join(experiment.scales)}, not {work.scale}"
        )
    if experiment.once and work.seeds != 1:
        raise NescioError(
            f"{experiment.name} is run once, whatever the seed: it takes 1 seed, not {work.seeds}"
        )
    if missing := experiment.missing(work.scale, work.root):
        raise NescioError(
            f"{experiment.name} needs data that are not here: {', '.join(missing)}; get them with "
            f"`nescio data get {missing[0]}`{' and so on' if len(missing) > 1 else ''}"
        )
    claim(work.folder, experiment.name, work.scale, work.seeds)
    with work.spent.on("the rest"):
        found = experiment.run(work)
    record = Reproduction(
        name=experiment.name,
        paper=experiment.paper,
        item=experiment.item,
        title=experiment.title,
        scale=work.scale,
        seeds=work.seeds,
        command=command,
        compared=found.compared,
        claims=found.claims,
        differs=found.differs,
        remarks=found.remarks,
        pictures=tuple(work.pictures),
        provenance=Provenance.now(
            0, {"scale": work.scale, "seeds": work.seeds}, work.spent.total()
        ),
    )
    record.save(work.folder / RECORD)
    return record
