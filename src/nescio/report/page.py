"""Records as one page that needs no network: what a model knows, and what it does not."""

import base64
import dataclasses
import hashlib
import itertools
import re
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from nescio.errors import NescioError
from nescio.records import History, Provenance, Record
from nescio.report.section import ReportContext, Section, paragraphs
from nescio.report.sections import (
    accuracy,
    attacks,
    contest,
    examples,
    history,
    infinity,
    maps,
    meta,
    provenance,
    recommendation,
    rejection,
    side_by_side,
    threshold,
    unknown,
    verdict,
)
from nescio.report.sentences import listed

MakeSection = Callable[[ReportContext], Section | None]
SECTIONS: tuple[MakeSection, ...] = (
    verdict.section,
    accuracy.section,
    unknown.section,
    rejection.section,
    threshold.section,
    infinity.section,
    attacks.section,
    maps.section,
    examples.section,
    history.section,
    side_by_side.section,
    contest.section,
    recommendation.section,
    meta.section,
    provenance.section,
)
LARGEST = 3_000_000  # bytes of a page
NAMED = 3  # models that its title calls by name
# no text can hold these: halves of characters, and signs that are none
UNWRITABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
FIGURES = re.compile(r"<figure>.*?</figure>", re.DOTALL)
MARK = re.compile(r' id="([0-9a-f]{8})-')  # of a figure, before each of its ids


def report_page(
    records: Sequence[tuple[str, Record]], sections: Sequence[MakeSection] = SECTIONS
) -> str:
    """A whole HTML page made from records alone, each with the name it goes by.

    It holds its style and script itself, loads nothing, and has less than 3 MB: figures are left out, those of the
    largest section first, where it would have more.

    Args:
        sections: what makes each part of the page, in order; others may add their own for records of their own.
    """
    if not records:
        raise NescioError("a report takes one or more records; given: none")
    given = ReportContext(tuple((_writable(name), _writable(record)) for name, record in records))
    for name, record in given.records:
        _check(name, record)
    parts = _numbered([_unbroken(part) for make in sections if (part := make(given)) is not None])
    while len(page := _filled(given, parts).encode()) >= LARGEST:
        largest = max(parts, key=lambda part: sum(map(len, FIGURES.findall(part.body))))
        parts[parts.index(largest)] = _without_figures(largest)
    return page.decode()


def _check(name: str, record: Record) -> None:
    for field in record.NEEDED:
        if not getattr(record, field):
            raise NescioError(
                f"{name!r} has a {type(record).__name__} record without {field}, which cannot be shown"
            )


def _unbroken(section: Section) -> Section:
    """No line ends between a number and its per cent."""
    body = re.sub(r"(?<=\d) %", "\u00a0%", section.body)
    return dataclasses.replace(section, body=Markup(body))  # noqa: S704 - it was escaped before


def _numbered(sections: Sequence[Section]) -> list[Section]:
    """The same with ids that no other figure of the page has, even one that is drawn alike."""
    count = itertools.count(1)

    def own_ids(found: re.Match[str]) -> str:
        number = next(count)
        if (mark := MARK.search(found[0])) is None:
            return found[0]
        return re.sub(rf'(?<=[#"]){mark[1]}-', f"f{number}-", found[0])

    return [
        dataclasses.replace(one, body=Markup(FIGURES.sub(own_ids, one.body)))  # noqa: S704 - it was escaped before
        for one in sections
    ]


def _without_figures(section: Section) -> Section:
    words = FIGURES.sub("", section.body)
    if words == section.body:
        raise NescioError(
            f"the records are too many for one page of {LARGEST // 10**6} MB: even without figures "
            f"{section.title!r} has {len(words.encode()) / 10**6:.1f} MB"
        )
    note = paragraphs(
        ["Its figures are left out: with them this page would be too large. Give fewer records."]
    )
    return dataclasses.replace(section, body=note + Markup(words))  # noqa: S704 - what is left of escaped text


def _filled(given: ReportContext, sections: Sequence[Section]) -> str:
    environment = Environment(
        loader=PackageLoader("nescio", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    script = _file("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = {
        "default-src": "'none'",
        "img-src": "data:",
        "style-src": "'unsafe-inline'",
        "script-src": f"'sha256-{digest}'",  # this one, and no other, whatever a name might smuggle in
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return environment.get_template("page.html").render(
        title=_title(given),
        subtitle="from 1 record"
        if len(given.records) == 1
        else f"from {len(given.records)} records",
        sections=sections,
        policy="; ".join(f"{name} {value}" for name, value in policy.items()),
        version=Provenance.now(0, {}, 0).versions["nescio"],
        css=Markup(_file("page.css")),  # noqa: S704 - ours
        script=Markup(script),  # noqa: S704 - ours
    )


def _title(given: ReportContext) -> str:
    """What the page is about: its models' names, or how many they are; if it has no models, what else it shows."""
    models = _models(given)
    if not models:
        names = list(dict.fromkeys(name for name, _ in given.records))
        return (
            f"What was found: {listed(names) if len(names) <= NAMED else f'{len(names)} results'}"
        )
    told = listed(models) if len(models) <= NAMED else f"{len(models)} models"
    return f"What {told} {'knows, and what it does not' if len(models) == 1 else 'know, and what they do not'}"


def _models(given: ReportContext) -> list[str]:
    """Names of models; that of a training alone, beside which others are judged, only if there is no other."""
    of_models = [(name, record) for name, record in given.records if record.OF_MODEL]
    judged = [(name, record) for name, record in of_models if not isinstance(record, History)]
    return list(dict.fromkeys(name for name, _ in judged or of_models))


def _file(name: str) -> str:
    return resources.files("nescio.report").joinpath(name).read_text(encoding="utf-8")


def _writable(value: Any) -> Any:
    """A record in which every text can be written to a file; a sign that cannot is shown as one that is missing."""
    if isinstance(value, str):
        return UNWRITABLE.sub("\ufffd", value)
    if isinstance(value, tuple | list):
        return type(value)(map(_writable, value))
    if isinstance(value, dict):
        return {_writable(key): _writable(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            field.name: _writable(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
        return dataclasses.replace(value, **fields)
    return value
