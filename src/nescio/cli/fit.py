"""`nescio fit`: a detector over any trained network."""

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from nescio.cli.arguments import err, out
from nescio.errors import NescioError
from nescio.options import Root, one_of, score_in


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
        doubt = None
        made, facts = fit_run(output, run, data, train, label, wanted, root)
    elif model is not None:
        if data is None:
            raise NescioError("give known inputs that the network was not trained on: --data held_out.npz")
        made, facts, doubt = fit_own(output, model, weights, data, train, label, names, wanted)
    counts = made.calibration_class_.bincount(minlength=len(facts.classes)).tolist() if per_class else []
    for shown in fitted_words(facts, counts, shlex.quote(str(output))):
        out.print(shown, soft_wrap=isinstance(shown, str), highlight=False)
    if doubt:
        err.print(f"[bold yellow]warning:[/] {escape(doubt)}", soft_wrap=True, highlight=False)
