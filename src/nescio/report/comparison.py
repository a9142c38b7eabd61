"""Several methods on the same data: tables, files of `nescio compare`, and part of the page."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup
from rich.console import Group, RenderableType
from rich.text import Text

from nescio.files import FIGURE, PAGE, check_replaceable
from nescio.records import Evaluation, UnknownSide
from nescio.report import comparison_figures as figures
from nescio.report.comparison_figures import Sets
from nescio.report.figures import save_figure
from nescio.report.html import details, figure, heading, items
from nescio.report.records import ReportContext
from nescio.report.runs import Records, Runs, compared, merge_runs, notes, of_score, side_of, size
from nescio.report.table import (
    Cell,
    Table,
    auroc_cell,
    join,
    mean_cell,
    percent_cell,
    save_markdown,
)
from nescio.report.words import definitions

TABLE = "table.md"
MAX_SET_TABLES = 3  # unknown sets with a table each; of more there is a table per metric
MAX_MODELS = 12  # in a figure of the page


def write_comparison(
    records: Records, folder: str | os.PathLike[str], unknown: Sets = None, score: str | None = None
) -> RenderableType:
    """Write roc.svg, rejection.svg, confidence.svg and table.md, and return tables to print.

    Adversarial samples among the sets also give adversarial_samples.svg, the confidence in them.

    Args:
        records: evaluations on the same data; those of one method are its runs.
        folder: where to write; made if it does not exist.
        unknown: names of unknown sets; by default all that every record has.
        score: the one to use for all; by default each method's own.
    """
    _, sets = compared(records, unknown)
    drawn = {
        "roc.svg": figures.roc_figure(records, unknown, score),
        "rejection.svg": figures.rejection_figure(records, unknown, score),
        "confidence.svg": figures.confidence_figure(records, unknown),
    }
    if figures.ADVERSARIAL_SAMPLES in sets:
        drawn[f"{figures.ADVERSARIAL_SAMPLES}.svg"] = figures.attacked_figure(records)
    check_replaceable(Path(folder) / TABLE, PAGE)
    for name in drawn:
        check_replaceable(Path(folder) / name, FIGURE)  # all before any is written
    for name, picture in drawn.items():
        save_figure(picture, Path(folder) / name)
    tables = metric_tables(records, unknown, score)
    save_markdown("\n".join(table.markdown() for table in tables), Path(folder) / TABLE)
    return Group(*tables) if len(sets) > MAX_SET_TABLES else set_tables(records, unknown, score)


def compared_numbers(
    records: Records, unknown: Sets = None, score: str | None = None
) -> list[dict[str, object]]:
    """Return the numbers of each method on each unknown set, as plain data: one for each run."""
    runs, sets = compared(records, unknown)
    rows: list[dict[str, object]] = []
    for method, group in runs.items():
        for name in sets:
            sides = [side_of(run, name) for run in group]
            pairs = zip(group, sides, strict=True)
            results = [of_score(run, side.separation, score) for run, side in pairs]
            about = {"method": method, "unknown": name, "score": [one.score for one in results]}
            known = {"accuracy": [run.known.accuracy for run in group]}
            metrics = ("auroc", "aupr_in", "aupr_out", "fpr95")
            measured = {metric: [getattr(one, metric) for one in results] for metric in metrics}
            mmc = {"mmc": [run.known.mmc for run in group], "mmc_unknown": [s.mmc for s in sides]}
            rows.append({**about, **known, **mmc, **measured})
    return rows


def _known_cells(group: Sequence[Evaluation]) -> tuple[Cell, Cell, Cell]:
    """Return runs, accuracy and mean confidence on known data of one method."""
    accuracy, mmc = ([getattr(run.known, name) for run in group] for name in ("accuracy", "mmc"))
    return len(group), percent_cell(accuracy), percent_cell(mmc)


def _cells(group: Sequence[Evaluation], name: str, score: str | None) -> dict[str, Cell]:
    """Return each metric of one method on one unknown set, mean ± standard deviation of runs."""
    sides = [side_of(run, name) for run in group]
    separations = zip(group, (side.separation for side in sides), strict=True)
    results = [of_score(record, separation, score) for record, separation in separations]
    return {
        "MMC unknown": percent_cell([side.mmc for side in sides]),
        "AUROC": auroc_cell([result.auroc for result in results]),
        "AUPR In": mean_cell([result.aupr_in for result in results]),
        "AUPR Out": mean_cell([result.aupr_out for result in results]),
        "FPR95": percent_cell([result.fpr95 for result in results]),
    }


def set_tables(records: Records, unknown: Sets = None, score: str | None = None) -> RenderableType:
    """Return a table for each unknown set with a row for each method."""
    (runs, sets), parts = compared(records, unknown), []
    first = next(iter(runs.values()))[0]
    for name in sets:
        cells = {label: _cells(group, name, score) for label, group in runs.items()}
        rows = [[label, *_known_cells(runs[label]), *cells[label].values()] for label in runs]
        side = side_of(first, name)
        against = f"{size(side)} {'attacked' if side.attack else 'unknown'} inputs"
        title = f"{first.known.name} against {name}: {first.known.inputs} known, {against}"
        columns = ("method", "runs", "acc.", "MMC known", *next(iter(cells.values())))
        parts.append(Table(title, columns, rows))
    terms = definitions("score", "mean confidence", "AUROC", "AUPR-In, AUPR-Out", "FPR95")
    return Group(*parts, Text("\n".join([*notes(runs, sets, score), *terms]), style="dim"))


def metric_tables(records: Records, unknown: Sets = None, score: str | None = None) -> list[Table]:
    """Return AUROC, FPR95 and mean confidence, each with a row per method and a column per set."""
    runs, sets = compared(records, unknown)
    first = next(iter(runs.values()))[0]
    auroc, fpr95, mmc = [], [], []
    for label, group in runs.items():
        cells, known = [_cells(group, name, score) for name in sets], _known_cells(group)
        auroc.append([label, *known, *(row["AUROC"] for row in cells)])
        fpr95.append([label, *(row["FPR95"] for row in cells)])
        mmc.append([label, known[-1], *(row["MMC unknown"] for row in cells)])
    data, sides = first.known.name, [side_of(first, name) for name in sets]
    inputs = [f"{first.known.inputs} of {data}"]
    inputs += [f"{side.inputs} of {side.name}" for side in sides if not side.attack]
    lines = [*notes(runs, sets, score), f"Inputs: {', '.join(inputs)}."]
    lines += definitions("score", "mean confidence", "AUROC", "FPR95")
    columns = ["method", "runs", "accuracy", "mean confidence"]
    columns += [f"AUROC: {name}" for name in sets]
    return [
        Table(f"{data} against unknown sets", columns, auroc, lines),
        Table("FPR95 on each set", ("method", *sets), fpr95),
        Table("Mean confidence on each set", ("method", data, *sets), mmc),
    ]


def by_known_data(context: ReportContext) -> list[Runs]:
    """Return evaluations on the same known data together; those of one name are its runs."""
    groups: dict[tuple[str, int], Runs] = {}
    for name, record in context.of(Evaluation):
        data = record.known.name, record.known.inputs
        groups.setdefault(data, {}).setdefault(name, []).append(record)
    every = groups.values()
    return [{name: merge_runs(runs) for name, runs in group.items()} for group in every]


def comparison_html(context: ReportContext) -> Markup:
    """Return tables and figures of all models that were evaluated on the same data."""
    groups, parts = [one for every in by_known_data(context) if (one := _comparable(every))], []
    for group in groups:
        if len(groups) > 1:
            parts.append(heading(next(iter(group.values()))[0].known.name))
        parts.append(_group_html(group))
    return join(parts)


def _comparable(group: Runs) -> Runs | None:
    """Return the models that share all unknown sets, in equal sizes, of the first with company.

    Only sets with results by the model's own score count.
    """

    def scored(run: Evaluation) -> dict[tuple[str, int], UnknownSide]:
        sides = [side for side in run.unknown if run.score in {r.score for r in side.separation}]
        return {(side.name, size(side)): side for side in sides}

    def only(names: frozenset[tuple[str, int]], record: Evaluation) -> Evaluation:
        sides = (side for key, side in scored(record).items() if key in names)
        return replace(record, unknown=tuple(sides))

    wanted = (frozenset(scored(run)) for runs in group.values() for run in runs)
    for names in dict.fromkeys(filter(None, wanted)):
        same = {}
        for name, runs in group.items():
            if complete := [only(names, run) for run in runs if names <= set(scored(run))]:
                same[name] = complete
        if len(same) > 1:
            return same
    return None


def _group_html(group: Runs) -> Markup:
    main, *others = metric_tables(group)
    parts = [Table(main.title, main.columns, main.rows).html()]
    parts += [details("FPR95 and mean confidence", join(table.html() for table in others))]
    parts += [items(main.notes)]
    few = dict(list(group.items())[:MAX_MODELS])
    every = [run for runs in few.values() for run in runs]
    names, sets = ", ".join(few), [side.name for side in every[0].unknown]

    def has(results: str) -> bool:
        """Whether every record has these results on every set by its own score."""
        sides = ((run.score, getattr(side, results)) for run in every for side in run.unknown)
        return all(any(result.score == score for result in several) for score, several in sides)

    panels, known = f"a panel for each of {', '.join(sets)}", every[0].known.name
    counted = ({} if run.confidence is None else run.confidence.counts for run in every)
    has_confidence = all({"known", *sets} <= set(counts) for counts in counted)
    if has("roc"):
        alt = f"ROC curves of {names}, {panels}; AUROC is in the table."
        caption = "The nearer to the upper left corner, the better."
        parts.append(figure(figures.roc_figure(few), alt, caption))
    if has("rejection"):
        caption = "Selective accuracy as inputs are rejected; dashed the theoretical maximum."
        alt = f"Rejection curves of {names}, {panels}."
        parts.append(figure(figures.rejection_figure(few), alt, caption))
    if has_confidence:
        alt = f"Confidence of {names} on {known} and on {', '.join(sets)}."
        caption = "Known data should be on the right, everything else on the left."
        parts.append(figure(figures.confidence_figure(few), alt, caption))
    if len(group) > MAX_MODELS:
        parts.append(items([f"{len(group) - MAX_MODELS} more models are in the table only."]))
    return join(parts)
