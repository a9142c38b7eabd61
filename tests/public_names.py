"""Which names are public: those that a door exports."""

import ast
import pkgutil
from pathlib import Path

import nescio

ROOMS = {f"nescio.{part.name}" for part in pkgutil.iter_modules(nescio.__path__) if part.ispkg}
DOORS = {
    "nescio",
    "nescio.errors",
    "nescio.sklearn",
    *ROOMS,
}  # where public names are imported from


def public_names(module):
    """What a module exports: its `__all__`, or what it defines and imports `X as X`."""
    if hasattr(module, "__all__"):
        return set(module.__all__)
    names = set()
    for node in ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            names |= {alias.name for alias in node.names if alias.asname == alias.name}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return {name for name in names if not name.startswith("_")}
