"""Records whose lists do not go together are refused when they are read: no later step must cope with them."""

import dataclasses
import json
from contextlib import suppress

import pytest

from nescio.errors import NescioError
from nescio.records import read_record
from nescio.report.page import report_page
from report_records import of_every_kind

RECORDS = of_every_kind("plain")


def places(value, place=()):
    """Where a record has a list or a dict that is not empty; of many alike the first."""
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = [(0, value[0])] if value else []
    else:
        return
    if value and place:
        yield place
    for name, item in inner:
        yield from places(item, (*place, name))


def emptied(value, place):
    """The same with nothing at the place."""
    if not place:
        return type(value)()
    copy, first = value.copy(), place[0]
    copy[first] = emptied(value[first], place[1:])
    return copy


CASES = [(f"{type(record).__name__}-{i}", json.loads(record.to_json())) for i, (_, record) in enumerate(RECORDS)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "body"), CASES, ids=[name for name, _ in CASES])
def test_a_record_with_anything_emptied_is_shown_or_refused(name, body, tmp_path):
    for place in places(body):
        (tmp_path / "record.json").write_text(json.dumps(emptied(body, place)))
        with suppress(NescioError):  # and nothing else
            assert "<html" in report_page([("run", read_record(tmp_path / "record.json"))])


def test_what_is_damaged_is_told(tmp_path):
    record = next(one for _, one in RECORDS if type(one).__name__ == "Evaluation")
    body = json.loads(record.to_json())
    body["unknown"][0]["roc"][0]["known"] = []
    (tmp_path / "evaluation.json").write_text(json.dumps(body))
    with pytest.raises(NescioError, match=r"evaluation\.json.*damaged: .* in a Roc: unknown \d+, known 0; expected"):
        read_record(tmp_path / "evaluation.json")


def test_sets_may_be_called_anything():
    record = next(one for _, one in RECORDS if type(one).__name__ == "Evaluation")
    counts = record.histograms[0].counts["known"]
    renamed = dataclasses.replace(record.histograms[0], counts=dict.fromkeys(("what", "edges", "self", "/"), counts))
    assert set(renamed.counts) == {"what", "edges", "self", "/"}
