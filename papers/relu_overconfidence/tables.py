"""Tables 1 and 2 of paper 2: confidence in what is unknown, and how far noise is scaled until all is certain."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from statistics import fmean, median

from nescio.audit import overconfidence
from nescio.audit.inputs import box_of
from nescio.data import Known
from nescio.evaluation.evaluate import evaluate
from nescio.evaluation.unknown_sets import unknown_set
from nescio.methods.method import Method
from nescio.metrics.percent import percent
from nescio.records import Audit, Evaluation, UnknownSide
from nescio.report.audit import audit_figure
from nescio.report.comparison_figures import confidence_figure
from nescio.report.words import times
from nescio.store.run import Source
from papers.experiment import Experiment, Found, Work
from papers.over_seeds import in_words, over_seeds
from papers.relu_overconfidence.networks import (
    KINDS,
    SHOWN,
    Plan,
    letters,
    networks,
    plan_of,
    training_of,
    unlike,
)
from papers.relu_overconfidence.published import MEDIAN_FACTOR, OVERCONFIDENT, TABLE1, TEST_ERROR
from papers.reproduction import Claim, Compared, Differs

# the sets that the networks of both tables are trained on
IN_PAPER = {"mnist": "MNIST", "svhn": "SVHN", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
HOSTILE = ("adversarial_noise", "adversarial_samples")
FEW = 0.01  # a share that nothing can be much less than
# what we take "high" and "low confidence" to mean, the latter above guessing, and "high AUROC"
HIGH, LOW, APART = 0.5, 0.1, 0.95
MEASURES = {"mmc": "MMC", "auroc": "AUROC", "fpr95": "FPR95"}
Evaluations = dict[str, list[Evaluation]]  # by kind
Audits = dict[str, list[Audit]]


def table1(work: Work, data: Sequence[str] | None = None) -> Found:
    """Each network on known and unknown sets, on noise, and on what attacks make of both."""
    return _of_each(work, data, _table1_of)


def _table1_of(work: Work, plan: Plan) -> Found:
    known, models = work.known(Source(plan.data)), networks(work, plan)
    attacked = work.count(work.pick(500, 10_000))
    found: Evaluations = {}
    for (kind, seed), model in models.items():
        judge = partial(_judged, work, plan, known, model, attacked, seed)
        how = {
            "seed": seed,
            "training": training_of(plan, kind),
            "attacked": attacked,
            "unknown": [*_sets(work, plan).values(), "noise", *HOSTILE],
        }
        found.setdefault(kind, []).append(
            work.stage(f"{plan.data}-{kind}-{seed}", Evaluation, judge, **how)
        )
    # of adversarial samples there may be none, if a model resists
    shared = [
        side.name
        for side in found["plain"][0].unknown
        if all(_has(one, side.name) for one in _every(found))
    ]
    work.picture(
        f"{plan.data}-confidence.svg",
        confidence_figure({SHOWN[kind]: runs for kind, runs in found.items()}, shared),
    )
    differs = [*unlike(plan, known, work), *_table1_differs(work, plan, known, attacked)]
    return Found(
        tuple(_table1_numbers(plan, found)),
        tuple(_table1_claims(plan, found)),
        tuple(differs),
        tuple(_table1_remarks(plan, found, work)),
    )


def _judged(
    work: Work, plan: Plan, known: Known, model: Callable[[], Method], attacked: int, seed: int
) -> Evaluation:
    sets: dict[str, object] = {
        name: work.few(unknown_set(which, known, work.root, seed))
        for name, which in _sets(work, plan).items()
    }
    sets |= {name: name for name in ("noise", *HOSTILE)}
    return evaluate(model(), known.test, sets, scores=["max_prob"], attacked=attacked, seed=seed)


def _sets(work: Work, plan: Plan) -> dict[str, str]:
    """The data set that each name stands for, which for letters hangs on what is at hand."""
    return {name: letters(work.root) if name == "letters" else name for name in plan.unknown}


def _table1_numbers(plan: Plan, found: Evaluations) -> list[Compared]:
    compared = [
        over_seeds(
            f"{plan.data}, {SHOWN[kind]}: test error",
            [1 - one.known.accuracy for one in runs],
            TEST_ERROR.get((plan.data, kind)),
            "%",
        )
        for kind, runs in found.items()
    ]
    compared += [
        over_seeds(
            f"{plan.data}, {SHOWN[kind]}: MMC on {plan.data}",
            [one.known.mmc for one in runs],
            TABLE1.get((plan.data, kind, plan.data, "mmc")),
        )
        for kind, runs in found.items()
    ]
    for name, kind, measure in product([*plan.unknown, "noise", *HOSTILE], found, MEASURES):
        values = [_measured(one, name, measure) for one in found[kind]]
        if values := [value for value in values if value is not None]:
            what = f"{plan.data}, {SHOWN[kind]}: {MEASURES[measure]} on {name.replace('_', ' ')}"
            compared.append(over_seeds(what, values, TABLE1.get((plan.data, kind, name, measure))))
    return compared


def _table1_claims(plan: Plan, found: Evaluations) -> list[Claim]:
    errors = {
        SHOWN[kind]: fmean(1 - one.known.accuracy for one in runs) for kind, runs in found.items()
    }
    noise, hostile = (_means(found, name, "mmc") for name in ("noise", "adversarial_noise"))
    told = _means(found, "adversarial_noise", "auroc")
    samples = _means(found, "adversarial_samples", "mmc")
    low = 1 / found["plain"][0].classes + LOW
    resist = [name for name in hostile if hostile[name] < low and told[name] > APART]
    claims = [
        Claim(
            f"{plan.data}: there is almost no difference between the test errors of all three methods.",
            max(errors.values()) - min(errors.values()) < 0.005,
            f"test error: {in_words(errors, '{:.2%}')}",
        ),
        Claim(
            f"{plan.data}: plain models always produce high confidence predictions on noise images.",
            noise["plain"] > HIGH,
            f"plain: MMC {noise['plain']:.3f} (wanted: above {HIGH})",
        ),
        Claim(
            f"{plan.data}: plain models completely fail on adversarial noise.",
            hostile["plain"] > 0.95 and told["plain"] < 0.5,
            f"plain: MMC {hostile['plain']:.3f}, AUROC {told['plain']:.3f}",
        ),
        Claim(
            f"{plan.data}: CEDA produces low confidence on noise images.",
            noise["CEDA"] < low,
            f"MMC: {in_words(noise, '{:.3f}')}",
        ),
        Claim(
            f"{plan.data}: CEDA mostly fails on adversarial noise.",
            hostile["CEDA"] > HIGH,
            f"CEDA: MMC {hostile['CEDA']:.3f} (wanted: above {HIGH})",
        ),
        Claim(
            f"{plan.data}: only ACET consistently produces low confidence predictions on adversarial noise and has "
            "high AUROC.",
            resist == ["ACET"],
            f"MMC: {in_words(hostile, '{:.3f}')}; AUROC: {in_words(told, '{:.3f}')} (wanted: below {low:.1f} and "
            f"above {APART} of ACET, and of no other)",
        ),
    ]
    if sets := [
        name for name in plan.unknown if (plan.data, "plain", name, "auroc") in TABLE1
    ]:  # the paper's
        pairs = [(_means(found, name, "auroc"), _means(found, name, "mmc")) for name in sets]
        better = sum(
            area[kind] >= area["plain"] and sure[kind] <= sure["plain"]
            for area, sure in pairs
            for kind in ("CEDA", "ACET")
        )
        claims.append(
            Claim(
                f"{plan.data}: for the out-of-distribution datasets CEDA and ACET improve most of the time "
                "the maximum confidence and the AUROC.",
                better > len(pairs),
                f"{better} of {2 * len(pairs)} times, on {', '.join(sets)}",
            )
        )
    if {"plain", "ACET"} <= set(samples):
        claims.append(
            Claim(
                f"{plan.data}: ACET reduces the confidence on adversarial examples.",
                samples["ACET"] < samples["plain"],
                f"MMC: {in_words(samples, '{:.3f}')}",
            )
        )
    return claims


def _table1_differs(work: Work, plan: Plan, known: Known, attacked: int) -> list[Differs]:
    found = []
    if work.quick:
        found.append(
            Differs(
                "attacks",
                "on all 10 000 test images",
                f"on {attacked} of them",
                "200 steps each take long",
            )
        )
    if "letters" in plan.unknown and letters(work.root) != "emnist_letters":
        found.append(
            Differs(
                "letters",
                "EMNIST, both cases",
                "capitals of NIST SD 19",
                "EMNIST's are not at hand",
            )
        )
    if "svhn" in plan.unknown and not work.dry:
        count = f"{len(unknown_set('svhn', known, work.root)):,}".replace(",", " ")
        found.append(Differs("SVHN", "26 032 test images", count, "those at hand"))
    if plan.missing:
        found.append(
            Differs("unknown sets", ", ".join(plan.missing), "none of these", "not at hand")
        )
    found.append(
        Differs(
            "evaluation",
            "drops the last incomplete batch, 16 of 10 000",
            "all images",
            "a slip in the code",
        )
    )
    return found


def _table1_remarks(plan: Plan, found: Evaluations, work: Work) -> list[str]:
    words = []
    for kind, runs in found.items():
        error, paper = (
            fmean(100 * (1 - one.known.accuracy) for one in runs),
            TEST_ERROR.get((plan.data, kind)),
        )
        if paper is not None and error > paper:
            words.append(
                f"{plan.data}, {SHOWN[kind]}: a test error of {error:.2f} % where the paper has {paper:.2f} "
                "%, "
                f"after {plan.epochs} epochs."
            )
    resisted = [
        SHOWN[kind]
        for kind, runs in found.items()
        if not all(_has(one, HOSTILE[1]) for one in runs)
    ]
    if resisted:
        words.append(
            f"{plan.data}: no attack made {', '.join(resisted)} err, so there are no adversarial samples of it."
        )
    if "letters" in plan.unknown:
        words.append(
            f"{plan.data}: omniglot and notmnist are not in the paper; they are told beside its sets, but count for "
            "no claim."
        )
    words += _table1_disagrees(plan)
    if work.seeds == 1:
        words.append(f"{plan.data}: one seed, so no spread is known.")
    return words


def _table1_disagrees(plan: Plan) -> list[str]:
    """Where the paper's own numbers are not what it says of all data."""
    plain = TABLE1.get((plan.data, "plain", "noise", "mmc"), 1.0)
    ceda, told = (
        TABLE1.get((plan.data, "ceda", "adversarial_noise", measure), 1.0)
        for measure in ("mmc", "auroc")
    )
    words = []
    if plain <= HIGH:
        words.append(
            f"{plan.data}: that plain models always produce high confidence predictions on noise images is "
            "said of all data; here the paper's own table disagrees, with a plain model's MMC of "
            f"{plain:.3f}."
        )
    if ceda <= HIGH:
        words.append(
            f"{plan.data}: that CEDA mostly fails on adversarial noise, and only ACET does not, is said of "
            f"all data; here the paper's own table disagrees, with CEDA's MMC of {ceda:.3f} and AUROC of "
            f"{told:.3f}."
        )
    return words


def table2(work: Work, data: Sequence[str] | None = None) -> Found:
    """Uniform noise is scaled until a network is certain, and what the rays end in is proved."""
    return _of_each(work, data, _table2_of)


def _table2_of(work: Work, plan: Plan) -> Found:
    known, models = work.known(Source(plan.data)), networks(work, plan, (*KINDS, "free"))
    trials = work.count(work.pick(500, 10_000), 4)
    found: Audits = {}
    for (kind, seed), model in models.items():
        how = {"seed": seed, "training": training_of(plan, kind), "trials": trials}
        far = partial(_far, model, known, trials, seed)
        found.setdefault(kind, []).append(
            work.stage(f"{plan.data}-{kind}-{seed}", Audit, far, **how)
        )
    for kind in KINDS:
        work.picture(f"{plan.data}-{kind}.svg", audit_figure(found[kind][0]))
    differs = unlike(plan, known, work)
    if work.quick:
        differs.append(Differs("trials", "10 000", str(trials), "each is followed by many steps"))
    return Found(
        tuple(_table2_numbers(plan, found)),
        tuple(_table2_claims(plan, found)),
        tuple(differs),
        tuple(_table2_remarks(plan, found, work)),
    )


def _far(model: Callable[[], Method], known: Known, trials: int, seed: int) -> Audit:
    # a ray through LeNet has hundreds of breakpoints: to follow them all would take hours, so factors are scanned for
    return overconfidence(model(), box=box_of(known), trials=trials, limit=0, seed=seed)


def _table2_numbers(plan: Plan, found: Audits) -> list[Compared]:
    compared = []
    for kind, runs in found.items():
        factors = [one.median_factor for one in runs]
        if all(factor is not None for factor in factors):
            what = f"{plan.data}, {SHOWN[kind]}: median α"
            compared.append(
                over_seeds(
                    what,
                    [f for f in factors if f is not None],
                    MEDIAN_FACTOR.get((plan.data, kind)),
                )
            )
    shares: tuple[tuple[str, str, dict[tuple[str, str], float]], ...] = (
        ("reached", "noise that is certain at some α", {}),
        ("overconfident", "put back into the box, above 95 %", OVERCONFIDENT),
        ("ends_certain", "directions proved to end at confidence 1", {}),
    )
    for (name, words, paper), kind in product(shares, found):
        values = [getattr(one, name) for one in found[kind]]
        if all(value is not None for value in values):
            what = f"{plan.data}, {SHOWN[kind]}: {words}"
            compared.append(over_seeds(what, values, paper.get((plan.data, kind)), "%"))
    return compared


def _table2_claims(plan: Plan, found: Audits) -> list[Claim]:
    factors = {SHOWN[kind]: _median_factor(found[kind]) for kind in KINDS}
    reached = {SHOWN[kind]: fmean(one.reached for one in found[kind]) for kind in KINDS}
    bold = {SHOWN[kind]: fmean(one.overconfident or 0.0 for one in found[kind]) for kind in KINDS}
    told = f"median α: {', '.join(f'{name} {_factor(value)}' for name, value in factors.items())}"
    return [
        Claim(
            f"{plan.data}: it is always possible to obtain overconfident predictions just by scaling by some α.",
            all(value == 1 for value in reached.values()),
            f"noise that gets there: {in_words(reached, '{:.1%}')}",
        ),
        Claim(
            f"{plan.data}: the required factor is significantly higher for CEDA and ACET than for the plain model.",
            all(factors[name] > 2 * factors["plain"] for name in ("CEDA", "ACET")),
            told,
        ),
        Claim(
            f"{plan.data}: there are much less overconfident predictions for ACET when put back into the box.",
            None if bold["plain"] < FEW else bold["ACET"] < 0.5 * bold["plain"],
            f"above 95 %: {in_words(bold, '{:.1%}')}",
        ),
    ]


def _table2_remarks(plan: Plan, found: Audits, work: Work) -> list[str]:
    words = []
    for kind in KINDS:
        certain = fmean(one.ends_certain or 0.0 for one in found[kind])
        if certain < 1:
            ends = fmean(one.end_confidence[0] for one in found[kind] if one.end_confidence)
            words.append(
                f"{plan.data}, {SHOWN[kind]}: only {percent(certain)} of the directions are proved to end at "
                f"confidence 1; the least confidence at infinity is {ends:.4f}. Theorem 3.1 asks that the "
                "classes' slopes differ, and where all units have died they are all 0."
            )
    factor, paper = _median_factor(found["plain"]), MEDIAN_FACTOR.get((plan.data, "plain"))
    free = _median_factor(found["free"])
    if paper is not None and factor > 2 * paper:
        cause = "It is not the weight decay" if free > 2 * paper else "It may be the weight decay"
        words.append(
            f"{plan.data}: the plain network needs noise {_factor(factor)} times as large, the paper's "
            f"{paper:g} times. {cause}: without any it is {_factor(free)} times. Ours is trained for "
            f"{plan.epochs} epochs, on normalised inputs; which of these it is, or another cause, we do not "
            "know."
        )
    if plan.data == "mnist" and _median_factor(found["acet"]) == float("inf"):
        words.append(
            f"{plan.data}: of ACET the paper has a median α above 10⁶, where numerical problems began; most "
            "of our noise never makes it certain, so that there is no median."
        )
    bold, claimed = (
        fmean(one.overconfident or 0.0 for one in found["plain"]),
        OVERCONFIDENT.get((plan.data, "plain")),
    )
    if claimed is not None and 100 * bold < claimed / 2:
        words.append(
            f"{plan.data}: noise scaled so much is nearly white once it is clipped, and of that the plain "
            f"network is rarely sure: {100 * bold:.1f} % above 95 %, the paper's {claimed:g} %."
        )
    words.append(
        f"{plan.data}: factors are measured, by steps that grow by √2 and then halve. What rays end in is proved."
    )
    if work.seeds == 1:
        words.append(f"{plan.data}: one seed, so no spread is known.")
    return words


def _of_each(work: Work, data: Sequence[str] | None, part: Callable[[Work, Plan], Found]) -> Found:
    """The parts of a table, one for each data set, as one."""
    chosen = work.pick(("mnist",), ("mnist", "cifar10")) if data is None else data
    parts = [
        Found(differs=(_trained_on(chosen),)),
        *(part(work, plan_of(work, name)) for name in chosen),
    ]
    return Found(
        *(
            tuple(one for part in parts for one in getattr(part, field))
            for field in ("compared", "claims", "differs", "remarks")
        )
    )


def _trained_on(chosen: Sequence[str]) -> Differs:
    """The blocks of the paper's table that are not made, and why."""
    why = "no training images of SVHN and CIFAR-100 are at hand"
    if "cifar10" not in chosen:
        why += "; CIFAR-10 is left to the paper scale, to fit within an hour on two cores"
    return Differs(
        "trained on",
        ", ".join(IN_PAPER.values()),
        ", ".join(IN_PAPER.get(name, name) for name in chosen),
        why,
    )


def _median_factor(runs: Sequence[Audit]) -> float:
    """The median over runs; infinite if half of the inputs never are certain."""
    return median(float("inf") if one.median_factor is None else one.median_factor for one in runs)


def _factor(value: float) -> str:
    return "none" if value == float("inf") else times(value).removesuffix(" times")


def _measured(record: Evaluation, name: str, measure: str) -> float | None:
    side = _side(record, name)
    if side is None:
        return None
    value = side.mmc if measure == "mmc" else getattr(side.separation[0], measure)
    return None if value is None else float(value)


def _means(found: Mapping[str, Sequence[Evaluation]], name: str, measure: str) -> dict[str, float]:
    """The mean of a measure on a set for each kind that has it, by the name to show."""
    means = {}
    for kind, runs in found.items():
        values = [_measured(one, name, measure) for one in runs]
        if all(value is not None for value in values):
            means[SHOWN[kind]] = fmean(value for value in values if value is not None)
    return means


def _side(record: Evaluation, name: str) -> UnknownSide | None:
    return next((side for side in record.unknown if side.name == name), None)


def _has(record: Evaluation, name: str) -> bool:
    return _side(record, name) is not None


def _every(found: Evaluations) -> list[Evaluation]:
    return [one for runs in found.values() for one in runs]


_TABLE1_SETS = ("mnist", "fashion_mnist", "nist_letters", "cifar10", "omniglot", "notmnist")
EXPERIMENTS = (
    Experiment(
        "relu-table1",
        2,
        "Table 1",
        "Confidence in unknown images, noise and attacks: plain, CEDA and ACET",
        table1,
        _TABLE1_SETS,
        (*_TABLE1_SETS, "svhn"),
    ),
    Experiment(
        "relu-table2",
        2,
        "Table 2",
        "How far uniform noise is scaled until the network is certain",
        table2,
        ("mnist",),
        ("mnist", "cifar10"),
    ),
)
