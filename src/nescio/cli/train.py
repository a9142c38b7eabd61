"""`nescio train`: a classifier, into a run folder."""

import os
import shlex
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from nescio.cli.method_options import method_settings
from nescio.cli.options import Count, Force, Impute, OptionalOutput, completion_of, one_of
from nescio.cli.output import describe_checkpoint, on_interrupt, show
from nescio.errors import NescioError
from nescio.metrics.percent import percent

MethodName = Annotated[
    str,
    typer.Argument(
        parser=one_of("method", "METHODS"),
        autocompletion=completion_of("METHODS"),
        metavar="METHOD",
    ),
]
NetworkName = Annotated[
    str,
    typer.Option(
        parser=one_of("network", "NETWORKS", "auto"),
        autocompletion=completion_of("NETWORKS", "auto"),
        metavar="NAME",
    ),
]
Schedule = Annotated[
    str,
    typer.Option(
        parser=one_of("schedule", "SCHEDULES"),
        autocompletion=completion_of("SCHEDULES"),
        metavar="NAME",
    ),
]
Augment = Annotated[
    list[str] | None,
    typer.Option(
        parser=one_of("augmentation", "AUGMENTATIONS"),
        autocompletion=completion_of("AUGMENTATIONS"),
        metavar="NAME...",
    ),
]


def train(
    ctx: typer.Context,
    method: MethodName,
    data: Annotated[str, typer.Option()],
    output: OptionalOutput = None,
    network: NetworkName = "auto",
    dropout: float | None = None,
    unseen: Annotated[str, typer.Option(metavar="A,B,…")] = "",
    epochs: Count = 30,
    batch_size: Count = 128,
    optimizer: str = "adam",
    learning_rate: float = 1e-3,
    momentum: float = 0.9,
    weight_decay: float = 0.0,
    schedule: Schedule = "constant",
    augment: Augment = None,
    validation: float | None = None,
    patience: int | None = None,
    checkpoint_every: int | None = None,
    select_on: Annotated[str | None, typer.Option(metavar="SET")] = None,
    seed: int = 0,
    device: str = "cpu",
    impute: Impute = False,
    label: str | None = None,
    root: str | None = None,
    force: Force = False,
) -> None:
    """Train a classifier into a folder; resumes if interrupted.

    Two settings of duq, `--length-scale` and `--penalty`, may be `auto`: they are then tuned first,
    by trials of a third of `--epochs` (at least 10, or all) that are validated on the fraction
    `--validation` of the training data, by default 0.1.

    Args:
        method: One of {METHODS}. Its settings are options too ({SETTINGS}); `nescio train METHOD
            --help` explains them.
        data: A name from `nescio data list`, a file, or a folder.
        output: Folder of the run; by default DATA-METHOD, such as digits-softmax.
        network: One of {NETWORKS}, or auto: one that suits the data.
        dropout: Dropout rate; by default the network's own, and 0.2 for mc_dropout.
        unseen: Classes to leave out of training, such as 7,8,9; they become unknown data.
        optimizer: adam or sgd.
        learning_rate: Learning rate.
        momentum: Momentum of sgd.
        weight_decay: L2 penalty on the weights.
        schedule: Schedule of the learning rate: {SCHEDULES}.
        augment: Random changes to training images: {AUGMENTATIONS}.
        validation: Fraction of the training data to use for validation.
        patience: Stop after so many epochs without improvement.
        checkpoint_every: Steps between additional checkpoints.
        select_on: Unknown data to tune `--penalty auto` on, as in `nescio evaluate --unknown`; by
            default correct against wrong answers.
        device: Device, such as cpu or cuda.
        label: Label column of a CSV file; by default the last.

    Examples:
        nescio train softmax --data digits --unseen 7,8,9 -o run
        nescio train ensemble --members 10 --data breast_cancer -o clinic
        nescio train softmax --data mnist --network conv3 --schedule one_cycle
        nescio train acet --eps 0.3 --steps 10 --data digits --epochs 20 -o wary
        nescio train ceda --noise notmnist --data mnist --network lenet -o wary
        nescio train duq --length-scale auto --penalty auto --data digits -o sure
    """
    from nescio.data import NAMES
    from nescio.evaluation.evaluate import evaluate
    from nescio.methods import METHODS
    from nescio.store.run import Source, default_network, maker, train_run

    # an absolute path, so that the run can be evaluated from another folder
    data = os.path.abspath(data) if os.path.exists(data) and data not in NAMES else data
    if data != data.encode(errors="replace").decode():
        problem = f"the path {data!r} is not valid text"
        raise NescioError(f"{problem}, so a run cannot store it; rename it")
    output = output or Path(f"{Path(data).stem}-{method}")
    classes = tuple(name.strip() for name in unseen.split(",") if name.strip())
    settings = method_settings(ctx, method)
    if not METHODS[method].on_network and (network != "auto" or dropout is not None):
        raise NescioError(f"{method} has no network inside; leave out --network and --dropout")
    source = Source(data, classes, seed, impute, label)
    known = source.load(root)
    network = default_network(known) if network == "auto" else network
    training: dict[str, Any] = {"epochs": epochs, "batch_size": batch_size, "optimizer": optimizer}
    training |= {"learning_rate": learning_rate, "momentum": momentum, "weight_decay": weight_decay}
    training |= {"schedule": schedule, "augment": augment or [], "validation": validation}
    training |= {"patience": patience, "checkpoint_every": checkpoint_every}
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
    sets = "unseen noise far" if known.unseen is not None else "noise far"
    folder = escape(shlex.quote(str(output)))
    show(f"Next: [cyan]nescio evaluate {folder} --unknown {sets}[/]")
