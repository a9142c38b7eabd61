"""Records as tables for a terminal."""

import re
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nescio.metrics.percent import per_cent
from nescio.records import Against, Evaluation, UnknownSide
from nescio.report.own import own

# on a narrow terminal names are folded, and figures stay whole
FIGURES: dict[str, Any] = {"justify": "right", "overflow": "fold", "min_width": 5}
CONVENTIONS = (
    "Scores: larger = less known. MMC: mean largest confidence.\n"
    "AUROC: chance that an unknown input scores above a known one, ties half.\n"
    "AUPR: average precision, In with known as positive, Out with unknown.\n"
    "FPR95: share of unknown inputs accepted when 95 % of known ones are accepted."
)


def evaluation_tables(record: Evaluation) -> RenderableType:
    """What the model knows, how the method's own score takes each unknown set, and the AUROC of every score."""
    parts: list[RenderableType] = [_known(record)]
    if record.unknown:
        parts.append(_unknown(record))
        if len(record.unknown[0].separation) > 1:
            parts.append(_by_score(record))
        parts.append(Text("\n".join([CONVENTIONS, *_attacks(record.unknown)]), style="dim"))
    for name, tried in record.provenance.settings.get("resisted", {}).items():
        parts.append(
            Text(
                f"{name}: none of {tried} attacks made the model err, so there is nothing to judge it by."
            )
        )
    return Group(*parts)


def _attacks(sides: Sequence[UnknownSide]) -> list[str]:
    """How each adversarial set was made and, where not all inputs are in it, why."""
    lines = []
    for side in sides:
        if (attack := side.attack) is not None:
            kept = "" if side.inputs == attack.tried else f"; {side.inputs} ended in a wrong class"
            lines.append(
                f"{side.name}: {attack_in_words(attack)}, tried on {attack.tried} inputs{kept}."
            )
    return lines


def _known(record: Evaluation) -> Table:
    known = record.known
    table = new_table(
        f"{record.method} on {known.name}: {known.inputs} inputs, {record.classes} classes"
    )
    for name in ("accuracy", "MMC", "NLL", "Brier", "ECE", "AUROC correct/wrong"):
        table.add_column(name, **FIGURES)
    wrong = own(known.misclassification, record.score)
    table.add_row(
        share(known.accuracy),
        share(known.mmc),
        _figure(known.nll),
        _figure(known.brier),
        share(known.ece),
        _figure(None if wrong is None else wrong.auroc),
    )
    return table


def _unknown(record: Evaluation) -> Table:
    first = own(record.unknown[0].separation, record.score)
    table = new_table(f"known against unknown, by {record.score if first is None else first.score}")
    table.add_column("unknown", overflow="fold")
    for name in ("inputs", "MMC", "AUROC", "AUPR-In", "AUPR-Out", "FPR95"):
        table.add_column(name, **FIGURES)
    for side in record.unknown:
        row: list[RenderableType] = [Text(side.name), str(side.inputs), share(side.mmc)]
        if (found := own(side.separation, record.score)) is not None:
            row += [
                _auroc(found.auroc),
                _figure(found.aupr_in),
                _figure(found.aupr_out),
                share(found.fpr95),
            ]
        table.add_row(*row)
    return table


def _by_score(record: Evaluation) -> Table:
    table = new_table("AUROC of every score")
    table.add_column("score", no_wrap=True)
    for side in record.unknown:
        table.add_column(Text(folded(side.name, 12)), **FIGURES)
    table.add_column("correct/\nwrong", **FIGURES)
    for index, found in enumerate(record.known.misclassification):
        cells = [_auroc(side.separation[index].auroc) for side in record.unknown]
        table.add_row(found.score, *cells, _auroc(found.auroc))
    return table


def new_table(title: str) -> Table:
    """An empty table in the style of them all."""
    return Table(
        title=Text(title),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        title_style="bold",
    )


def folded(name: str, width: int) -> str:
    r"""A name in lines of some width that end, where they can, with a mark between words.

    >>> folded("adversarial_samples", 14)
    'adversarial_\nsamples'
    """
    lines = [""]
    for part in re.findall(r"[^_\s-]+[_\s-]*|[_\s-]+", name):
        if lines[-1] and len(lines[-1] + part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def share(value: float | None) -> str:
    """A share as a percentage; a dash if it is undefined."""
    return "–" if value is None else f"{per_cent(value)}%"


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _auroc(value: float | None) -> Text:
    return Text(_figure(value), style=auroc_colour(value))


def auroc_colour(value: float | None) -> str:
    """By how far it is from tossing a coin."""
    if value is None:
        return ""
    return "green" if value >= 0.9 else "yellow" if value >= 0.7 else "red"


def attack_in_words(attack: Against) -> str:
    """An attack's aim and strength.

    >>> attack_in_words(Against(1000, "loss", 0.3, 80, 0.0075, "linf", True, 1, False))
    'loss raised within ε = 0.3 (linf), 80 steps of 0.0075'
    """
    aim = "confidence lowered" if attack.objective == "doubt" else f"{attack.objective} raised"
    step = f"{'at first ' if attack.adaptive else ''}{attack.step_size:g}"
    more = f", {attack.restarts} starts" if attack.restarts > 1 else ""
    return f"{aim} within ε = {attack.eps:g} ({attack.norm}), {attack.steps} steps of {step}{more}"


def status_table(found: Sequence[Any]) -> Table:
    """The data sets, which of them are here, and where."""
    table = new_table("data sets")
    for name in ("name", "kind", "here", "where", "what"):
        table.add_column(name, overflow="fold", no_wrap=name == "name")
    for one in found:
        here = (
            Text("yes", style="green")
            if one.present
            else Text("get" if one.downloadable else "no", style="yellow")
        )
        table.add_row(one.name, one.kind, here, Text(str(one.where or "")), Text(one.about))
    return table
