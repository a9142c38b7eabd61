"""The inputs that a model is most and least certain of: pictures, or rows of a table."""

from markupsafe import Markup

from nescio.metrics.percent import percent
from nescio.records import Example, Examples, ExampleSet
from nescio.report import html
from nescio.report.html import MAX_DRAWN, heading, model_part, paragraphs
from nescio.report.records import ReportContext
from nescio.report.table import Cell, Percent, Styled, Table, join
from nescio.report.words import plural

Ends = dict[str, tuple[Example, ...]]  # the most and the least certain


def examples_html(context: ReportContext) -> Markup:
    """Return examples of each record, of the first few."""
    records, parts = context.unique(Examples), []
    for name, record in records[:MAX_DRAWN]:
        level = html.level_within(len(records))
        order = f"Of each set the most, then the least certain inputs by {record.score}."
        sets = [_set_html(record, record.known, level, known=True)]
        sets += [_set_html(record, side, level, known=False) for side in record.unknown]
        parts.append(model_part(name, paragraphs([order]) + join(sets), len(records)))
    if (more := len(records) - MAX_DRAWN) > 0:
        parts.append(paragraphs([f"Inputs of {more} more models are not shown."]))
    return join(parts)


def _set_html(record: Examples, group: ExampleSet, level: int, known: bool) -> Markup:
    title = f"{group.name} ({'known' if known else 'unknown'}, {group.inputs:,} inputs)"
    parts = [heading(title, level), paragraphs(_words(group, known))]
    ends = {"most certain": group.surest, "least certain": group.unsure}
    examples = (*group.surest, *group.unsure)
    if not examples or any(example.image is None for example in examples):
        return join([*parts, _table(record, group, ends, known).html()])
    for end, inputs in ends.items():
        if inputs:
            pictures = html.picture_row(_picture(group, example, end, known) for example in inputs)
            parts.append(Markup("<p>{}:</p>{}").format(end.capitalize(), pictures))
    return join(parts)


def _words(group: ExampleSet, known: bool) -> list[str]:
    """Return what stands out."""
    if not group.surest or (known and all(example.truth is None for example in group.surest)):
        return []
    if not known:
        return [f"Confidence in the most certain of these: {percent(group.surest[0].confidence)}."]
    wrong = sum(_is_wrong(example, known) for example in group.surest)
    count = f"the {plural(len(group.surest), 'most certain input')}"
    return [f"Of {count}, {wrong} are misclassified." if wrong else f"It is correct on {count}."]


def _is_wrong(example: Example, known: bool) -> bool:
    return known and example.truth is not None and example.truth != example.answer


def _picture(group: ExampleSet, example: Example, end: str, known: bool) -> Markup:
    if example.image is None:
        raise AssertionError("only sets of images are shown as pictures")
    wrong, confidence = _is_wrong(example, known), percent(example.confidence)
    lines = [f"“{example.answer}” {confidence}"]
    alt = f"{group.name}, input {example.number}, among the {end}: classified as {example.answer}"
    if known and example.truth:
        alt += f", which is {f'wrong: it is {example.truth}' if wrong else 'correct'}"
    alt += f", confidence {confidence}"
    lines += [f"is “{example.truth}”"] if wrong else []
    if example.span is not None:
        low, high = (f"{value:.3g}" for value in example.span)
        lines.append(f"{low} to {high}")
        alt += f"; its values from {low} to {high} are shown stretched to black and white"
    return html.picture(example.image, alt, lines, wrong)


def _table(record: Examples, group: ExampleSet, ends: Ends, known: bool) -> Table:
    columns = ["end", "input", "class given", *(["true class"] if known else [])]
    columns += ["confidence", "score", *record.features]
    rows: list[list[Cell]] = []
    for end, inputs in ends.items():
        for example in inputs:
            row: list[Cell] = [end, example.number, example.answer]
            row += [*([example.truth] if known else []), Percent(example.confidence), example.score]
            values = example.values or (None,) * len(record.features)
            row += [None if value is None else Styled(f"{value:.6g}", value) for value in values]
            rows.append(row)
    more = f" {record.left_out} further features are not shown." if record.left_out else ""
    return Table(f"{group.name}.{more}", columns, rows, digits=2)
