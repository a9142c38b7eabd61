"""The API reference has every public name once, each with an example that runs.

Examples are doctests, which run with the others. These need none:

- modules, constants and types, which are no function or class;
- errors, which are raised and not made;
- classes that a function with an example takes or returns, or a part of one of those.
"""

import inspect
import re
import sys
import typing
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import nescio
from public_names import DOORS, public_names

API = Path(__file__).parents[2] / "docs" / "api"
COMMAND_LINE = "nescio.cli"  # used from a shell
WITHOUT = {"nescio.records.Fitted": "only `nescio fit` writes it"}
NOT_RUN = {"nescio.data.download": "it needs the network"}
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
THINGS = {  # functions and classes, by their one place on a page
    name: PUBLIC[name]
    for _, name in SHOWN
    if name in PUBLIC and (inspect.isclass(PUBLIC[name]) or inspect.isfunction(PUBLIC[name]))
}


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


def has_example(thing):
    return ">>> " in (thing.__doc__ or "")


def named_in(hint):
    """The classes that a type is made of."""
    if inspect.isclass(hint) and not typing.get_args(hint):
        return {hint}
    return {one for part in typing.get_args(hint) for one in named_in(part)}


def hints_of(thing):
    """Its types, also those that its module imports for type checkers alone."""
    late = {name.rpartition(".")[2]: value for name, value in PUBLIC.items()}
    return typing.get_type_hints(thing, localns=late | vars(sys.modules[thing.__module__]))


def classes_of(thing):
    """What a function takes and returns, or what a class holds and its methods return."""
    if inspect.isfunction(thing):
        return {one for hint in hints_of(thing).values() for one in named_in(hint)}
    hints = [*hints_of(thing).values()]
    for member in vars(thing).values():
        function = member.fget if isinstance(member, property) else member
        if inspect.isfunction(function):
            hints.append(hints_of(function).get("return"))
    return {one for hint in hints for one in named_in(hint)}


def with_classes(things):
    """Things, and all the classes that one meets by using them."""
    reached, left = set(), list(things)
    while left:
        if (thing := left.pop()) not in reached:
            reached.add(thing)
            left += [one for one in classes_of(thing) if one.__module__.startswith("nescio")]
    return reached


SHOWN_BY_EXAMPLES = with_classes(thing for thing in THINGS.values() if has_example(thing))


@pytest.mark.parametrize("name", THINGS)
def test_every_public_function_and_class_has_an_example(name):
    thing = THINGS[name]
    if inspect.isclass(thing) and (issubclass(thing, Exception) or thing in SHOWN_BY_EXAMPLES):
        return
    assert has_example(thing) or name in WITHOUT


@pytest.mark.parametrize("name", THINGS)
def test_examples_are_run(name):
    assert ("+SKIP" in (THINGS[name].__doc__ or "")) == (name in NOT_RUN)
