"""`nescio contest`: every detector against unknown data."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from nescio.cli.arguments import BatchSize, Folder, Force, Seed, out
from nescio.cli.outputs import check_output
from nescio.options import Root


def contest(
    run: Folder,
    unknown: Annotated[list[str], typer.Option(
        help="Sets of unknown data: names, files or folders; see `nescio evaluate`.", show_default=False)],
    candidates: Annotated[list[str] | None, typer.Option(
        help="Detectors or scores to try; by default all that are quick.", show_default=False)] = None,
    output: Annotated[Path | None, typer.Option(
        "--output", "-o", help="Folder for the record and a table; else the run's.", show_default=False)] = None,
    batch_size: BatchSize = 1024,
    seed: Seed = 0,
    root: Root = None,
    force: Force = False,
) -> None:  # fmt: skip
    """Detectors on a trained model, against unknown data: AUROC, FPR95, and how long they take.

    Each is fitted on a half of the test data, those that learn on the training data, and judged by the other half.

    Example: `nescio contest run --unknown held_out noise`

    Example: `nescio contest run --unknown mnist omniglot --candidates energy mahalanobis knn -o found`
    """
    from nescio.contest import contest as held
    from nescio.marks import PAGE
    from nescio.report.contest import contest_markdown, contest_table
    from nescio.report.markdown import save_markdown
    from nescio.runs import CONTEST, open_run
    from nescio.unknowns import set_names, unknown_set

    folder = output or run
    check_output(folder / CONTEST, "Contest record")
    check_output(folder / "contest.md", PAGE)
    model, facts = open_run(run)
    known = facts.load(root)
    sets = {name: unknown_set(word, known, root, seed) for name, word in set_names(unknown).items()}
    record = held(model, known.test, sets, known.train, candidates=candidates, batch_size=batch_size, seed=seed)
    out.print(contest_table(record))
    record.save(folder / CONTEST)
    save_markdown(contest_markdown(record), folder / "contest.md")
    out.print(f"Saved: {escape(str(folder / CONTEST))}, {escape(str(folder / 'contest.md'))}", soft_wrap=True)
