"""What tests of reports share."""

import pytest


@pytest.fixture
def undrawn(monkeypatch):
    """Every picture is an empty one: nearly all the time of a report goes into them, and some tests only read words."""
    monkeypatch.setattr(
        "nescio.report.html._to_svg", lambda _: '<svg xmlns="http://www.w3.org/2000/svg"/>'
    )
