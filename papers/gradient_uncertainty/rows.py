"""The rows of the tables: scores and meta-classifiers, as functions of a split's features."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio import derived_seed, metrics
from nescio.detectors import fit_meta
from papers.gradient_uncertainty.features import VALIDATION, Features, SplitFeatures
from papers.gradient_uncertainty.plan import ALL, RIGHT, SplitPlan
from papers.gradient_uncertainty.published import prevalence
from papers.gradient_uncertainty.raw import STRENGTHS, LogOdds, decided, fit_raw, fit_raw_network
from papers.gradient_uncertainty.separations import ScoreRow, SplitMetrics

OUTPUTS = {"softmax": "max_prob", "entropy": "entropy"}  # columns of `gradient_features`
METRICS = {
    "l1 norm": "l1",
    "l2 norm": "l2",
    "minimum": "min",
    "maximum": "max",
    "standard deviation": "std",
}
SINGLE = {**OUTPUTS, **{row: f"all/{column}" for row, column in METRICS.items()}}  # of table 1
REGRESSIONS = ("glm", "lasso", "ridge", "elastic_net")  # rows of table 2
NETWORK = "nn"
SINGLES, LINEAR, NETWORKS, LAYERS = "table1", "table2", "table3", "layers"  # groups of rows
SHARES = (4, 2)  # 1 / parts of the validation data, to see what more of them is good for
Columns = Sequence[int] | slice
Fit = Callable[[Tensor, Tensor], LogOdds]  # from features (N, F), and which are wrong (N,)


class SetFeatures:
    """Holds the features of each set, what is learned from them, and how well that separates."""

    def __init__(
        self, sets: Features, few: Features, correct: Tensor, mixed: Sequence[str]
    ) -> None:
        self.validation, self.few, self.correct = sets[VALIDATION], few, correct
        self.sets = {name: values for name, values in sets.items() if name != VALIDATION}
        self.sets[ALL] = torch.cat([sets[name] for name in mixed])

    def learn(
        self, fit: Fit, columns: Columns = slice(None), mix: Sequence[str] = (), share: int = 1
    ) -> LogOdds:
        """Fit some columns of validation data, and of a few inputs of unknown sets.

        Of validation data only every `share`-th input.
        """
        rows, wrong = self.validation[::share], ~self.correct[::share]
        values = torch.cat([rows, *(self.few[name] for name in mix)])[:, columns]
        unknown = torch.ones(len(values) - len(wrong), dtype=torch.bool)
        fitted = fit(values, torch.cat([wrong, unknown]))
        return lambda features: fitted(features[:, columns])

    def row(self, name: str, group: str, *scores: LogOdds) -> ScoreRow:
        """Return what a score gives or, of several, what they give on average."""
        others = [other for other in self.sets if other != RIGHT]
        values = {other: [self._measures(s, other, group) for s in scores] for other in others}
        means = {other: np.mean(each, axis=0).tolist() for other, each in values.items()}
        against = {other: SplitMetrics(*((v,) for v in each)) for other, each in means.items()}
        return ScoreRow(name, group, against)

    def _measures(self, score: LogOdds, other: str, group: str) -> tuple[float, ...]:
        """AUROC and AUPR, then AUPR at the prevalence of the paper's table, if there is one."""
        known, unknown = (_numbers(score(self.sets[name])) for name in (RIGHT, other))
        ours = metrics.separation(known, unknown)
        fraction = prevalence(group, other)
        at = ours if fraction is None else metrics.separation(known, unknown, prevalence=fraction)
        return *ours[:3], at.aupr_in, at.aupr_out


def all_rows(plan: SplitPlan, split: SplitFeatures, seed: int) -> list[ScoreRow]:
    """Return the rows of all tables."""
    log = SetFeatures(split.log, split.few, split.correct, plan.mixed)
    own = SetFeatures(split.raw, split.raw_few, split.correct, plan.mixed)
    rows = [
        log.row(name, group, column(split.names.index(of)))
        for group, scores in ((SINGLES, SINGLE), (LINEAR, OUTPUTS), (NETWORKS, OUTPUTS))
        for name, of in scores.items()
    ]
    seeds = [derived_seed(seed, "network", number) for number in range(plan.networks)]
    fits: dict[str, list[Fit]] = {
        kind: [partial(fit_meta, kind, seed=seed)] for kind in REGRESSIONS
    }
    fits[NETWORK] = [partial(fit_meta, NETWORK, seed=one) for one in seeds]
    fits[raw(NETWORK)] = [partial(fit_raw_network, seed=one) for one in seeds]
    views = {kind: own if kind == raw(NETWORK) else log for kind in fits}
    whole = {kind: [views[kind].learn(fit) for fit in several] for kind, several in fits.items()}
    rows += [log.row(kind, LINEAR, *whole[kind]) for kind in REGRESSIONS]
    for kind in STRENGTHS:
        fitted = own.learn(partial(fit_raw, kind))
        rows.append(own.row(raw(kind), LINEAR, fitted))
        rows.append(own.row(f"{raw(kind)}, decided", LINEAR, decided(fitted)))
    for kind, name in {NETWORK: "{}", raw(NETWORK): raw("{}")}.items():
        for mix in plan.mixes:
            known = [views[kind].learn(fit, mix=mix) for fit in fits[kind]] if mix else whole[kind]
            rows.append(views[kind].row(name.format(mixed(mix)), NETWORKS, *known))
    rows += _layer_metrics(log, split.names)
    for kind, several in fits.items():
        rows += _late_layers(views[kind], split.names, kind, several)
        rows.append(views[kind].row(every_layer(kind), LAYERS, *whole[kind]))
    return [*rows, *_of_less_data(log, split.names, fits[NETWORK])]


def column(number: int) -> LogOdds:
    """Return the score that is a column of the features."""
    return lambda features: features[:, number]


def layers_of(names: Iterable[str]) -> list[str]:
    """Return the layers that columns are of, the first of the network first."""
    layers = dict.fromkeys(name.rpartition("/")[0] for name in names if "/" in name)
    return [layer for layer in layers if layer != "all"]


def late_columns(names: Sequence[str], layer: str) -> list[int]:
    """Return the columns of a layer and of those after it, and of the network's outputs."""
    layers = layers_of(names)
    late = {"", *layers[layers.index(layer) :]}
    return [number for number, name in enumerate(names) if name.rpartition("/")[0] in late]


def mixed(mix: Sequence[str]) -> str:
    """Return the name of the row of the network that learns from these known unknowns."""
    return " + ".join([VALIDATION, *mix])


def raw(row: str) -> str:
    """Return the name of the row that is another on features in their own units."""
    return f"{row}, raw"


def from_layer(kind: str, layer: str) -> str:
    """Return the name of the row of a meta-classifier that knows this layer and those after it."""
    return f"{kind}, from {layer}"


def every_layer(kind: str) -> str:
    """Return the name of the row of a meta-classifier that knows all features."""
    return f"{kind}, all"


def of_less(row: str, share: int) -> str:
    """Return the name of the row that is another, but learned from a part of the data."""
    return f"{row}, 1/{share} of the data"


def _layer_metrics(by_set: SetFeatures, names: Sequence[str]) -> list[ScoreRow]:
    """Single metrics of each layer."""
    return [
        by_set.row(f"{layer}: {name}", LAYERS, column(names.index(f"{layer}/{of}")))
        for layer in layers_of(names)
        for name, of in METRICS.items()
    ]


def _late_layers(
    by_set: SetFeatures, names: Sequence[str], kind: str, fits: Sequence[Fit]
) -> list[ScoreRow]:
    """A meta-classifier of the last layer, of the last two, and so on, but not of all."""
    rows = []
    for layer in layers_of(names)[:0:-1]:
        columns = late_columns(names, layer)
        known = [by_set.learn(fit, columns) for fit in fits]
        rows.append(by_set.row(from_layer(kind, layer), LAYERS, *known))
    return rows


def _of_less_data(by_set: SetFeatures, names: Sequence[str], fits: Sequence[Fit]) -> list[ScoreRow]:
    """The network of the last layer and of all, from parts of the validation data."""
    last = layers_of(names)[-1]
    knows: dict[str, Columns] = {
        from_layer(NETWORK, last): late_columns(names, last),
        every_layer(NETWORK): slice(None),
    }
    return [
        by_set.row(
            of_less(name, share), LAYERS, *(by_set.learn(f, columns, share=share) for f in fits)
        )
        for share in SHARES
        for name, columns in knows.items()
    ]


def _numbers(values: Tensor) -> NDArray[np.float64]:
    return values.detach().cpu().numpy()
