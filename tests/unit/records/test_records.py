import dataclasses
import json
from hashlib import sha256

import pytest

from nescio.errors import NescioError
from nescio.records import (
    Audit,
    Epoch,
    Evaluation,
    Histogram,
    History,
    KnownSide,
    Provenance,
    Rejection,
    Roc,
    Separation,
    UnknownSide,
)
from nescio.records.provenance import made_by
from report_records import a_fitted


@pytest.fixture
def record():
    provenance = Provenance.now(3, {"epochs": 2, "name": "<script>"}, 1.5)
    return History(
        "softmax", (Epoch(1, 0.5, 0.9, None, None, 1e-3, 0.1),), 8, None, False, provenance
    )


def test_json_both_ways(record, tmp_path):
    assert History.from_json(record.to_json()) == record
    record.save(tmp_path / "deep" / "h.json")
    assert History.load(tmp_path / "deep" / "h.json") == record
    assert json.loads(record.to_json())["record"] == "History"


def test_is_frozen_and_says_where_it_comes_from(record):
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.steps = 9
    assert record.provenance.versions["torch"]
    assert record.provenance.seed == 3


def test_remembers_the_command_at_work(record):
    with made_by("nescio demo"):
        inside = Provenance.now(3, {}, 1.5)
    assert inside.command == "nescio demo"
    assert record.provenance.command is None
    made = dataclasses.replace(record, provenance=inside)
    assert History.from_json(made.to_json()) == made
    assert History.together([made, made], 7).provenance.command == "nescio demo"


def test_no_command_is_at_work_after_an_error():
    with pytest.raises(OSError, match="full"), made_by("nescio demo"):
        raise OSError("full")
    assert Provenance.now(0, {}, 0.0).command is None


def test_a_field_with_a_default_may_be_missing(record):
    body = json.loads(record.to_json())
    del body["provenance"]["command"]
    assert History.from_json(json.dumps(body)) == record


def test_a_digest_covers_every_field_but_itself():
    record = a_fitted()
    body = json.loads(dataclasses.replace(record, digest="").to_json())
    digest = sha256(json.dumps(body, indent=1, ensure_ascii=False).encode()).hexdigest()
    assert record.own_digest() == digest
    origin = dataclasses.replace(record.provenance, command="nescio fit")
    for change in ({"provenance": origin}, {"dtype": "int64"}, {"refused": {"noise": 0.5}}):
        assert dataclasses.replace(record, **change).own_digest() != digest


def test_needs_no_torch():
    import subprocess
    import sys

    code = (
        "import sys, nescio.records, nescio.report.page, nescio.report.figures, nescio.metrics; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def change(text, **fields):
    return json.dumps({**json.loads(text), **fields})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: "", "not valid JSON"),
        (lambda text: text[:50], "not valid JSON"),
        (lambda text: "[]", "not a History"),
        (lambda text: "[" * 100_000, "not valid JSON"),
        (lambda text: change(text, record="Evaluation"), "not a History"),
        (lambda text: change(text, format=99), "format 99"),
        (lambda text: change(text, steps="eight"), r"History\.steps"),
        (lambda text: change(text, steps=True), r"History\.steps"),
        (lambda text: change(text, epochs=[{"epoch": 1}]), r"History\.epochs\[0\]"),
        (lambda text: change(text, extra=1), "expected the fields"),
        (lambda text: text.replace("0.5", "NaN"), "not valid JSON"),
    ],
)
def test_damaged_record_is_refused(record, damage, message):
    with pytest.raises(NescioError, match=message):
        History.from_json(damage(record.to_json()))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Evaluation, "^not an Evaluation record$"),
        (Audit, "^not an Audit record$"),
        (History, "^not a History record$"),
    ],
)
def test_the_kind_that_was_expected_has_its_article(kind, message):
    with pytest.raises(NescioError, match=message):
        kind.from_json("[]")


def test_missing_file_is_reported(tmp_path):
    with pytest.raises(NescioError, match="cannot read"):
        History.load(tmp_path / "none.json")


def test_nothing_undefined_is_written(record):
    broken = dataclasses.replace(
        record, epochs=(Epoch(1, float("nan"), 0.9, None, None, 1e-3, 0.1),)
    )
    with pytest.raises(NescioError, match="NaN"):
        broken.to_json()


def test_nested_records_keep_their_types():
    side = KnownSide(
        "digits",
        9,
        1.0,
        1.0,
        0.0,
        0.0,
        0.0,
        (Separation("entropy", None, None, None, None),),
        (Rejection("entropy", (0.0, 0.5), (1.0, 1.0), (1.0, 1.0), 1.0, 1.0),),
    )
    record = Evaluation("softmax", "max_prob", 3, 1, side, (), (), Provenance.now(0, {}, 0.0))
    again = Evaluation.from_json(record.to_json())
    assert again == record
    assert isinstance(again.known.rejection[0].rejected, tuple)


@pytest.fixture
def evaluated():
    curve, found = (
        Rejection("entropy", (0.0,), (1.0,), (1.0,), 1.0, 1.0),
        Separation("entropy", 1.0, 1.0, 1.0, 0.0),
    )
    side = KnownSide("digits", 9, 1.0, 1.0, 0.0, 0.0, 0.0, (found,), (curve,))
    # a set may be called as a field is
    sides = tuple(
        UnknownSide(
            name, 2, 0.5, (found,), (curve,), (Roc("entropy", (0.0, 0.0, 1.0), (0.0, 1.0, 1.0)),)
        )
        for name in ("far", "separation")
    )
    counts = {"known": (1, 8), "far": (2, 0), "separation": (2, 0)}
    return Evaluation(
        "softmax",
        "entropy",
        3,
        1,
        side,
        sides,
        (Histogram("entropy", (0.0, 1.0, 2.0), counts),),
        Provenance.now(0, {}, 0.0),
        Histogram("confidence", (0.0, 0.5, 1.0), counts),
    )


def test_an_evaluation_from_before_curves_were_kept_is_read(evaluated, tmp_path):
    body = json.loads(evaluated.to_json())
    del body["confidence"], body["known"]["reliability"]
    for side in body["unknown"]:
        del side["roc"]
    without = tuple(dataclasses.replace(side, roc=()) for side in evaluated.unknown)
    (tmp_path / "old.json").write_text(json.dumps(body))
    old = Evaluation.load(tmp_path / "old.json")
    assert old == dataclasses.replace(evaluated, unknown=without, confidence=None)
    assert Evaluation.from_json(old.to_json()) == old
    assert Evaluation.from_json(evaluated.to_json()) == evaluated


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[:50], "not valid JSON"),
        (lambda text: "[" * 100_000, "not valid JSON"),
        (lambda text: text.replace("0.5", "NaN"), "not valid JSON"),
        (lambda text: change(text, record="History"), "not an Evaluation"),
        (lambda text: change(text, confidence=3), r"Evaluation\.confidence"),
        (lambda text: change(text, unknown=[{"name": "far"}]), r"Evaluation\.unknown\[0\]"),
        (
            lambda text: text.replace('"roc"', '"rocs"'),
            r"Evaluation\.unknown\[0\]: expected the fields .*roc",
        ),
    ],
)
def test_no_other_field_of_an_evaluation_may_be_missing(evaluated, damage, message):
    with pytest.raises(NescioError, match=message):
        Evaluation.from_json(damage(evaluated.to_json()))
