"""`nescio audit`: how confident a run is far from the data."""

import time
from collections.abc import Sequence
from typing import Annotated

import typer

from nescio.cli.options import Count, Force, OptionalOutput, OutputScores, Run
from nescio.cli.output import out

DEFAULT_BUDGET = "60s"


def audit(
    run: Run,
    features: Annotated[list[str] | None, typer.Option(metavar="NAME...")] = None,
    scores: OutputScores = None,
    rows: Count = 200,
    trials: Count = 10_000,
    limit: Annotated[int | None, typer.Option(min=0, metavar="N")] = None,
    budget: Annotated[str | None, typer.Option(metavar="TIME")] = None,
    scaling: bool = True,
    output: OptionalOutput = None,
    batch_size: Count = 1024,
    seed: int = 0,
    root: str | None = None,
    force: Force = False,
) -> None:
    """Check whether a model becomes certain far from the data.

    The answer is proved if the network is piecewise affine, else measured. Random inputs in the box
    of the data are scaled until the model is certain. Rows of a table are also moved along each
    feature, the linear regions of data with two features are drawn, and scores are measured as test
    inputs are scaled.

    Args:
        features: Columns to scale or, for images, positions from 0 (by channel, then row); by
            default all of a table, none of images.
        scores: By default max_prob and entropy and, for stochastic methods, also variance and
            mutual_information.
        rows: Test inputs to move along each feature.
        trials: Random inputs in the box of the data to scale.
        limit: Breakpoints of a ray to follow for a proof; what lies beyond is measured. By default
            400.
        budget: Time for all audits, such as 60, 60s, 2m or none: what fits is proved, the rest is
            measured, with fewer rows and trials if needed. By default 60s, or none with `--limit`.
        scaling: Also measure which scores change as test inputs are scaled.
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
    for part in RunAudits(output or run, *what, *size, scaling, batch_size, seed).run():
        out.print(part, soft_wrap=isinstance(part, str))
