"""What tests of reports share."""

import pytest


@pytest.fixture
def undrawn(monkeypatch):
    """Draw every figure empty: they take most of the time, and some tests only read words."""
    monkeypatch.setattr(
        "nescio.report.html._to_svg", lambda _: '<svg xmlns="http://www.w3.org/2000/svg"/>'
    )
