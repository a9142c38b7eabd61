"""The command line: each command is a thin layer over a public function. Torch is loaded only when a command runs."""

import os
import shlex
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from nescio import __version__
from nescio.cli_reproduce import reproduce_app
from nescio.errors import NescioError
from nescio.options import Command, MethodCommand, Root, one_of, score_in, settings_given

app = typer.Typer(
    name="nescio", no_args_is_help=True, rich_markup_mode="markdown", add_completion=False,
    pretty_exceptions_enable=False,
    help="Neural classifiers that say *I do not know*.",
    epilog="Start with `nescio demo`; then `nescio train softmax --data digits --hold-out 7,8,9 -o run`.",
)  # fmt: skip
data_app = typer.Typer(no_args_is_help=True, help="The data sets nescio knows: which are here, and how to get others.")
app.add_typer(data_app, name="data")
app.add_typer(reproduce_app, name="reproduce")
out, err = Console(), Console(stderr=True)


Folder = Annotated[Path, typer.Argument(metavar="RUN", help="A folder written by `nescio train`.", show_default=False)]
Seed = Annotated[int, typer.Option(help="Decides everything random.")]
Scores = Annotated[
    list[str] | None,
    typer.Option("--scores", "--score", parser=score_in("SCORES"), metavar="NAME", show_default=False,
                 help="By default all of {OF_LOGITS} that fit the model; also {GRADIENT}, for the whole network or, as "
                      "in `gradient_l2:conv2`, for a layer."),
]  # fmt: skip
Impute = Annotated[bool, typer.Option("--impute", help="Fill in missing values of a table.")]
Label = Annotated[str | None, typer.Option(help="The label column of a CSV file; else its last.")]
BatchSize = Annotated[int, typer.Option(help="Inputs at a time.", min=1)]


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Say which version this is.")] = False) -> None:
    """Neural classifiers that say *I do not know*."""
    if version:
        out.print(f"nescio {__version__}")
        raise typer.Exit


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for records and report.")] = Path(
        "nescio-demo"
    ),
    seed: Seed = 0,
) -> None:
    """The tour, in one to two minutes, on embedded data: five methods learn, and are judged by what they never learned.

    It writes runs, records and a report into a folder, which must be new, or a demo's.

    Example: `nescio demo -o nescio-demo`
    """
    from nescio.demo.tour import tour

    try:
        tour(output, seed, out)
    except KeyboardInterrupt:
        err.print(f"interrupted; what was done so far is whole, in {escape(str(output))}, and the same command starts "
                  "anew", soft_wrap=True, highlight=False)  # fmt: skip
        raise typer.Exit(130) from None


@app.command(cls=MethodCommand)
def train(
    ctx: typer.Context,
    method: Annotated[str, typer.Argument(
        parser=one_of("method", "METHODS"), metavar="METHOD", show_default=False,
        help="The way to train: {METHODS}. Its settings are options too, which `nescio train METHOD --help` explains "
             "({SETTINGS}).")],
    data: Annotated[str, typer.Option(help="A name of `nescio data list`, or a file or folder.", show_default=False)],
    output: Annotated[Path | None, typer.Option(
        "--output", "-o", help="Folder of the run; else DATA-METHOD: digits-softmax.", show_default=False)] = None,
    network: Annotated[str, typer.Option(parser=one_of("network", "NETWORKS", "auto"), metavar="NAME",
                                         help="{NETWORKS}, or auto: one that suits the data.")] = "auto",
    dropout: Annotated[float | None, typer.Option(
        help="Share of units a network drops; by default its own, and 0.2 for mc_dropout.", show_default=False)] = None,
    hold_out: Annotated[str, typer.Option(help="Classes not to learn, such as 7,8,9; they become unknown data.")] = "",
    epochs: Annotated[int, typer.Option(help="Passes over the training data.", min=1)] = 30,
    batch_size: BatchSize = 128,
    optimizer: Annotated[str, typer.Option(help="adam or sgd.")] = "adam",
    learning_rate: Annotated[float, typer.Option(help="Of the optimizer.")] = 1e-3,
    momentum: Annotated[float, typer.Option(help="Of sgd.")] = 0.9,
    weight_decay: Annotated[float, typer.Option(help="L2 penalty on the weights.")] = 0.0,
    schedule: Annotated[str, typer.Option(parser=one_of("schedule", "SCHEDULES"), metavar="NAME",
                                          help="How the learning rate moves: {SCHEDULES}.")] = "constant",
    augment: Annotated[list[str] | None, typer.Option(
        parser=one_of("augmentation", "AUGMENTATIONS"), metavar="NAME", show_default=False,
        help="Random changes to training images: {AUGMENTATIONS}.")] = None,
    validation: Annotated[float | None, typer.Option(help="Share of the training data to set aside.")] = None,
    patience: Annotated[int | None, typer.Option(help="Stop after so many epochs without a gain.")] = None,
    checkpoint_every: Annotated[int | None, typer.Option(help="Steps between extra checkpoints.")] = None,
    select_on: Annotated[str | None, typer.Option(
        metavar="UNKNOWN", show_default=False,
        help="Unknown data that `--penalty auto` chooses by, as in `nescio evaluate --unknown`; else by right against "
             "wrong answers.")] = None,
    seed: Seed = 0,
    device: Annotated[str, typer.Option(help="Where to compute: cpu, cuda, …")] = "cpu",
    impute: Impute = False,
    label: Label = None,
    root: Root = None,
) -> None:  # fmt: skip
    """Train a classifier into a folder. Started again, a run that was cut off goes on where it stood.

    The two settings of duq that must suit the data are found first if they are `auto`: it is trained with each of some
    values, a third of `--epochs` long (but 10 at least, or all), and judged on the share `--validation` (0.1 if not
    given) of the training data.

    Example: `nescio train softmax --data digits --hold-out 7,8,9 -o run`

    Example: `nescio train ensemble --members 10 --data breast_cancer -o clinic`

    Example: `nescio train softmax --data fashion_mnist --network conv3 --epochs 10 --schedule one_cycle -o fashion`

    Example: `nescio train acet --eps 0.3 --steps 10 --data digits --epochs 20 -o wary`

    Example: `nescio train ceda --noise notmnist --data mnist --network lenet -o wary`

    Example: `nescio train duq --length-scale auto --penalty auto --data digits --network mlp --hold-out 8,9 -o sure`
    """
    from nescio.data import NAMES
    from nescio.methods import METHODS
    from nescio.runs import Source, default_network, train_run

    # a path is kept whole, so that the run can be judged from another folder
    data = os.path.abspath(data) if os.path.exists(data) and data not in NAMES else data
    output = output or Path(f"{Path(data).stem}-{method}")
    held = tuple(name.strip() for name in hold_out.split(",") if name.strip())
    own = settings_given(ctx, method)
    if not METHODS[method].on_network and (network != "auto" or dropout is not None):
        raise NescioError(f"{method} has no network within; leave out --network and --dropout")
    source = Source(data, held, seed, impute, label)
    known = source.load(root)
    network = default_network(known) if network == "auto" else network
    settings: dict[str, Any] = {
        "epochs": epochs, "batch_size": batch_size, "optimizer": optimizer, "learning_rate": learning_rate,
        "momentum": momentum, "weight_decay": weight_decay, "schedule": schedule, "augment": augment or [],
        "validation": validation, "patience": patience, "checkpoint_every": checkpoint_every,
    }  # fmt: skip
    try:
        if "auto" in own.values() or select_on:
            from nescio.automatic import settle

            own = settle(output, known, method, network, device, seed, own, dropout, select_on, root, out, **settings)
        model, history = train_run(output, source, known, method, network, device, seed, own, dropout, root, **settings)
    except KeyboardInterrupt:
        err.print("interrupted; the same command goes on from the last checkpoint, if there was one yet")
        raise typer.Exit(130) from None
    from nescio.evaluate import evaluate as judge

    side = judge(model, known.test, scores=[model.score]).known
    within = f" ({network})" if model.on_network else ""
    out.print(f"{method}{within} on {escape(known.name)}: [bold]{side.accuracy:.1%}[/] of {side.inputs} test inputs"
              f" right, epochs: {len(history.epochs)}, {history.provenance.seconds:.1f} s", soft_wrap=True)  # fmt: skip
    unknown = "held_out noise far" if known.held_out is not None else "noise far"
    out.print(f"Next: [cyan]nescio evaluate {escape(shlex.quote(str(output)))} --unknown {unknown}[/]", soft_wrap=True)


@app.command(cls=Command)
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

    model, facts = open_run(run)
    known = facts.load(root)
    sets = unknown_sets(unknown or [], known, root, seed)
    seen = Extremes.of(model, classes=known.classes, features=known.features or None)
    record = judge(
        model, known.test, sets, scores=scores, attacked=attacked, batch_size=batch_size, seed=seed, watch=seen.see
    )
    out.print(evaluation_tables(record))
    path = output or run / EVALUATION
    extremes = run / EXAMPLES if output is None else path.with_name(f"{path.stem}-{EXAMPLES}")
    record.save(path)
    seen.record(record.known.name, seed, record.provenance.seconds).save(extremes)
    out.print(f"Saved: {escape(str(path))}, {escape(str(extremes))}", soft_wrap=True)


@app.command(cls=Command)
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


@app.command(cls=Command)
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
) -> None:  # fmt: skip
    """Every detector on a trained model, against unknown data: AUROC, FPR95, and how long they take.

    Each is fitted on a half of the test data, those that learn on the training data, and judged by the other half.

    Example: `nescio contest run --unknown held_out noise`

    Example: `nescio contest run --unknown mnist omniglot --candidates energy mahalanobis knn -o found`
    """
    from nescio.atomic import replacing
    from nescio.contest import contest as held
    from nescio.report.contest import contest_markdown, contest_table
    from nescio.runs import CONTEST, open_run
    from nescio.unknowns import unknown_set

    model, facts = open_run(run)
    known = facts.load(root)
    sets = {name: unknown_set(name, known, root, seed) for name in unknown}
    record = held(model, known.test, sets, known.train, candidates=candidates, batch_size=batch_size)
    out.print(contest_table(record))
    folder = output or run
    record.save(folder / CONTEST)
    with replacing(folder / "contest.md", "w") as file:
        file.write(contest_markdown(record))
    out.print(f"Saved: {escape(str(folder / CONTEST))}, {escape(str(folder / 'contest.md'))}", soft_wrap=True)


@app.command(cls=Command)
def compare(
    records: Annotated[list[str], typer.Argument(
        metavar="[NAME=]RECORD", show_default=False,
        help="Run folders that were evaluated, or their records. Those of one method, or of one NAME, are its runs.")],
    unknown: Annotated[list[str] | None, typer.Option(
        help="Names of unknown data in the records; by default all they share.", show_default=False)] = None,
    score: Annotated[str | None, typer.Option(
        parser=score_in("SCORES"), metavar="NAME", show_default=False,
        help="Judge all by this one; by default each by the score its paper pairs with it.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for figures and table.")] = Path("comparison"),
) -> None:  # fmt: skip
    """Methods side by side: tables, and figures of their ROC curves, rejection curves and confidences.

    The folder also has table.md: a row for each set, and the methods side by side, each under its test error. With more
    than three unknown sets this is what is printed.

    Example: `nescio compare run-softmax run-ensemble run-duq`

    Example: `nescio compare plain=run-softmax run-ceda run-acet --unknown noise adversarial_noise adversarial_samples`

    Example: `nescio compare duq=seed-0 duq=seed-1 one=softmax-run --unknown mnist -o figures`
    """
    from nescio.report.comparison import write_comparison
    from nescio.runs import evaluations

    out.print(write_comparison(evaluations(records), output, unknown, score))
    out.print(f"Saved: {escape(str(output))}", soft_wrap=True)


@app.command()
def report(
    records: Annotated[list[str], typer.Argument(
        metavar="[NAME=]RECORDS", show_default=False,
        help="Records of any kind, or folders of runs with all records in them. They are shown under NAME; else under "
             "their folder's name, or their file's. Several runs of one NAME are taken together.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page.")] = Path("report.html"),
) -> None:  # fmt: skip
    """What records hold, as one page: a verdict in plain words, then figures and tables. It needs no network.

    Example: `nescio report run -o report.html`

    Example: `nescio report plain=run-softmax run-duq -o report.html`

    Example: `nescio report duq=seed-0 duq=seed-1 run-softmax/evaluation.json run-softmax/audit.json`
    """
    from nescio.atomic import replacing
    from nescio.report.page import report_page
    from nescio.report.reading import check_output, records_in

    check_output(records, output)
    page = report_page(records_in(records))
    with replacing(output, "w") as file:
        file.write(page)
    out.print(f"Saved: {escape(str(output))}", soft_wrap=True)


@app.command(cls=Command)
def attack(
    runs: Annotated[list[Path], typer.Argument(
        metavar="RUN", show_default=False, help="Folders written by `nescio train`, on the same images.")],
    start: Annotated[str, typer.Option(
        help="noise, to make it as certain as can be; or samples: test images, to make them wrong.")] = "noise",
    images: Annotated[int, typer.Option(help="How many.", min=1, max=100)] = 8,
    steps: Annotated[int, typer.Option(help="Of the attack.", min=1)] = 40,
    eps: Annotated[float | None, typer.Option(
        help="How far a pixel may move; by default 0.3, and 0.1 for samples in colour.", show_default=False)] = None,
    output: Annotated[Path, typer.Option(
        "--output", "-o", help="The figure, svg, png or pdf; its record stands beside it.")] = Path("attack.svg"),
    seed: Seed = 0,
    root: Root = None,
) -> None:  # fmt: skip
    """See what an attack makes of images: a row for each model, with its confidence in every one.

    Example: `nescio attack run-softmax run-ceda run-acet -o attack.svg`

    Example: `nescio attack run-softmax run-acet --start samples --images 10 --steps 80 -o samples.png`
    """
    from nescio.gallery import attack_gallery
    from nescio.report.figures import figure_format, save_figure
    from nescio.report.gallery import gallery_figure
    from nescio.runs import open_runs

    figure_format(output)
    models, facts = open_runs(runs)
    known = facts.load(root)
    record = attack_gallery(models, known, start, images=images, steps=steps, eps=eps, seed=seed)
    path = output.with_suffix(".json")
    record.save(path)
    save_figure(gallery_figure(record), output)
    for row in record.rows:
        mean = sum(row.confidence) / len(row.confidence)
        out.print(f"{escape(row.name)}: mean confidence [bold]{mean:.1%}[/] after the attack", soft_wrap=True)
    out.print(f"Saved: {escape(str(path))}, {escape(str(output))}", soft_wrap=True)


@app.command(cls=Command)
def fit(
    run: Annotated[Path | None, typer.Argument(
        metavar="[RUN]", help="A folder written by `nescio train`, in place of a network of your own.",
        show_default=False)] = None,
    model: Annotated[str | None, typer.Option(
        metavar="MODULE:NAME", show_default=False,
        help="What makes your network, such as `my_nets:make_net`: a function or class that is called without "
             "arguments, or a network; modules in the current folder count. This code is run.")] = None,
    weights: Annotated[Path | None, typer.Option(
        help="Its weights, in safetensors; by default those it is made with.", show_default=False)] = None,
    data: Annotated[Path | None, typer.Option(
        help="Known inputs that the network was not trained on: npz, CSV, a folder of images; of a run, by default its "
             "test data.", show_default=False)] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the detector.")] = Path("detector"),
    detector: Annotated[str, typer.Option(parser=one_of("detector", "DETECTORS"), metavar="NAME",
                                          help="{DETECTORS}.")] = "threshold",
    score: Annotated[str | None, typer.Option(
        parser=score_in("SCORES"), metavar="NAME", show_default=False,
        help="What threshold looks at: {SCORES}; by default the one the method's paper pairs with it.")] = None,
    layer: Annotated[str | None, typer.Option(
        help="The module whose features a detector looks at; by default what the last linear layer is given.",
        show_default=False)] = None,
    accept: Annotated[float | None, typer.Option(
        help="The share of known inputs to accept; 0.95 if nothing is asked for.", show_default=False)] = None,
    risk: Annotated[float | None, typer.Option(
        help="Or: the share of wrong answers to allow among accepted ones; the data must have labels.",
        show_default=False)] = None,
    confidence: Annotated[float | None, typer.Option(
        help="With which the risk is kept; 0.95 if not given.", show_default=False)] = None,
    per_class: Annotated[bool, typer.Option(
        "--per-class", help="A threshold for each class that the model answers, and a table of them.")] = False,
    train: Annotated[Path | None, typer.Option(
        help="Data for a detector that learns more than a threshold, such as the network's training data; else half of "
             "the known inputs, or the run's training data.", show_default=False)] = None,
    settings: Annotated[list[str] | None, typer.Option(
        "--set", metavar="NAME=VALUE", show_default=False,
        help="Other settings of the detector, one or more, such as `k=10` of knn.")] = None,
    label: Annotated[str | None, typer.Option(
        help="The label column of a CSV file; without it all columns are features.", show_default=False)] = None,
    class_names: Annotated[str, typer.Option(
        metavar="A,B,…", help="Names of the network's outputs, in order; by default those of the data.",
        show_default=False)] = "",
    root: Root = None,
) -> None:  # fmt: skip
    """Fit a detector over any trained network: from then on it says "unknown" where it does not know, with a guarantee.

    The network, your own or one of `nescio train`, is left as it is. `nescio score` then answers new inputs.

    Example: `nescio fit --model my_nets:make_net --weights weights.safetensors --data held_out.npz -o detector`

    Example: `nescio fit --model my_nets:make_net --weights w.safetensors --data rows.csv --label kind --risk 0.01`

    Example: `nescio fit run --score energy --accept 0.99 -o detector`

    Example: `nescio fit run --detector knn --set k=10 size=5000 -o detector`
    """
    from nescio.fitted import Wanted, fit_own, fit_run, settings_in
    from nescio.report.fitted import fitted_words

    wanted = Wanted(detector, score, layer, accept, risk, confidence, per_class, settings_in(settings or []))
    names = [name.strip() for name in class_names.split(",") if name.strip()]
    if (run is None) == (model is None):
        raise NescioError("give either a run or --model package.module:factory")
    if run is not None:
        if weights is not None or names:
            raise NescioError("a run has its own weights and class names; leave out --weights and --class-names")
        made, facts = fit_run(output, run, data, train, label, wanted, root)
    elif model is not None:
        if data is None:
            raise NescioError("give known inputs that the network was not trained on: --data held_out.npz")
        made, facts = fit_own(output, model, weights, data, train, label, names, wanted)
    counts = made.calibration_class_.bincount(minlength=len(facts.classes)).tolist() if per_class else []
    for shown in fitted_words(facts, counts, shlex.quote(str(output))):
        out.print(shown, soft_wrap=isinstance(shown, str), highlight=False)


@app.command(cls=Command)
def score(
    folder: Annotated[Path, typer.Argument(
        metavar="FOLDER", help="Written by `nescio fit` or `nescio train`.", show_default=False)],
    inputs: Annotated[Path, typer.Argument(
        metavar="INPUTS", help="A CSV or npz file, or a folder of images, of any size: they are streamed.",
        show_default=False)],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="CSV file; by default the terminal.")] = None,
    fail_on_unknown: Annotated[bool, typer.Option(
        "--fail-on-unknown", help="End with exit code 3 if a detector says \"unknown\" to any.")] = False,
    model: Annotated[str | None, typer.Option(
        metavar="MODULE:NAME", show_default=False,
        help="What makes the network, if the folder of a detector could not keep it; `nescio fit` says so.")] = None,
    scores: Scores = None,
    batch_size: BatchSize = 256,
    seed: Seed = 0,
) -> None:  # fmt: skip
    """Answer new inputs, one row each.

    A detector's rows have the class or "unknown", the class that the model alone would give, its confidence, the
    p-value (the share of known inputs at least as odd) and the score; rows with missing values are unknown. A run's
    rows have class, confidence and every score (larger = less known).

    Example: `nescio score detector new_images -o answers.csv --fail-on-unknown`

    Example: `nescio score run inputs.csv -o answers.csv`
    """
    from nescio.atomic import replacing
    from nescio.fitted import is_fitted

    if output is None and sys.stdout is None:
        raise NescioError("standard output is closed; give a file with --output")
    place = nullcontext(sys.stdout) if output is None else replacing(output, "w")
    if is_fitted(folder):
        if scores:
            raise NescioError("a detector was fitted on its own score; leave out --scores")
        count, unknown = _score_with_detector(folder, inputs, place, model, batch_size)
    else:
        if fail_on_unknown or model:
            raise NescioError(f"{str(folder)!r} is no folder of `nescio fit`; a run has no threshold, and has its own "
                              "network: leave out --fail-on-unknown and --model")  # fmt: skip
        count, unknown = _score_with_run(folder, inputs, place, scores or [], batch_size, seed), 0
    if output is not None:
        told = f", {unknown} unknown" if is_fitted(folder) else ""
        err.print(f"Saved: {escape(str(output))} ({count} inputs{told})", soft_wrap=True)
    if fail_on_unknown and unknown:
        raise typer.Exit(3)


def _score_with_detector(
    folder: Path, inputs: Path, place: AbstractContextManager[IO[str]], model: str | None, batch_size: int
) -> tuple[int, int]:
    from nescio.answers import write_verdicts
    from nescio.fitted import open_fitted, plain_attention, stream_for

    detector, facts = open_fitted(folder, model, inputs)
    with plain_attention(), place as file:
        return write_verdicts(file, detector, facts.classes, stream_for(facts, inputs, batch_size))


def _score_with_run(
    run: Path, inputs: Path, place: AbstractContextManager[IO[str]], scores: list[str], batch_size: int, seed: int
) -> int:
    from nescio.answers import write_answers
    from nescio.data import Stream
    from nescio.runs import CHECKPOINT, MODEL, open_run

    if not (run / MODEL).exists() and not any(run.glob(f"{Path(CHECKPOINT).stem}*")):
        raise NescioError(f"{str(run)!r} is no folder of `nescio fit` or `nescio train`: it has neither fitted.json "
                          f"nor {MODEL}")  # fmt: skip
    model, facts = open_run(run)
    with place as file:
        stream = Stream(inputs, facts.shape, facts.encoder(), batch_size)
        return write_answers(file, model, facts.classes, stream, scores, seed)


@app.command("map", cls=Command)
def draw_map(
    data: Annotated[str, typer.Argument(
        metavar="DATA", show_default=False, help="Data of two features: two_moons, three_blobs, a file.",
    )],
    output: Annotated[Path | None, typer.Option(
        "--output", "-o", help="The figure, svg, png or pdf; else DATA-map.svg.", show_default=False)] = None,
    methods: Annotated[list[str] | None, typer.Option(
        "--methods", "--method", parser=one_of("method", "METHODS"), metavar="NAME", show_default=False,
        help="By default all: {METHODS}.")] = None,
    scores: Annotated[list[str] | None, typer.Option(
        "--scores", "--score", parser=score_in("OF_LOGITS"), metavar="NAME", show_default=False,
        help="By default the confidence of each; of {OF_LOGITS}.")] = None,
    saturation: Annotated[bool, typer.Option("--saturation", help="Draw how steeply each score changes.")] = False,
    width: Annotated[float, typer.Option(help="Side of the map, times the extent of the data.")] = 4.0,
    resolution: Annotated[int, typer.Option(help="Grid points along each side.", min=2, max=2000)] = 120,
    epochs: Annotated[int, typer.Option(help="Passes over the training data.", min=1)] = 40,
    seed: Seed = 0,
    impute: Impute = False,
    label: Label = None,
    root: Root = None,
) -> None:  # fmt: skip
    """Train small networks on data in the plane, and draw where they are certain, with a record for each method.

    Example: `nescio map two_moons`

    Example: `nescio map two_moons --methods softmax ceda acet -o moons.svg`

    Example: `nescio map three_blobs --methods softmax ensemble --scores entropy mutual_information -o maps.png`
    """
    from nescio.data import load
    from nescio.maps import check_compared, trained_map
    from nescio.methods import METHODS
    from nescio.report.figures import figure_format, save_figure
    from nescio.report.maps import map_figure

    output = output or Path(f"{Path(data).stem}-map.svg")
    methods, drawn = list(dict.fromkeys(methods or METHODS)), scores or ["confidence"]
    scores = scores or ["entropy"]
    figure_format(output)  # what is wrong is told before the work
    check_compared(methods, scores)
    known, maps = load(data, root, seed=seed, impute=impute, label=label), []
    for method in methods:
        maps.append(trained_map(method, known, scores, epochs=epochs, width=width, resolution=resolution, seed=seed))
        path = output.with_name(f"{output.stem}-{method}.json")
        maps[-1].save(path)
        out.print(f"{method}: {maps[-1].provenance.seconds:.1f} s, {escape(str(path))}", soft_wrap=True)
    save_figure(map_figure(maps, drawn, saturation), output)
    out.print(f"Saved: {escape(str(output))}", soft_wrap=True)


@app.command(cls=Command)
def audit(
    run: Folder,
    features: Annotated[list[str] | None, typer.Option(
        help="Columns to scale or, of images, positions from 0 (channel by channel, row by row); by default all of a "
             "table, none of images.", show_default=False)] = None,
    scores: Annotated[list[str] | None, typer.Option(
        "--scores", "--score", parser=score_in("OF_LOGITS"), metavar="NAME", show_default=False,
        help="By default max_prob and entropy and, of a model that draws, variance and mutual_information.")] = None,
    rows: Annotated[int, typer.Option(help="Test inputs that are moved feature by feature.", min=1)] = 200,
    trials: Annotated[int, typer.Option(help="Inputs drawn in the box of the data, and scaled.", min=1)] = 10_000,
    limit: Annotated[int | None, typer.Option(
        help="Breakpoints of a ray up to which factors are proved; beyond, they are measured. By default 400, and 0 if "
             "that takes longer than some minutes.", min=0, show_default=False)] = None,
    scaling: Annotated[bool, typer.Option(help="Also measure what scores notice as test inputs are scaled.")] = True,
    output: Annotated[Path | None, typer.Option(
        "--output", "-o", help="Folder for records and figures; else the run's.", show_default=False)] = None,
    batch_size: BatchSize = 1024,
    seed: Seed = 0,
    root: Root = None,
) -> None:  # fmt: skip
    """Is the model certain of everything far away? Proved where its network is piecewise affine, else measured.

    Inputs drawn in the box of the data are scaled until the model is certain. The rows of a table are also moved along
    each feature by itself, of inputs with two features all linear regions are drawn, and scores are watched as test
    inputs are scaled away.

    Example: `nescio audit clinic --features "mean radius" "mean area"`
    """
    from nescio.audits import audit_run
    from nescio.runs import open_run

    model, facts = open_run(run)
    chosen = features if facts.kind == "tabular" or features is None else [_position(word) for word in features]
    for shown in audit_run(
        output or run, model, facts.load(root), features=chosen, scores=scores, rows=rows, trials=trials, limit=limit,
        scaled=scaling, batch_size=batch_size, seed=seed,
    ):  # fmt: skip
        out.print(shown, soft_wrap=isinstance(shown, str))


def _position(word: str) -> int | str:
    """A position, if the word is one; int() refuses very long ones."""
    return int(word) if word.isdecimal() and len(word) < 10 else word


@data_app.command("list")
def data_list(root: Root = None) -> None:
    """Every data set by name, whether it is here, and where.

    Example: `nescio data list`
    """
    from nescio.data import status
    from nescio.report.tables import status_table

    out.print(status_table(status(root)))


@data_app.command("get")
def data_get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name of `nescio data list`.", show_default=False)],
    root: Root = None,
) -> None:
    """Download a data set, checked against its published checksum; a cut download goes on where it stopped.

    Example: `nescio data get mnist`
    """
    from nescio.data import download
    from nescio.progress import bar

    with bar(None, f"get {name}") as shown:
        paths = download(name, root, progress=lambda file, done, total: shown.at(done, total, file))
    for path in paths:
        out.print(f"Here: {escape(str(path))}", soft_wrap=True)


def main() -> None:
    """Run the command line; bad input ends with its message and exit code 2, never with a traceback."""
    # torch reads this on its first allocation: huge pages make training on a CPU about a quarter faster
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    try:
        app()
    except (NescioError, OSError) as error:
        if isinstance(error, BrokenPipeError):  # the reader of our output has gone
            sys.stderr.close()
            sys.exit(1)
        err.print(f"[bold red]error:[/] {escape(_in_words(error))}", soft_wrap=True, highlight=False)
        sys.exit(2)


def _in_words(error: Exception) -> str:
    if isinstance(error, FileExistsError | NotADirectoryError):
        return f"{error.filename}: is a file, where a folder was expected"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)
