"""The papers' experiments and the docs use public names alone, as a user would."""

import ast
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import nescio
import nescio.report
from public_names import DOORS, public_names

ROOT = Path(__file__).parents[2]
FILES = [
    *sorted(ROOT.glob("papers/**/*.py")),
    ROOT / "README.md",
    *sorted(ROOT.glob("docs/**/*.md")),
]


def inner_names(source):
    """What a file takes from nescio that is no public name."""
    tree, found, modules = ast.parse(source), [], {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named = [alias for alias in node.names if alias.name.split(".")[0] == "nescio"]
            found += [alias.name for alias in named if alias.name != "nescio"]
            modules |= {alias.asname or "nescio": nescio for alias in named}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "nescio":
            door = import_module(node.module) if node.module in DOORS else None
            for alias in node.names:
                if door is None or alias.name not in public_names(door):
                    found.append(f"{node.module}.{alias.name}")
                elif isinstance(value := getattr(door, alias.name), ModuleType):
                    modules[alias.asname or alias.name] = value
    for node in ast.walk(tree):
        *attributes, root = _chain(node)
        module = modules.get(root)
        for name in reversed(attributes):
            if not isinstance(module, ModuleType):
                break
            if name not in public_names(module):
                found.append(f"{module.__name__}.{name}")
                break
            module = getattr(module, name)
    return found


def _chain(node):
    """`["c", "b", "a"]` of `a.b.c`."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [*names, node.id if isinstance(node, ast.Name) else None]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_papers_and_the_docs_use_public_names_alone(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        text = "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    assert inner_names(text) == []


@pytest.mark.parametrize(
    ("source", "inner"),
    [
        ("import nescio.report.table", "nescio.report.table"),
        ("import nescio.report", "nescio.report"),
        ("from nescio.report.table import Table", "nescio.report.table.Table"),
        ("from nescio.report import html", "nescio.report.html"),
        ("from nescio.report import *", "nescio.report.*"),
        ("from nescio.seeds import derived_seed", "nescio.seeds.derived_seed"),
        ("from nescio.errors import _shown", "nescio.errors._shown"),
        ("from nescio.detectors import calibration", "nescio.detectors.calibration"),
        ("def late():\n    from nescio.files import PAGE", "nescio.files.PAGE"),
        ("import nescio as n\nn.seeds.derived_seed(0, 'a', 1)", "nescio.seeds"),
        ("from nescio import metrics as m\nm.percent.percent(0.5)", "nescio.metrics.percent"),
    ],
)
def test_what_is_no_public_name_is_found(source, inner):
    assert set(inner_names(source)) == {inner}


@pytest.mark.parametrize(
    "source",
    [
        "import nescio\nnescio.schedule.Step(at=(0.5,))\nnescio.report.Table('', (), ())",
        "from nescio.detectors import DETECTORS, fit_meta",
        "from nescio.scores import SCORES, score_spec",
        "from nescio.errors import NescioError, unknown_name",
        "import nescios",
    ],
)
def test_public_names_are_allowed(source):
    assert inner_names(source) == []


@pytest.mark.parametrize("door", sorted(DOORS))
def test_every_public_name_is_there_and_described(door):
    module = import_module(door)
    for name in public_names(module):
        value = getattr(module, name)
        if callable(value) and getattr(value, "__module__", "").startswith("nescio"):
            assert value.__doc__, name


def test_names_of_the_report_are_those_that_a_type_checker_sees():
    """They are loaded late, from the modules that its imports for type checkers name."""
    tree = ast.parse(Path(nescio.report.__file__).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    homes = {a.name: i.module for i in imports for a in i.names if "nescio.report" in i.module}
    assert set(homes) == set(nescio.report.__all__)
    for name, home in homes.items():
        assert getattr(nescio.report, name) is getattr(import_module(home), name)
