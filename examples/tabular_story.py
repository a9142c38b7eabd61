"""Which features of a table can be wrong by a factor of a million without being flagged?

    python examples/tabular_story.py    # breast_cancer (embedded), and tables in $NESCIO_DATA
    python examples/tabular_story.py --data breast_cancer

Trains the five methods of *Know your limits* on each table and scales one feature of the test rows
at a time. One of the paper's four metrics flags a feature if at least half of the rows score above
the threshold that accepts 95 % of the unscaled rows.
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
# draws that suffice for a yes or no
SETTINGS = {"mc_dropout": {"samples": 20}, "bayes_by_backprop": {"samples": 20}}


def trained(name: str, known: Known, epochs: int, seed: int) -> nescio.methods.Method:
    torch.manual_seed(seed)
    dropout = 0.2 if name == "mc_dropout" else 0.0
    make = partial(mlp, known.shape[0], len(known.classes), (50, 50), dropout=dropout)
    model = METHODS[name].from_factory(make, known.normalise, **SETTINGS.get(name, {}))
    nescio.train(model, known.train, epochs=epochs, batch_size=64, seed=seed)
    return model


def measured(known: Known) -> list[int]:
    """Return the features that are measurements, not the 0 or 1 of a category."""
    return [i for i, column in enumerate(known.train.inputs.T) if len(column.unique()) > 2]


def flagged_by(record: Scaling, feature: int) -> list[str]:
    """Return the metrics that flag a scaled feature."""
    direction = next(one for one in record.directions if one.feature == feature)
    return [course.score for course in direction.scores or () if course.notices]


def print_flags(known: Known, records: dict[str, Scaling], out: Console) -> None:
    names = ["bayes" if name == "bayes_by_backprop" else name for name in records]
    title = f"{known.name}: metrics that flag a feature × 1,000,000"
    table = Table("feature", *names, title=title, caption=LEGEND)
    unflagged = dict.fromkeys(records, 0)
    features, by_none = measured(known), 0
    for feature in features:
        flags = {name: flagged_by(record, feature) for name, record in records.items()}
        for name, scores in flags.items():
            unflagged[name] += not scores
        by_none += not any(flags.values())
        cells = (" ".join(map(SHORT.get, scores)) or "[red]none[/]" for scores in flags.values())
        table.add_row(known.features[feature], *cells)
    out.print(table)
    each = ", ".join(f"{name} {count}" for name, count in unflagged.items())
    out.print(
        f"{known.name}: of {len(features)} features × 1,000,000, flagged by no metric: {each}; "
        f"by none of the five methods: {by_none}\n",
        soft_wrap=True,
        highlight=False,
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", nargs="+", help="tables with two or more features; by default all available"
    )
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--rows", type=int, default=100, help="test rows to scale")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    out = Console()
    available = {status.name for status in nescio.data.status() if status.present}
    for name in args.data or [table for table in TABLES if table in available]:
        known = nescio.data.load(name, seed=args.seed, impute=True)
        rows = known.test.take(slice(0, args.rows))[0]
        records = {}
        for method in FIVE:
            model = trained(method, known, args.epochs, args.seed)
            accuracy = nescio.evaluate(model, known.test, scores=["entropy"]).known.accuracy
            out.print(f"{name}: {method}, test accuracy {accuracy:.1%}", highlight=False)
            how = {"alphas": FACTORS, "rays": False, "batch_size": 2048}
            features = {"features": measured(known), "names": known.features}
            records[method] = nescio.audit.scaling(model, rows, **features, **how)
        print_flags(known, records, out)
    missing = [table for table in TABLES if table not in available]
    if not args.data and missing:
        places = "set NESCIO_DATA to the folder of their files"
        out.print(f"Not found: {', '.join(missing)}; {places}", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
