"""What the examples in docstrings take for granted: the block at the top of `docs/api/index.md`."""

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "api" / "index.md"


@pytest.fixture(scope="session")
def setup_names() -> dict[str, Any]:
    """Run the block once."""
    block = re.search(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert block is not None
    names: dict[str, Any] = {}
    exec(block[1], names)
    return names


@pytest.fixture(autouse=True)
def _names_of_examples(
    doctest_namespace: dict[str, Any], setup_names: dict[str, Any], monkeypatch: Any, tmp_path: Any
) -> None:
    monkeypatch.chdir(tmp_path)  # examples may write files
    setup_names["torch"].manual_seed(0)  # and make networks
    doctest_namespace.update(setup_names)
