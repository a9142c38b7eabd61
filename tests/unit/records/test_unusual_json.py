"""JSON that Python reads, but that is none of ours: refused where it is read, and never met later
as another error.
"""

import json

import pytest
from safetensors.torch import save_file
from torch import zeros

from nescio.core.tensorfile import read_tensors
from nescio.errors import NescioError
from nescio.records import Fitted, Provenance, read_record
from nescio.report.records import records_in
from report_records import a_fitted, of_every_kind

ODD = {
    "half a character": r'"\ud800"',
    "the other half": r'"\uDC00 x"',
    "halves the wrong way round": r'"\udc00\ud800"',
    "half a character as a name": r'{"\ud800": 1}',
    "NaN": "NaN",
    "infinite": "-Infinity",
    "beyond floats": "1e999",
    "thousands of digits": "9" * 5000,
    "given twice": '{"a": 1, "a": 1}',
    "deep": "[" * 300 + "]" * 300,
    "deeper": '{"a":' * 900 + "1" + "}" * 900,
    "deepest": "[" * 100_000 + "]" * 100_000,
}


def with_setting(record, raw):
    """A record's text with something unusual as a setting, which may be anything that is plain."""
    body = json.loads(record.to_json())
    body["provenance"]["settings"]["unusual"] = "HERE"
    return json.dumps(body).replace('"HERE"', raw)


@pytest.mark.parametrize("raw", ODD.values(), ids=ODD)
def test_it_is_refused_in_every_place(raw, tmp_path):
    path = tmp_path / "fitted.json"
    path.write_text(with_setting(a_fitted(), raw))
    for read in (
        Fitted.load,
        read_record,
        lambda path: records_in([str(path)]),
        lambda _: records_in([str(tmp_path)]),
    ):
        with pytest.raises(NescioError, match=r"fitted\.json"):
            read(path)
    if raw != "1e999":  # a number all the same, which plain data may hold
        save_file(
            {"a": zeros(1)},
            tmp_path / "m",
            {"nescio": f'{{"kind": "model", "format": 1, "about": {raw}}}'},
        )
        with pytest.raises(NescioError, match="not a whole nescio model: not valid JSON"):
            read_tensors(tmp_path / "m", "model")


def test_every_kind_of_record_is_read_as_it_was():
    for _, record in of_every_kind("a name, and 😀 é"):
        assert type(record).from_json(record.to_json()) == record


def test_whole_characters_may_be_written_in_any_way():
    text = with_setting(a_fitted(), r'"\ud83d\ude00 and \\ud800, which is none"')
    assert Fitted.from_json(text).provenance.settings["unusual"] == r"😀 and \ud800, which is none"


def test_bytes_of_a_name_that_are_no_text_are_left_open(tmp_path):
    record = Provenance.now(0, {"data": "b\udcffd.npz", "\udcff": 1}, 0.0)
    assert record.settings == {"data": "b?d.npz", "?": 1}
