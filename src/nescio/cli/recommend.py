"""`nescio recommend`: the detector that suits a run."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from nescio.cli.arguments import Folder, Seed, out
from nescio.options import Root


def recommend(
    run: Folder,
    candidates: Annotated[list[str] | None, typer.Option(
        help="Detectors or scores to try; by default all that are quick.", show_default=False)] = None,
    accept: Annotated[float, typer.Option(help="Share of known inputs to accept.")] = 0.95,
    inputs: Annotated[int, typer.Option(help="Known inputs to judge by, and outliers of each kind.", min=10)] = 1000,
    output: Annotated[Path | None, typer.Option(
        "--output", "-o", help="Folder for record and fitted detector; else the run's.", show_default=False)] = None,
    seed: Seed = 0,
    root: Root = None,
) -> None:  # fmt: skip
    """Find the detector that suits a trained model, by known data and outliers made from them alone.

    It is fitted on a half of the test data and saved, for `nescio.load`.

    Example: `nescio recommend run`

    Example: `nescio recommend run --candidates energy entropy combined --accept 0.99 -o found`
    """
    from nescio.recommend import recommend as found_by
    from nescio.report.recommendation import recommendation_table
    from nescio.runs import DETECTOR, RECOMMENDATION, open_run
    from nescio.saving import save

    model, facts = open_run(run)
    known = facts.load(root)
    found = found_by(model, known.test, known.train, accept=accept, candidates=candidates, inputs=inputs, seed=seed)
    out.print(recommendation_table(found.record))
    folder = output or run
    found.record.save(folder / RECOMMENDATION)
    save(found.detector, folder / DETECTOR)
    out.print(f"Saved: {escape(str(folder / RECOMMENDATION))}, {escape(str(folder / DETECTOR))}", soft_wrap=True)
