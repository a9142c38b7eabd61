"""The inputs a model was surest and least sure about, known and unknown: pictures, or rows of a table."""

from collections.abc import Iterator

from markupsafe import Markup

from nescio.metrics.percent import percent
from nescio.records import Example, Examples, ExampleSet
from nescio.report.markup import Cell, Shown, apart, heading, level_within, percentage, table
from nescio.report.pictures import picture, row_of
from nescio.report.section import DRAWN, ReportContext, Section, paragraphs


def section(given: ReportContext) -> Section | None:
    """A part for each record, of the first few."""
    found = given.told_apart(Examples)
    parts = [
        apart(name, _examples(record, level_within(len(found))), len(found))
        for name, record in found[:DRAWN]
    ]
    if len(found) > DRAWN:
        parts.append(paragraphs([f"{len(found) - DRAWN} more models’ inputs are not shown."]))
    return Section("examples", "Surest and least sure", Markup("").join(parts)) if parts else None


def _examples(record: Examples, level: int) -> Markup:
    words = f"Of each set the inputs it is surest of first, then those it is least sure of, judged by {record.score}."
    parts = [paragraphs([words]), _set(record, record.known, level, known=True)]
    parts += [_set(record, one, level, known=False) for one in record.unknown]
    return Markup("").join(parts)


def _set(record: Examples, one: ExampleSet, level: int, known: bool) -> Markup:
    kind = "known" if known else "unknown"
    parts = [heading(f"{one.name} ({kind}, {one.inputs:,} inputs)", level)]
    parts.append(paragraphs(list(_told(one, known))))
    shown = (*one.surest, *one.unsure)
    if shown and all(example.image is not None for example in shown):
        for title, ends in (("surest", one.surest), ("least sure", one.unsure)):
            if ends:
                parts.append(
                    Markup("<p>{}:</p>{}").format(
                        title.capitalize(), _pictures(one, ends, title, known)
                    )
                )
    else:
        parts.append(_rows(record, one, known))
    return Markup("").join(parts)


def _told(one: ExampleSet, known: bool) -> Iterator[str]:
    """What stands out, in words."""
    if not known:
        if one.surest:
            yield f"Its confidence in the surest of these is {percent(one.surest[0].confidence)}."
        return
    wrong = sum(
        example.truth is not None and example.answer != example.truth for example in one.surest
    )
    if any(example.truth is not None for example in one.surest):
        count = f"{len(one.surest)} input{'s' * (len(one.surest) > 1)}"
        yield (
            f"Of the {count} it is surest of {wrong} are wrong."
            if wrong
            else (f"It is right about the {count} it is surest of.")
        )


def _pictures(one: ExampleSet, ends: tuple[Example, ...], title: str, known: bool) -> Markup:
    return row_of([_picture(one, example, title, known) for example in ends])


def _picture(one: ExampleSet, example: Example, title: str, known: bool) -> Markup:
    wrong = known and example.truth is not None and example.truth != example.answer
    lines = [f"“{example.answer}” {percent(example.confidence)}"]
    if wrong:
        lines.append(f"is “{example.truth}”")
    if example.span is not None:
        lines.append(f"{example.span[0]:.3g} to {example.span[1]:.3g}")
    truth = (
        f", which is {'wrong: it is ' + str(example.truth) if wrong else 'right'}"
        if known and example.truth
        else ""
    )
    stretched = (
        ""
        if example.span is None
        else (
            f"; its values go from {example.span[0]:.3g} to {example.span[1]:.3g}, and are shown stretched to black and "
            "white"
        )
    )
    alt = (
        f"{one.name}, input {example.number}, among the {title}: taken for {example.answer}{truth}, confidence "
        f"{percent(example.confidence)}{stretched}"
    )
    if example.image is None:
        raise AssertionError("only sets of images are shown as pictures")
    return picture(example.image, alt, lines, wrong)


def _rows(record: Examples, one: ExampleSet, known: bool) -> Markup:
    truth = ["true class"] if known else []
    columns = ["end", "input", "class given", *truth, "confidence, %", "score", *record.features]
    rows: list[list[Cell]] = []
    for title, ends in (("surest", one.surest), ("least sure", one.unsure)):
        for example in ends:
            cells: list[Cell] = [
                title,
                example.number,
                example.answer,
                *([example.truth] if known else []),
            ]
            cells += [percentage(example.confidence), example.score]
            values = example.values or (None,) * len(record.features)
            cells += [None if value is None else Shown(f"{value:.6g}", value) for value in values]
            rows.append(cells)
    more = f" {record.left_out} further features are not shown." if record.left_out else ""
    return table(columns, rows, f"{one.name}.{more}", 2)
