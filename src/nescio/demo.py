"""The tour of `nescio demo`: two small problems, from data to a verdict."""

from pathlib import Path

import torch
from matplotlib.figure import Figure
from rich.console import Console
from rich.markup import escape

from nescio.data import Known, load
from nescio.evaluate import evaluate
from nescio.maps import uncertainty_map
from nescio.methods import Softmax
from nescio.methods.method import Method
from nescio.models import network_for
from nescio.records import Evaluation
from nescio.report.figures import histograms, rejections, save_figure
from nescio.report.maps import map_figure
from nescio.report.tables import evaluation_tables
from nescio.training import fit
from nescio.unknowns import unknown_set

NEXT = """
[bold]Try next[/]
  nescio train softmax --data digits --hold-out 7,8,9 -o run    the first half, as a run of your own
  nescio evaluate run --unknown held_out uniform far            its table
  nescio score run inputs.csv                                   class, confidence and scores of new inputs
  nescio map two_moons -o maps.svg                              the plane, as each method sees it
  nescio data list                                              what else there is to learn
"""


def tour(folder: Path, seed: int, out: Console) -> None:
    """Train on digits without 7, 8, 9 and on two moons, judge both, and write records and figures to a folder."""
    out.print("[bold]1. Digits.[/] A softmax network learns to read 0 to 6. It never sees a 7, 8 or 9.\n")
    digits = load("digits", hold_out=[7, 8, 9], seed=seed)
    model, judged = _trained(digits, seed, ["held_out", "uniform", "far"], folder)
    out.print(evaluation_tables(judged))
    out.print(_verdict(judged), highlight=False)

    out.print("\n[bold]2. Two moons.[/] The same in the plane, where one can see it.\n")
    moons = load("two_moons", seed=seed)
    model, judged = _trained(moons, seed, ["far"], folder)
    save_figure(_map(model, moons), folder / "two_moons-confidence.svg")
    far = judged.unknown[0]
    out.print(f"It gets {judged.known.accuracy:.1%} of the test points right. A hundred times farther out, where no "
              f"point ever was, its mean confidence is {far.mmc:.1%}.", highlight=False)  # fmt: skip

    out.print(f"\nRecords and figures, in [cyan]{escape(str(folder))}[/]:")
    for path in sorted([*folder.glob("digits-*"), *folder.glob("two_moons-*")]):
        out.print(f"  {path.name}", highlight=False)
    out.print(NEXT, highlight=False, soft_wrap=True)


def _trained(known: Known, seed: int, unknown: list[str], folder: Path) -> tuple[Method, Evaluation]:
    assert known.train is not None  # noqa: S101 - embedded sets have a training part
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Softmax(network_for("mlp", known.shape, len(known.classes)), normalise=known.normalise)
    history = fit(model, known.train, epochs=40, batch_size=64, seed=seed)
    judged = evaluate(model, known.test, {name: unknown_set(name, known, seed=seed) for name in unknown}, seed=seed)
    history.save(folder / f"{known.name}-history.json")
    judged.save(folder / f"{known.name}-evaluation.json")
    save_figure(histograms(judged), folder / f"{known.name}-scores.svg")
    save_figure(rejections(judged), folder / f"{known.name}-rejection.svg")
    return model, judged


def _verdict(judged: Evaluation) -> str:
    held, noise, far = (
        next(found.auroc for found in side.separation if found.score == judged.score) for side in judged.unknown
    )
    return (
        f"\nOf pairs of a known and an unknown input it ranks {held:.0%} rightly for held-out digits and {noise:.0%} "
        f"for noise, but {far:.0%} for digits moved far away: along almost every direction a softmax on a ReLU net "
        "ends up certain."
    )


def _map(model: Method, known: Known) -> Figure:
    """The model's confidence over a square four times as wide as the data."""
    figure = map_figure([uncertainty_map(model, known, [model.score])], "confidence")
    figure.suptitle("two moons: certain (white) where it has never been", fontsize=11)
    return figure
