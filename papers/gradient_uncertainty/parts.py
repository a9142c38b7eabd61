"""The record that all experiments share, and what they take and say of it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from statistics import fmean

from papers.experiment import Experiment, Outcome
from papers.gradient_uncertainty.plan import MNIST, RIGHT, WRONG, SplitPlan
from papers.gradient_uncertainty.published import PAPER, PUBLISHED
from papers.gradient_uncertainty.separations import ScoreValues, Separations
from papers.gradient_uncertainty.splits import separations
from papers.over_seeds import above_in_pairs, all_of
from papers.reproduction import Deviation
from papers.workspace import Workspace

PAPER_PLAN = replace(MNIST, epochs=60, weight_decay=2e-3, most=20_000, networks=5)
NEEDS = ("mnist", "emnist_digits", "nist_letters", "omniglot", "notmnist", "cifar10")
UNKNOWN = ("nist_letters", "cifar10", "uniform")  # tables 1 and 2
EQUAL = 0.5  # points within which two AUROCs count as equal; in the paper they differ by 0.12
IN_WORDS = {WRONG: "wrong answers", "nist_letters": "letters"}
IN_WORDS |= {"normal": "normal noise", "uniform": "uniform noise"}


def plan_of(work: Workspace) -> SplitPlan:
    """Return what is trained; in a dry run as little as the meta-classifiers can learn from."""
    plan: SplitPlan = work.pick(MNIST, PAPER_PLAN)
    if not work.dry:
        return plan
    small = replace(plan, train=512, validation=400, test=400, most=100, each=20)
    return replace(small, digits=(), epochs=1, networks=1)


def part(
    record: Separations, group: str, sets: tuple[str, ...], figure: tuple[str, ...] = ()
) -> Separations:
    """Return only the rows of a group against these sets, if any, and the sets of the figure."""
    there = [name for name in sets if name in record.sets]
    chosen = tuple(
        replace(row, against={name: row.against[name] for name in there})
        for row in record.rows
        if row.group == group
    )
    drawn = tuple(
        ScoreValues(one.score, {name: one.values[name] for name in figure})
        for one in record.spreads
        if figure
    )
    counts = {name: record.sets[name] for name in (RIGHT, *there)}
    return replace(record, sets=counts, rows=chosen, spreads=drawn)


def kept_part(
    work: Workspace,
    name: str,
    group: str,
    sets: tuple[str, ...],
    figure: tuple[str, ...] = (),
) -> Separations:
    """Return a part of the record that all experiments share: of every split, made once."""
    plan, splits = plan_of(work), work.count(work.seeds, 1)

    def make() -> Separations:
        whole = work.shared(
            f"gradient-{plan.data}", lambda folder: separations(plan, splits, folder, work.root)
        )
        return part(whole, group, sets, figure)

    how = {"plan": plan, "splits": splits, "group": group, "sets": sets, "figure": figure}
    return work.stage(name, Separations, make, **how)


def deviations(work: Workspace, record: Separations) -> tuple[Deviation, ...]:
    """Return what is not as in the paper."""
    counts = {name: count for name, count in record.sets.items() if name in MNIST.unknown}
    sizes = ", ".join(f"{in_words(name)} {count}" for name, count in counts.items())
    plan = plan_of(work)
    fewer = ["splits"] if work.seeds < 10 or work.dry else []
    fewer += ["networks"] if plan.networks < PAPER_PLAN.networks else []
    fewer += ["decay"] if plan.weight_decay < PAPER_PLAN.weight_decay else []
    values = {"splits": work.count(work.seeds, 1), "sizes": sizes}
    return PAPER.deviates("known", *fewer, "always", **vars(plan), **values)


def values_of(
    record: Separations, row: str, other: str, measure: str = "auroc"
) -> tuple[float, ...]:
    """Return a measure of a row against a set, in each split."""
    score_row = next(one for one in record.rows if one.name == row)
    values: tuple[float, ...] = getattr(score_row.against[other], measure)
    return values


def mean(record: Separations, row: str, other: str, measure: str = "auroc") -> float:
    """Return the mean over splits, in per cent."""
    return 100 * fmean(values_of(record, row, other, measure))


def best(record: Separations, rows: tuple[str, ...], other: str) -> str:
    """Return the row with the highest AUROC against a set."""
    return max(rows, key=lambda row: mean(record, row, other))


def beside(record: Separations, number: int, row: str, sets: tuple[str, ...]) -> str:
    """Return the AUROC of a row, ours and the paper's."""
    return ", ".join(
        f"{in_words(name)} {mean(record, row, name):.2f} "
        f"(paper {PUBLISHED[number][row, name]['auroc']:.2f})"
        for name in sets
    )


def in_words(name: str) -> str:
    """Return the name of a set as a reader knows it."""
    return IN_WORDS.get(name, name)


def listed(values: Mapping[str, float]) -> str:
    """Return names with numbers."""
    return ", ".join(f"{in_words(name)} {value:.2f}" for name, value in values.items())


def signed(values: Mapping[str, float]) -> str:
    """Return names with differences."""
    words = {name: f"{value:+.2f}".replace("-", "−") for name, value in values.items()}
    return ", ".join(f"{in_words(name)} {value}" for name, value in words.items())


def above(
    record: Separations,
    ours: str,
    theirs: str,
    sets: Iterable[str],
    measures: Iterable[str] = ("auroc",),
) -> bool | None:
    """Return whether a row is above another, against all these sets and by all these measures."""
    pairs = [(name, measure) for name in sets for measure in measures]
    return all_of(
        above_in_pairs(*(values_of(record, row, *where) for row in (ours, theirs)))
        for where in pairs
    )


def experiment(item: str, title: str, run: Callable[[Workspace], Outcome]) -> Experiment:
    """Return an experiment of this paper."""
    name, seeds = f"gradient-{item.replace(' ', '').lower()}", {"quick": 3, "paper": 10}
    return Experiment(name, 3, item, title, run, NEEDS, seeds=seeds)
