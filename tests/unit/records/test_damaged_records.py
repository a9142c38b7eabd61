"""Records that cannot be are refused when they are read: no later step must cope with them."""

import dataclasses
import json
import random
from contextlib import suppress

import pytest

from damage import changed, emptied, places, with_one_change
from nescio.errors import NescioError
from nescio.records import read_record
from nescio.report.page import report_page
from report_records import an_audit, of_all_kinds

RECORDS = of_all_kinds("plain")


CASES = [
    (f"{type(record).__name__}-{i}", json.loads(record.to_json()))
    for i, (_, record) in enumerate(RECORDS)
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "body"), CASES, ids=[name for name, _ in CASES])
def test_a_record_with_anything_emptied_is_shown_or_refused(name, body, tmp_path):
    for place in places(body):
        (tmp_path / "record.json").write_text(json.dumps(emptied(body, place)))
        with suppress(NescioError):  # and nothing else
            assert "<html" in report_page([("run", read_record(tmp_path / "record.json"))])


def test_what_is_damaged_is_reported(tmp_path):
    record = next(one for _, one in RECORDS if type(one).__name__ == "Evaluation")
    body = json.loads(record.to_json())
    body["unknown"][0]["roc"][0]["known"] = []
    (tmp_path / "evaluation.json").write_text(json.dumps(body))
    with pytest.raises(
        NescioError, match=r"evaluation\.json.*damaged: .* in a Roc: unknown \d+, known 0; expected"
    ):
        read_record(tmp_path / "evaluation.json")


def test_sets_may_be_called_anything():
    record = next(one for _, one in RECORDS if type(one).__name__ == "Evaluation")
    counts = record.histograms[0].counts["known"]
    renamed = dataclasses.replace(
        record.histograms[0], counts=dict.fromkeys(("what", "edges", "self", "/"), counts)
    )
    assert set(renamed.counts) == {"what", "edges", "self", "/"}


def the(kind, number=0):
    """The body of one of the records of a kind."""
    return [json.loads(one.to_json()) for _, one in RECORDS if type(one).__name__ == kind][number]


@pytest.mark.parametrize(
    ("kind", "place", "new", "message"),
    [
        ("Audit", "trials", 0, "trials of an Audit is 0"),
        (
            "Audit",
            "law",
            "afine",
            "law of an Audit is 'afine'; expected 'affine' or 'kernels' or 'unknown'",
        ),
        ("Audit", "reached", 1.5, "reached"),
        ("Audit", "end_confidence", [0.5, 0.6], "end_confidence"),
        ("Audit", "rays.0.factors.0", 0.0, "factors of a Ray"),
        ("Contest", "contestants.0.fpr95", {"other": 0.5}, "fpr95 of a Contestant"),
        (
            "Evaluation",
            "known.accuracy",
            7.5,
            "accuracy of a KnownSide is 7.5; expected fractions in",
        ),
        (
            "Evaluation",
            "known.inputs",
            -1,
            "inputs of a KnownSide is -1; expected whole numbers of at least 0",
        ),
        ("Evaluation", "known.rejection.0.maximum_area", 0.0, "maximum_area"),
        ("Evaluation", "histograms.0.counts.known.0", -3, "counts of a Histogram"),
        ("Gallery", "start", "samples of noise", "start of a Gallery"),
        ("Gallery", "rows.0.answers", ["a"], "in a GalleryRow: kinds 2, images 2, answers 1"),
        ("Gallery", "kinds", ["a"], "kinds 1"),
        ("Gallery", "images.0", [[]], "images of a Gallery"),
        ("Gallery", "images.0", [[[0.5, 0.5], [0.5]]], "images of a Gallery"),
        ("Examples", "known.surest.0.image", [[[0.5]], [[0.5]]], "image of an Example"),
        ("Examples", "known.surest.0.image", [[[]]], "image of an Example"),
        ("Examples", "known.surest.0.span", [0.5], "span of an Example"),
        ("Map", "points.x", [0.5], "lengths of lists in a Points"),
        ("Map", "confidence.values.0.0", 2.0, "values of a Surface"),
        ("Regions", "window", [[0.0, 1.0]], "window of a Regions"),
        ("Regions", "window.0", [0.0, 0.0], "window of a Regions"),
        ("Regions", "features", ["height"], "features of a Regions"),
        ("Regions", "cells.0.corners", [[0.0, 1.0], [1.0]], "corners of a Cell"),
        ("Regions", "cells.0.corners.0.1", 1e308, "corners of a Cell"),
        ("Selection", "trials.0.value", -1.0, "value of a Trial"),
        ("Selection", "value", 0.7, "value of a Selection is 0.7; expected one that was tried"),
        ("Selection", "measure", "loss", "measure of a Selection"),
        ("History", "provenance.seconds", -1.0, "seconds of a Provenance"),
    ],
)
def test_what_cannot_be_is_reported(kind, place, new, message, tmp_path):
    where = [int(part) if part.isdigit() else part for part in place.split(".")]
    (tmp_path / "record.json").write_text(json.dumps(changed(the(kind), where, new)))
    with pytest.raises(NescioError, match="damaged") as error:
        read_record(tmp_path / "record.json")
    assert message in str(error.value)


def test_numbers_beyond_all_others_are_shown_or_refused(tmp_path):
    body = changed(the("Map"), ["points", "y", 0], 1e200)
    (tmp_path / "record.json").write_text(json.dumps(body))
    with suppress(NescioError):  # and nothing else
        assert "<html" in report_page([("run", read_record(tmp_path / "record.json"))])


@pytest.mark.parametrize("number", ["1e999", "-1e999", "1" + "0" * 400])
def test_a_number_that_is_not_finite_is_refused(number, tmp_path):
    text = next(one for _, one in RECORDS if type(one).__name__ == "Temperature").to_json()
    (tmp_path / "record.json").write_text(
        text.replace('"nll_before": 0.4', f'"nll_before": {number}')
    )
    with pytest.raises(NescioError, match="nll_before: expected a finite number"):
        read_record(tmp_path / "record.json")


def test_a_share_may_exceed_one_by_rounding():
    record = next(one for _, one in RECORDS if type(one).__name__ == "Temperature")
    assert dataclasses.replace(record, accuracy=1 + 1e-7).accuracy > 1


@pytest.mark.filterwarnings("ignore")  # of what is drawn of odd numbers
@pytest.mark.parametrize("changes", [1, pytest.param(14, marks=pytest.mark.slow)])
def test_a_record_with_anything_changed_is_shown_or_refused(changes, seed, tmp_path):
    rng = random.Random(seed)
    for _, body in CASES:
        for _ in range(changes):
            other = with_one_change(body, rng)
            (tmp_path / "record.json").write_text(json.dumps(other))
            with suppress(NescioError):  # and nothing else
                assert "<html" in report_page([("run", read_record(tmp_path / "record.json"))])


def test_a_count_of_classes_that_cannot_be_costs_nothing():
    record = dataclasses.replace(an_audit(), ends_in=None, classes=10**12)
    assert "far" in report_page([("far", record)])  # names of so many would fill the memory
