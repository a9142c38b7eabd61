"""Tables 1, 2 and 3 and figure 2 of paper 3, all from the same networks and the same gradients (`paper3_splits`)."""

import statistics
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.stats import mannwhitneyu

from nescio import metrics
from nescio.report.table import save_markdown
from papers.experiment import Experiment, Found, Work
from papers.gradient_uncertainty.published import PUBLISHED
from papers.gradient_uncertainty.separations import (
    MEASURES,
    Separations,
    Spread,
    separation_page,
    violin_figure,
)
from papers.gradient_uncertainty.splits import (
    ALL,
    MNIST,
    RIGHT,
    SHOWN,
    SINGLE,
    WRONG,
    Plan,
    separations,
)
from papers.over_seeds import above_in_pairs, all_of, over_seeds
from papers.reproduction import Claim, Compared, Differs

PAPER = replace(MNIST, epochs=60, most=20_000)
NEEDS = ("mnist", "emnist_digits", "nist_letters", "omniglot", "notmnist", "cifar10")
NORMS = tuple(
    name for name in SINGLE if name not in ("softmax", "entropy")
)  # table 1's rows of the gradient
UNKNOWN = ("nist_letters", "cifar10", "uniform")  # tables 1 and 2
REGRESSIONS = ("glm", "lasso", "ridge", "elastic_net")
OTHERS = "emnist_digits, wrong"  # answers to digits of other writers; not in the paper, so only in tables.md
MIXES = tuple(" + ".join(["validation", *mix]) for mix in MNIST.mixes)
IN_WORDS = {
    WRONG: "wrong answers",
    "nist_letters": "letters",
    "normal": "normal noise",
    "uniform": "uniform noise",
}
EQUAL = 0.5  # points within which two AUROCs count as equal; in the paper's table 1 the scores differ by 0.12
FAR_BETTER = 5  # points of AUROC; in the paper it is 16
POOR, WELL = 70, 80  # AUROC that we take "cannot" to stay below, and "well" to reach
CERTAIN = 1e-3  # p-value below which two distributions differ

DIFFERS = (
    Differs(
        "letters",
        "20 000 of EMNIST, both cases",
        "capitals of NIST SD 19, from which EMNIST is made",
        "EMNIST's letters are not at hand",
    ),
    Differs(
        "end of training",
        "when validation accuracy stagnates at the learning rate 0.001",
        "a fixed number of epochs, at 0.1, 0.01 and 0.001",
        "the paper does not say what counts as stagnation",
    ),
    Differs(
        "dropout",
        "after the first convolution and after the dense layer",
        "after the first convolution and before the dense layer",
        "after it, it would drop the answer itself",
    ),
    Differs(
        "scale of the meta-classifiers' features",
        "not told",
        "magnitudes by their logarithm, all standardised",
        "gradients span many orders of magnitude",
    ),
    Differs(
        "features of the meta-classifiers",
        "gradient metrics and the entropy",
        "the largest probability, too",
        "as `nescio.scores.gradient_features` has them",
    ),
    Differs(
        "L² regularisation",
        "10⁻³, in Keras: 10⁻³ ‖w‖²",
        "half of that",
        "weight decay 10⁻³ as torch has it",
    ),
    Differs(
        "training of the meta-network",
        "SGD, as the classifier",
        "Adam, 0.003 with cosine, 60 epochs",
        "it must arrive, on features of very different use",
    ),
    Differs(
        "normal noise",
        "not described",
        "mean ½, variance 1, cut to [0, 1], as in Liang et al. (2018)",
    ),
)
IMBALANCE = (
    "AUPR depends on how many inputs each side has: the paper holds 200 000 digits against an unknown set, we "
    "hold far fewer, so that AUPR-Out starts higher and AUPR-In lower. Compare AUPR within one table "
    "only."
)


def plan_of(work: Work) -> Plan:
    """What is trained and judged, at each scale; in a dry run as little as the meta-classifiers can learn from."""
    plan: Plan = work.pick(MNIST, PAPER)
    small = replace(
        plan,
        train=512,
        validation=400,
        test=400,
        digits=(),
        epochs=1,
        most=100,
        each=20,
        networks=1,
    )
    return small if work.dry else plan


def part(
    record: Separations, rows: tuple[str, ...], sets: tuple[str, ...], figure: tuple[str, ...] = ()
) -> Separations:
    """Only these rows against these sets, as far as there are such, and only these sets in the figure."""
    chosen = [row for row in record.rows if row.name in rows]
    there = [name for name in sets if name in record.sets]
    return replace(
        record,
        sets={name: record.sets[name] for name in (RIGHT, *there)},
        rows=tuple(
            replace(row, against={name: row.against[name] for name in there}) for row in chosen
        ),
        spreads=tuple(
            Spread(one.score, {name: one.values[name] for name in figure})
            for one in record.spreads
            if figure
        ),
    )


def kept_part(
    work: Work,
    name: str,
    rows: tuple[str, ...],
    sets: tuple[str, ...],
    figure: tuple[str, ...] = (),
) -> Separations:
    """A part of the record that all four experiments share: of every split, made once."""
    plan, splits = plan_of(work), work.count(work.seeds, 1)

    def make() -> Separations:
        whole = work.shared(
            f"gradient-{plan.data}", lambda folder: separations(plan, splits, folder, work.root)
        )
        return part(whole, rows, sets, figure)

    return work.stage(
        name, Separations, make, plan=plan, splits=splits, rows=rows, sets=sets, figure=figure
    )


def table1(work: Work) -> Found:
    """Single scores."""
    record = _table(work, 1, tuple(SINGLE), (WRONG, OTHERS, *UNKNOWN))
    near = {name: _mean(record, name, WRONG) for name in NORMS}
    base = _mean(record, "softmax", WRONG)
    best = {name: _best(record, NORMS, name) for name in UNKNOWN}
    rivals = {
        name: _mean(record, _best(record, ("softmax", "entropy"), name), name) for name in UNKNOWN
    }
    entropy = {name: _mean(record, "entropy", name) for name in UNKNOWN}
    every = [
        _mean(record, row, name) - entropy[name]
        for row in SINGLE
        for name in UNKNOWN
        if row != "entropy"
    ]
    claims = (
        Claim(
            "Single gradient metrics tell right answers from wrong ones as well as the softmax, or better",
            min(near.values()) >= base - EQUAL,
            f"softmax {base:.2f}; {_listed(near)} (wanted: none more than {EQUAL} points of AUROC below it)",
        ),
        Claim(
            "For unknown concepts entropy and softmax do as well as any single gradient metric, or slightly better",
            all(rivals[name] >= _mean(record, best[name], name) - EQUAL for name in UNKNOWN),
            "; ".join(
                f"{_words(name)} {rivals[name]:.2f}, best metric {_mean(record, best[name], name):.2f} "
                f"({best[name]})"
                for name in UNKNOWN
            )
            + f" (wanted: none more than {EQUAL} points of AUROC above both)",
        ),
        Claim(
            "Entropy has the best AUROC of all against letters, CIFAR-10 and uniform noise",
            all_of(
                above_in_pairs(_values(record, "entropy", name), _values(record, row, name))
                for row in SINGLE
                for name in UNKNOWN
                if row != "entropy"
            ),
            f"entropy: {_listed({_words(name): value for name, value in entropy.items()})}; the nearest other "
            f"against one of them is {abs(max(every)):.2f} {'below' if max(every) <= 0 else 'above'}",
        ),
    )
    ours = {row: _mean(record, row, WRONG, "aupr_out") for row in SINGLE}
    printed = {f"table {table}": PUBLISHED[table]["entropy", WRONG]["aupr_out"] for table in (1, 3)}
    remark = (
        "The paper's AUPR-Out for wrong answers are at odds with each other: for the entropy it prints "
        f"{_listed(printed)}. Ours: {_listed(ours)}."
    )
    return Found(_compared(record, 1), claims, _differs(work, record), (IMBALANCE, remark))


def table2(work: Work) -> Found:
    """Regressions on all gradient metrics and the entropy."""
    record = _table(work, 2, ("softmax", "entropy", *REGRESSIONS), (WRONG, OTHERS, *UNKNOWN))
    near = {name: _mean(record, name, WRONG) for name in REGRESSIONS}
    base = _mean(record, "softmax", WRONG)
    gains = {
        name: _mean(record, "lasso", name, "aupr_out") - _mean(record, "softmax", name, "aupr_out")
        for name in UNKNOWN
    }
    sparse, dense = (
        {name: _best(record, rows, name) for name in UNKNOWN}
        for rows in (("lasso", "elastic_net"), ("glm", "ridge"))
    )
    claims = (
        Claim(
            "LASSO and elastic net tell right answers from wrong ones as well as the softmax, or better",
            min(near["lasso"], near["elastic_net"]) >= base - EQUAL,
            f"softmax {base:.2f}; {_listed(near)} (wanted: neither more than {EQUAL} points of AUROC below it)",
        ),
        Claim(
            "GLM and ridge cannot tell right answers from wrong ones",
            max(near["glm"], near["ridge"]) < POOR,
            f"glm {near['glm']:.2f}, ridge {near['ridge']:.2f} (wanted: AUROC below {POOR})",
        ),
        Claim(
            "The regressions that make features sparse do best of the four, against every unknown set",
            all_of(
                above_in_pairs(
                    _values(record, sparse[name], name), _values(record, dense[name], name)
                )
                for name in UNKNOWN
            ),
            "; ".join(
                f"{_words(name)} {_mean(record, sparse[name], name):.2f} against "
                f"{_mean(record, dense[name], name):.2f}"
                for name in UNKNOWN
            ),
        ),
        Claim(
            "LASSO has a better AUPR-Out than the softmax for every unknown concept (by 5.59 to 8.65 points)",
            all_of(
                above_in_pairs(
                    *(_values(record, row, name, "aupr_out") for row in ("lasso", "softmax"))
                )
                for name in UNKNOWN
            ),
            ", ".join(f"{_words(name)} {_signed(value)}" for name, value in gains.items()),
        ),
    )
    remarks = [IMBALANCE]
    if claims[1].holds is False:
        remarks.append(
            "GLM and ridge fail in the paper and not here: our features are standardised, magnitudes by "
            "their logarithm; else gradients of many orders of magnitude meet in one sum. That this is the "
            "cause is our guess: the paper does not tell how it scaled them."
        )
    if claims[3].holds is False:
        remarks.append(
            "LASSO learned from wrong answers to digits alone, and far from digits it extrapolates. AUROC "
            f"of the softmax it is held against: {_beside(record, 2, 'softmax', UNKNOWN)}."
        )
    return Found(_compared(record, 2), claims, _differs(work, record), tuple(remarks))


def table3(work: Work) -> Found:
    """A network on all gradient metrics and the entropy, with and without a few unknown inputs to learn from."""
    sets = (WRONG, OTHERS, *MNIST.mixed, ALL)
    record = _table(work, 3, ("entropy", "softmax", *MIXES), sets)
    alone, noise, most = MIXES[0], MIXES[1], MIXES[-1]
    over = {
        measure: _mean(record, most, ALL, measure) - _mean(record, "softmax", ALL, measure)
        for measure in MEASURES
    }
    right = {name: _mean(record, name, WRONG) for name in ("softmax", *MIXES)}
    told = {name: _mean(record, name, ALL) for name in MIXES}
    out = {name: _mean(record, name, ALL, "aupr_out") for name in MIXES}
    claims = (
        Claim(
            "Without known unknowns the network is worse than the softmax at telling right answers from wrong ones",
            above_in_pairs(_values(record, "softmax", WRONG), _values(record, alone, WRONG)),
            f"{right[alone]:.2f} against {right['softmax']:.2f} (AUROC)",
        ),
        Claim(
            "With known unknowns it is far better on unknown concepts",
            told[most] > told[alone] + FAR_BETTER,
            f"AUROC, all unknown: {_listed(told)} (wanted: better by more than {FAR_BETTER} points)",
        ),
        Claim(
            "200 images of uniform noise alone raise AUPR-Out on all unknown (by 13.74 points)",
            above_in_pairs(*(_values(record, row, ALL, "aupr_out") for row in (noise, alone))),
            f"{out[alone]:.2f} to {out[noise]:.2f}, and {out[most]:.2f} with all known unknowns",
        ),
        Claim(
            "Known unknowns also make it better at telling right answers from wrong ones",
            all_of(
                above_in_pairs(_values(record, name, WRONG), _values(record, alone, WRONG))
                for name in MIXES[1:]
            ),
            f"AUROC: {_listed(right)}",
        ),
        Claim(
            "With all known unknowns it beats the softmax on all unknown in AUROC, AUPR-In and AUPR-Out (by 0.81, "
            "0.12 and 3.48 points)",
            all_of(
                above_in_pairs(*(_values(record, row, ALL, measure) for row in (most, "softmax")))
                for measure in MEASURES
            ),
            ", ".join(f"{MEASURES[one]} {_signed(value)}" for one, value in over.items()),
        ),
    )
    hardest = min(MNIST.mixed, key=lambda name: _mean(record, "entropy", name))
    remarks = [
        IMBALANCE,
        f"The hardest unknown set for our entropy is {_beside(record, 3, 'entropy', (hardest,))}. How its noise was "
        "made the paper does not say.",
    ]
    if claims[3].holds is False:
        remarks.append(
            "In the paper known unknowns help to tell right answers from wrong ones; ours loses by them "
            f"some of what it could do without: {_beside(record, 3, alone, (WRONG,))}."
        )
    return Found(_compared(record, 3), claims, _differs(work, record), tuple(remarks))


def figure2(work: Work) -> Found:
    """Violins of the first split."""
    sets = (RIGHT, WRONG, *UNKNOWN)
    record = kept_part(work, "spreads", (), (), sets)
    work.picture("violins.svg", violin_figure(record))
    values = {
        one.score: {name: np.array(one.values[name]) for name in sets} for one in record.spreads
    }
    auroc = {
        score: {
            name: 100 * metrics.separation(found[RIGHT], found[name]).auroc for name in sets[1:]
        }
        for score, found in values.items()
    }
    p = max(float(mannwhitneyu(found[RIGHT], found[WRONG]).pvalue) for found in values.values())
    gradient = [score for score in SHOWN if score != "entropy"]
    others = {
        score: min(auroc[score][name] for name in sets[1:] if name != "uniform")
        for score in gradient
    }
    claims = (
        Claim(
            "Wrong answers are distributed otherwise than right ones, in each of the three",
            p < CERTAIN,
            f"largest p-value {p:.1g} (Mann–Whitney; wanted: below {CERTAIN}); AUROC "
            f"{_listed({s: auroc[s][WRONG] for s in SHOWN})}",
        ),
        Claim(
            "Gradient metrics separate noise less well than the entropy does",
            all(auroc[score]["uniform"] < auroc["entropy"]["uniform"] for score in gradient),
            f"AUROC, uniform noise: {_listed({s: auroc[s]['uniform'] for s in SHOWN})}",
        ),
        Claim(
            "They separate the other concepts well",
            min(others.values()) >= WELL,
            f"the lowest of wrong answers, letters and CIFAR-10: {_listed(others)} (wanted: AUROC of each at least "
            f"{WELL})",
        ),
    )
    remark = (
        f"The first split only, at most {max(map(len, values['entropy'].values()))} inputs of a set, values by their "
        "logarithm; the paper's figure has no numbers to compare."
    )
    return Found((), claims, _differs(work, record), (remark,))


def _table(work: Work, number: int, rows: tuple[str, ...], sets: tuple[str, ...]) -> Separations:
    """The part that makes up a table of the paper, also laid out as there."""
    record = kept_part(work, "separations", rows, sets)
    save_markdown(separation_page(record, PUBLISHED[number]), work.folder / "tables.md")
    return record


def _compared(record: Separations, number: int) -> tuple[Compared, ...]:
    """Every figure of a table."""
    found = []
    for measure, title in MEASURES.items():
        for row in record.rows:
            for name, repeated in row.against.items():
                if (row.name, name) not in PUBLISHED[number]:
                    continue
                there = PUBLISHED[number][row.name, name][measure]
                what = f"{title}, {_words(name)}: {row.name}"
                found.append(over_seeds(what, getattr(repeated, measure), there, "%"))
    return tuple(found)


def _differs(work: Work, record: Separations) -> tuple[Differs, ...]:
    plan = plan_of(work)
    known = Differs(
        "known data",
        "EMNIST's 280 000 digits: 60 000 to train on, 20 000 for validation, 200 000 for the test",
        f"MNIST's, training and test part together: {plan.train} to train on, {plan.validation} for validation, "
        f"{plan.test} for the test",
        "of EMNIST only 10 000 digits are at hand",
    )
    splits = Differs("splits", "10", str(work.count(work.seeds, 1)), "time")
    sizes = ", ".join(
        f"{_words(name)} {count}" for name, count in record.sets.items() if name in MNIST.unknown
    )
    most = Differs(
        "inputs of an unknown set",
        "20 000 of letters and of noise",
        sizes,
        "time, and what is at hand",
    )
    return (known, *([splits] if work.seeds < 10 or work.dry else []), most, *DIFFERS)


def _values(record: Separations, row: str, other: str, measure: str = "auroc") -> tuple[float, ...]:
    """Of each split."""
    found = next(one for one in record.rows if one.name == row)
    values: tuple[float, ...] = getattr(found.against[other], measure)
    return values


def _mean(record: Separations, row: str, other: str, measure: str = "auroc") -> float:
    """In per cent."""
    return 100 * statistics.fmean(_values(record, row, other, measure))


def _best(record: Separations, rows: tuple[str, ...], other: str) -> str:
    """The row with the highest AUROC against a set."""
    return max(rows, key=lambda row: _mean(record, row, other))


def _words(name: str) -> str:
    return IN_WORDS.get(name, name)


def _listed(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in values.items())


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def _beside(record: Separations, number: int, row: str, sets: tuple[str, ...]) -> str:
    """The AUROC of a row, ours and the paper's."""
    found = {
        name: (_mean(record, row, name), PUBLISHED[number][row, name]["auroc"]) for name in sets
    }
    return ", ".join(
        f"{_words(name)} {ours:.2f} (paper {paper:.2f})" for name, (ours, paper) in found.items()
    )


def _experiment(item: str, title: str, run: Callable[[Work], Found]) -> Experiment:
    name = f"gradient-{item.replace(' ', '').lower()}"
    return Experiment(name, 3, item, title, run, NEEDS, seeds={"quick": 3, "paper": 10})


EXPERIMENTS: tuple[Experiment, ...] = (
    _experiment("Table 1", "Single gradient metrics against softmax and entropy", table1),
    _experiment("Table 2", "Regressions on gradient metrics", table2),
    _experiment("Table 3", "A meta-network with known unknowns", table3),
    _experiment(
        "Figure 2", "How entropy and gradient metrics are distributed on each set", figure2
    ),
)
