"""Detectors side by side, as a table."""

from rich.console import Group, RenderableType
from rich.text import Text

from nescio.records import Contest
from nescio.report.tables import FIGURES, auroc_colour, folded, new_table

NOTE = (
    "AUROC: chance that an unknown input scores above a known one, ties half. FPR95: share of unknown inputs "
    "accepted when 95 % of known inputs are accepted, the mean over sets. Times with the model's own."
)


def contest_table(record: Contest) -> RenderableType:
    """AUROC of each detector against each set, the best mean first; then what else there is to choose by."""
    found = new_table(
        f"AUROC of detectors on {record.method}: {record.known} known inputs against others"
    )
    cost = new_table("What they let pass, and what they cost")
    for table, names in (
        (found, ("mean", *record.unknown)),
        (cost, ("mean FPR95", "fit, s", "s per 1000")),
    ):
        table.add_column("detector", no_wrap=True)
        for name in names:
            table.add_column(Text(folded(name, 9)), **FIGURES)
    for number, one in enumerate(record.contestants):
        style = "" if number else "bold"
        figures = [Text(f"{v:.3f}", style=auroc_colour(v)) for v in (one.mean, *one.auroc.values())]
        found.add_row(Text(one.name), *figures, style=style)
        passed = sum(one.fpr95.values()) / len(one.fpr95)
        cost.add_row(
            Text(one.name),
            f"{passed:.3f}",
            f"{one.fit_seconds:.1f}",
            f"{one.seconds_per_1000:.2f}",
            style=style,
        )
    parts: list[RenderableType] = [found, cost]
    for name, why in record.skipped.items():
        parts.append(Text(f"{name} left out: {why}", style="dim"))
    parts.append(
        Text(
            f"{NOTE} The model alone: {record.model_seconds_per_1000:.2f} s per 1000.", style="dim"
        )
    )
    return Group(*parts)


def contest_markdown(record: Contest) -> str:
    """The same for a page: AUROC / FPR95 of each detector against each set."""
    sets = list(record.unknown)
    rows = [
        "| detector | mean AUROC | " + " | ".join(sets) + " | fit, s | s per 1000 |",
        "|---" * (len(sets) + 4) + "|",
    ]
    for one in record.contestants:
        figures = " | ".join(f"{one.auroc[name]:.3f} / {one.fpr95[name]:.3f}" for name in sets)
        rows.append(
            f"| {one.name} | {one.mean:.4f} | {figures} | {one.fit_seconds:.1f} | {one.seconds_per_1000:.2f} |"
        )
    return "\n".join(rows) + "\n"
