"""Where every record comes from: enough to make it again."""

import json
import shlex

from markupsafe import Markup

from nescio.records import Audit, Contest, Evaluation, Provenance, Recommendation, Record, Reproduction
from nescio.report.markup import Cell, more, table
from nescio.report.section import Given, Section, paragraphs

COLUMNS = ("name", "record", "seed", "seconds", "versions")
LONGEST = 2000  # characters of settings that are shown


def section(given: Given) -> Section | None:
    """A row for each record; its settings and, where they tell it, the command that made it, on demand."""
    found = [(name, record, origin) for name, record in given.records
             if isinstance(origin := getattr(record, "provenance", None), Provenance)]  # fmt: skip
    if not found:
        return None
    versions = list(dict.fromkeys(_versions(origin) for _, _, origin in found))
    rows: list[list[Cell]] = [[name, type(record).__name__, origin.seed, origin.seconds, _versions(origin)]
                              for name, record, origin in found]  # fmt: skip
    if len(versions) == 1:  # said once for all
        rows = [row[:-1] for row in rows]
    parts = [table(COLUMNS[: len(rows[0])], rows, "Records of this report", digits=1)]
    parts += [paragraphs([f"All were made with {versions[0]}."])] if len(versions) == 1 and versions[0] else []
    inside = [
        Markup("<h3>{}: {}</h3>{}<p><code>{}</code></p>").format(
            name, type(record).__name__, _command(name, record), _settings(origin)
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


def _command(name: str, record: Record) -> Markup:
    """The command that makes such a record, as far as the record tells."""
    words: list[str] = []
    if isinstance(record, Reproduction):
        return Markup("<p><code>{}</code></p>").format(record.command)
    if isinstance(record, Evaluation):
        sets = [str(one) for one in record.provenance.settings.get("unknown", [])]
        words = ["evaluate", name, *(["--unknown", *sets] if sets else []), "--seed", str(record.provenance.seed)]
    if isinstance(record, Audit):
        words = ["audit", name]
    if isinstance(record, Recommendation):
        words = ["recommend", name, "--seed", str(record.provenance.seed)]
    if isinstance(record, Contest):
        words = ["contest", name, "--unknown", *record.unknown]
    return (
        Markup("<p>Such a record is made by <code>nescio {}</code></p>").format(shlex.join(words))
        if words
        else Markup("")
    )
