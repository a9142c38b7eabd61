"""`nescio audit`: how confident a run is far from the data."""

import time
from collections.abc import Sequence
from typing import Annotated

import typer

from nescio.cli.options import (
    BatchSize,
    Count,
    Force,
    Json,
    MoreCount,
    OptionalOutput,
    OutputScores,
    Root,
    Run,
    Seed,
    more,
)
from nescio.cli.output import out, print_json

DEFAULT_BUDGET = "60s"


def audit(
    run: Run,
    features: Annotated[list[str] | None, typer.Option(metavar="NAME...")] = None,
    budget: Annotated[str | None, typer.Option(metavar="TIME")] = None,
    trials: Count = 10_000,
    output: OptionalOutput = None,
    rows: MoreCount = 200,
    limit: Annotated[int | None, more(min=0, metavar="N")] = None,
    scores: OutputScores = None,
    scaling: Annotated[bool, more()] = True,
    root: Root = None,
    batch_size: BatchSize = 1024,
    seed: Seed = 0,
    json: Json = False,
    force: Force = False,
) -> None:
    """Check whether a model becomes certain far from the data.

    The answer is proved if the network is piecewise affine, else measured. Random inputs in the box
    of the data are scaled until the model is certain. Rows of a table are also moved along each
    feature, the linear regions of data with two features are drawn, and scores are measured as test
    inputs are scaled.

    Args:
        features: Columns to scale, or positions in an image; by default all of a table.
        scores: Scores to measure, such as entropy and energy.
        rows: Test inputs to move along each feature.
        trials: Random inputs in the box of the data to scale.
        limit: Breakpoints to follow for a proof, by default 400.
        budget: Time for all, such as 60s, 2m or none; what does not fit is measured, not proved.
            By default 60s, or none with `--limit`.
        scaling: Measure which scores change as test inputs are scaled.
        output: Folder for records and figures; by default the run.

    Examples:
        nescio audit run --budget 10m
        nescio audit clinic --features "mean radius" "mean area"
    """
    started = time.monotonic()
    from nescio.audit.budget import Budget, seconds_in
    from nescio.cli.run_audits import RunAudits
    from nescio.progress import say
    from nescio.store.run import open_run

    total = Budget(seconds_in(budget or (DEFAULT_BUDGET if limit is None else "none")), started)
    if total.seconds is not None:
        say(f"this may take {total.seconds:g} s (--budget)")
    model, facts = open_run(run)
    chosen: Sequence[int | str] | None = features
    if features is not None and facts.kind != "tabular":  # positions; int() refuses very long ones
        chosen = [int(word) if word.isdecimal() and len(word) < 10 else word for word in features]
    what, size = (model, facts.load(root), chosen, scores), (rows, trials, limit, total)
    audits = RunAudits(output or run, *what, *size, scaling, batch_size, seed)
    for part in audits.run():
        out.print(part, soft_wrap=isinstance(part, str))
    print_json(**audits.records)
