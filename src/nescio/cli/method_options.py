"""Settings of a method as options of `nescio train`, such as `--members 10`."""

import inspect
from typing import Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from nescio.cli.names import names, names_in_source
from nescio.cli.options import Command, described_arguments, styled
from nescio.errors import NescioError, unknown_name

_GIVEN = "nescio.settings"  # where a context keeps the options that are settings of a method
_METHOD = "nescio.method"  # and the method whose help was asked for


class MethodCommand(Command):
    """A command that also takes the settings of its method as options; see `method_settings`.

    Help on a method, as of `nescio train acet --help`, is on its settings.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        if method := ctx.meta.get(_METHOD):
            _print_settings(method, ctx.command_path, _own_options(self))
        else:
            super().format_help(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--help" in args:
            ctx.meta[_METHOD] = next((word for word in args if _is_method(word)), None)
        taken = _own_options(self)
        rest, settings = [], ctx.meta.setdefault(_GIVEN, {})
        words = list(args)
        while words and words[0] != "--":  # what follows are no options
            name, equals, value = words[0].partition("=")
            if not name.startswith("--") or name in taken:
                rest.append(words.pop(0))
                continue
            words.pop(0)
            if not equals:
                value = words.pop(0) if words and _is_value(words[0]) else "true"
            settings[name] = value
        if (
            settings and not ctx.resilient_parsing
        ):  # a misspelt option is reported before what click finds missing
            known = {option for method in names("METHODS") for option in _options(method, taken)}
            for name in (name for name in settings if name not in known):
                raise unknown_name("option", name, known | {word for word in taken if "--" in word})
        return super().parse_args(ctx, rest + words)


def method_settings(ctx: typer.Context, method: str) -> dict[str, Any]:
    """Return the settings of a method among the options; raise an error for those of others."""
    taken = _own_options(ctx.command)
    known = _options(method, taken)
    settings = {}
    for option, text in ctx.meta[_GIVEN].items():
        if option not in known:
            others = [name for name in taken if name.startswith("--")]
            raise unknown_name(f"option (for {method})", option, [*known, *others])
        settings[known[option]] = value = _value(text)
        if value != "auto":
            _check_tunable(option, known[option], value)
    return settings


def small_data_hint(ctx: typer.Context, method: str, settings: dict[str, Any]) -> str:
    """Return options that suit a few hundred inputs better than a method's defaults do, or ""."""
    from nescio.methods import METHODS

    better = METHODS[method].small_data_settings
    options = {name: option for option, name in _options(method, _own_options(ctx.command)).items()}
    words = [f"{options[name]} {better[name]}" for name in better if name not in settings]
    return f"try {' '.join(words)}" if words else ""


def _check_tunable(option: str, name: str, value: Any) -> None:
    """Raise an error that names `auto` for a wrong value of a setting that may be `auto`."""
    from nescio.methods.duq import SIDES

    got = "it has no value" if value is True else f"got {value!r}"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if name in ("length_scale", "gradient_penalty") and not is_number:
        raise NescioError(f"{option} must be a number, or auto to tune it; {got}")
    if name == "penalty" and value not in SIDES:
        raise NescioError(
            f"{option} must be {' or '.join(SIDES)}, or auto to tune its weight; {got}. To set the "
            "weight, use --gradient-penalty"
        )


def _own_options(command: Any) -> set[str]:
    taken = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    return taken | {"--help"}


def _options(method: str, taken: set[str]) -> dict[str, str]:
    """Return the options of a method, and the settings they stand for.

    If the command itself has an option of that name, as `--momentum` is that of sgd, the method's
    name comes first: `--duq-momentum`.
    """
    from nescio.methods import default_settings

    options = {}
    for name in default_settings(method):
        option = f"--{name.replace('_', '-')}"
        options[f"--{method.replace('_', '-')}{option[1:]}" if option in taken else option] = name
    return options


def _is_method(word: str) -> bool:
    """Return whether a word is a method; ours are known without loading them."""
    known = names_in_source("METHODS")
    return word in known or (not word.startswith("-") and word in names("METHODS"))


def _is_value(word: str) -> bool:
    """Return whether a word can be the value of the option before it."""
    negative = word[1:2].isdigit() or word[1:2] == "."
    return (not word.startswith("-") or negative) and word not in names_in_source("METHODS")


def _value(text: str) -> Any:
    """Return a number, true, false, none, or the word itself; a list of them if there are commas.

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


def _print_settings(method: str, program: str, taken: set[str]) -> None:
    """Print the settings of a method with their defaults, described as in its docstring."""
    from nescio.methods import METHODS, default_settings

    defaults, about = default_settings(method), inspect.getdoc(METHODS[method]) or ""
    described, screen = described_arguments(about), Console()
    table = Table.grid(padding=(0, 2))
    for option, name in _options(method, taken).items():
        default = "" if defaults[name] is None else f" (default: {defaults[name]})"
        text = Text(described.get(name, "") + default)
        table.add_row(Text(option, style="bold cyan", no_wrap=True), text)
    usage = f"\n [bold]Usage:[/] {program} {method} --data DATA \\[SETTINGS] \\[OPTIONS]\n"
    screen.print(usage, highlight=False)
    screen.print(Padding(Text(about.partition("\n")[0]), (0, 1, 1, 1), expand=False))
    if defaults:
        title = f"Settings of {method}"
        screen.print(Panel(table, title=title, title_align="left", border_style="dim"))
    if "length_scale" in defaults:
        from nescio.cli.tuned_settings import ABOUT

        screen.print(Padding(styled(ABOUT), (0, 1, 1, 1), expand=False))
    none = "" if defaults else f"{method} has no settings of its own. "
    screen.print(Padding(styled(f"{none}All other options: `{program} --help`."), (0, 1)))
