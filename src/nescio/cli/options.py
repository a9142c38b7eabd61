"""Options that several commands share, and commands whose docstring is their help.

Nothing here imports torch: the tables that options take names from are loaded when needed.
"""

import inspect
import re
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from nescio.cli.names import complete, names_in_source, one_of, score_in
from nescio.cli.output import out
from nescio.files import force_overwrite

MORE = "More options"  # a second panel of the help, for what few need
MAX_IN_ONE_PANEL = 8  # parameters of a command that needs no second panel
_OPEN_LIST = "nescio.list"  # where a context keeps the list option that takes the next word


def more(*names: str, **how: Any) -> Any:
    """Return an option for the second panel of the help."""
    return typer.Option(*names, rich_help_panel=MORE, **how)


def named(kind: str, table: str, *extra: str, **how: Any) -> dict[str, Any]:
    """Return what an option or argument needs whose values are names in a table."""
    completion = complete(table, extra=" ".join(extra))
    parser = one_of(kind, table, *extra)
    return {"parser": parser, "autocompletion": completion, "metavar": "NAME", **how}


def _score(table: str, metavar: str) -> dict[str, Any]:
    return {"parser": score_in(table), "autocompletion": complete(table), "metavar": metavar}


def _force(ctx: typer.Context, value: bool) -> bool:
    """Let all that the command writes replace what is there."""
    if value:
        ctx.with_resource(force_overwrite())
    return value


def _json(ctx: typer.Context, value: bool) -> bool:
    """Let words go to standard error, and leave standard output to the JSON document."""
    out.stderr = value
    ctx.call_on_close(lambda: setattr(out, "stderr", False))
    return value


BatchSize = Annotated[int, more(min=1, metavar="N")]
Candidates = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME...", autocompletion=complete("DETECTORS", "SCORES")),
]
ClassNames = Annotated[str, more(metavar="A,B,…")]
Count = Annotated[int, typer.Option(min=1, metavar="N")]
MoreCount = Annotated[int, more(min=1, metavar="N")]
Data = Annotated[str | None, typer.Option(metavar="DATA", autocompletion=complete("NAMES"))]
Device = Annotated[str, more(metavar="NAME", autocompletion=complete(extra="cpu cuda mps"))]
Folder = Annotated[Path | None, typer.Argument(metavar="FOLDER")]
Force = Annotated[bool, more("--force", callback=_force)]
Impute = Annotated[bool, more("--impute")]
Json = Annotated[bool, more("--json", callback=_json)]
Label = Annotated[str | None, more(metavar="NAME")]
Model = Annotated[str | None, typer.Option(metavar="MODULE:NAME")]
NeededData = Annotated[
    str, typer.Option("--data", metavar="DATA", autocompletion=complete("NAMES"))
]
OptionalRun = Annotated[Path | None, typer.Argument(metavar="RUN")]
OptionalOutput = Annotated[Path | None, typer.Option("--output", "-o")]
Output = Annotated[Path, typer.Option("--output", "-o")]
OutputScores = Annotated[
    list[str] | None, typer.Option("--scores", "--score", **_score("OF_LOGITS", "NAME..."))
]
Root = Annotated[str | None, more(metavar="FOLDER")]
Run = Annotated[Path, typer.Argument(metavar="RUN")]
Score = Annotated[str | None, typer.Option(**_score("SCORES", "NAME"))]
Scores = Annotated[
    list[str] | None, typer.Option("--scores", "--score", **_score("SCORES", "NAME..."))
]
Seed = Annotated[int, more(metavar="N")]
Train = Annotated[Path | None, typer.Option(metavar="DATA")]
Unknown = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SET...",
        autocompletion=complete("SYNTHETIC", "ADVERSARIAL", "NAMES", extra="unseen"),
    ),
]
Weights = Annotated[Path | None, typer.Option(metavar="FILE")]
# of options that mean the same in every command whose docstring does not say otherwise
SHARED = """
Args:
    batch_size: Batch size.
    candidates: Detectors or scores to try; by default all fast ones.
    class_names: Names of the network's outputs, in order.
    data: Known inputs not used in training; by default the run's test data.
    device: Device, such as cpu or cuda.
    epochs: Passes over the training data.
    folder: A folder written by `nescio train`, `fit` or `recommend`, in place of `--model`.
    force: Also overwrite files that nescio did not write.
    impute: Fill in missing values of a table.
    json: Print the result as JSON; words go to standard error.
    label: Label column of a CSV file; without it all are features.
    model: Your network, such as `my_nets:make_net`; this code is run.
    root: Folder of the data sets; by default `$NESCIO_DATA`.
    run: A folder written by `nescio train`.
    scores: Such as entropy or gradient_l2:conv2; by default those of the outputs.
    seed: Random seed.
    train: Data to learn from; by default the run's, or part of `--data`.
    unknown: Unknown data: one or more names, files or folders.
    weights: Weights of your network, in safetensors.
"""


def described_arguments(docstring: str) -> dict[str, str]:
    r"""Return what a docstring says of each argument.

    >>> described_arguments("Args:\n    eps: radius\n        of the ball.\n    steps: many.")
    {'eps': 'radius of the ball.', 'steps': 'many.'}
    """
    described: dict[str, str] = {}
    name = ""
    for line in docstring.partition("Args:\n")[2].splitlines():
        if match := re.match(r"    (\w+): (.*)", line):
            name, described[match[1]] = match[1], match[2]
        elif name and line.startswith("        "):
            described[name] += f" {line.strip()}"
    return described


def styled(text: str) -> str:
    """Return text for the help as markup of rich's, with what stands in backquotes in colour.

    Only blank lines separate: the terminal decides where to break a paragraph.

    >>> styled("see `nescio data list`")
    'see [cyan]nescio data list[/]'
    """
    paragraphs = re.sub(r"(?<!\n)\n(?!\n)", " ", text.strip())
    return re.sub(r"`([^`]+)`", r"[cyan]\1[/]", escape(paragraphs))


def _list_names(param: Any) -> list[str]:
    return list(param.opts) if getattr(param, "multiple", False) else []


class Command(TyperCommand):
    """A command whose docstring is its help, and whose list options take all words that follow.

    `Args:` describes the options, with the names in a table of `TABLES` for `{TABLE}`; lines under
    `Examples:` are shown last.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        text, _, examples = (self.help or "").partition("\nExamples:\n")
        self.help = styled(text.partition("\nArgs:\n")[0])
        self.examples = inspect.cleandoc(examples).splitlines()
        described = described_arguments(SHARED) | described_arguments(text)
        params: Any = self.params
        for param in params:
            param.help = param.help or styled(described.get(param.name, ""))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        lists = {name: param for param in self.params for name in _list_names(param)}
        spread: list[str] = []
        current = None
        for word in args:
            if word.startswith("-") and len(word) > 1:
                name = word.split("=", 1)[0]
                current = name if name in lists else None
            elif current is not None and spread[-1] != current:  # not the option's own first word
                spread.append(current)
            spread.append(word)
        ctx.meta[_OPEN_LIST] = lists.get(current or "")
        return super().parse_args(ctx, spread)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Complete a further word of a list as its first, and else an option."""
        if ctx.meta.get(_OPEN_LIST) and not incomplete.startswith("-"):
            return ctx.meta[_OPEN_LIST].shell_complete(ctx, incomplete)
        return super().shell_complete(ctx, incomplete)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        params: Any = self.get_params(ctx)
        for param in params:
            for table in re.findall(r"{(\w+)}", param.help or ""):
                param.help = param.help.replace(f"{{{table}}}", self.listed(table))
            if len(params) <= MAX_IN_ONE_PANEL:
                param.rich_help_panel = None
            elif param.name == "help":
                param.rich_help_panel = MORE
        _hide_flag_types(params)
        super().format_help(ctx, formatter)
        if self.examples:
            Console().print(" Examples", style="bold")
            for line in self.examples:
                Console().print(Padding(Text(line, style="cyan"), (0, 0, 0, 3), expand=False))

    def listed(self, table: str) -> str:
        """Return the names in a table, for the help."""
        return ", ".join(names_in_source(table))


class Group(TyperGroup):
    """A group of commands."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _hide_flag_types(self.get_params(ctx))
        super().format_help(ctx, formatter)


def _hide_flag_types(params: Any) -> None:
    """Do not let the help say `<bool>` of options that take no value."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
