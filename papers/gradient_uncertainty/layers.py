"""Section 4's words on layers: which of them tell more, and to whom."""

from statistics import fmean

from scipy.stats import kendalltau

from nescio.report import save_markdown
from papers.experiment import Outcome
from papers.gradient_uncertainty.parts import (
    EQUAL,
    UNKNOWN,
    above,
    deviations,
    experiment,
    in_words,
    kept_part,
    listed,
    mean,
    signed,
    values_of,
)
from papers.gradient_uncertainty.plan import ALL, WRONG
from papers.gradient_uncertainty.published import PAPER
from papers.gradient_uncertainty.rows import (
    LAYERS,
    METRICS,
    NETWORK,
    REGRESSIONS,
    SHARES,
    every_layer,
    from_layer,
    of_less,
    raw,
)
from papers.gradient_uncertainty.separations import Separations, separation_page
from papers.over_seeds import above_in_pairs, over_seeds
from papers.reproduction import Claim
from papers.workspace import Workspace

SETS = (WRONG, *UNKNOWN, ALL)
KINDS = (*REGRESSIONS, NETWORK, raw(NETWORK))


def section4(work: Workspace) -> Outcome:
    """Metrics of single layers, and meta-classifiers of the last layer, the last two, …."""
    record = kept_part(work, "separations", LAYERS, SETS)
    save_markdown(separation_page(record, {}, ["auroc"]), work.folder / "tables.md")
    single = [row.name.partition(": ")[0] for row in record.rows if ": " in row.name]
    layers = list(dict.fromkeys(single))
    claims = (_nearer(record, layers), *_early(record, layers[-1]))
    compared = tuple(
        over_seeds(f"AUROC, {in_words(name)}: {row.name}", row.against[name].auroc, unit="%")
        for row in record.rows
        for name in row.against
    )
    gains = {name: _gains(record, layers[-1], name) for name in SETS[1:]}
    unknown = "; ".join(f"{in_words(name)}: {signed(values)}" for name, values in gains.items())
    by_data = _gains_by_data(record, layers[-1])
    remarks = [
        PAPER.remark("early_unknown", last=layers[-1], gains=unknown),
        PAPER.remark("less_data", last=layers[-1], gains=signed(by_data)),
    ]
    if claims[2].holds is False and sorted(by_data.values()) == list(by_data.values()):
        remarks.append(PAPER.remark("scale"))
    return Outcome(compared, claims, deviations(work, record), tuple(remarks))


def _nearer(record: Separations, layers: list[str]) -> Claim:
    """Whether most metrics rise in AUROC from layer to layer, by Kendall's τ in each split."""
    order = {name: _order(record, name, layers, WRONG) for name in METRICS}
    rising = [above_in_pairs(taus, [0.0] * len(taus)) for taus in order.values()]
    most = next((v for v in (True, False) if rising.count(v) > len(METRICS) / 2), None)
    means = {
        layer: fmean(mean(record, f"{layer}: {name}", WRONG) for name in METRICS)
        for layer in layers
    }
    taus = {
        other: fmean(tau for name in METRICS for tau in _order(record, name, layers, other))
        for other in SETS
    }
    seen = f"AUROC for wrong answers, mean of metrics: {listed(means)}; Kendall's τ of AUROC and "
    seen += f"layer, mean of metrics and splits: {listed(taus)} (wanted: above 0 for wrong answers,"
    return PAPER.claim("nearer", most, f"{seen} for most of the {len(METRICS)} metrics)")


def _order(record: Separations, metric: str, layers: list[str], other: str) -> list[float]:
    """Kendall's τ between a layer's place and the AUROC of its metric, for each split."""
    values = [values_of(record, f"{layer}: {metric}", other) for layer in layers]
    places = range(len(layers))
    return [float(kendalltau(places, split).statistic) for split in zip(*values, strict=True)]


def _early(record: Separations, last: str) -> tuple[Claim, Claim]:
    """Whether more layers than the last help a meta-classifier to find wrong answers."""
    gains = _gains(record, last, WRONG)
    networks = {kind: gains.pop(kind) for kind in (NETWORK, raw(NETWORK))}
    better = {
        kind: above(record, every_layer(kind), from_layer(kind, last), [WRONG])
        for kind in (*REGRESSIONS, NETWORK)
    }
    what = f"AUROC for wrong answers, all layers less {last} alone"
    clear = ", ".join(kind for kind in REGRESSIONS if better[kind]) or "none"
    wanted = f"(wanted: none more than {EQUAL} points above 0; clear over the splits: {clear})"
    none = max(gains.values()) <= EQUAL
    return (
        PAPER.claim("early_regressions", none, f"{what}: {signed(gains)} {wanted}"),
        PAPER.claim("early_network", better[NETWORK], f"{what}: {signed(networks)}"),
    )


def _gains(record: Separations, last: str, other: str) -> dict[str, float]:
    """By how many points of AUROC all layers are better than the last alone."""
    return {
        kind: mean(record, every_layer(kind), other) - mean(record, from_layer(kind, last), other)
        for kind in KINDS
    }


def _gains_by_data(record: Separations, last: str) -> dict[str, float]:
    """By how much all layers are better than the last for the network, by how much it learns."""
    rows = every_layer(NETWORK), from_layer(NETWORK, last)
    gains = {}
    for share in (*SHARES, 1):
        ours, theirs = rows if share == 1 else (of_less(row, share) for row in rows)
        name = "all" if share == 1 else f"1/{share}"
        gains[name] = mean(record, ours, WRONG) - mean(record, theirs, WRONG)
    return gains


_TITLE = "Which layers tell more, and to which meta-classifier"
EXPERIMENTS = (experiment("Section 4", _TITLE, section4),)
