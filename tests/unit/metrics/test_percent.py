"""Shares are shown by one rule, wherever they are shown."""

import re
from pathlib import Path

import nescio
from nescio.metrics.percent import per_cent, percent
from nescio.report.table import Percent, percent_cell

SOURCES = Path(nescio.__file__).parent


def test_terminal_report_and_words_agree():
    for value in (0.0, 1e-9, 0.0004, 0.001, 0.12345, 0.5, 0.9994, 0.9996, 0.99996, 1.0):
        number = per_cent(value)
        assert str(Percent(value)) == str(percent_cell([value])) == f"{number}%"
        assert Percent(value).text("") == number
        assert percent(value) == f"{number} %"
        assert ("100" in number) == (value == 1)


def test_no_other_rounding_is_in_use():
    own = re.compile(r":\.\d%\}")
    sources = SOURCES.rglob("*.py")
    found = [path.name for path in sources if own.search(path.read_text(encoding="utf-8"))]
    assert not found
