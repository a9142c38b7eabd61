"""Options of the command line that name things in our tables, which are imported only when they are needed."""

import inspect
import re
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from nescio.errors import NescioError, unknown_name

TABLES = {
    "DETECTORS": "nescio.detectors",
    "METHODS": "nescio.methods",
    "NETWORKS": "nescio.models",
    "SCORES": "nescio.scores",
    "OF_LOGITS": "nescio.scores",
    "GRADIENT": "nescio.scores",
    "SCHEDULES": "nescio.training.schedule",
    "AUGMENTATIONS": "nescio.data.transforms",
}
Root = Annotated[
    str | None,
    typer.Option(help="Folder of the data files; else $NESCIO_DATA, else the user's cache."),
]


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


def score_in(table: str) -> Callable[[str], str]:
    """A parser of scores in a table; with parameters, or a layer: `gradient_l2:conv2`."""

    def parse(given: str) -> str:
        from nescio import scores

        try:
            return str(scores.score_spec(given, getattr(scores, table)))
        except NescioError as error:
            raise typer.BadParameter(str(error)) from error

    return parse


_GIVEN = "nescio.training.settings"  # where a context keeps the options that a method will know
_ASKED = "nescio.method"  # and the method whose help was asked for


class Command(TyperCommand):
    """A command whose list options take all words that follow, and whose help names what is in our tables."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        many = {
            name
            for param in self.params
            if getattr(param, "multiple", False)
            for name in param.opts
        }
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
                param.__dict__["help"] = text.replace("{SETTINGS}", _settings_in_words(_own(self)))
        super().format_help(ctx, formatter)


class MethodCommand(Command):
    """A command where the settings of a method are options too, such as `--members 10`; see `settings_given`.

    Its help, asked for with a method, ends with what that method's settings mean.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        if method := ctx.meta.get(_ASKED):
            _print_settings(method, _own(self))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[_ASKED] = (
            next((word for word in args if word in names("METHODS")), None)
            if "--help" in args
            else None
        )
        own = _own(self)
        left, found = [], ctx.meta.setdefault(_GIVEN, {})
        words = list(args)
        while words:
            name, given, value = words[0].partition("=")
            if name == "--":  # all that follows are no options
                left += words
                break
            if not name.startswith("--") or name in own:
                left.append(words.pop(0))
                continue
            words.pop(0)
            if not given:
                value = words.pop(0) if words and _is_value(words[0]) else "true"
            found[name] = value
        if found:  # what is no option of any method is told before what click finds missing
            known = {option for method in names("METHODS") for option in _options(method, own)}
            for name in found:
                if name not in known:
                    raise unknown_name(
                        "option", name, known | {name for name in own if name.startswith("--")}
                    )
        return super().parse_args(ctx, left)


def _is_value(word: str) -> bool:
    """Whether a word can be the value of an option before it: no other option (but a negative number), no method."""
    negative = word[1:2].isdigit() or word[1:2] == "."
    return (not word.startswith("-") or negative) and word not in names("METHODS")


def settings_given(ctx: typer.Context, method: str) -> dict[str, Any]:
    """The settings of a method among the options of a `MethodCommand`, or an error naming the one it does not have."""
    known = _options(method, _own(ctx.command))
    for option in ctx.meta[_GIVEN]:
        if option not in known:
            others = [
                name for param in ctx.command.params for name in param.opts if name.startswith("--")
            ]
            raise unknown_name(f"option (for {method})", option, [*known, *others])
    settings = {}
    for option, text in ctx.meta[_GIVEN].items():
        settings[known[option]] = value = _value(text)
        if value != "auto":
            _check_findable(option, known[option], value)
    return settings


def _check_findable(option: str, name: str, value: Any) -> None:
    """An error if a setting that may be `auto` is no value either; the method's own would not know of that word."""
    from nescio.methods.duq import SIDES

    given = f"{option} has no value" if value is True else f"{option} is {value!r}"
    if name in ("length_scale", "gradient_penalty") and (
        isinstance(value, bool) or not isinstance(value, int | float)
    ):
        raise NescioError(f"{given}; it must be a number, or auto, which finds one")
    if name == "penalty" and value not in SIDES:
        raise NescioError(
            f"{given}; it must be {' or '.join(SIDES)}, or auto, which finds its weight. A weight of "
            "your own is --gradient-penalty"
        )


def _own(command: Any) -> set[str]:
    """The options of a command itself."""
    return {name for param in command.params for name in (*param.opts, *param.secondary_opts)} | {
        "--help"
    }


def _options(method: str, taken: set[str]) -> dict[str, str]:
    """The options of a method, and the settings they stand for.

    Where the command has taken an option for itself, as `--momentum` is that of sgd, the method's has its name in it:
    `--duq-momentum`.
    """
    from nescio.methods import default_settings

    plain = {name: name.replace("_", "-") for name in default_settings(method)}
    prefix = method.replace("_", "-")
    return {
        f"--{prefix}-{word}" if f"--{word}" in taken else f"--{word}": name
        for name, word in plain.items()
    }


def _value(text: str) -> Any:
    """A number, true, false, none, or the word itself; a list of them if there are commas.

    >>> _value("3"), _value(".25,1,1e-2"), _value("False"), _value("uniform")
    (3, [0.25, 1, 0.01], False, 'uniform')
    """
    if "," in text:
        return [_value(part) for part in text.split(",")]
    words = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _settings_in_words(taken: set[str]) -> str:
    each = {method: _options(method, taken) for method in names("METHODS")}
    return "; ".join(
        f"{method}: {' '.join(options)}" for method, options in each.items() if options
    )


def _print_settings(method: str, taken: set[str]) -> None:
    """The settings of a method with their defaults, in the words of its docstring."""
    from rich.console import Console
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    from nescio.methods import METHODS, default_settings

    defaults, words = default_settings(method), _arguments(inspect.getdoc(METHODS[method]) or "")
    if not defaults:
        return
    table = Table.grid(padding=(0, 2))
    for option, name in _options(method, taken).items():
        default = "" if defaults[name] is None else f" (default: {defaults[name]})"
        table.add_row(
            Text(option, style="bold cyan", no_wrap=True), Text(words.get(name, "") + default)
        )
    Console().print(
        Panel(table, title=f"Settings of {method}", title_align="left", border_style="dim")
    )


def _arguments(docstring: str) -> dict[str, str]:
    r"""What a docstring says of each argument.

    >>> _arguments("Args:\n    eps: radius\n        of the ball.\n    steps: many.")
    {'eps': 'radius of the ball.', 'steps': 'many.'}
    """
    found: dict[str, str] = {}
    name = ""
    for line in docstring.partition("Args:\n")[2].splitlines():
        if match := re.match(r"    (\w+): (.*)", line):
            name, found[match[1]] = match[1], match[2]
        elif name and line.startswith("        "):
            found[name] += f" {line.strip()}"
    return found
