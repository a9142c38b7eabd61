"""Tables 1, 2 and 3, all from the same networks and the same gradients (`splits`)."""

from nescio.report import save_markdown
from papers.experiment import Outcome
from papers.gradient_uncertainty.parts import (
    EQUAL,
    UNKNOWN,
    above,
    beside,
    best,
    deviations,
    experiment,
    in_words,
    kept_part,
    listed,
    mean,
    signed,
)
from papers.gradient_uncertainty.plan import ALL, MNIST, WRONG
from papers.gradient_uncertainty.published import COMPARABLE, PAPER, PUBLISHED, implied
from papers.gradient_uncertainty.raw import STRENGTHS
from papers.gradient_uncertainty.rows import METRICS, REGRESSIONS, SINGLE, mixed, raw
from papers.gradient_uncertainty.separations import MEASURES, Separations, separation_page
from papers.over_seeds import all_of, over_seeds
from papers.reproduction import Comparison
from papers.workspace import Workspace

NORMS = tuple(METRICS)
# answers to digits of other writers; not in the paper, so only in tables.md
OTHERS = "emnist_digits, wrong"
MIXES = tuple(mixed(mix) for mix in MNIST.mixes)
WITHOUT, NORMAL, NOISE, MOST = MIXES[0], MIXES[1], MIXES[2], MIXES[-1]
FAR_BETTER = 5  # points of AUROC; in the paper it is 16
GAINS = {True: "gains", False: "loses", None: "neither gains nor loses clearly"}
POOR = 70  # AUROC that we take "cannot" to stay below


def table1(work: Workspace) -> Outcome:
    """Single scores."""
    record = _table(work, 1, (WRONG, OTHERS, *UNKNOWN))
    near = {name: mean(record, name, WRONG) for name in NORMS}
    base = mean(record, "softmax", WRONG)
    metric = {name: best(record, NORMS, name) for name in UNKNOWN}
    metrics = {name: mean(record, metric[name], name) for name in UNKNOWN}
    rival = {name: best(record, ("softmax", "entropy"), name) for name in UNKNOWN}
    rivals = {name: mean(record, rival[name], name) for name in UNKNOWN}
    entropy = {name: mean(record, "entropy", name) for name in UNKNOWN}
    others = [(row, name) for row in SINGLE for name in UNKNOWN if row != "entropy"]
    nearest = max(mean(record, row, name) - entropy[name] for row, name in others)
    highest = all_of(above(record, "entropy", row, [name]) for row, name in others)
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
    printed = {
        f"table {table}": PUBLISHED[table]["entropy", WRONG]["aupr_out_paper"] for table in (1, 3)
    }
    remark = PAPER.remark("at_odds", printed=listed(printed), ours=listed(ours))
    return Outcome(_compared(record, 1), claims, deviations(work, record), (_ratio(1), remark))


def table2(work: Workspace) -> Outcome:
    """Regressions on all gradient metrics and the entropy."""
    record = _table(work, 2, (WRONG, OTHERS, *UNKNOWN))
    near = {name: mean(record, name, WRONG) for name in REGRESSIONS}
    base = mean(record, "softmax", WRONG)
    sparse, dense = (
        {name: best(record, rows, name) for name in UNKNOWN}
        for rows in (("lasso", "elastic_net"), ("glm", "ridge"))
    )
    ahead = all_of(above(record, sparse[name], dense[name], [name]) for name in UNKNOWN)
    each = "; ".join(
        f"{in_words(name)} {mean(record, sparse[name], name):.2f} against "
        f"{mean(record, dense[name], name):.2f}"
        for name in UNKNOWN
    )
    out = "aupr_out_paper"
    lasso = above(record, "lasso", "softmax", UNKNOWN, [out])
    gains = {
        name: mean(record, "lasso", name, out) - mean(record, "softmax", name, out)
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
        PAPER.claim("lasso_better", lasso, signed(gains)),
    )
    remarks = [_ratio(2)]
    if claims[1].holds is False:
        own, decisions = (
            listed({kind: mean(record, f"{raw(kind)}{more}", WRONG) for kind in STRENGTHS})
            for more in ("", ", decided")
        )
        remarks.append(PAPER.remark("unscaled", own=own, decisions=decisions))
    if claims[3].holds is False:
        softmax = beside(record, 2, "softmax", UNKNOWN)
        remarks.append(PAPER.remark("extrapolates", softmax=softmax))
    return Outcome(_compared(record, 2), claims, deviations(work, record), tuple(remarks))


def table3(work: Workspace) -> Outcome:
    """A network on all gradient metrics, with and without a few unknown inputs to learn from."""
    record = _table(work, 3, (WRONG, OTHERS, *MNIST.mixed, ALL))
    measures = COMPARABLE.values()
    gains = {
        MEASURES[measure]: mean(record, MOST, ALL, measure) - mean(record, "softmax", ALL, measure)
        for measure in measures
    }
    right = {name: mean(record, name, WRONG) for name in ("softmax", *MIXES)}
    unknown = {name: mean(record, name, ALL) for name in MIXES}
    out = {name: mean(record, name, ALL, "aupr_out_paper") for name in MIXES}
    worse = f"{right[WITHOUT]:.2f} against {right['softmax']:.2f} (AUROC)"
    wanted = f"(wanted: better by more than {FAR_BETTER} points)"
    raised = f"{out[WITHOUT]:.2f} to {out[NOISE]:.2f}, and {out[MOST]:.2f} with all known unknowns"
    helped = all_of(above(record, name, WITHOUT, [WRONG]) for name in MIXES[2:])
    influence = [ALL], ["auroc", "aupr_out_paper"]
    both = {name: f"{unknown[name]:.2f} and {out[name]:.2f}" for name in MIXES[:3]}
    listed_both = "; ".join(f"{name} {values}" for name, values in both.items())
    claims = (
        PAPER.claim("alone_worse", above(record, "softmax", WITHOUT, [WRONG]), worse),
        PAPER.claim(
            "far_better",
            unknown[MOST] > unknown[WITHOUT] + FAR_BETTER,
            f"AUROC, all unknown: {listed(unknown)} {wanted}",
        ),
        PAPER.claim(
            "noise_raises", above(record, NOISE, WITHOUT, [ALL], ["aupr_out_paper"]), raised
        ),
        PAPER.claim("also_right", helped, f"AUROC: {listed(right)}"),
        PAPER.claim(
            "normal_less",
            above(record, NOISE, NORMAL, *influence),
            f"AUROC and AUPR-Out, all unknown: {listed_both}",
        ),
        PAPER.claim(
            "normal_decreases",
            above(record, WITHOUT, NORMAL, [WRONG]),
            f"{right[NORMAL]:.2f} against {right[WITHOUT]:.2f} (AUROC)",
        ),
        PAPER.claim(
            "beats_softmax", above(record, MOST, "softmax", [ALL], measures), signed(gains)
        ),
    )
    hardest = min(MNIST.mixed, key=lambda name: mean(record, "entropy", name))
    words = beside(record, 3, "entropy", (hardest,))
    remarks = [_ratio(3), PAPER.remark("hardest", hardest=words)]
    if claims[3].holds is False:
        remarks.append(PAPER.remark("loses", alone=beside(record, 3, WITHOUT, (WRONG,))))
        own = {name: mean(record, raw(name), WRONG) for name in MIXES}
        verdict = GAINS[above(record, raw(MOST), raw(WITHOUT), [WRONG])]
        remarks.append(PAPER.remark("own_units", verdict=verdict, own=listed(own)))
    return Outcome(_compared(record, 3), claims, deviations(work, record), tuple(remarks))


def _table(work: Workspace, number: int, sets: tuple[str, ...]) -> Separations:
    """The part that makes up a table of the paper, also laid out as there."""
    record = kept_part(work, "separations", f"table{number}", sets)
    save_markdown(separation_page(record, PUBLISHED[number]), work.folder / "tables.md")
    return record


def _ratio(number: int) -> str:
    """At which ratio of inputs AUPR is compared, and how well that fits the printed figures."""
    inputs = PAPER.published["inputs"][f"table{number}"]
    sets = [name for name in inputs if name != "right"]
    counts = ", ".join(f"{in_words(name)} {inputs[name]:,}" for name in sets)
    taken = {name: inputs[name] / inputs["right"] for name in sets}
    seen = {name: implied(number, name) for name in sets}
    words = {"counts": counts, "taken": listed(taken), "implied": listed(seen)}
    return PAPER.remark("ratio", **words, right=f"{inputs['right']:,}")


def _compared(record: Separations, number: int) -> tuple[Comparison, ...]:
    """Every figure of a table."""
    paper = PUBLISHED[number]
    return tuple(
        over_seeds(
            f"{MEASURES[measure]}, {in_words(name)}: {row.name}",
            getattr(metrics, measure),
            paper[row.name, name][measure],
            "%",
        )
        for measure in COMPARABLE.values()
        for row in record.rows
        for name, metrics in row.against.items()
        if (row.name, name) in paper
    )


EXPERIMENTS = (
    experiment("Table 1", "Single gradient metrics against softmax and entropy", table1),
    experiment("Table 2", "Regressions on gradient metrics", table2),
    experiment("Table 3", "A meta-network with known unknowns", table3),
)
