"""Which measurements could be wrong by a factor of a million without a classifier of patients or
loans ever doubting?

    python examples/tabular_story.py                      # tumours (embedded), and what else is in
    $NESCIO_DATA python examples/tabular_story.py --data breast_cancer

Trains the five methods of *Know your limits* on each table, scales one feature of the test rows at
a time, and asks the paper's four metrics whether they notice: do they flag at least half of the
rows, at a threshold that accepts 95 % of the rows as they are?
"""

import argparse
import sys
from functools import partial

import torch
from rich.console import Console
from rich.table import Table

import nescio
from nescio.data import Known
from nescio.methods import METHODS
from nescio.models import mlp
from nescio.records import Scaling

FIVE = ("softmax", "mc_dropout", "bayes_by_backprop", "ensemble", "anchored")
TABLES = ("breast_cancer", "heart_disease", "pima_diabetes", "german_credit")
LEGEND = (
    "p: 1 − max p, var: variance, H: predictive entropy, MI: mutual information "
    "(var and MI compare draws)"
)
FACTORS = (1.0, 1e2, 1e4, 1e6)
SHORT = {"max_prob": "p", "variance": "var", "entropy": "H", "mutual_information": "MI"}
SETTINGS = {
    "mc_dropout": {"samples": 20},
    "bayes_by_backprop": {"samples": 20},
}  # draws enough for a yes or no


def trained(name: str, known: Known, epochs: int, seed: int) -> nescio.methods.Method:
    torch.manual_seed(seed)
    make = partial(
        mlp,
        known.shape[0],
        len(known.classes),
        (50, 50),
        dropout=0.2 if name == "mc_dropout" else 0.0,
    )
    model = METHODS[name].from_factory(make, known.normalise, **SETTINGS.get(name, {}))
    nescio.train(model, known.train, epochs=epochs, batch_size=64, seed=seed)
    return model


def measured(known: Known) -> list[int]:
    """The features that are measurements, not the yes or no of a category."""
    return [place for place, column in enumerate(known.train.inputs.T) if len(column.unique()) > 2]


def noticing(record: Scaling, feature: int) -> list[str]:
    """The metrics that notice when a feature is scaled."""
    direction = next(one for one in record.directions if one.feature == feature)
    return [course.score for course in direction.scores or () if course.notices]


def told(known: Known, records: dict[str, Scaling], out: Console) -> None:
    names = ["bayes" if name == "bayes_by_backprop" else name for name in records]
    table = Table(
        "feature", *names, title=f"{known.name}: which metrics notice × 1,000,000", caption=LEGEND
    )
    unnoticed = dict.fromkeys(records, 0)
    features, never = measured(known), 0
    for feature in features:
        found = {name: noticing(record, feature) for name, record in records.items()}
        for name, scores in found.items():
            unnoticed[name] += not scores
        never += not any(found.values())
        cells = [
            " ".join(SHORT[score] for score in scores) or "[red]none[/]"
            for scores in found.values()
        ]
        table.add_row(known.features[feature], *cells)
    out.print(table)
    each = ", ".join(f"{name} {count}" for name, count in unnoticed.items())
    out.print(
        f"{known.name}: of {len(features)} features, scaled by a million without any metric "
        f"noticing: {each}; "
        f"unnoticed by all five methods: {never}\n",
        soft_wrap=True,
        highlight=False,
    )


def main() -> int:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument(
        "--data", nargs="+", help="tables of two features or more; by default all that are here"
    )
    arguments.add_argument("--epochs", type=int, default=40)
    arguments.add_argument("--rows", type=int, default=100, help="test rows that are scaled")
    arguments.add_argument("--seed", type=int, default=0)
    given = arguments.parse_args()
    out = Console()
    here = {found.name for found in nescio.data.status() if found.present}
    for name in given.data or [table for table in TABLES if table in here]:
        known = nescio.data.load(name, seed=given.seed, impute=True)
        rows = known.test.take(slice(0, given.rows))[0]
        records = {}
        for method in FIVE:
            model = trained(method, known, given.epochs, given.seed)
            accuracy = nescio.evaluate(model, known.test, scores=["entropy"]).known.accuracy
            out.print(
                f"{name}: {method} is right on {accuracy:.1%} of the test rows", highlight=False
            )
            records[method] = nescio.audit.scaling(
                model,
                rows,
                features=measured(known),
                names=known.features,
                alphas=FACTORS,
                rays=False,
                batch_size=2048,
            )
        told(known, records, out)
    missing = [table for table in TABLES if table not in here]
    if not given.data and missing:
        out.print(
            f"Not here: {', '.join(missing)}. Set NESCIO_DATA to the folder of their files.",
            highlight=False,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
