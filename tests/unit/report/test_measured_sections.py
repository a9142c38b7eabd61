"""Times, radii and weights of meta-classifiers: each has a section of its own, when such records are there."""

import re
from dataclasses import replace

import pytest

from nescio.records import Timings
from nescio.report.section import ReportContext
from nescio.report.sections import meta, radius, timings
from report_records import ORIGIN, a_meta, a_radius, a_timings, an_audit


def shown(make, *records):
    return make.section(ReportContext(tuple(("run", record) for record in records))).body


def rows(body):
    """Cells of each row but the headings."""
    found = re.findall(r"<tr>(.*?)</tr>", body)
    return [
        re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in found if "scope=col" not in row
    ]


@pytest.mark.parametrize("make", [meta, radius, timings])
def test_there_is_none_without_records(make):
    assert make.section(ReportContext((("run", an_audit()),))) is None


def test_times_of_rounds():
    body = shown(timings, a_timings())
    assert rows(body) == [
        ["step: softmax", "3", "0.300", "0.250", "0.500"],
        ["step: DUQ", "3", "1.500", "1.250", "2.500"],
    ]
    assert "conv3, batches of 128, 1 thread<" in body
    assert "<h3>" not in body
    assert "<h3>run (2)</h3>" in shown(timings, a_timings(), a_timings())
    assert rows(shown(timings, Timings("mlp", 1, 2, {"none": ()}, ORIGIN))) == [
        ["none", "0", "–", "–", "–"]
    ]


def test_promises_that_were_kept_broken_or_not_looked_at():
    body = shown(radius, a_radius())
    network = ["run", "digits", "1258", "98.0"]
    assert rows(body) == [
        [*network, "0.100", "10.500", "14783", "0.004", "yes"],
        [*network, "0.010", "12.000", "0", "0.000", "–"],
    ]
    assert "At a distance of 30 that is 1e-09 of an RBF network and 0.7 of a ReLU network." in body
    assert "knows nothing, as promised" in body
    broken = shown(radius, a_radius(worst=0.11))
    assert rows(broken)[0][-1] == "no"
    assert "a promise that was not kept" in broken
    assert "as promised" not in broken


def test_the_first_radius_on_each_data_set_is_drawn():
    body = shown(radius, a_radius(), a_radius(worst=0.05), a_radius("two_moons"))
    assert body.count("<svg") == 2
    assert len(rows(body)) == 6
    assert 'aria-label="figure: run (1): ' in body
    assert 'aria-label="figure: run (3): ' in body
    assert "1 more data sets are in the tables only." in shown(
        radius, *(a_radius(f"data {i}") for i in range(7))
    )
    assert "<svg" not in shown(radius, replace(a_radius(), distance=(), departs=(), other=()))


def test_what_a_meta_classifier_looks_at():
    body = shown(meta, a_meta())
    assert (
        "lasso: 2 of 3 features count; learned from 90 right and 8 wrong answers, 20 of all/l1."
        in body
    )
    assert rows(body) == [["entropy", "2.000"], ["all/l12", "-0.500"]]
    assert "the weightiest feature is entropy, with +2.000" in body
    assert "no single weight for a feature" in shown(meta, a_meta(weights=None))
    none = shown(meta, a_meta(weights=(0.0, 0.0, 0.0)))
    assert "0 of 3 features count" in none
    assert "<table" not in none


def test_meta_classifiers_that_are_many_are_in_tables():
    body = shown(meta, *[a_meta()] * 7)
    assert body.count("<svg") == 6
    assert body.count("<table") == 7
    assert "1 more meta-classifiers are in the tables only." in body
