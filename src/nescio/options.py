"""Options of the command line that name things in our tables, which are imported only when they are needed."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand

from nescio.errors import unknown_name

TABLES = {
    "METHODS": "nescio.methods",
    "NETWORKS": "nescio.models",
    "SCORES": "nescio.scores",
    "SCHEDULES": "nescio.schedule",
    "AUGMENTATIONS": "nescio.data.augment",
}


def names(table: str) -> list[str]:
    """The names in one of our tables, whose module is only imported now."""
    return list(getattr(import_module(TABLES[table]), table))


def one_of(kind: str, table: str, *extra: str) -> Callable[[str], str]:
    """A parser of names in a table, with the nearest ones in its error."""

    def parse(given: str) -> str:
        known = [*extra, *names(table)]
        if given not in known:
            raise typer.BadParameter(str(unknown_name(kind, given, known)))
        return given

    return parse


class Command(TyperCommand):
    """A command whose list options take all words that follow, and whose help names what is in our tables."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        many = {name for param in self.params if getattr(param, "multiple", False) for name in param.opts}
        spread: list[str] = []
        current = None
        for word in args:
            if word.startswith("-") and len(word) > 1:
                name = word.split("=", 1)[0]
                current = name if name in many else None
            elif current is not None and spread[-1] != current:  # not the option's own first word
                spread.append(current)
            spread.append(word)
        return super().parse_args(ctx, spread)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for param in self.params:
            text = getattr(param, "help", None) or ""
            for table in TABLES:
                if (mark := f"{{{table}}}") in text:
                    param.__dict__["help"] = text = text.replace(mark, ", ".join(names(table)))
        super().format_help(ctx, formatter)
