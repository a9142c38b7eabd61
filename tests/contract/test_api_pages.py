"""The API reference has every public name once."""

import inspect
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import nescio
from public_names import DOORS, public_names

API = Path(__file__).parents[2] / "docs" / "api"
COMMAND_LINE = "nescio.cli"  # used from a shell
SHOWN = [
    (page.name, name)
    for page in sorted(API.glob("*.md"))
    for name in re.findall(r"^::: ([\w.]+)$", page.read_text("utf-8"), re.MULTILINE)
]


def public():
    """Every public name, by its place: door and name."""
    doors = {door: import_module(door) for door in sorted(DOORS - {COMMAND_LINE})}
    doors |= {"nescio.attacks": nescio.attacks, "nescio.schedule": nescio.schedule}
    doors |= {"nescio.data.noise": nescio.data.noise}
    return {
        f"{door}.{name}": getattr(module, name)
        for door, module in doors.items()
        for name in public_names(module)
        if not isinstance(getattr(module, name), ModuleType)
    }


PUBLIC = public()


def test_every_name_on_a_page_is_public():
    assert {name for _, name in SHOWN} <= set(PUBLIC)


def test_every_public_name_is_on_one_page():
    """Once, also if several doors export it; then as the shortest of its names."""
    shown = [name for _, name in SHOWN]
    assert len(shown) == len(set(shown))
    for name, value in PUBLIC.items():
        same = {name}
        if inspect.isclass(value) or inspect.isfunction(value):
            same |= {other for other, thing in PUBLIC.items() if thing is value}
        assert [one for one in shown if one in same] == [min(same, key=len)], name
