"""A network learns heart disease in Cleveland: what does it answer for patients elsewhere?

And for a mistyped number?

    python examples/heart_disease_hospitals.py
    python examples/heart_disease_hospitals.py --method duq -o features.png

Needs heart_disease_uci.csv.gz in $NESCIO_DATA. Three columns (slope, ca, thal) are left out, which
the other hospitals lack for most patients. Other missing values, among them a cholesterol or blood
pressure of 0, are replaced by Cleveland's median or most frequent value. This makes patients look
more like Cleveland's than they are.
"""

import argparse
import sys

import torch
from rich.console import Console
from rich.table import Table

import nescio
from nescio.data import Encoding, Normalise, Samples
from nescio.data.formats.csv import read_csv
from nescio.data.known import stratified
from nescio.data.table import is_missing
from nescio.methods import DUQ, Softmax
from nescio.models import mlp
from nescio.records import AuditedFeature, FeatureAudit
from nescio.report.feature_audit import feature_figure, feature_table, nearest_first
from nescio.report.figures import save_figure

HOSPITALS = {
    "cleveland": "Cleveland",
    "hungarian": "Budapest",
    "switzerland": "Switzerland",
    "va": "VA Long Beach",
}
CLASSES = ("healthy", "disease")
LEFT_OUT = ("site", "num", "slope", "ca", "thal")
MEASURED = {
    "age": ("age", "years"),
    "trestbps": ("blood pressure", "mm Hg"),
    "chol": ("cholesterol", "mg/dl"),
    "thalach": ("heart rate", "beats/min"),
    "oldpeak": ("ST depression", "mm"),
}
COLUMNS = ("hospital", "patients", "ill", "values\nfilled in", "median\nconfidence")
COLUMNS += ("I do not\nknow", "accuracy", "selective\naccuracy")


def hospitals() -> tuple[dict[str, Samples], Encoding, dict[str, dict[str, float]]]:
    """Return each hospital's patients, their encoding, and the missing fraction of each column.

    "train" and "cleveland" are two parts of Cleveland's.
    """
    status = next(one for one in nescio.data.status() if one.name == "heart_disease")
    if not status.present:
        raise nescio.NescioError(
            "heart_disease not found; set NESCIO_DATA to the folder of heart_disease_uci.csv.gz"
        )
    table = read_csv(status.where)
    for column in ("chol", "trestbps"):  # nobody has a cholesterol of 0
        table[column] = ["" if cell in ("0", "0.0") else cell for cell in table[column]]
    labels = torch.tensor([int(cell != "0") for cell in table["num"]])
    inputs = {name: cells for name, cells in table.items() if name not in LEFT_OUT}
    rows = {site: [i for i, cell in enumerate(table["site"]) if cell == site] for site in HOSPITALS}
    train, calibration = stratified(labels[rows["cleveland"]], 0.3, 0, "Cleveland")
    rows["train"] = [rows["cleveland"][i] for i in train]
    rows["cleveland"] = [rows["cleveland"][i] for i in calibration]

    def select(chosen: list[int]) -> dict[str, list[str]]:
        return {name: [cells[i] for i in chosen] for name, cells in inputs.items()}

    tables = {site: select(chosen) for site, chosen in rows.items()}
    encoding = Encoding.fitted(tables["train"], impute=True, categorical=("cp", "restecg"))
    patients = {
        site: Samples(encoding.encode(tables[site]), labels[chosen], name=site)
        for site, chosen in rows.items()
    }
    missing = {
        site: {name: sum(map(is_missing, cells)) / len(cells) for name, cells in columns.items()}
        for site, columns in tables.items()
    }
    return patients, encoding, missing


def trained(method: str, train: Samples, seed: int) -> nescio.methods.Method:
    torch.manual_seed(seed)
    width, normalise = train.shape[0], Normalise.fitted(train)
    if method == "duq":
        settings = {"length_scale": 0.3, "features": 32, "momentum": 0.99}
        model = DUQ(mlp(width, 32, (50, 50)), 2, normalise=normalise, **settings)
    else:
        model = Softmax(mlp(width, 2, (50, 50)), normalise)
    how = {"epochs": 40, "batch_size": 32, "weight_decay": 1e-3}
    nescio.train(model, train, seed=seed, progress=False, **how)
    return model


def hospital_table(
    model: nescio.methods.Method, patients: dict[str, Samples], missing: dict[str, dict[str, float]]
) -> Table:
    """Return what the model answers for each hospital, if 95 % of Cleveland's are accepted."""
    detector = nescio.Threshold(model).fit(patients["cleveland"], accept=0.95)
    table = Table(title=f"{model.name}: who is known?", title_justify="left", padding=(0, 0))
    for name in COLUMNS:
        table.add_column(name, justify="left" if name == "hospital" else "right", overflow="fold")
    for site, name in HOSPITALS.items():
        data = patients[site]
        logits, accepted = nescio.predict(model, data, progress=False), detector.predict(data) >= 0
        correct = logits.mean(0).argmax(1) == data.labels
        fractions = (
            data.labels.double().mean(),
            sum(missing[site].values()) / len(missing[site]),
            model.confidence(logits).median(),
            1 - accepted.double().mean(),
            correct.double().mean(),
            correct[accepted].double().mean(),
        )
        table.add_row(name, str(len(data)), *(f"{float(one):.0%}" for one in fractions))
    return table


def feature_sentence(record: FeatureAudit, feature: AuditedFeature) -> str:
    """Return how far one measurement must be wrong, in words a clinician would use."""
    name, unit = feature.name.rstrip("]").split(" [")
    parts = []
    for word, side in (("lower", feature.lower), ("higher", feature.higher)):
        reach = side.unknown or side.certain
        label = record.classes[max(range(2), key=side.certain_of.__getitem__)]
        outcome = f"is {record.confidence:.1%} certain to be of class {label}"
        if side.unknown:
            outcome = "stays unknown"
        if reach.median is None:
            parts.append(f"however much {word}, the median patient never {outcome}")
        else:
            distance = f"{float(f'{reach.median:.3g}'):,g} {unit} {word}"
            parts.append(f"{distance}, the median patient {outcome}")
    return f"{name}, seen from {feature.low:g} to {feature.high:g}: {'; '.join(parts)}."


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--method", choices=("softmax", "duq"), default="softmax")
    parser.add_argument("-o", "--output", help="figure to write: .png, .svg or .pdf")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    out = Console(highlight=False)
    patients, encoding, missing = hospitals()
    model = trained(args.method, patients["train"], args.seed)
    accuracy = nescio.evaluate(model, patients["cleveland"], scores=[model.score]).known.accuracy
    out.print(
        f"Trained on {len(patients['train'])} patients of Cleveland; accuracy {accuracy:.1%} on "
        f"{len(patients['cleveland'])} others of Cleveland, which set the threshold.\n"
    )
    out.print(hospital_table(model, patients, missing))
    for site, name in HOSPITALS.items():
        columns = [f"{column} {part:.0%}" for column, part in missing[site].items() if part >= 0.05]
        out.print(f"{name}, missing values: {', '.join(columns) or 'hardly any'}", soft_wrap=True)
    names = [
        f"{MEASURED[one][0]} [{MEASURED[one][1]}]" if one in MEASURED else one
        for one in encoding.features
    ]
    features = [i for i, name in enumerate(encoding.features) if name in MEASURED]
    record = nescio.audit.per_feature(
        model, patients["cleveland"], features=features, names=names, classes=CLASSES
    )
    out.print("\nIf one measurement is wrong and all else stays the same:", style="bold")
    for feature in nearest_first(record):
        out.print(f"- {feature_sentence(record, feature)}", soft_wrap=True)
    out.print()
    out.print(feature_table(record))
    if args.output:
        save_figure(feature_figure(record), args.output)
        out.print(f"Saved: {args.output}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except nescio.NescioError as error:
        sys.exit(str(error))
