"""Table 2: how far uniform noise is scaled until a network is certain, and what the rays end in."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from statistics import fmean, median

from nescio.audit import box_of, overconfidence
from nescio.data import Known
from nescio.methods import Method
from nescio.records import Audit
from nescio.report import Percent, audit_figure
from papers.experiment import Experiment, Outcome, joined
from papers.over_seeds import in_words, over_seeds
from papers.relu_overconfidence.networks import (
    AUTHORS,
    KINDS,
    PAPER,
    SHOWN,
    TrainingPlan,
    deviations,
    networks,
    plan_of,
    training_of,
)
from papers.relu_overconfidence.table1 import for_each_data
from papers.reproduction import Claim, Comparison
from papers.workspace import Workspace

FEW = 0.01  # a fraction that nothing can be much less than
LIKE = {"crops": "plain"}  # how the paper trains its plain network
Audits = dict[str, list[Audit]]  # by kind
FRACTIONS = {  # of an audit, in words, and where the paper has it
    "reached": ("noise that is certain at some α", ""),
    "ever_overconfident": ("put back into the box at some α, above 95 %", "overconfident"),
    "overconfident": ("put back into the box at the first α that is certain, above 95 %", ""),
    "ends_certain": ("directions in which confidence provably tends to 1", ""),
}


def table2(work: Workspace, data: Sequence[str] | None = None) -> Outcome:
    """Uniform noise is scaled until a network is certain, and what the rays end in is proved."""
    return for_each_data(work, data, partial(_table2_of, kinds=(*KINDS, "free")))


def table2_of_authors(work: Workspace, data: Sequence[str] = tuple(AUTHORS)) -> Outcome:
    """The same of the networks that the paper's authors trained."""
    return joined(_table2_of(work, AUTHORS[name]) for name in data)


def table2_of_crops(work: Workspace, data: str = "mnist") -> Outcome:
    """The same of plain networks that see randomly cropped images, as they are."""
    return _table2_of(work, plan_of(work, data), ("crops",))


def _table2_of(work: Workspace, plan: TrainingPlan, kinds: Sequence[str] = tuple(KINDS)) -> Outcome:
    known, models = work.known(plan.source), networks(work, plan, kinds)
    trials = work.count(work.pick(200 if plan.by_authors else 500, 10_000), 4)
    audits: Audits = {}
    for (kind, seed), model in models.items():
        how = {"seed": seed, "training": training_of(plan, kind), "trials": trials}
        if "free" not in kinds:  # the record of these networks is older, and has the first α alone
            how["factors"] = 240  # that an audit puts back into the box
        audit, name = partial(_audit, model, known, trials, seed), f"{plan.data}-{kind}-{seed}"
        audits.setdefault(kind, []).append(work.stage(name, Audit, audit, **how))
    for kind in kinds:
        work.picture(f"{plan.data}-{kind}.svg", audit_figure(audits[kind][0]))
    fewer = PAPER.deviates("trials", trials=trials) if work.quick else ()
    return Outcome(
        tuple(_numbers(plan, audits)),
        tuple(_claims(plan, audits)),
        (*deviations(plan, known, work, kinds), *fewer),
        tuple(_remarks(plan, audits, work)),
    )


def _audit(model: Callable[[], Method], known: Known, trials: int, seed: int) -> Audit:
    # a ray through LeNet has hundreds of breakpoints: to follow them all would take hours
    return overconfidence(model(), box=box_of(known), trials=trials, limit=0, seed=seed)


def _numbers(plan: TrainingPlan, audits: Audits) -> list[Comparison]:
    compared = []
    for kind, runs in audits.items():
        factors = [one.median_factor for one in runs if one.median_factor is not None]
        if len(factors) == len(runs):
            paper = PAPER.at("median_factor", plan.data, LIKE.get(kind, kind))
            what = f"{plan.data}, {SHOWN[kind]}: median α"
            compared.append(over_seeds(what, factors, paper))
    for (name, (words, table)), kind in product(FRACTIONS.items(), audits):
        values = [getattr(one, name) for one in audits[kind]]
        if all(value is not None for value in values):
            what = f"{plan.data}, {SHOWN[kind]}: {words}"
            paper = PAPER.at(table, plan.data, LIKE.get(kind, kind))
            compared.append(over_seeds(what, values, paper, "%"))
    return compared


def _claims(plan: TrainingPlan, audits: Audits) -> list[Claim]:
    def claim(key: str, holds: bool | None, seen: str) -> Claim:
        return PAPER.claim(key, holds, seen, data=plan.data)

    reached = {SHOWN[kind]: fmean(one.reached for one in runs) for kind, runs in audits.items()}
    always = all(value == 1 for value in reached.values())
    claims = [
        claim("always_possible", always, f"noise that gets there: {in_words(reached, '{:.1%}')}")
    ]
    if not set(KINDS) <= set(audits):
        return claims
    factors = {SHOWN[kind]: _median_factor(audits[kind]) for kind in KINDS}
    sure = {SHOWN[kind]: _sure(audits[kind]) for kind in KINDS}
    medians = ", ".join(f"{name} {_factor(value)}" for name, value in factors.items())
    higher = all(factors[name] > 2 * factors["plain"] for name in ("CEDA", "ACET"))
    fewer = None if sure["plain"] < FEW else sure["ACET"] < 0.5 * sure["plain"]
    in_box = f"above 95 %: {in_words(sure, '{:.1%}')}"
    if not _tried_factors(audits):
        fewer, in_box = None, "measured at the first α that is certain, not at others"
    return [
        *claims,
        claim("higher_factor", higher, f"median α: {medians}"),
        claim("fewer_in_box", fewer, in_box),
    ]


def _remarks(plan: TrainingPlan, audits: Audits, work: Workspace) -> list[str]:
    remark, data = partial(PAPER.remark, data=plan.data), plan.data
    words = []
    for kind, runs in audits.items():
        certain = fmean(one.ends_certain or 0.0 for one in runs)
        if certain < 1:
            ends = fmean(one.end_confidence[0] for one in runs if one.end_confidence)
            values = {"certain": Percent(certain).text(" %"), "ends": ends}
            words.append(remark("unproved", kind=SHOWN[kind], **values))
    if plan.by_authors:
        words += _of_the_papers_own(plan, audits)
    if {"plain", "free"} <= set(audits):
        words += _causes(plan, audits)
    if data == "mnist" and "acet" in audits and _median_factor(audits["acet"]) == float("inf"):
        words.append(remark("no_median"))
    words.append(remark("measured"))
    last = "one_network" if plan.by_authors else "one_seed"
    return [*words, remark(last)] if work.seeds == 1 else words


def _of_the_papers_own(plan: TrainingPlan, audits: Audits) -> list[str]:
    """What the paper's own networks show of its second row, and of its words on the first."""
    remark, words = partial(PAPER.remark, data=plan.data), []
    for kind, runs in audits.items():
        paper, first = PAPER.at("overconfident", plan.data, kind), _mean(runs, "overconfident")
        if paper is not None and abs(first - _sure(runs)) > FEW:
            values = {"first": 100 * first, "ever": 100 * _sure(runs), "paper": paper.value}
            words.append(remark("second_row", kind=SHOWN[kind], **values))
    factors = {kind: _median_factor(runs) for kind, runs in audits.items()}
    published = {kind: PAPER.at("median_factor", plan.data, kind) for kind in ("plain", "acet")}
    if min(factors["ceda"], factors["acet"]) <= 2 * factors["plain"]:
        papers = {kind: number.value for kind, number in published.items() if number}
        words.append(remark("factor_contradicts", ceda=_factor(factors["ceda"]), **papers))
    return words


def _causes(plan: TrainingPlan, audits: Audits) -> list[str]:
    """What may be behind a plain network that needs far larger noise than the paper's."""
    remark, words = partial(PAPER.remark, data=plan.data), []
    factor, free = _median_factor(audits["plain"]), _median_factor(audits["free"])
    paper = PAPER.at("median_factor", plan.data, "plain")
    if paper is not None and factor > 2 * paper.value:
        cause = f"It {'is not' if free > 2 * paper.value else 'may be'} the weight decay"
        values = {"factor": _factor(factor), "free": _factor(free), "paper": paper.value}
        words.append(remark("factor", cause=cause, epochs=plan.epochs, **values))
    sure = 100 * _sure(audits["plain"])
    paper = PAPER.at("overconfident", plan.data, "plain")
    if paper is not None and _tried_factors(audits) and sure < paper.value / 2:
        words.append(remark("clipped", sure=sure, paper=paper.value))
    return words


def _tried_factors(audits: Audits) -> bool:
    """Whether noise was put back into the box at many α, not only at the first that is certain."""
    return all(one.ever_overconfident is not None for runs in audits.values() for one in runs)


def _sure(runs: Sequence[Audit]) -> float:
    """The second row of the paper's table."""
    return _mean(runs, "ever_overconfident")


def _mean(runs: Sequence[Audit], name: str) -> float:
    return fmean(getattr(one, name) or 0.0 for one in runs)


def _median_factor(runs: Sequence[Audit]) -> float:
    """The median over runs; infinite if half of the inputs never are certain."""
    return median(float("inf") if one.median_factor is None else one.median_factor for one in runs)


def _factor(value: float) -> str:
    if value == float("inf"):
        return "none"
    return f"{value:.2f}" if value < 10 else f"{float(f'{value:.3g}'):,.10g}"


_TITLE = "How far uniform noise is scaled until the network is certain"
EXPERIMENTS = (
    Experiment("relu-table2", 2, "Table 2", _TITLE, table2, ("mnist",), ("mnist", "cifar10")),
    Experiment(
        *("relu-table2-authors", 2, "Table 2", f"{_TITLE}: the authors' own"),
        *(table2_of_authors, ("cifar10", "svhn")),
    ),
    Experiment(
        *("relu-table2-crops", 2, "Table 2", f"{_TITLE}: trained on random crops"),
        *(table2_of_crops, ("mnist",)),
        seeds={"quick": 5, "paper": 5},
    ),
)
