"""What a meta-classifier looks at has a section of its own, when such records are there."""

import re

from nescio.report.meta import meta_html
from nescio.report.records import ReportContext
from report_records import a_meta, an_audit


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
