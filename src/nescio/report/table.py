"""One table type, rendered for a terminal, as Markdown and as HTML."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev
from typing import Literal

from markupsafe import Markup
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from nescio.files import MARKDOWN, atomic_write
from nescio.metrics.percent import per_cent

LONG_CELL = 16  # characters, above which a cell of words gets room in HTML
HEADING_WIDTH = 10  # characters, above which a heading is folded in a terminal


@dataclass(frozen=True)
class Percent:
    """A fraction shown in percent; HTML cells lack the sign, which their column's heading has.

    >>> str(Percent(0.99996)), str(Percent(0.5, spread=0.01)), str(Percent(None))
    ('>99.9%', '50.0% ±1.0', '–')
    """

    value: float | None
    digits: int = 1
    spread: float | None = None  # standard deviation

    def text(self, sign: str = "%") -> str:
        """Return the percentage, with `sign` after the number."""
        if self.value is None:
            return "–"
        spread = "" if self.spread is None else f" ±{100 * self.spread:.{self.digits}f}"
        return f"{per_cent(self.value, self.digits)}{sign}{spread}"

    __str__ = text


@dataclass(frozen=True)
class Styled:
    """Text with the number it is sorted by, its style in a terminal and its link in Markdown.

    >>> str(Styled("best", style="bold"))
    'best'
    """

    text: str
    value: float | None = None
    style: str = ""
    link: str = ""

    def __str__(self) -> str:
        return self.text


Cell = str | float | int | bool | Percent | Styled | None  # what a table may hold


@dataclass(frozen=True)
class Table:
    """A table; printing it with rich shows it in the terminal.

    Columns with numbers are aligned to the right. None is shown as a dash.

    >>> table = Table("", ["method", "AUROC"], [["softmax", 0.91], ["duq", None]])
    >>> print(table.markdown().rstrip())
    | method | AUROC |
    | --- | ---: |
    | softmax | 0.910 |
    | duq | – |
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    digits: int = 3  # of floats
    row_styles: Mapping[int, str] = field(default_factory=dict)  # by row, in a terminal

    def __rich__(self) -> RenderableType:
        table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        for i, (column, numeric) in enumerate(zip(self.columns, self._numeric, strict=True)):
            heading = Text(fold(column, HEADING_WIDTH))
            # in a narrow terminal words are folded, and numbers stay whole
            width = 8 if i == 0 and not numeric else 5
            justify: Literal["left", "right"] = "right" if numeric else "left"
            table.add_column(heading, justify=justify, overflow="fold", min_width=width)
        for i, row in enumerate(self.rows):
            cells = (Text(self._text(cell), getattr(cell, "style", "")) for cell in row)
            table.add_row(*cells, style=self.row_styles.get(i, ""))
        title = [Text(self.title, "bold")] if self.title else []
        notes = [Text("\n".join(self.notes), "dim")] if self.notes else []
        return Group(*title, table, *notes)

    def markdown(self) -> str:
        """Return the table in Markdown, its notes as a list below."""
        rule = ["---:" if numeric else "---" for numeric in self._numeric]
        rows = [map(self._markdown_cell, row) for row in self.rows]
        lines = [f"**{escape_markdown(self.title)}**", ""] if self.title else []
        table = (map(escape_markdown, self.columns), rule, *rows)
        lines += [f"| {' | '.join(cells)} |" for cells in table]
        lines += ["", *(f"- {escape_markdown(note)}" for note in self.notes)] if self.notes else []
        return "\n".join([*lines, ""])

    def _repr_markdown_(self) -> str:
        return self.markdown()  # in a notebook

    def html(self) -> Markup:
        """Return a table that a click on a heading sorts, with its notes as paragraphs."""
        head = []
        for i, (name, numeric) in enumerate(zip(self.columns, self._numeric, strict=True)):
            percent = ", %" if any(isinstance(row[i], Percent) for row in self.rows) else ""
            kind = Markup(" class=number") if numeric else ""
            head.append(Markup("<th scope=col{}>{}{}</th>").format(kind, name, percent))
        cells = (map(self._html_cell, row, range(len(row))) for row in self.rows)
        label = f"table: {self.title or ', '.join(self.columns)}"
        caption = Markup("<caption>{}</caption>").format(self.title) if self.title else ""
        body = join(Markup("<tr>{}</tr>").format(join(row)) for row in cells)
        notes = join(Markup("<p>{}</p>").format(note) for note in self.notes)
        return Markup(
            '<div class=scroll tabindex=0 role=group aria-label="{}"><table class=sortable>{}'
            "<thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>{}"
        ).format(label, caption, join(head), body, notes)

    def without(self, *columns: str) -> "Table":
        """Return the table without these columns."""
        places = [i for i, name in enumerate(self.columns) if name not in columns]
        names, *rows = ([row[i] for i in places] for row in (self.columns, *self.rows))
        return replace(self, columns=[str(name) for name in names], rows=rows)

    @property
    def _numeric(self) -> list[bool]:
        return [any(_is_number(row[i]) for row in self.rows) for i in range(len(self.columns))]

    def _text(self, cell: Cell) -> str:
        if cell is None:
            return "–"
        if isinstance(cell, bool):
            return "yes" if cell else "no"
        return format_number(cell, self.digits) if isinstance(cell, float | int) else str(cell)

    def _markdown_cell(self, cell: Cell) -> str:
        text = escape_markdown(self._text(cell))
        if isinstance(cell, Styled) and cell.link:
            return f"[{text}]({cell.link})"
        return f"**{text}**" if "bold" in getattr(cell, "style", "") else text

    def _html_cell(self, cell: Cell, column: int) -> Markup:
        text = cell.text("") if isinstance(cell, Percent) else self._text(cell)
        if isinstance(cell, bool) or (isinstance(cell, Styled) and cell.value is None):
            return Markup("<td>{}</td>").format(text)
        if isinstance(cell, str):
            if column == 0:
                return Markup("<th scope=row>{}</th>").format(text)
            room = Markup(" class=words") if len(cell) > LONG_CELL else ""
            return Markup("<td{}>{}</td>").format(room, text)
        value = cell.value if isinstance(cell, Percent | Styled) else cell
        key = "" if value is None else Markup(' data-value="{}"').format(repr(value))
        return Markup("<td class=number{}>{}</td>").format(key, text)


def join(parts: Iterable[Markup | str]) -> Markup:
    """Return the parts one after the other, escaping those that are not markup.

    >>> join(["1 < 2", Markup("<br>")])
    Markup('1 &lt; 2<br>')
    """
    return Markup("").join(parts)


def auroc_cell(values: float | Sequence[float | None] | None) -> Styled | None:
    """Return an AUROC, or the mean ± standard deviation of several, in its colour."""
    cell = mean_cell([values] if isinstance(values, float | int | None) else values)
    return cell and replace(cell, style=auroc_style(cell.value or 0.0))


def auroc_style(value: float) -> str:
    """Return the terminal colour of an AUROC."""
    return "green" if value >= 0.9 else "yellow" if value >= 0.7 else "red"


def mean_cell(values: Sequence[float | None]) -> Styled | None:
    """Return the mean, ± its standard deviation if there are several; None if one is undefined."""
    return None if (middle := mean(values)) is None else Styled(mean_text(values), middle)


def mean_text(values: Sequence[float | None]) -> str:
    """Return the same as text.

    >>> mean_text([0.942, 0.95]), mean_text([0.5]), mean_text([0.5, None])
    ('0.946 ±0.006', '0.500', '–')
    """
    middle, spread = mean(values), _spread(values)
    shown = "–" if middle is None else f"{middle:.3f}"
    return shown if spread is None else f"{shown} ±{spread:.3f}"


def percent_cell(values: Sequence[float | None]) -> Percent:
    """Return the mean fraction, ± its standard deviation if there are several."""
    return Percent(mean(values), spread=_spread(values))


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean, or None if any value is undefined."""
    defined = [value for value in values if value is not None]
    return fmean(defined) if len(defined) == len(values) else None


def _spread(values: Sequence[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return stdev(defined) if len(defined) == len(values) > 1 else None


def seconds_cell(value: float | None) -> Cell:
    """Return a time in plain digits: from 10 s on to a tenth, else to a thousandth.

    >>> [str(seconds_cell(value)) for value in (83.27, 0.0277, 2e-5, 0.0)]
    ['83.3', '0.028', '<0.001', '0.000']
    """
    if value is None:
        return None
    tiny = 0 < value < 0.0005
    return Styled("<0.001" if tiny else f"{value:.{1 if value >= 10 else 3}f}", value)


def format_number(value: float, digits: int = 3) -> str:
    """Return plain digits, or a power of ten where so few digits would hide the value.

    >>> format_number(1797), format_number(0.98765), format_number(0.00001234)
    ('1797', '0.988', '1.2e-05')
    """
    if isinstance(value, int):
        return str(value)
    extreme = 0 < abs(value) < 0.5 * 10**-digits or abs(value) >= 1e9
    return f"{value:.1e}" if extreme else f"{value:.{digits}f}"


def fold(name: str, width: int) -> str:
    r"""Return a name in lines of about `width` characters, broken after `_`, `-` and spaces.

    >>> fold("adversarial_samples", 14)
    'adversarial_\nsamples'
    """
    lines = [""]
    for part in re.findall(r"[^_\s-]+[_\s-]*|[_\s-]+", name):
        if lines[-1] and len(lines[-1] + part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def escape_markdown(text: str) -> str:
    r"""Return text in which nothing is a mark of Markdown or HTML.

    >>> escape_markdown("a|b <i> far_away _x_")
    'a\\|b &lt;i&gt; far_away \\_x\\_'
    """
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # an underscore within a word is no mark
    return re.sub(r"([\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", text)


def save_markdown(text: str, path: str | os.PathLike[str]) -> None:
    """Write a Markdown page; its first line, a comment, marks it as nescio's to replace.

    >>> save_markdown("# A page", "page.md")
    """
    with atomic_write(path, "w") as file:
        file.write(f"{MARKDOWN}\n{text}")


def _is_number(cell: Cell) -> bool:
    if isinstance(cell, bool):
        return False
    return isinstance(cell, float | int | Percent) or getattr(cell, "value", None) is not None
