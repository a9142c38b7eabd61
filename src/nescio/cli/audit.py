"""`nescio audit`: what a run does far away."""

import time
from pathlib import Path
from typing import Annotated

import typer

from nescio.cli.arguments import BatchSize, Folder, Force, Seed, out
from nescio.cli.options import Root, score_in

BUDGET = "60s"


def audit(
    run: Folder,
    features: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns to scale or, of images, positions from 0 (channel by channel, row by row); by default all of a "
            "table, none of images.",
            show_default=False,
        ),
    ] = None,
    scores: Annotated[
        list[str] | None,
        typer.Option(
            "--scores",
            "--score",
            parser=score_in("OF_LOGITS"),
            metavar="NAME",
            show_default=False,
            help="By default max_prob and entropy and, of a model that draws, variance and mutual_information.",
        ),
    ] = None,
    rows: Annotated[
        int, typer.Option(help="Test inputs that are moved feature by feature.", min=1)
    ] = 200,
    trials: Annotated[
        int, typer.Option(help="Inputs drawn in the box of the data, and scaled.", min=1)
    ] = 10_000,
    limit: Annotated[
        int | None,
        typer.Option(
            help="Breakpoints of a ray up to which factors are proved; beyond, they are measured. By default 400.",
            min=0,
            show_default=False,
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            show_default=False,
            help="Time for all of it, such as 60, 60s, 2m or none: as much is proved as fits, and the rest measured, of "
            "fewer rows and trials if even that takes too long. By default 60s, or none with `--limit`.",
        ),
    ] = None,
    scaling: Annotated[
        bool, typer.Option(help="Also measure what scores notice as test inputs are scaled.")
    ] = True,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder for records and figures; else the run's.",
            show_default=False,
        ),
    ] = None,
    batch_size: BatchSize = 1024,
    seed: Seed = 0,
    root: Root = None,
    force: Force = False,
) -> None:
    """Is the model certain of everything far away? Proved where its network is piecewise affine, else measured.

    Inputs drawn in the box of the data are scaled until the model is certain. The rows of a table are also moved along
    each feature by itself, of inputs with two features all linear regions are drawn, and scores are watched as test
    inputs are scaled away.

    Example: `nescio audit run --budget 10m`

    Example: `nescio audit clinic --features "mean radius" "mean area"`
    """
    started = time.monotonic()
    from nescio.audit.budget import Budget, seconds_in
    from nescio.cli.run_audits import audit_run
    from nescio.progress import say
    from nescio.store.run import open_run

    whole = Budget(seconds_in(budget or (BUDGET if limit is None else "none")), started)
    if whole.seconds is not None:
        say(f"this may take {whole.seconds:g} s (--budget)")
    model, facts = open_run(run)
    chosen = (
        features
        if facts.kind == "tabular" or features is None
        else [_position(word) for word in features]
    )
    for shown in audit_run(
        output or run,
        model,
        facts.load(root),
        features=chosen,
        scores=scores,
        rows=rows,
        trials=trials,
        limit=limit,
        budget=whole,
        scaled=scaling,
        batch_size=batch_size,
        seed=seed,
    ):
        out.print(shown, soft_wrap=isinstance(shown, str))


def _position(word: str) -> int | str:
    """A position, if the word is one; int() refuses very long ones."""
    return int(word) if word.isdecimal() and len(word) < 10 else word
