"""A network learns heart disease in Cleveland. What does it say of patients elsewhere, and of a
mistyped number?

    python examples/heart_disease_hospitals.py
    python examples/heart_disease_hospitals.py --method duq -o features.png

Needs heart_disease_uci.csv.gz in $NESCIO_DATA. Three columns are left out (slope, ca, thal), which
the other hospitals lack for most patients. What else is missing is filled with Cleveland's median
or most frequent value; a cholesterol or a blood pressure of 0 is missing, too. Filling makes
patients look more like Cleveland's than they are.
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


def hospitals() -> tuple[dict[str, Samples], Encoding, dict[str, dict[str, float]]]:
    """Patients of each hospital, "train" being Cleveland's; how they were encoded; the share
    missing of each column.
    """
    here = next(one for one in nescio.data.status() if one.name == "heart_disease")
    if not here.present:
        raise nescio.NescioError(
            "heart_disease is not here; set NESCIO_DATA to the folder of heart_disease_uci.csv.gz"
        )
    table = read_csv(here.where)
    for column in ("chol", "trestbps"):  # nobody has a cholesterol of 0
        table[column] = ["" if cell in ("0", "0.0") else cell for cell in table[column]]
    labels = torch.tensor([int(cell != "0") for cell in table["num"]])
    inputs = {name: cells for name, cells in table.items() if name not in LEFT_OUT}
    rows = {site: [i for i, cell in enumerate(table["site"]) if cell == site] for site in HOSPITALS}
    learned, tested = stratified(labels[rows["cleveland"]], 0.3, 0, "Cleveland")
    rows["train"] = [rows["cleveland"][i] for i in learned]
    rows["cleveland"] = [rows["cleveland"][i] for i in tested]

    def of(some: list[int]) -> dict[str, list[str]]:
        return {name: [cells[i] for i in some] for name, cells in inputs.items()}

    encoding = Encoding.fitted(of(rows["train"]), impute=True, categorical=("cp", "restecg"))
    patients = {
        site: Samples(encoding.encode(of(some)), labels[some], name=site)
        for site, some in rows.items()
    }
    missing = {
        site: {name: sum(map(is_missing, cells)) / len(cells) for name, cells in of(some).items()}
        for site, some in rows.items()
    }
    return patients, encoding, missing


def trained(method: str, train: Samples, seed: int) -> nescio.methods.Method:
    torch.manual_seed(seed)
    width, normalise = train.shape[0], Normalise.fitted(train)
    if method == "duq":
        model = DUQ(
            mlp(width, 32, (50, 50)),
            2,
            length_scale=0.3,
            features=32,
            momentum=0.99,
            normalise=normalise,
        )
    else:
        model = Softmax(mlp(width, 2, (50, 50)), normalise)
    nescio.train(
        model, train, epochs=40, batch_size=32, weight_decay=1e-3, seed=seed, progress=False
    )
    return model


def compared(
    model: nescio.methods.Method, patients: dict[str, Samples], missing: dict[str, dict[str, float]]
) -> Table:
    """How each hospital's patients score, at the threshold that accepts 95 % of Cleveland's."""
    detector = nescio.Threshold(model).fit(patients["cleveland"], accept=0.95)
    table = Table(title=f"{model.name}: who is known?", title_justify="left", padding=(0, 0))
    for name in (
        "hospital",
        "patients",
        "ill",
        "values\nfilled in",
        "median\nconfidence",
        "I do not\nknow",
        "right, of\nall",
        "right, of\naccepted",
    ):
        table.add_column(name, justify="left" if name == "hospital" else "right", overflow="fold")
    for site, name in HOSPITALS.items():
        some = patients[site]
        logits, answers = nescio.predict(model, some, progress=False), detector.predict(some)
        right, known = logits.mean(0).argmax(1) == some.labels, answers >= 0
        filled = sum(missing[site].values()) / len(missing[site])
        figures = (
            some.labels.double().mean(),
            filled,
            model.confidence(logits).median(),
            1 - known.double().mean(),
            right.double().mean(),
            right[known].double().mean(),
        )
        table.add_row(name, str(len(some)), *(f"{float(one):.0%}" for one in figures))
    return table


def said(record: FeatureAudit, feature: AuditedFeature) -> str:
    """One feature in words a clinician would use."""
    name, unit = feature.name.rstrip("]").split(" [")
    parts = []
    for word, side in (("lower", feature.lower), ("higher", feature.higher)):
        reach = side.unknown or side.certain
        what = "is unknown for ever" if side.unknown else f"gets {record.confidence:.1%} certainty"
        if reach.median is None:
            parts.append(f"however much {word}, the median patient never {what}")
        else:
            of = (
                ""
                if side.unknown
                else f" of {record.classes[max(range(2), key=side.certain_of.__getitem__)]}"
            )
            parts.append(
                f"{float(f'{reach.median:.3g}'):,g} {unit} {word} and the median patient {what}{of}"
            )
    return f"{name}, seen from {feature.low:g} to {feature.high:g}: {'; '.join(parts)}."


def main() -> int:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--method", choices=("softmax", "duq"), default="softmax")
    arguments.add_argument("-o", "--output", help="a figure to write: .png, .svg or .pdf")
    arguments.add_argument("--seed", type=int, default=0)
    given = arguments.parse_args()
    out = Console(highlight=False)
    patients, encoding, missing = hospitals()
    model = trained(given.method, patients["train"], given.seed)
    accuracy = nescio.evaluate(model, patients["cleveland"], scores=[model.score]).known.accuracy
    out.print(
        f"Trained on {len(patients['train'])} patients of Cleveland, right on {accuracy:.1%} of "
        f"{len(patients['cleveland'])} others of Cleveland.\n"
    )
    out.print(compared(model, patients, missing))
    for site, name in HOSPITALS.items():
        gone = [f"{column} {share:.0%}" for column, share in missing[site].items() if share >= 0.05]
        out.print(
            f"{name}: missing and filled in: {', '.join(gone) or 'next to nothing'}", soft_wrap=True
        )
    names = [
        f"{MEASURED[one][0]} [{MEASURED[one][1]}]" if one in MEASURED else one
        for one in encoding.features
    ]
    features = [place for place, one in enumerate(encoding.features) if one in MEASURED]
    record = nescio.audit.per_feature(
        model, patients["cleveland"], features=features, names=names, classes=CLASSES
    )
    out.print("\nOne measurement is wrong, all else stays as it is:", style="bold")
    for feature in nearest_first(record):
        out.print(f"- {said(record, feature)}", soft_wrap=True)
    out.print()
    out.print(feature_table(record))
    if given.output:
        save_figure(feature_figure(record), given.output)
        out.print(f"The figure is in {given.output}.")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except nescio.NescioError as error:
        sys.exit(str(error))
