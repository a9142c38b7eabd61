"""Render records as a single HTML page that loads nothing."""

import base64
import dataclasses
import hashlib
import itertools
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from nescio.errors import NescioError, check_path
from nescio.files import REPORT, atomic_write, check_replaceable
from nescio.records import History, Provenance, Record
from nescio.report import (
    audit,
    calibration,
    comparison,
    decision,
    evaluation,
    examples,
    feature_audit,
    gallery,
    maps,
    meta,
    ranking,
    regions,
    scaling,
    training,
    verdict,
)
from nescio.report.html import details, heading, paragraphs
from nescio.report.records import ReportContext, check_output, records_in
from nescio.report.table import Cell, Table, join, seconds_cell
from nescio.report.words import listed, plural

MAX_BYTES = 3_000_000
MAX_NAMES = 3  # models that the title names
MAX_SETTINGS = 2000  # characters
# halves of characters, and code points that are none: no text file can hold them
UNWRITABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
FIGURE = re.compile(r"<figure>.*?</figure>", re.DOTALL)
Rendered = dict[str, Any]  # a section: its anchor, title and body
ID_PREFIX = re.compile(r' id="([0-9a-f]{8})-')  # of a figure, before each of its ids


def provenance_html(context: ReportContext) -> Markup:
    """Return a row for each record; its settings and command are folded away."""
    rows: list[list[Cell]] = []
    inside = []
    for name, record in context.records:
        kind, origin = type(record).__name__, getattr(record, "provenance", None)
        if not isinstance(origin, Provenance):
            continue
        versions = ", ".join(f"{package} {version}" for package, version in origin.versions.items())
        rows.append([name, kind, origin.seed, seconds_cell(origin.seconds), versions])
        # records from elsewhere may have a command of their own
        command = origin.command or getattr(record, "command", None)
        settings = json.dumps(origin.settings, ensure_ascii=False)
        if len(settings) > MAX_SETTINGS:
            settings = f"{settings[:MAX_SETTINGS]}…"
        origin_html = paragraphs(["Made from Python."])
        if command is not None:
            origin_html = Markup("<p>Made by <code>{}</code></p>").format(command)
        code = Markup("<p><code>{}</code></p>").format(settings)
        inside.append(heading(f"{name}: {kind}") + origin_html + code)
    if not rows:
        return Markup("")
    columns = ("name", "record", "seed", "seconds", "versions")
    table = Table("Records of this report", columns, rows, digits=1)
    if len({row[-1] for row in rows}) == 1:  # said once for all
        notes = [f"All were made with {rows[0][-1]}."] if rows[0][-1] else []
        table = dataclasses.replace(table.without("versions"), notes=notes)
    return table.html() + details("Settings and commands", join(inside))


@dataclass(frozen=True)
class Section:
    """A section of the page, left out if its parts have nothing to say.

    >>> Section("mine", "My own section", (lambda context: Markup("<p>some words</p>"),)).title
    'My own section'
    """

    anchor: str
    title: str
    parts: tuple[Callable[[ReportContext], Markup], ...]


SECTIONS = (  # of the usual page, in order
    Section("verdict", "Summary", (verdict.verdict_html,)),
    Section("accuracy", "Accuracy and calibration", (calibration.calibration_html,)),
    Section("unknown", "Known against unknown inputs", (evaluation.unknown_html,)),
    Section("rejection", "Selective prediction", (evaluation.rejection_html,)),
    Section("threshold", "Thresholds and guarantees", (decision.threshold_html,)),
    Section(
        "infinity",
        "Far away from the data",
        (audit.audit_html, feature_audit.feature_html, scaling.scaling_html, regions.limits_html),
    ),
    Section("attacks", "Adversarial inputs", (gallery.attacks_html,)),
    Section("maps", "Maps of the plane", (maps.maps_html, regions.regions_html)),
    Section("examples", "Most and least certain inputs", (examples.examples_html,)),
    Section("history", "Training", (training.training_html,)),
    Section("side-by-side", "Models compared", (comparison.comparison_html,)),
    Section("contest", "Detectors compared", (ranking.ranking_html,)),
    Section("recommendation", "Recommended detector", (ranking.recommendation_html,)),
    Section("meta", "Weights of the meta-classifier", (meta.meta_html,)),
    Section("provenance", "Provenance", (provenance_html,)),
)


def report_page(
    records: Sequence[tuple[str, Record]], sections: Sequence[Section] = SECTIONS
) -> str:
    """Return an HTML page of named records, with its style and script, below 3 MB.

    Where it would be larger, figures are left out, those of the largest section first.

    Args:
        records: each with the name to show it under.
        sections: in order; others may be added for further kinds of records.

    >>> page = report_page([("mine", nescio.evaluate(net, known.test, ["far"]))])
    >>> page.startswith("<!doctype html>")
    True
    """
    if not records:
        raise NescioError("a report needs at least one record, got none")
    context = ReportContext(tuple((_writable(name), _writable(record)) for name, record in records))
    for name, record in context.records:
        for field in record.NEEDED:
            if not getattr(record, field):
                kind = type(record).__name__
                raise NescioError(f"{name!r} has a {kind} record without {field}: nothing to show")
    counter = itertools.count(1)
    rendered = []
    for section in sections:
        if body := join(part(context) for part in section.parts):
            title = {"anchor": section.anchor, "title": section.title}
            rendered.append({**title, "body": _finished(body, counter)})
    while len(page := _fill_template(context, rendered).encode()) >= MAX_BYTES:
        _drop_figures(max(rendered, key=lambda s: sum(map(len, FIGURE.findall(s["body"])))))
    return page.decode()


def write_report(
    records: Sequence[str], path: str | os.PathLike[str], sections: Sequence[Section] = SECTIONS
) -> None:
    """Write the page of records, or of folders with some, each as `PATH` or `NAME=PATH`.

    It may replace another report of nescio's, and nothing else.

    >>> nescio.evaluate(net, known.test, ["far"]).save("run/evaluation.json")
    >>> write_report(["my network=run"], "report.html")
    """
    check_output(records, check_path("the page to write", path))
    check_replaceable(path, REPORT)
    page = report_page(records_in(records), sections)
    with atomic_write(path, "w") as file:
        file.write(page)


def _finished(body: Markup, counter: "itertools.count[int]") -> Markup:
    """Keep numbers and their percent signs together, and make the ids of figures unique."""

    def renumber(match: re.Match[str]) -> str:
        number = next(counter)
        if (prefix := ID_PREFIX.search(match[0])) is None:
            return match[0]
        return re.sub(rf'(?<=[#"]){prefix[1]}-', f"f{number}-", match[0])

    text = re.sub(r"(?<=\d) %", "\u00a0%", body)
    return Markup(FIGURE.sub(renumber, text))  # noqa: S704 - it was escaped before


def _drop_figures(section: Rendered) -> None:
    words = FIGURE.sub("", section["body"])
    if words == section["body"]:
        size = f"{section['title']!r} has {len(words.encode()) / 10**6:.1f} MB"
        problem = f"too many records for one page of {MAX_BYTES // 10**6} MB"
        raise NescioError(f"{problem}: even without figures {size}")
    note = paragraphs(["Figures are left out, or the page would be too large. Give fewer records."])
    section["body"] = note + Markup(words)  # noqa: S704 - what is left of escaped text


def _fill_template(context: ReportContext, sections: Sequence[Rendered]) -> str:
    loader = PackageLoader("nescio", "report")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    environment.keep_trailing_newline = True
    script = _read("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = {
        "default-src": "'none'",
        "img-src": "data:",
        "style-src": "'unsafe-inline'",
        "script-src": f"'sha256-{digest}'",  # this one, and none that a name might smuggle in
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return environment.get_template("page.html").render(
        title=_title(context),
        subtitle=f"from {plural(len(context.records), 'record')}",
        sections=sections,
        policy="; ".join(f"{name} {value}" for name, value in policy.items()),
        version=Provenance.now(0, {}, 0).versions["nescio"],
        css=Markup(_read("page.css")),  # noqa: S704 - ours
        script=Markup(script),  # noqa: S704 - ours
    )


def _title(context: ReportContext) -> str:
    """Return the models' names, or how many there are; without models, the names of the results."""
    of_models = [(name, record) for name, record in context.records if record.OF_MODEL]
    # the model of a training alone only if there is no other
    others = [(name, record) for name, record in of_models if not isinstance(record, History)]
    models = list(dict.fromkeys(name for name, _ in others or of_models))
    if not models:
        names = list(dict.fromkeys(name for name, _ in context.records))
        return f"Results: {listed(names) if len(names) <= MAX_NAMES else f'{len(names)} records'}"
    which = listed(models) if len(models) <= MAX_NAMES else f"{len(models)} models"
    does, it = ("knows", "it does") if len(models) == 1 else ("know", "they do")
    return f"What {which} {does}, and what {it} not"


def _read(name: str) -> str:
    return resources.files("nescio.report").joinpath(name).read_text(encoding="utf-8")


def _writable(value: Any) -> Any:
    """Return a record in which characters that no file can hold are replaced by �."""
    if isinstance(value, str):
        return UNWRITABLE.sub("\ufffd", value)
    if isinstance(value, tuple | list):
        return type(value)(map(_writable, value))
    if isinstance(value, dict):
        return {_writable(key): _writable(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        values = {name: _writable(getattr(value, name)) for name in names}
        return dataclasses.replace(value, **values)
    return value
