"""What an experiment is: a table or figure of a paper that can be made again."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nescio import NescioError
from nescio.data import status
from nescio.records import Provenance
from papers.reproduction import Claim, Comparison, Deviation, Reproduction
from papers.workspace import Workspace

RECORD = "reproduction.json"


@dataclass(frozen=True)
class Outcome:
    """What an experiment ends with."""

    compared: tuple[Comparison, ...] = ()
    claims: tuple[Claim, ...] = ()
    deviations: tuple[Deviation, ...] = ()
    remarks: tuple[str, ...] = ()


def joined(outcomes: Iterable[Outcome]) -> Outcome:
    """Return several outcomes as one; what they have in common is listed once."""
    parts = list(outcomes)
    fields = ("compared", "claims", "deviations", "remarks")
    every = ([one for part in parts for one in getattr(part, key)] for key in fields)
    return Outcome(*(tuple(dict.fromkeys(rows)) for rows in every))


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper that can be made again.

    Attributes:
        name: "duq-table2".
        item: "Table 2".
        needs: data sets that must be available; () if those embedded are enough.
        paper_needs: those at the larger scales, if they are others.
        scales: at which it can be run, of `SCALES`.
        seeds: how many are usual at a scale, 1 by default.
        once: whether it does not depend on a seed, so that it is run once.
    """

    name: str
    paper: int
    item: str
    title: str
    run: Callable[[Workspace], Outcome]
    needs: tuple[str, ...] = ()
    paper_needs: tuple[str, ...] | None = None
    scales: tuple[str, ...] = ("quick", "paper")
    seeds: Mapping[str, int] = field(default_factory=dict)
    once: bool = False

    def needed(self, scale: str) -> tuple[str, ...]:
        """Return the data sets it needs at a scale."""
        return self.needs if scale == "quick" or self.paper_needs is None else self.paper_needs

    def missing(self, scale: str, root: str | None = None) -> list[str]:
        """Return the data sets it needs that are not available."""
        present = {one.name for one in status(root) if one.present}
        return [name for name in self.needed(scale) if name not in present]


def reproduce(experiment: Experiment, work: Workspace, command: str) -> Reproduction:
    """Run an experiment and write its record to the folder; what is done is not done again.

    The time in the record is that of all its stages and of all networks it used, whenever made.
    """
    name, scales = experiment.name, " or ".join(experiment.scales)
    if work.scale not in experiment.scales:
        raise NescioError(f"{name} is run at the scale {scales}, not {work.scale}")
    if experiment.once and work.seeds != 1:
        raise NescioError(
            f"{name} is run once, whatever the seed: it takes 1 seed, not {work.seeds}"
        )
    if missing := experiment.missing(work.scale, work.root):
        raise NescioError(
            f"{name} needs data that are not here: {', '.join(missing)}; get them with "
            f"`nescio data get {missing[0]}`{' and so on' if len(missing) > 1 else ''}"
        )
    claim_folder(work.folder, name, work.scale, work.seeds)
    with work.spent.measure("the rest"):
        outcome = experiment.run(work)
    settings = {"scale": work.scale, "seeds": work.seeds}
    origin = Provenance.now(0, settings, work.spent.total())
    which = (name, experiment.paper, experiment.item, experiment.title, work.scale, work.seeds)
    parts = (outcome.compared, outcome.claims, outcome.deviations, outcome.remarks)
    record = Reproduction(*which, command, *parts, tuple(work.pictures), origin)
    record.save(work.folder / RECORD)
    return record


def claim_folder(folder: Path, name: str, scale: str, seeds: int) -> None:
    """Make a folder the experiment's.

    Raise an error if it has a record of another experiment or scale, or of more seeds.
    """
    if (folder / RECORD).is_file():
        old = Reproduction.load(folder / RECORD)
        if (old.name, old.scale) != (name, scale) or old.seeds > seeds:
            raise NescioError(
                f"{os.fspath(folder)!r} holds {_described(old.name, old.scale, old.seeds)}, which "
                f"{_described(name, scale, seeds)} would replace; name another folder with -o"
            )
    folder.mkdir(parents=True, exist_ok=True)  # what stands in its way is an error before the work


def _described(name: str, scale: str, seeds: int) -> str:
    return f"{name} at the scale {scale} (seeds: {seeds})"
