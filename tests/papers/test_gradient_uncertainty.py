"""The protocol on the embedded digits, in small: the paper's contrasts, with bands."""

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
import torch
import torch.nn.functional as F

import nescio
from nescio.errors import NescioError
from nescio.files import MARKDOWN
from nescio.records import Provenance
from papers.experiment import reproduce
from papers.gradient_uncertainty import features, figure1, figure2, layers, splits, tables
from papers.gradient_uncertainty.features import divided, split_features
from papers.gradient_uncertainty.parts import UNKNOWN, part
from papers.gradient_uncertainty.plan import ALL, DIGITS, MNIST, WRONG
from papers.gradient_uncertainty.published import COMPARABLE, PUBLISHED, implied, prevalence
from papers.gradient_uncertainty.raw import decided, fit_raw, fit_raw_network
from papers.gradient_uncertainty.rows import (
    LAYERS,
    METRICS,
    REGRESSIONS,
    SINGLE,
    SetFeatures,
    late_columns,
    layers_of,
)
from papers.gradient_uncertainty.separations import (
    MEASURES,
    ScoreRow,
    Separations,
    SplitMetrics,
    separation_page,
)
from papers.gradient_uncertainty.splits import separations
from papers.reproduction import Reproduction
from papers.workspace import Workspace

RESULTS = Path(__file__).parents[2] / "results"
EXPERIMENTS = (*tables.EXPERIMENTS, *layers.EXPERIMENTS, *figure2.EXPERIMENTS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("paper3")


@pytest.fixture(scope="module")
def record(folder):
    return separations(DIGITS, 1, folder)


def mean(record, row, other, measure="auroc", group=None):
    found = [one for one in record.rows if one.name == row and group in (None, one.group)]
    return fmean(getattr(found[0].against[other], measure))


def test_rows_and_sets(record):
    rows = {
        group: [row.name for row in record.rows if row.group == group]
        for group in dict.fromkeys(row.group for row in record.rows)
    }
    own_units = [f"{kind}, raw{more}" for kind in ("glm", "ridge") for more in ("", ", decided")]
    assert list(rows) == ["table1", "table2", "table3", LAYERS]
    assert rows["table1"] == list(SINGLE)
    assert rows["table2"] == ["softmax", "entropy", *REGRESSIONS, *own_units]
    mixes = ["validation", "validation + uniform"]
    assert rows["table3"] == ["softmax", "entropy", *mixes, *(f"{mix}, raw" for mix in mixes)]
    names = ["conv1", "conv2", "linear1", "linear2"]
    assert rows[LAYERS][:20] == [f"{layer}: {name}" for layer in names for name in METRICS]
    learned = ("from linear2", "from linear1", "from conv2", "all")
    kinds = (*REGRESSIONS, "nn", "nn, raw")
    assert rows[LAYERS][20:44] == [f"{kind}, {what}" for kind in kinds for what in learned]
    assert rows[LAYERS][44:] == [
        f"nn, {what}, 1/{share} of the data" for share in (4, 2) for what in ("from linear2", "all")
    ]
    assert record.accuracy[0] > 0.93
    assert record.sets[ALL] == tuple(
        sum(counts) for counts in zip(*(record.sets[name] for name in DIGITS.mixed), strict=True)
    )


def test_rows_of_several_tables_agree_but_for_the_ratio(record):
    """Softmax in every table, and the fits of table 2 and 3 among those by layer."""
    for measure in ("auroc", "aupr_in", "aupr_out"):
        values = [mean(record, "softmax", "uniform", measure, f"table{n}") for n in (1, 2, 3)]
        assert values[0] == values[1] == values[2]
        for kind in REGRESSIONS:
            again = mean(record, f"{kind}, all", ALL, measure, LAYERS)
            assert mean(record, kind, ALL, measure, "table2") == again
        again = mean(record, "nn, all", ALL, measure, LAYERS)
        assert mean(record, "validation", ALL, measure, "table3") == again
    for_table = [mean(record, "softmax", "uniform", "aupr_out_paper", f"table{n}") for n in (1, 3)]
    assert for_table[0] > for_table[1]  # the more there are, the higher
    against_wrong = [mean(record, "softmax", WRONG, measure) for measure in MEASURES]
    assert against_wrong[1:3] == against_wrong[3:]  # of which the paper states no ratio


def test_gradient_norms_do_as_well_as_the_softmax(record):
    """Section 4: single statistics separate right answers from wrong ones as the baseline does."""
    assert mean(record, "softmax", "wrong") > 0.88
    assert (
        max(mean(record, row, "wrong") for row in ("l1 norm", "l2 norm"))
        > mean(record, "softmax", "wrong") - 0.01
    )


def test_known_unknowns_help_on_all_unknown_sets_together(record):
    """Section 6: only with some noise to learn from the network beats entropy and softmax."""
    for measure in ("auroc", "aupr_out"):
        best = max(mean(record, row, ALL, measure) for row in ("softmax", "entropy"))
        assert mean(record, "validation + uniform", ALL, measure) > best
        assert mean(record, "validation + uniform", ALL, measure) > mean(
            record, "validation", ALL, measure
        )
    assert mean(record, "validation + uniform", "normal") > mean(record, "entropy", "normal") + 0.02


def test_sparse_regressions_generalise(record):
    """Section 5: they do about as well as the best single score, from known data alone."""
    for row in ("lasso", "elastic_net"):
        assert mean(record, row, ALL) > mean(record, "softmax", ALL) - 0.02


def test_a_split_that_is_there_is_not_made_again(record, folder, monkeypatch):
    monkeypatch.setattr(splits, "one_split", None)
    assert separations(DIGITS, 1, folder) == record
    with pytest.raises(NescioError, match="other settings"):
        separations(replace(DIGITS, epochs=1), 1, folder)


def test_features_of_a_split_are_kept_and_rows_made_from_them(folder, record, monkeypatch):
    monkeypatch.setattr(features, "_made", None)
    kept = split_features(replace(DIGITS, mixes=((),), networks=9), 0, folder, None, 0)
    assert kept.accuracy == record.accuracy[0]
    assert list(kept.log) == list(kept.raw) == ["validation", "right", "wrong", *DIGITS.unknown]
    assert list(kept.few) == list(kept.raw_few) == list(DIGITS.unknown)
    for log, raw in ((kept.log, kept.raw), (kept.few, kept.raw_few)):
        number = kept.names.index("all/l2")
        for name, values in log.items():
            torch.testing.assert_close(values[:, number].exp(), raw[name][:, number])
    with pytest.raises(NescioError, match=r"features-0.safetensors' was made with other settings"):
        split_features(replace(DIGITS, epochs=1), 0, folder, None, 0)


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
        inputs = tables.PAPER.published["inputs"][f"table{number}"]
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
    ignored = (RESULTS.parent / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert f"results/{experiment.name}/{figure1.PICTURE}" in ignored


def test_too_few_answers_to_learn_from_are_an_error(tmp_path):
    few = replace(DIGITS, network="mlp", train=20, validation=12, epochs=1)
    with pytest.raises(NescioError, match=r"split 0 has \d+ right and \d+ wrong .* at least 10 of"):
        separations(few, 1, tmp_path)


@pytest.mark.slow
def test_same_seed_same_numbers_and_splits_differ(tmp_path):
    small = replace(
        DIGITS, network="mlp", train=60, validation=200, test=60, epochs=3, mixes=((),), networks=1
    )
    one, again = separations(small, 2, tmp_path / "one"), separations(small, 1, tmp_path / "two")
    assert Separations.load(tmp_path / "one" / "split-0.json").rows == again.rows
    assert all(len(set(found.auroc)) == 2 for row in one.rows for found in row.against.values())
    single = Separations.load(tmp_path / "one" / "split-1.json")
    for row, both in zip(single.rows, one.rows, strict=True):
        assert row.against["uniform"].auroc == both.against["uniform"].auroc[1:]


def test_parts_are_disjoint_and_of_the_size_asked_for():
    known = nescio.data.load("digits")
    parts = divided(known, (100, 50, 30), 3)
    assert [len(part) for part in parts] == [100, 50, 30]
    assert all(a.labels.unique().numel() == 10 for a in parts)
    rows = torch.cat([part.inputs.flatten(1) for part in parts])
    assert len(rows.unique(dim=0)) == len(rows)
    assert not torch.equal(divided(known, (100,), 4)[0].inputs, parts[0].inputs)
    with pytest.raises(NescioError, match="1797 labelled inputs, but 2000"):
        divided(known, (2000,), 0)


def test_every_published_figure_has_its_row_and_set():
    rows = {
        1: set(SINGLE),
        2: {"softmax", "entropy", *REGRESSIONS},
        3: {"softmax", "entropy", *tables.MIXES} - {tables.NORMAL},
    }
    sets = {1: {WRONG, *UNKNOWN}, 2: {WRONG, *UNKNOWN}, 3: {WRONG, *MNIST.mixed, ALL}}
    for table, figures in PUBLISHED.items():
        assert set(figures) == {(row, name) for row in rows[table] for name in sets[table]}
        assert all(set(found) == set(COMPARABLE.values()) for found in figures.values())
        assert all(0 < value <= 100 for found in figures.values() for value in found.values())


def test_a_part_has_only_what_was_asked_for(record):
    small = part(record, "table1", (WRONG, "not there", "uniform"), ("right", "uniform"))
    assert [row.name for row in small.rows] == list(SINGLE)
    assert all(list(row.against) == [WRONG, "uniform"] for row in small.rows)
    assert small.rows[0].against["uniform"] == record.rows[0].against["uniform"]
    assert list(small.sets) == ["right", WRONG, "uniform"]
    assert [list(one.values) for one in small.spreads] == [["right", "uniform"]] * 3
    assert part(record, "", ()) == replace(part(record, "", ()), rows=(), spreads=())


PRINTED = {
    "5.59",
    "8.65",
    "200",
    "13.74",
    "0.81",
    "0.12",
    "3.48",
    "10",
}  # CIFAR-10, and numbers of the paper's text


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda one: one.name)
def test_what_the_paper_says_has_no_numbers_of_ours(experiment, tmp_path, monkeypatch):
    """Our own bars stand in what we saw."""
    shutil.copytree(RESULTS / experiment.name, tmp_path / experiment.name)
    monkeypatch.setattr(
        "papers.gradient_uncertainty.parts.separations", None
    )  # the committed stage is enough
    found = experiment.run(
        Workspace(tmp_path / experiment.name, tmp_path / "runs", seeds=experiment.seeds["quick"])
    )
    assert all(set(re.findall(r"\d+(?:\.\d+)?", claim.says)) <= PRINTED for claim in found.claims)
    assert any("wanted: " in claim.seen for claim in found.claims)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_committed_tables_are_those_of_their_record(number):
    folder = RESULTS / f"gradient-table{number}"
    record = Separations.load(folder / "separations.json")
    page = separation_page(record, PUBLISHED[number])
    assert (folder / "tables.md").read_text(encoding="utf-8") == f"{MARKDOWN}\n{page}"
    assert len(record.accuracy) >= 3
    assert tables.OTHERS in record.sets
    found = Reproduction.load(folder / "reproduction.json")
    assert {one.paper for one in found.compared} == {
        value for figures in PUBLISHED[number].values() for value in figures.values()
    }
    assert len(found.compared) == 3 * len(PUBLISHED[number])
    shown = {one.what: one.ours for one in found.compared}
    assert shown["AUROC, wrong answers: entropy"] == pytest.approx(
        100 * mean(record, "entropy", "wrong")
    )


def test_the_committed_layers_are_those_of_their_record():
    folder = RESULTS / "gradient-section4"
    record = Separations.load(folder / "separations.json")
    page = separation_page(record, {}, ["auroc"])
    assert (folder / "tables.md").read_text(encoding="utf-8") == f"{MARKDOWN}\n{page}"
    found = Reproduction.load(folder / "reproduction.json")
    shown = {one.what: one.ours for one in found.compared}
    assert shown["AUROC, wrong answers: linear1: l2 norm"] == pytest.approx(
        100 * mean(record, "linear1: l2 norm", WRONG)
    )


def test_the_committed_tables_show_what_they_should():
    single, network = (
        Separations.load(RESULTS / f"gradient-table{n}" / "separations.json") for n in (1, 3)
    )
    assert min(mean(single, row, "wrong") for row in ("softmax", "entropy")) >= 0.97
    assert (
        max(mean(single, row, "wrong") for row in tables.NORMS)
        >= mean(single, "softmax", "wrong") - 0.01
    )
    for measure in ("auroc", "aupr_out"):
        best = max(mean(network, row, ALL, measure) for row in ("softmax", "entropy"))
        assert mean(network, tables.MIXES[-1], ALL, measure) > best


@pytest.mark.skipif(
    "NESCIO_DATA" not in os.environ, reason="needs MNIST and others in $NESCIO_DATA"
)
@pytest.mark.slow
@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_every_stage_of_every_experiment_starts_and_the_splits_are_made_once(
    tmp_path, monkeypatch, scale
):
    made = []
    one_split = splits.one_split
    monkeypatch.setattr(
        splits, "one_split", lambda *given: made.append(given[1]) or one_split(*given)
    )
    for experiment in EXPERIMENTS:
        work = Workspace(
            tmp_path / experiment.name, tmp_path / "runs", scale, experiment.seeds[scale], dry=True
        )
        record = reproduce(experiment, work, "")
        assert len(record.claims) >= 3
        assert record.deviations[0].setting == "known data"
        assert bool(record.compared) == ("figure" not in experiment.name)
    assert made == [0]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [
        {"quick": "gradient-mnist-dry", "paper": "gradient-mnist-paper-dry"}[scale]
    ]
