"""`nescio evaluate`: a run against what it knows, and what it cannot know."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from nescio.cli.arguments import BatchSize, Folder, Force, Scores, Seed, out
from nescio.cli.outputs import check_output
from nescio.errors import NescioError
from nescio.options import Root
from nescio.records import Evaluation
from nescio.report.folded import resisted


def evaluate(
    run: Folder,
    unknown: Annotated[list[str] | None, typer.Option(
        help="Unknown data: held_out, noise (that of paper 2), uniform, normal, permuted, far, adversarial_noise, "
             "adversarial_samples, a data set, a file; one or more.", show_default=False,
    )] = None,
    scores: Scores = None,
    attacked: Annotated[int, typer.Option(help="Inputs that the adversarial sets are tried on.", min=1)] = 1000,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The record; else in the run's folder.")] = None,
    batch_size: BatchSize = 256,
    seed: Seed = 0,
    root: Root = None,
    force: Force = False,
) -> None:  # fmt: skip
    """Judge a trained model by what it knows, and by how it takes what it cannot know.

    Beside the record it writes the inputs that the model was surest and least sure of, for `nescio report`.

    Example: `nescio evaluate run --unknown held_out noise far adversarial_noise`

    Example: `nescio evaluate fashion --unknown mnist notmnist cifar10 --scores entropy gradient_l2 gradient_l2:conv2`
    """
    from nescio.evaluate import evaluate as judge
    from nescio.examples import Extremes
    from nescio.report.tables import evaluation_tables
    from nescio.runs import EVALUATION, EXAMPLES, open_run
    from nescio.unknowns import unknown_sets

    path = output or run / EVALUATION
    extremes = run / EXAMPLES if output is None else path.with_name(f"{path.stem}-{EXAMPLES}")
    model, facts = open_run(run)
    read = [Path(name) for name in (facts.source.name, *(unknown or [])) if Path(name).is_file()]
    for written, kind in ((path, "Evaluation record"), (extremes, "Examples record")):
        check_output(written, kind, read, [run] if output is not None else [], EVALUATION)
    known = facts.load(root)
    sets = unknown_sets(unknown or [], known, root, seed)
    seen = Extremes.of(model, classes=known.classes, features=known.features or None)
    record = judge(
        model, known.test, sets, scores=scores, attacked=attacked, batch_size=batch_size, seed=seed, watch=seen.see
    )
    out.print(evaluation_tables(record))
    lost = _lost(path, record)
    record.save(path)
    seen.record(record.known.name, seed, record.provenance.seconds).save(extremes)
    out.print(f"Saved: {escape(str(path))}, {escape(str(extremes))}", soft_wrap=True)
    if lost:
        out.print(f"The record that this replaced was also of {escape(', '.join(lost))}; `-o` with another file keeps "
                  "both.", soft_wrap=True)  # fmt: skip


def _lost(path: Path, record: Evaluation) -> list[str]:
    """Unknown sets of the record that is to be replaced, if there is one, which the new one has not."""
    try:
        old = Evaluation.load(path)
    except NescioError:  # none, or none that could be lost
        return []
    return [name for name in _sets(old) if name not in _sets(record)]


def _sets(record: Evaluation) -> list[str]:
    """All unknown sets that a record tells of, also those of attacks that came to nothing."""
    return [*(side.name for side in record.unknown), *resisted(record)]
