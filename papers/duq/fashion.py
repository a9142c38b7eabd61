"""FashionMNIST at the paper's length: of table 1, as many runs as are kept, and no more.

A run takes hours, with a penalty a night. `--scale paper` of table 1 trains all of them; here rows
are made of those that are there.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean

from nescio import NescioError
from nescio.records import Evaluation
from papers.duq.compared import DUQ, FASHION_PENALTY, FASHION_SETS, PAPER
from papers.duq.runs import (
    FASHION,
    TrainingRun,
    auroc,
    confidence_fractions,
    duq_run,
    evaluate_run,
    shared_folder,
)
from papers.duq.tables import PENALTIES, TOLERANCE, penalty_rows
from papers.experiment import Experiment, Outcome
from papers.over_seeds import above, over_seeds
from papers.reproduction import Claim, Comparison
from papers.workspace import Workspace

Kept = Mapping[float, Sequence[Evaluation]]  # by the weight of the penalty


def fashion(work: Workspace) -> Outcome:
    """Rows of table 1, of the runs that are kept, and how far known and unknown data are."""
    kept = {weight: _kept(work, duq_run(work, FASHION, weight)) for weight in PENALTIES}
    kept = {weight: runs for weight, runs in kept.items() if runs}
    if not kept:
        raise NescioError(
            "no run at the paper's scale is kept here; `python -m papers duq-table1 --scale paper` "
            "trains them"
        )
    table: list[Comparison] = []
    for weight, runs in kept.items():
        name = f"λ = {weight:g} ({len(runs)} run{'s' * (len(runs) > 1)})"
        table += penalty_rows(name, runs, weight)
        for side, title in (("known", "FashionMNIST"), ("mnist", "MNIST")):
            values = [float(confidence_fractions(one, side)[-1]) for one in runs]
            table.append(over_seeds(f"{name}: {title} with a kernel above 0.9", values, unit="%"))
    deviations = PAPER.deviates("kept_runs", "notmnist", "losses", "centroids")
    return Outcome(tuple(table), _claims(kept), deviations, (PAPER.remark("fashion"),))


def _kept(work: Workspace, run: TrainingRun) -> list[Evaluation]:
    """The records of a run here or where experiments share them; a dry run trains the first."""
    if work.dry:
        return [evaluate_run(work, FASHION, run, 0)]
    there = [
        seed
        for seed in range(work.seeds)
        if (work.folder / f"{run.name}-{seed}.json").is_file()
        or (shared_folder(work) / f"{run.name}-{seed}-judged.json").is_file()
    ]
    return [evaluate_run(work, FASHION, run, seed) for seed in there]


def _claims(kept: Kept) -> tuple[Claim, ...]:
    runs = [one for group in kept.values() for one in group]
    softmax = PAPER.published["fashion_accuracy"]["single model"][0]
    accuracy = fmean(one.known.accuracy for one in runs)
    near = (
        f"{accuracy:.1%} in the mean (runs: {len(runs)}), against the {softmax:g} % of the paper's "
        f"single model (wanted: at most {100 * TOLERANCE:.1f} points less)"
    )
    known, other = (
        [
            fmean(part)
            for part in zip(*(confidence_fractions(one, side) for one in runs), strict=True)
        ]
        for side in ("known", "mnist")
    )
    tenths = (
        f"the fullest tenth of the range holds {max(other):.1%} of MNIST, the emptiest "
        f"{min(other):.1%} (wanted: between half and twice a tenth)"
    )
    even = min(other) > 0.05 and max(other) < 0.2
    return (
        PAPER.claim("penalty_helps", *_gain(kept)),
        PAPER.claim("competitive", 100 * accuracy > softmax - 100 * TOLERANCE, near),
        PAPER.claim("known_close", known[-1] > 0.5, f"{known[-1]:.0%} above 0.9"),
        PAPER.claim("unknown_spread", even, tenths),
    )


def _gain(kept: Kept) -> tuple[bool | None, str]:
    """Whether the paper's λ improves on none, told only by several runs of each."""
    pair = [[auroc(one, "mnist") for one in kept.get(w, ())] for w in (0.0, FASHION_PENALTY)]
    parts = [
        f"{fmean(values):.3f} with λ = {weight:g} ({len(values)})"
        if values
        else f"no run with λ = {weight:g}"
        for weight, values in zip((0.0, FASHION_PENALTY), pair, strict=True)
    ]
    verdict = above(pair[1], pair[0]) if min(map(len, pair)) > 1 else None
    return verdict, f"AUROC on MNIST: {', '.join(parts)} (wanted: two runs of each, or more)"


_TITLE = f"{DUQ} on FashionMNIST at the paper's length, as many runs as are kept"
_WHERE = ("duq-fashion", 4, "Tables 1 and 2", _TITLE)
EXPERIMENTS = (Experiment(*_WHERE, fashion, FASHION_SETS, scales=("paper",), seeds={"paper": 5}),)
