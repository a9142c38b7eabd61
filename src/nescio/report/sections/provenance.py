"""Where every record comes from: enough to make it again."""

import json

from markupsafe import Markup

from nescio.records import Provenance, Record
from nescio.report.markup import Cell, more, seconds, table
from nescio.report.section import ReportContext, Section, paragraphs

COLUMNS = ("name", "record", "seed", "seconds", "versions")
LONGEST = 2000  # characters of settings that are shown


def section(given: ReportContext) -> Section | None:
    """A row for each record; its settings and the command that made it, on demand."""
    found = [
        (name, record, origin)
        for name, record in given.records
        if isinstance(origin := getattr(record, "provenance", None), Provenance)
    ]
    if not found:
        return None
    versions = list(dict.fromkeys(_versions(origin) for _, _, origin in found))
    rows: list[list[Cell]] = [
        [name, type(record).__name__, origin.seed, seconds(origin.seconds), _versions(origin)]
        for name, record, origin in found
    ]
    if len(versions) == 1:  # said once for all
        rows = [row[:-1] for row in rows]
    parts = [table(COLUMNS[: len(rows[0])], rows, "Records of this report", digits=1)]
    parts += (
        [paragraphs([f"All were made with {versions[0]}."])]
        if len(versions) == 1 and versions[0]
        else []
    )
    inside = [
        Markup("<h3>{}: {}</h3>{}<p><code>{}</code></p>").format(
            name, type(record).__name__, _command(record, origin), _settings(origin)
        )
        for name, record, origin in found
    ]
    parts.append(more("Settings and commands", Markup("").join(inside)))
    return Section("provenance", "Provenance", Markup("").join(parts))


def _versions(origin: Provenance) -> str:
    return ", ".join(f"{name} {version}" for name, version in origin.versions.items())


def _settings(origin: Provenance) -> str:
    text = json.dumps(origin.settings, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _command(record: Record, origin: Provenance) -> Markup:
    """What was typed to make it; kinds that others add may keep it in a field of their own."""
    typed = origin.command or getattr(record, "command", None)
    if typed is None:
        return paragraphs(["Made from Python, or by a version that kept no commands."])
    return Markup("<p>Made by <code>{}</code></p>").format(typed)
