"""The protocol on the embedded digits, in small: the paper's contrasts, with bands."""

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
import torch

import nescio
from nescio.errors import NescioError
from nescio.files import MARKDOWN
from papers.experiment import reproduce
from papers.gradient_uncertainty import features, figure2, layers, splits, tables
from papers.gradient_uncertainty.features import divided, split_features
from papers.gradient_uncertainty.parts import UNKNOWN, part
from papers.gradient_uncertainty.plan import ALL, DIGITS, MNIST, WRONG
from papers.gradient_uncertainty.published import COMPARABLE, PUBLISHED
from papers.gradient_uncertainty.rows import (
    LAYERS,
    METRICS,
    REGRESSIONS,
    SINGLE,
)
from papers.gradient_uncertainty.separations import (
    MEASURES,
    Separations,
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
