"""What rows of the tables are made of, on small features made by hand."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import nescio
from nescio.records import Provenance
from papers.gradient_uncertainty import figure1, layers
from papers.gradient_uncertainty.plan import WRONG
from papers.gradient_uncertainty.published import PAPER, implied, prevalence
from papers.gradient_uncertainty.raw import decided, fit_raw, fit_raw_network
from papers.gradient_uncertainty.rows import (
    LAYERS,
    METRICS,
    SetFeatures,
    late_columns,
    layers_of,
)
from papers.gradient_uncertainty.separations import ScoreRow, Separations, SplitMetrics

ROOT = Path(__file__).parents[2]


def test_columns_from_a_layer_on():
    names = ("conv1/l1", "conv1/l2", "linear1/l1", "linear2/l1", "all/l1", "entropy", "max_prob")
    assert layers_of(names) == ["conv1", "linear1", "linear2"]
    assert late_columns(names, "linear2") == [3, 5, 6]
    assert late_columns(names, "linear1") == [2, 3, 5, 6]


def some_features(rows=200):
    """Two columns, of very different size, of which the second tells what is wrong."""
    drawn = torch.randn(rows, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    wrong = torch.arange(rows) % 4 == 0
    drawn[:, 1] += 3 * wrong
    return drawn * torch.tensor([1.0, 0.5], dtype=torch.float64), wrong


@pytest.mark.parametrize("kind", ["glm", "ridge"])
def test_regressions_of_raw_features_are_at_their_optimum(kind):
    """The gradient of log-loss and penalty, by autograd, is 0 at what scikit-learn finds."""
    values, wrong = some_features()
    fitted = fit_raw(kind, values, wrong)
    corners = torch.tensor([[0.0, 0], [1, 0], [0, 1]], dtype=torch.float64)
    bias, *others = fitted(corners)
    weights = torch.stack([one - bias for one in others]).requires_grad_()
    loss = F.binary_cross_entropy_with_logits(
        values @ weights + bias, wrong.double(), reduction="sum"
    )
    (slope,) = torch.autograd.grad(
        loss + (weights @ weights / 2 if kind == "ridge" else 0), weights
    )
    assert slope.abs().max() < 0.05 * len(values) ** 0.5
    assert torch.equal(decided(fitted)(values), (fitted(values) > 0).double())


def test_the_network_of_raw_features_does_not_scale_them():
    """Fitted to a thousandth of the features it is another one, as `fit_meta` would not be."""
    values, wrong = some_features()
    fitted, again = (fit_raw_network(values, wrong, 3) for _ in range(2))
    assert torch.equal(fitted(values), again(values))
    assert nescio.metrics.auroc(fitted(values)[~wrong], fitted(values)[wrong]) > 0.9
    small = fit_raw_network(values / 1000, wrong, 3)
    assert not torch.allclose(small(values / 1000), fitted(values), atol=0.5)


def test_learning_takes_parts_of_validation_data_columns_and_known_unknowns():
    seen = []

    def fit(values, wrong):
        seen.append((values, wrong))
        return lambda features: features[:, 0]

    values, wrong = some_features(8)
    sets = {"validation": values, "right": values, "a": values + 1}
    by_set = SetFeatures(sets, {"a": values[:3] + 9}, ~wrong, ("a",))
    score = by_set.learn(fit, [1], ["a"], share=2)
    assert torch.equal(seen[0][0], torch.cat([values[::2], values[:3] + 9])[:, [1]])
    assert seen[0][1].tolist() == [*wrong[::2].tolist(), True, True, True]
    assert torch.equal(score(values), values[:, 1])


def test_the_ratio_is_that_of_the_table():
    assert prevalence("table1", "uniform") == 20_000 / 220_000
    assert prevalence("table3", "uniform") == 10_000 / 210_000
    assert prevalence("table3", "nist_letters") is prevalence("table1", WRONG) is None
    assert prevalence(LAYERS, "uniform") is None
    for number in (1, 2, 3):
        inputs = PAPER.published["inputs"][f"table{number}"]
        for name in set(inputs) - {"right"}:  # the printed AUPR-In fit
            assert implied(number, name) == pytest.approx(inputs[name] / inputs["right"], rel=0.5)


def by_layer(values, learned):
    """A record of two layers in three splits: each metric's AUROC, and each meta-classifier's."""

    def row(name, aurocs):
        return ScoreRow(name, LAYERS, {one: SplitMetrics(*[aurocs] * 5) for one in layers.SETS})

    rows = [row(f"{layer}: {name}", values[layer]) for layer in values for name in METRICS]
    for kind in layers.KINDS:
        rows += [row(f"{kind}, {what}", learned[kind][what]) for what in ("from last", "all")]
    counts = dict.fromkeys(("right", *layers.SETS), (1, 1, 1))
    origin = Provenance.now(0, {}, 1.0)
    return Separations("mnist", "cnn16", (0.9, 0.9, 0.9), counts, tuple(rows), (), origin)


LEVEL = {"from last": (0.8, 0.7, 0.9), "all": (0.8, 0.71, 0.89)}
BETTER = {"from last": (0.8, 0.7, 0.9), "all": (0.82, 0.71, 0.93)}


@pytest.mark.parametrize(
    ("last", "nearer"),
    [((0.9, 0.8, 0.95), True), ((0.7, 0.6, 0.8), False), ((0.9, 0.6, 0.8), None)],
)
def test_metrics_that_rise_in_every_split_tell_more_nearer_the_softmax(last, nearer):
    kinds = dict.fromkeys(layers.KINDS, LEVEL)
    record = by_layer({"first": (0.8, 0.7, 0.9), "last": last}, kinds)
    claim = layers._nearer(record, ["first", "last"])
    assert claim.holds is nearer
    assert "first 80.00, last" in claim.seen


@pytest.mark.parametrize(
    ("better", "regressions", "network"),
    [
        ((), True, None),
        (("nn",), True, True),
        (("ridge",), False, None),
        (("nn", "glm"), False, True),
    ],
)
def test_early_layers_that_help_are_found_by_the_same_rule(better, regressions, network):
    kinds = {kind: BETTER if kind in better else LEVEL for kind in layers.KINDS}
    record = by_layer({"first": (0.8, 0.7, 0.9), "last": (0.8, 0.7, 0.9)}, kinds)
    claims = layers._early(record, "last")
    assert [claim.holds for claim in claims] == [regressions, network]
    assert ("+2.00" in claims[1].seen) is ("nn" in better)


def test_figure_1_is_drawn_and_not_kept(tmp_path):
    drawn = figure1.concepts_figure({name: nescio.data.load("digits").test for name in "ab"})
    assert len(drawn.axes) == 2 * figure1.SHOWN
    assert all(len(axes.images) == 1 for axes in drawn.axes)
    (experiment,) = figure1.EXPERIMENTS
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert f"results/{experiment.name}/{figure1.PICTURE}" in ignored
