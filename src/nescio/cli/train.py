"""`nescio train`: a classifier into a folder."""

import os
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from nescio.cli import stopped
from nescio.cli.arguments import BatchSize, Force, Impute, Label, Seed, out
from nescio.cli.options import Root, one_of, settings_given
from nescio.errors import NescioError
from nescio.metrics.percent import percent


def train(
    ctx: typer.Context,
    method: Annotated[
        str,
        typer.Argument(
            parser=one_of("method", "METHODS"),
            metavar="METHOD",
            show_default=False,
            help="The way to train: {METHODS}. Its settings are options too, which `nescio train METHOD --help` explains "
            "({SETTINGS}).",
        ),
    ],
    data: Annotated[
        str,
        typer.Option(help="A name of `nescio data list`, or a file or folder.", show_default=False),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder of the run; else DATA-METHOD: digits-softmax.",
            show_default=False,
        ),
    ] = None,
    network: Annotated[
        str,
        typer.Option(
            parser=one_of("network", "NETWORKS", "auto"),
            metavar="NAME",
            help="{NETWORKS}, or auto: one that suits the data.",
        ),
    ] = "auto",
    dropout: Annotated[
        float | None,
        typer.Option(
            help="Share of units a network drops; by default its own, and 0.2 for mc_dropout.",
            show_default=False,
        ),
    ] = None,
    unseen: Annotated[
        str, typer.Option(help="Classes not to learn, such as 7,8,9; they become unknown data.")
    ] = "",
    epochs: Annotated[int, typer.Option(help="Passes over the training data.", min=1)] = 30,
    batch_size: BatchSize = 128,
    optimizer: Annotated[str, typer.Option(help="adam or sgd.")] = "adam",
    learning_rate: Annotated[float, typer.Option(help="Of the optimizer.")] = 1e-3,
    momentum: Annotated[float, typer.Option(help="Of sgd.")] = 0.9,
    weight_decay: Annotated[float, typer.Option(help="L2 penalty on the weights.")] = 0.0,
    schedule: Annotated[
        str,
        typer.Option(
            parser=one_of("schedule", "SCHEDULES"),
            metavar="NAME",
            help="How the learning rate moves: {SCHEDULES}.",
        ),
    ] = "constant",
    augment: Annotated[
        list[str] | None,
        typer.Option(
            parser=one_of("augmentation", "AUGMENTATIONS"),
            metavar="NAME",
            show_default=False,
            help="Random changes to training images: {AUGMENTATIONS}.",
        ),
    ] = None,
    validation: Annotated[
        float | None, typer.Option(help="Share of the training data to set aside.")
    ] = None,
    patience: Annotated[
        int | None, typer.Option(help="Stop after so many epochs without a gain.")
    ] = None,
    checkpoint_every: Annotated[
        int | None, typer.Option(help="Steps between extra checkpoints.")
    ] = None,
    select_on: Annotated[
        str | None,
        typer.Option(
            metavar="UNKNOWN",
            show_default=False,
            help="Unknown data that `--penalty auto` chooses by, as in `nescio evaluate --unknown`; else by right against "
            "wrong answers.",
        ),
    ] = None,
    seed: Seed = 0,
    device: Annotated[str, typer.Option(help="Where to compute: cpu, cuda, …")] = "cpu",
    impute: Impute = False,
    label: Label = None,
    root: Root = None,
    force: Force = False,
) -> None:
    """Train a classifier into a folder. Started again, a run that was cut off goes on where it stood.

    The two settings of duq that must suit the data are found first if they are `auto`: it is trained with each of some
    values, a third of `--epochs` long (but 10 at least, or all), and judged on the share `--validation` (0.1 if not
    given) of the training data.

    Example: `nescio train softmax --data digits --unseen 7,8,9 -o run`

    Example: `nescio train ensemble --members 10 --data breast_cancer -o clinic`

    Example: `nescio train softmax --data fashion_mnist --network conv3 --epochs 10 --schedule one_cycle -o fashion`

    Example: `nescio train acet --eps 0.3 --steps 10 --data digits --epochs 20 -o wary`

    Example: `nescio train ceda --noise notmnist --data mnist --network lenet -o wary`

    Example: `nescio train duq --length-scale auto --penalty auto --data digits --network mlp --unseen 8,9 -o sure`
    """
    from nescio.data import NAMES
    from nescio.evaluation.evaluate import evaluate as judge
    from nescio.methods import METHODS
    from nescio.store.run import Source, default_network, train_run

    # a path is kept whole, so that the run can be judged from another folder
    data = os.path.abspath(data) if os.path.exists(data) and data not in NAMES else data
    if data != data.encode(errors="replace").decode():
        raise NescioError(
            f"the name {data!r} is no text, by which the run could find its data again; rename it"
        )
    output = output or Path(f"{Path(data).stem}-{method}")
    held = tuple(name.strip() for name in unseen.split(",") if name.strip())
    own = settings_given(ctx, method)
    if not METHODS[method].on_network and (network != "auto" or dropout is not None):
        raise NescioError(f"{method} has no network within; leave out --network and --dropout")
    source = Source(data, held, seed, impute, label)
    known = source.load(root)
    network = default_network(known) if network == "auto" else network
    settings: dict[str, Any] = {
        "epochs": epochs,
        "batch_size": batch_size,
        "optimizer": optimizer,
        "learning_rate": learning_rate,
        "momentum": momentum,
        "weight_decay": weight_decay,
        "schedule": schedule,
        "augment": augment or [],
        "validation": validation,
        "patience": patience,
        "checkpoint_every": checkpoint_every,
    }
    with stopped.told(lambda: stopped.checkpoints(output)):
        if "auto" in own.values() or select_on:
            from nescio.cli.tuned_settings import settle

            own = settle(
                output,
                known,
                method,
                network,
                device,
                seed,
                own,
                dropout,
                select_on,
                root,
                out,
                **settings,
            )
        model, history = train_run(
            output, source, known, method, network, device, seed, own, dropout, root, **settings
        )
        side = judge(model, known.test, scores=[model.score]).known
    within = f" ({network})" if model.on_network else ""
    right = f"[bold]{percent(side.accuracy)}[/] of {side.inputs}"
    out.print(
        f"{method}{within} on {escape(known.name)}: {right} test inputs"
        f" right, epochs: {len(history.epochs)}, {history.provenance.seconds:.1f} s",
        soft_wrap=True,
    )
    unknown = "unseen noise far" if known.unseen is not None else "noise far"
    out.print(
        f"Next: [cyan]nescio evaluate {escape(shlex.quote(str(output)))} --unknown {unknown}[/]",
        soft_wrap=True,
    )
