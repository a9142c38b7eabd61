"""`nescio contest`: every detector against unknown data."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from nescio.cli.arguments import BatchSize, Force, Seed, out
from nescio.cli.network import ClassNames, Judged, Label, Model, Network, OrFitted, Train, Weights
from nescio.cli.options import Root
from nescio.cli.outputs import check_output


def contest(
    folder: OrFitted = None,
    model: Model = None,
    weights: Weights = None,
    data: Judged = None,
    train: Train = None,
    unknown: Annotated[
        list[str] | None,
        typer.Option(
            help="Sets of unknown data, one or more: names, files or folders; see `nescio evaluate`.",
            show_default=False,
        ),
    ] = None,
    candidates: Annotated[
        list[str] | None,
        typer.Option(
            help="Detectors or scores to try; by default all that are quick.", show_default=False
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder for the record and a table; else the run's, or this one.",
            show_default=False,
        ),
    ] = None,
    label: Label = None,
    class_names: ClassNames = "",
    batch_size: BatchSize = 1024,
    seed: Seed = 0,
    root: Root = None,
    force: Force = False,
) -> None:
    """Detectors on a trained network, against unknown data: AUROC, FPR95, and how long they take.

    Each is fitted on a half of the known data, those that learn on the training data, and judged by the other half. Of
    the folder of a detector the network is taken.

    Example: `nescio contest run --unknown unseen noise`

    Example: `nescio contest run --unknown mnist omniglot --candidates energy mahalanobis knn -o found`

    Example: `nescio contest --model my_nets:make_net --weights w.safetensors --data test.npz --unknown other.npz noise`
    """
    from nescio.detectors import Detector
    from nescio.evaluation.contest import contest as held
    from nescio.evaluation.unknown_sets import set_names, unknown_set
    from nescio.files import PAGE
    from nescio.report.ranking import ranking_table, ranking_tables
    from nescio.report.table import save_markdown
    from nescio.store.detector_folder import is_fitted, plain_attention
    from nescio.store.run import CONTEST

    if not unknown:
        raise typer.BadParameter("name at least one set of unknown data", param_hint="--unknown")
    place = output or (Path() if folder is None or is_fitted(folder) else folder)
    check_output(place / CONTEST, "Contest record")
    check_output(place / "contest.md", PAGE)
    subject = Network(folder, model, weights, data, train, label, class_names, root).subject(
        "contest"
    )
    known = subject.known
    sets = {
        name: unknown_set(word, known, root, seed, subject.read)
        for name, word in set_names(unknown).items()
    }
    net = subject.model.model if isinstance(subject.model, Detector) else subject.model
    with plain_attention():
        record = held(
            net,
            subject.test,
            sets,
            known.train,
            candidates=candidates,
            batch_size=batch_size,
            seed=seed,
        )
    out.print(ranking_tables(record))
    record.save(place / CONTEST)
    save_markdown(ranking_table(record).markdown(), place / "contest.md")
    out.print(
        f"Saved: {escape(str(place / CONTEST))}, {escape(str(place / 'contest.md'))}",
        soft_wrap=True,
    )
