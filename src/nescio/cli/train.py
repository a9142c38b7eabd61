"""`nescio train`: a classifier, into a run folder."""

import os
import shlex
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from nescio.cli.method_options import method_settings, small_data_hint
from nescio.cli.names import complete
from nescio.cli.options import (
    BatchSize,
    Count,
    Device,
    Force,
    Impute,
    Json,
    Label,
    NeededData,
    OptionalOutput,
    Root,
    Seed,
    more,
    named,
)
from nescio.cli.output import describe_checkpoint, on_interrupt, print_json, show
from nescio.errors import NescioError

MethodName = Annotated[str, typer.Argument(**named("method", "METHODS", metavar="METHOD"))]
NetworkName = Annotated[str, typer.Option(**named("network", "NETWORKS", "auto"))]
Optimizer = Annotated[str, more(metavar="NAME", autocompletion=complete(extra="adam sgd"))]
Schedule = Annotated[str, typer.Option(**named("schedule", "SCHEDULES"))]
Augment = Annotated[
    list[str] | None, typer.Option(**named("augmentation", "AUGMENTATIONS", metavar="NAME..."))
]
Number = Annotated[float, more(metavar="X")]
OptionalCount = Annotated[int | None, more(metavar="N")]
OptionalNumber = Annotated[float | None, more(metavar="X")]

FEW_INPUTS = 1000  # in training; the methods' defaults are their papers', for tens of thousands


def train(
    ctx: typer.Context,
    method: MethodName,
    data: NeededData,
    output: OptionalOutput = None,
    unseen: Annotated[str, typer.Option(metavar="A,B,…")] = "",
    network: NetworkName = "auto",
    epochs: Count = 30,
    learning_rate: Annotated[float, typer.Option(metavar="X")] = 1e-3,
    schedule: Schedule = "constant",
    augment: Augment = None,
    optimizer: Optimizer = "adam",
    momentum: Number = 0.9,
    weight_decay: Number = 0.0,
    dropout: OptionalNumber = None,
    validation: OptionalNumber = None,
    patience: OptionalCount = None,
    checkpoint_every: OptionalCount = None,
    select_on: Annotated[str | None, typer.Option(metavar="SET", hidden=True)] = None,
    label: Label = None,
    impute: Impute = False,
    root: Root = None,
    batch_size: BatchSize = 128,
    seed: Seed = 0,
    device: Device = "cpu",
    json: Json = False,
    force: Force = False,
) -> None:
    """Train a classifier into a folder; resumes if interrupted.

    Args:
        method: One of {METHODS}. Its settings: `nescio train METHOD --help`.
        data: A name, see `nescio data list`, or a path.
        output: Folder of the run; by default DATA-METHOD.
        network: {NETWORKS}.
        dropout: Dropout rate; by default the network's own.
        unseen: Classes to leave out, as unknown data, such as 7,8,9.
        optimizer: adam or sgd.
        learning_rate: Learning rate.
        momentum: Momentum of sgd.
        weight_decay: L2 penalty on the weights.
        schedule: Such as cosine or one_cycle.
        augment: Random changes to images: {AUGMENTATIONS}.
        validation: Fraction of the training data to validate on.
        patience: Stop after so many epochs without improvement.
        checkpoint_every: Steps between additional checkpoints.
        select_on: Unknown data for `--penalty auto` of duq.
        label: Label column of a CSV file; by default the last.

    Examples:
        nescio train softmax --data digits --unseen 7,8,9 -o run
        nescio train ensemble --members 10 --data breast_cancer -o clinic
        nescio train duq --length-scale auto --penalty auto --data digits -o sure
    """
    from nescio.data import NAMES
    from nescio.evaluation.evaluate import evaluate
    from nescio.methods import METHODS
    from nescio.metrics.percent import percent
    from nescio.store.run import Source, default_network, maker, train_run

    # an absolute path, so that the run can be evaluated from another folder
    data = os.path.abspath(data) if os.path.exists(data) and data not in NAMES else data
    if data != data.encode(errors="replace").decode():
        problem = f"the path {data!r} is not valid text"
        raise NescioError(f"{problem}, so a run cannot store it; rename it")
    output = output or Path(f"{Path(data).stem}-{method}")
    classes = tuple(name.strip() for name in unseen.split(",") if name.strip())
    if unseen and not classes:
        raise NescioError(f"--unseen must name classes, such as 7,8,9, got {unseen!r}")
    settings = method_settings(ctx, method)
    if not METHODS[method].on_network and (network != "auto" or dropout is not None):
        raise NescioError(f"{method} has no network inside; leave out --network and --dropout")
    source = Source(data, classes, seed, impute, label)
    known = source.load(root)
    if label is None and known.label is not None and data not in NAMES:
        show(f"Label: column {escape(known.label)!r}, the last one; --label names another")
    network = default_network(known) if network == "auto" else network
    training: dict[str, Any] = {"epochs": epochs, "batch_size": batch_size, "optimizer": optimizer}
    training |= {"learning_rate": learning_rate, "momentum": momentum, "weight_decay": weight_decay}
    training |= {"schedule": schedule, "augment": augment or [], "validation": validation}
    training |= {"patience": patience, "checkpoint_every": checkpoint_every}
    hint = small_data_hint(ctx, method, settings)
    if hint and known.train is not None and len(known.train) < FEW_INPUTS:
        show(f"{len(known.train)} training inputs are few for the defaults of {method}: {hint}")
    with on_interrupt(lambda: describe_checkpoint(output)):
        if "auto" in settings.values() or select_on:
            from nescio.cli.tuned_settings import tune_settings

            make = partial(maker, known, method, network, device, dropout=dropout)
            settings = tune_settings(
                output, known, make, settings, select_on, root, seed, **training
            )
        how = method, network, device, seed, settings, dropout, root
        model, history = train_run(output, source, known, *how, **training)
        test = evaluate(model, known.test, scores=[model.score]).known
    name = f"{method} ({network})" if model.on_network else method
    show(
        f"{name} on {escape(known.name)}: test accuracy [bold]{percent(test.accuracy)}[/] "
        f"({test.inputs} inputs), {len(history.epochs)} epochs, {history.provenance.seconds:.1f} s"
    )
    print_json(history)
    sets = "unseen noise far" if known.unseen is not None else "noise far"
    folder = escape(shlex.quote(str(output)))
    show(f"Next: [cyan]nescio evaluate {folder} --unknown {sets}[/]")
