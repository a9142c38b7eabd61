"""Options of the command line that name things in our tables, which are imported only when they are needed."""

import json
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


_GIVEN = "nescio.settings"  # where a context keeps the options that a method will know


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
            if "{SETTINGS}" in text:
                param.__dict__["help"] = text.replace("{SETTINGS}", _settings_in_words())
        super().format_help(ctx, formatter)


class MethodCommand(Command):
    """A command where the settings of a method are options too, such as `--members 10`; see `settings_given`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        own = {name for param in self.params for name in (*param.opts, *param.secondary_opts)} | {"--help"}
        left, found = [], ctx.meta.setdefault(_GIVEN, {})
        words = list(args)
        while words:
            name, given, value = words[0].partition("=")
            if not name.startswith("--") or name in own or name == "--":
                left.append(words.pop(0))
                continue
            words.pop(0)
            if not given:
                value = words.pop(0) if words and not words[0].startswith("--") else "true"
            found[name] = value
        return super().parse_args(ctx, left)


def settings_given(ctx: typer.Context, method: str) -> dict[str, Any]:
    """The settings of a method among the options of a `MethodCommand`, or an error naming the one it does not have."""
    from nescio.methods import own_settings

    known = {f"--{name.replace('_', '-')}": name for name in own_settings(method)}
    for option in ctx.meta[_GIVEN]:
        if option not in known:
            others = [name for param in ctx.command.params for name in param.opts if name.startswith("--")]
            raise unknown_name(f"option (for {method})", option, [*known, *others])
    return {known[option]: _value(text) for option, text in ctx.meta[_GIVEN].items()}


def _value(text: str) -> Any:
    """A number, true, false or null, several of them between commas, or the word itself."""
    for form in (text.lower(), f"[{text.lower()}]"):
        try:
            return json.loads(form)
        except ValueError:
            continue
    return text


def _settings_in_words() -> str:
    from nescio.methods import METHODS, own_settings

    each = {method: [f"--{name.replace('_', '-')}" for name in own_settings(method)] for method in METHODS}
    return "; ".join(f"{method}: {' '.join(options)}" for method, options in each.items() if options)
