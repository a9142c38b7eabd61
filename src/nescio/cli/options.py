"""Options that several commands share, and commands whose docstring is their help.

Nothing here imports torch: the tables that options take names from are loaded when needed.
"""

import inspect
import re
import shlex
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from nescio.errors import NescioError, unknown_name
from nescio.files import force_overwrite

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


def names(table: str) -> list[str]:
    """Return the names in one of our tables."""
    return list(getattr(import_module(TABLES[table]), table))


def one_of(kind: str, table: str, *extra: str) -> Callable[[str], str]:
    """Return a parser of names in a table, whose error suggests the nearest ones."""

    def parse(word: str) -> str:
        known = [*extra, *names(table)]
        if table == "DETECTORS" and word.partition(":")[0] in names("SCORES"):
            advice = f"use --score {word}, which fits a threshold on it"
            raise typer.BadParameter(f"{word!r} is a score, not a detector; {advice}")
        if word not in known:
            raise typer.BadParameter(str(unknown_name(kind, word, known)))
        return word

    return parse


def completion_of(table: str, *extra: str) -> Callable[[str], list[str]]:
    """Return what completes a name in a table, for a shell."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in (*extra, *names(table)) if name.startswith(incomplete)]

    return complete


def score_in(table: str) -> Callable[[str], str]:
    """Return a parser of scores in a table, such as `gen(gamma=0.1)` or `gradient_l2:conv2`."""

    def parse(word: str) -> str:
        from nescio import scores

        try:
            return str(scores.score_spec(word, getattr(scores, table)))
        except NescioError as error:
            raise typer.BadParameter(str(error)) from error

    return parse


def _scores_option(table: str) -> Any:
    how: dict[str, Any] = {"parser": score_in(table), "autocompletion": completion_of(table)}
    return typer.Option("--scores", "--score", metavar="NAME...", **how)


def _force(ctx: typer.Context, value: bool) -> bool:
    """Let all that the command writes replace what is there."""
    if value:
        ctx.with_resource(force_overwrite())
    return value


Candidates = Annotated[list[str] | None, typer.Option(metavar="NAME...")]
Count = Annotated[int, typer.Option(min=1, metavar="N")]
Force = Annotated[bool, typer.Option("--force", callback=_force)]
Impute = Annotated[bool, typer.Option("--impute")]
Output = Annotated[Path, typer.Option("--output", "-o")]
OptionalOutput = Annotated[Path | None, typer.Option("--output", "-o")]
Run = Annotated[Path, typer.Argument(metavar="RUN")]
Score = Annotated[
    str | None,
    typer.Option(parser=score_in("SCORES"), metavar="NAME", autocompletion=completion_of("SCORES")),
]
Unknown = Annotated[list[str] | None, typer.Option(metavar="SET...")]
Scores = Annotated[list[str] | None, _scores_option("SCORES")]
OutputScores = Annotated[list[str] | None, _scores_option("OF_LOGITS")]
# of options that mean the same in every command whose docstring does not say otherwise
SHARED = """
Args:
    batch_size: Batch size.
    candidates: Detectors or scores to try; by default all fast ones.
    class_names: Names of the network's outputs, in order; by default those of the data.
    data: Known inputs that the network was not trained on: npz, CSV or a folder of images; by
        default the run's test data.
    epochs: Passes over the training data.
    folder: A folder written by `nescio train`, `fit` or `recommend`, in place of `--model`.
    force: Also overwrite files that nescio did not write, or of another kind; folders that contain
        such files are never replaced.
    impute: Fill in missing values of a table.
    label: Label column of a CSV file; without it all columns are features.
    model: Your network as MODULE:NAME, such as `my_nets:make_net`: a function or class to call
        without arguments, or a module; the current folder is searched too. This code is executed.
    root: Folder of the data sets; by default `$NESCIO_DATA`, or the user's cache.
    run: A folder written by `nescio train`.
    scores: By default all of {OF_LOGITS} that suit the model; also {GRADIENT}, over all weights or
        those of one layer, as in `gradient_l2:conv2`.
    seed: Random seed.
    train: Data for a detector that learns more than a threshold, such as the network's training
        data; by default the run's training data, or a part of the known inputs.
    unknown: Unknown data, one or more names, files or folders, as in `nescio evaluate`.
    weights: Weights of your network, in safetensors; by default those it is created with.
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


class Command(TyperCommand):
    """A command whose docstring is its help, and whose list options take all words that follow.

    `Args:` describes the options, with the names in a table of `TABLES` for `{TABLE}`; lines under
    `Examples:` are shown last.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        text, _, examples = (self.help or "").partition("\nExamples:\n")
        self.help = text.partition("\nArgs:\n")[0]
        self.examples = inspect.cleandoc(examples).splitlines()
        described = described_arguments(SHARED) | described_arguments(text)
        params: Any = self.params
        for param in params:
            param.help = param.help or described.get(param.name)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        lists = [param for param in self.params if getattr(param, "multiple", False)]
        list_options = {name for param in lists for name in param.opts}
        spread: list[str] = []
        current = None
        for word in args:
            if word.startswith("-") and len(word) > 1:
                name = word.split("=", 1)[0]
                current = name if name in list_options else None
            elif current is not None and spread[-1] != current:  # not the option's own first word
                spread.append(current)
            spread.append(word)
        return super().parse_args(ctx, spread)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        params: Any = self.get_params(ctx)
        for param in params:
            for table in re.findall(r"{(\w+)}", param.help or ""):
                param.help = param.help.replace(f"{{{table}}}", self.listed(table))
        _hide_flag_types(params)
        super().format_help(ctx, formatter)
        if self.examples:
            Console().print(" Examples", style="bold")
            for line in self.examples:
                Console().print(Padding(Text(line, style="cyan"), (0, 0, 0, 3), expand=False))

    def listed(self, table: str) -> str:
        """Return the names in a table, for the help."""
        return ", ".join(names(table))


class Group(TyperGroup):
    """A group of commands."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] == "reproduce":  # a command of 0.1
            words = shlex.join(["python", "-m", "papers", *args[1:]])
            raise NescioError(f"`nescio reproduce` is now `{words}`, run in nescio's repository")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _hide_flag_types(self.get_params(ctx))
        super().format_help(ctx, formatter)


def _hide_flag_types(params: Any) -> None:
    """Do not let the help say `<bool>` of options that take no value."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
