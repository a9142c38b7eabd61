"""Tables 1, 2 and 3, all from the same networks and the same gradients (`splits`)."""

from collections.abc import Iterable, Mapping

from nescio.report import save_markdown
from papers.experiment import Outcome
from papers.gradient_uncertainty.parts import (
    UNKNOWN,
    beside,
    best,
    deviations,
    experiment,
    in_words,
    kept_part,
    listed,
    mean,
    values_of,
)
from papers.gradient_uncertainty.published import PAPER, PUBLISHED
from papers.gradient_uncertainty.separations import MEASURES, Separations, separation_page
from papers.gradient_uncertainty.splits import ALL, MNIST, REGRESSIONS, SINGLE, WRONG
from papers.over_seeds import above_in_pairs, all_of, over_seeds
from papers.reproduction import Comparison
from papers.workspace import Workspace

NORMS = tuple(name for name in SINGLE if name not in ("softmax", "entropy"))  # of the gradient
# answers to digits of other writers; not in the paper, so only in tables.md
OTHERS = "emnist_digits, wrong"
MIXES = tuple(" + ".join(["validation", *mix]) for mix in MNIST.mixes)
EQUAL = 0.5  # points within which two AUROCs count as equal; in the paper they differ by 0.12
FAR_BETTER = 5  # points of AUROC; in the paper it is 16
POOR = 70  # AUROC that we take "cannot" to stay below
IMBALANCE = PAPER.remark("imbalance")


def table1(work: Workspace) -> Outcome:
    """Single scores."""
    record = _table(work, 1, tuple(SINGLE), (WRONG, OTHERS, *UNKNOWN))
    near = {name: mean(record, name, WRONG) for name in NORMS}
    base = mean(record, "softmax", WRONG)
    metric = {name: best(record, NORMS, name) for name in UNKNOWN}
    metrics = {name: mean(record, metric[name], name) for name in UNKNOWN}
    rival = {name: best(record, ("softmax", "entropy"), name) for name in UNKNOWN}
    rivals = {name: mean(record, rival[name], name) for name in UNKNOWN}
    entropy = {name: mean(record, "entropy", name) for name in UNKNOWN}
    others = [(row, name) for row in SINGLE for name in UNKNOWN if row != "entropy"]
    nearest = max(mean(record, row, name) - entropy[name] for row, name in others)
    highest = all_of(_above(record, "entropy", row, [name]) for row, name in others)
    each = "; ".join(
        f"{in_words(name)} {rivals[name]:.2f}, best metric {metrics[name]:.2f} ({metric[name]})"
        for name in UNKNOWN
    )
    close = f"{abs(nearest):.2f} {'below' if nearest <= 0 else 'above'}"
    softmax = f"softmax {base:.2f}; {listed(near)}"
    claims = (
        PAPER.claim(
            "as_softmax",
            min(near.values()) >= base - EQUAL,
            f"{softmax} (wanted: none more than {EQUAL} points of AUROC below it)",
        ),
        PAPER.claim(
            "no_better",
            all(rivals[name] >= metrics[name] - EQUAL for name in UNKNOWN),
            f"{each} (wanted: none more than {EQUAL} points of AUROC above both)",
        ),
        PAPER.claim(
            "entropy_best",
            highest,
            f"entropy: {listed(entropy)}; the nearest other against one of them is {close}",
        ),
    )
    ours = {row: mean(record, row, WRONG, "aupr_out") for row in SINGLE}
    printed = {f"table {table}": PUBLISHED[table]["entropy", WRONG]["aupr_out"] for table in (1, 3)}
    remark = PAPER.remark("at_odds", printed=listed(printed), ours=listed(ours))
    return Outcome(_compared(record, 1), claims, deviations(work, record), (IMBALANCE, remark))


def table2(work: Workspace) -> Outcome:
    """Regressions on all gradient metrics and the entropy."""
    record = _table(work, 2, ("softmax", "entropy", *REGRESSIONS), (WRONG, OTHERS, *UNKNOWN))
    near = {name: mean(record, name, WRONG) for name in REGRESSIONS}
    base = mean(record, "softmax", WRONG)
    sparse, dense = (
        {name: best(record, rows, name) for name in UNKNOWN}
        for rows in (("lasso", "elastic_net"), ("glm", "ridge"))
    )
    ahead = all_of(_above(record, sparse[name], dense[name], [name]) for name in UNKNOWN)
    each = "; ".join(
        f"{in_words(name)} {mean(record, sparse[name], name):.2f} against "
        f"{mean(record, dense[name], name):.2f}"
        for name in UNKNOWN
    )
    lasso = _above(record, "lasso", "softmax", UNKNOWN, ["aupr_out"])
    gains = {
        name: mean(record, "lasso", name, "aupr_out") - mean(record, "softmax", name, "aupr_out")
        for name in UNKNOWN
    }
    both = f"glm {near['glm']:.2f}, ridge {near['ridge']:.2f} (wanted: AUROC below {POOR})"
    claims = (
        PAPER.claim(
            "sparse_as_softmax",
            min(near["lasso"], near["elastic_net"]) >= base - EQUAL,
            f"softmax {base:.2f}; {listed(near)} "
            f"(wanted: neither more than {EQUAL} points of AUROC below it)",
        ),
        PAPER.claim("dense_cannot", max(near["glm"], near["ridge"]) < POOR, both),
        PAPER.claim("sparse_best", ahead, each),
        PAPER.claim("lasso_better", lasso, _signed(gains)),
    )
    remarks = [IMBALANCE]
    if claims[1].holds is False:
        remarks.append(PAPER.remark("standardised"))
    if claims[3].holds is False:
        softmax = beside(record, 2, "softmax", UNKNOWN)
        remarks.append(PAPER.remark("extrapolates", softmax=softmax))
    return Outcome(_compared(record, 2), claims, deviations(work, record), tuple(remarks))


def table3(work: Workspace) -> Outcome:
    """A network on all gradient metrics, with and without a few unknown inputs to learn from."""
    record = _table(work, 3, ("entropy", "softmax", *MIXES), (WRONG, OTHERS, *MNIST.mixed, ALL))
    alone, noise, most = MIXES[0], MIXES[1], MIXES[-1]
    gains = {
        title: mean(record, most, ALL, measure) - mean(record, "softmax", ALL, measure)
        for measure, title in MEASURES.items()
    }
    right = {name: mean(record, name, WRONG) for name in ("softmax", *MIXES)}
    unknown = {name: mean(record, name, ALL) for name in MIXES}
    out = {name: mean(record, name, ALL, "aupr_out") for name in MIXES}
    worse = f"{right[alone]:.2f} against {right['softmax']:.2f} (AUROC)"
    wanted = f"(wanted: better by more than {FAR_BETTER} points)"
    raised = f"{out[alone]:.2f} to {out[noise]:.2f}, and {out[most]:.2f} with all known unknowns"
    helped = all_of(_above(record, name, alone, [WRONG]) for name in MIXES[1:])
    claims = (
        PAPER.claim("alone_worse", _above(record, "softmax", alone, [WRONG]), worse),
        PAPER.claim(
            "far_better",
            unknown[most] > unknown[alone] + FAR_BETTER,
            f"AUROC, all unknown: {listed(unknown)} {wanted}",
        ),
        PAPER.claim("noise_raises", _above(record, noise, alone, [ALL], ["aupr_out"]), raised),
        PAPER.claim("also_right", helped, f"AUROC: {listed(right)}"),
        PAPER.claim(
            "beats_softmax", _above(record, most, "softmax", [ALL], MEASURES), _signed(gains)
        ),
    )
    hardest = min(MNIST.mixed, key=lambda name: mean(record, "entropy", name))
    words = beside(record, 3, "entropy", (hardest,))
    remarks = [IMBALANCE, PAPER.remark("hardest", hardest=words)]
    if claims[3].holds is False:
        remarks.append(PAPER.remark("loses", alone=beside(record, 3, alone, (WRONG,))))
    return Outcome(_compared(record, 3), claims, deviations(work, record), tuple(remarks))


def _table(
    work: Workspace, number: int, rows: tuple[str, ...], sets: tuple[str, ...]
) -> Separations:
    """The part that makes up a table of the paper, also laid out as there."""
    record = kept_part(work, "separations", rows, sets)
    save_markdown(separation_page(record, PUBLISHED[number]), work.folder / "tables.md")
    return record


def _compared(record: Separations, number: int) -> tuple[Comparison, ...]:
    """Every figure of a table."""
    paper = PUBLISHED[number]
    return tuple(
        over_seeds(
            f"{title}, {in_words(name)}: {row.name}",
            getattr(metrics, measure),
            paper[row.name, name][measure],
            "%",
        )
        for measure, title in MEASURES.items()
        for row in record.rows
        for name, metrics in row.against.items()
        if (row.name, name) in paper
    )


def _above(
    record: Separations,
    ours: str,
    theirs: str,
    sets: Iterable[str],
    measures: Iterable[str] = ("auroc",),
) -> bool | None:
    """Whether a row is above another, against all these sets and by all these measures."""
    pairs = [(name, measure) for name in sets for measure in measures]
    return all_of(
        above_in_pairs(*(values_of(record, row, *where) for row in (ours, theirs)))
        for where in pairs
    )


def _signed(values: Mapping[str, float]) -> str:
    signed = {name: f"{value:+.2f}".replace("-", "−") for name, value in values.items()}
    return ", ".join(f"{in_words(name)} {value}" for name, value in signed.items())


EXPERIMENTS = (
    experiment("Table 1", "Single gradient metrics against softmax and entropy", table1),
    experiment("Table 2", "Regressions on gradient metrics", table2),
    experiment("Table 3", "A meta-network with known unknowns", table3),
)
