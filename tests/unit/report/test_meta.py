import io
import re

import pytest
from rich.console import Console

from nescio.errors import NescioError
from nescio.records import MetaWeights, Provenance
from nescio.report.figures import save_figure
from nescio.report.meta import meta_html, nonzero_weights, weights_figure, weights_table
from nescio.report.records import ReportContext
from report_records import a_meta, an_audit


def record(weights=(0.0, -0.5, 2.0), kind="lasso"):
    return MetaWeights(
        kind,
        ("all/l1", "conv1/l2", "entropy"),
        weights,
        0.1,
        90,
        8,
        {"uniform": 20},
        Provenance.now(0, {}, 0.1),
    )


def test_what_counts_comes_by_weight():
    assert nonzero_weights(record()) == {"entropy": 2.0, "conv1/l2": -0.5}


def test_the_table_says_what_it_was_learned_from():
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(weights_table(record()))
    said = console.export_text()
    assert (
        "lasso: 2 of 3 features have a weight; learned from 90 correct and 8 wrong answers, 20 of "
        "uniform" in said
    )
    assert said.index("+2.000") < said.index("-0.500")
    assert "all/l1" not in said


def test_the_figure_has_a_bar_for_each(tmp_path):
    figure = weights_figure(record())
    assert [bar.get_width() for bar in figure.axes[0].patches] == [2.0, -0.5]
    assert len(weights_figure(record(), most=1).axes[0].patches) == 1
    save_figure(
        weights_figure(record((0.0, 0.0, 0.0))), tmp_path / "none.svg"
    )  # nothing counts: still a figure


def test_a_network_has_no_such_weights():
    with pytest.raises(NescioError, match="no single weight"):
        nonzero_weights(record(None, "nn"))
    with pytest.raises(NescioError, match="got None"):
        nonzero_weights(None)


def shown(*records):
    return meta_html(ReportContext(tuple(("run", record) for record in records)))


def rows(body):
    """Cells of each row but the headings."""
    found = re.findall(r"<tr>(.*?)</tr>", body)
    return [
        re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in found if "scope=col" not in row
    ]


def test_there_is_none_without_records():
    assert shown(an_audit()) == ""


def test_what_a_meta_classifier_looks_at():
    body = shown(a_meta())
    assert (
        "lasso: 2 of 3 features have a weight; learned from 90 correct and 8 wrong answers, 20 of "
        "all/l1." in body
    )
    assert rows(body) == [["entropy", "+2.000"], ["all/l12", "-0.500"]]
    assert "the largest weight is that of entropy, +2.000" in body
    assert "no single weight for a feature" in shown(a_meta(weights=None))
    none = shown(a_meta(weights=(0.0, 0.0, 0.0)))
    assert "0 of 3 features have a weight" in none
    assert "<table" not in none


def test_meta_classifiers_that_are_many_are_in_tables():
    body = shown(*[a_meta()] * 7)
    assert body.count("<svg") == 6
    assert body.count("<table") == 7
    assert "1 more meta-classifiers are in the tables only." in body
