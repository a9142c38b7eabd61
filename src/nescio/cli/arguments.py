"""Arguments and options that several commands share, and where all of them print."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from nescio.cli.options import score_in
from nescio.files import force_overwrite

out, err = Console(), Console(stderr=True)


def _force(ctx: typer.Context, given: bool) -> bool:
    """Let all that the command writes replace what is there; no command need hand it on."""
    if given:
        ctx.with_resource(force_overwrite())
    return given


Force = Annotated[
    bool,
    typer.Option(
        "--force",
        callback=_force,
        help="Also replace files that nescio did not write, or of other kinds; folders that hold such are left alone.",
    ),
]
Folder = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="A folder written by `nescio train`.", show_default=False),
]
Seed = Annotated[int, typer.Option(help="Decides everything random.")]
Scores = Annotated[
    list[str] | None,
    typer.Option(
        "--scores",
        "--score",
        parser=score_in("SCORES"),
        metavar="NAME",
        show_default=False,
        help="By default all of {OF_LOGITS} that fit the model; also {GRADIENT}, for the whole network or, as "
        "in `gradient_l2:conv2`, for a layer.",
    ),
]
Impute = Annotated[bool, typer.Option("--impute", help="Fill in missing values of a table.")]
Label = Annotated[str | None, typer.Option(help="The label column of a CSV file; else its last.")]
BatchSize = Annotated[int, typer.Option(help="Inputs at a time.", min=1)]
