"""What sections are made of: figures, tables and lists as HTML. All that comes from data is escaped."""

import hashlib
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.linalg import LinAlgError

from nescio.errors import NescioError
from nescio.metrics.percent import per_cent
from nescio.report.figures import any_letters

SVG, LINK = "http://www.w3.org/2000/svg", "{http://www.w3.org/1999/xlink}href"
WIDE = 7.5  # inches from which on a narrow screen shows a part of a figure at a time
LONG = 16  # letters of a cell from which on it is given room
MANY = 2  # models that are told of one after the other
HEAVY = (
    100_000  # characters of a figure, above which what is drawn in colour becomes a picture of dots
)
DOTS = 110  # per inch of such a picture
COLOUR = re.compile(r"(?<=: )#([0-9a-f]{6})(?=;|$)")


@dataclass(frozen=True)
class Shown:
    """A cell that says one thing and is sorted by another: `Shown("0.946 ±0.006", 0.946)`."""

    text: str
    value: float | None


Cell = str | float | int | Shown | None


def figure(picture: Figure, alt: str, caption: str = "") -> Markup:
    """A figure as SVG inside the page, with its text alternative; it takes the page's colours, light or dark."""
    svg = _drawn(picture)
    if len(svg) > HEAVY:
        for axes in picture.axes:
            for part in (
                *axes.collections,
                *axes.images,
                *axes.patches,
                *filter(_coloured, axes.lines),
            ):
                part.set_rasterized(True)
        lighter = _drawn(picture)
        svg = min(svg, lighter, key=len)
    below = Markup("<figcaption>{}</figcaption>").format(caption) if caption else Markup("")
    room = "scroll wide" if picture.get_figwidth() > WIDE else "scroll"
    return Markup(
        '<figure><div class="{}" tabindex=0 role=group aria-label="{}">{}</div>{}</figure>'
    ).format(room, f"figure: {alt}", _in_page(svg, alt), below)


def table(
    columns: Sequence[str], rows: Sequence[Sequence[Cell]], caption: str = "", digits: int = 3
) -> Markup:
    """A table that a click on a heading sorts; numbers are shown with so many digits, None as a dash."""
    numeric = [
        any(isinstance(row[i], float | int | Shown) for row in rows) for i in range(len(columns))
    ]
    head = Markup("").join(
        Markup("<th scope=col{}>{}</th>").format(Markup(" class=number") if number else "", column)
        for column, number in zip(columns, numeric, strict=True)
    )
    body = Markup("").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(_cell(cell, digits, first=not i) for i, cell in enumerate(row))
        )
        for row in rows
    )
    above = Markup("<caption>{}</caption>").format(caption) if caption else Markup("")
    return Markup(
        '<div class=scroll tabindex=0 role=group aria-label="{}"><table class=sortable>{}<thead><tr>{}</tr></thead>'
        "<tbody>{}</tbody></table></div>"
    ).format(f"table: {caption or ', '.join(columns)}", above, head, body)


def terms(pairs: Sequence[tuple[str, str]]) -> Markup:
    """Words with their meanings, as a list."""
    inside = Markup("").join(
        Markup("<div><dt>{}</dt><dd>{}</dd></div>").format(*pair) for pair in pairs
    )
    return Markup("<dl class=terms>{}</dl>").format(inside)


def heading(text: str, level: int = 3) -> Markup:
    """A heading within a section."""
    return Markup(f"<h{level}>{{}}</h{level}>").format(text)  # noqa: S704 - a number


def items(words: Sequence[str]) -> Markup:
    """Sentences as a list; nothing if there are none."""
    if not words:
        return Markup("")
    return Markup("<ul>{}</ul>").format(
        Markup("").join(Markup("<li>{}</li>").format(word) for word in words)
    )


def more(summary: str, inside: Markup) -> Markup:
    """What is shown only when it is asked for."""
    return Markup("<details><summary>{}</summary>{}</details>").format(summary, inside)


def apart(name: str, inside: Markup, of: int) -> Markup:
    """What is said of one model of so many: of one or two under a heading, of more when it is asked for."""
    if of > MANY:
        return Markup("<details class=apart><summary>{}</summary>{}</details>").format(name, inside)
    return (heading(name) if of > 1 else Markup("")) + inside


def level_within(of: int) -> int:
    """The level of headings in what `apart` is given: one lower only where that has a heading itself."""
    return 4 if 1 < of <= MANY else 3


def percentage(value: float | None) -> Shown | None:
    """A share as a number of per cent, for a column whose heading says so; only what is all, or nothing, is said to be.

    >>> percentage(1.0).text, percentage(0.99996).text, percentage(1e-5).text, percentage(0.0).text
    ('100.0', '>99.9', '<0.1', '0.0')
    """
    return None if value is None else Shown(per_cent(value), value)


def seconds(value: float | None) -> Shown | None:
    """A time for a column of seconds, in plain digits: long ones to a tenth, short ones to a thousandth.

    >>> seconds(83.27).text, seconds(0.0277).text, seconds(2e-5).text, seconds(0.0).text
    ('83.3', '0.028', '<0.001', '0.000')
    """
    if value is None:
        return None
    return Shown("<0.001" if 0 < value < 0.0005 else f"{value:.{1 if value >= 10 else 3}f}", value)


def _drawn(picture: Figure) -> str:
    made = io.StringIO()
    # letters stay letters, whatever fonts are here: the reader's browser has its own
    with any_letters(), mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "nescio"}):
        try:
            picture.savefig(made, format="svg", transparent=True, dpi=DOTS, metadata={"Date": None})
        except (
            LinAlgError,
            OverflowError,
        ) as error:  # of points as far apart as no work of ours puts them
            raise NescioError(
                f"a record holds numbers too far apart to be drawn in one figure ({error})"
            ) from error
    return made.getvalue()


def _coloured(line: Line2D) -> bool:
    """Black and grey must stay lines, to follow the theme."""
    return len(set(to_rgb(line.get_color()))) > 1


def _in_page(svg: str, alt: str) -> Markup:
    """The drawing as a part of a page: named, in the page's colours and letters, its ids like those of no other."""
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", LINK[1:-5])
    root = ElementTree.fromstring(svg)  # noqa: S314 - matplotlib wrote it just now
    for part in root.findall(f"{{{SVG}}}metadata"):
        root.remove(part)
    mark = hashlib.sha256((svg + alt).encode()).hexdigest()[:8]
    for part in root.iter():
        if part.tag in (f"{{{SVG}}}g", f"{{{SVG}}}defs"):
            part.attrib.pop(
                "id", None
            )  # nothing refers to a group, and every figure calls them the same
        for name, value in part.attrib.items():
            part.set(name, _own(name, value, mark))
        if "style" in part.attrib:
            part.set("style", _styled(part.attrib["style"]))
    title = ElementTree.Element(f"{{{SVG}}}title")
    title.text = alt
    root.insert(0, title)
    root.set("role", "img")
    root.set("aria-label", alt)
    return Markup(ElementTree.tostring(root, encoding="unicode"))  # noqa: S704 - all text in it is escaped here


def _own(name: str, value: str, mark: str) -> str:
    if name == "id":
        return f"{mark}-{value}"
    if name == LINK and value.startswith("#"):
        return f"#{mark}-{value[1:]}"
    return value.replace("url(#", f"url(#{mark}-") if name in ("clip-path", "style") else value


def _styled(style: str) -> str:
    """Black, white and greys follow the page's theme, and letters its type."""
    style = re.sub(r"'DejaVu Sans'.*?(?=;|$)", "var(--type)", style)
    return COLOUR.sub(lambda found: _themed(found[1]), style)


def _themed(colour: str) -> str:
    if colour == "000000":
        return "currentColor"
    if colour == "ffffff":
        return "var(--paper)"
    if colour[:2] == colour[2:4] == colour[4:]:
        # as far from the letters towards the paper as it is from black towards white
        share = 100 - round(int(colour[:2], 16) / 2.55)
        return f"color-mix(in srgb, currentColor {share}%, var(--paper))"
    return f"#{colour}"


def _cell(value: Cell, digits: int, first: bool) -> Markup:
    if isinstance(value, Shown):
        sort = (
            Markup("")
            if value.value is None
            else Markup(' data-value="{}"').format(repr(float(value.value)))
        )
        return Markup("<td class=number{}>{}</td>").format(sort, value.text)
    if value is None:
        return Markup("<td class=number>–</td>")
    if isinstance(value, bool):
        return Markup("<td>{}</td>").format("yes" if value else "no")
    if isinstance(value, str):
        if first:
            return Markup("<th scope=row>{}</th>").format(value)
        return (
            Markup("<td class=words>{}</td>") if len(value) > LONG else Markup("<td>{}</td>")
        ).format(value)
    return Markup('<td class=number data-value="{}">{}</td>').format(
        repr(value), number(value, digits)
    )


def number(value: float, digits: int = 3) -> str:
    """A number as plain digits, which a spreadsheet takes; what so few digits would hide is told by its power of ten.

    >>> number(1797), number(0.98765), number(0.00001234)
    ('1797', '0.988', '1.2e-05')
    """
    if isinstance(value, int):
        return str(value)
    return (
        f"{value:.1e}"
        if 0 < abs(value) < 0.5 * 10**-digits or abs(value) >= 1e9
        else f"{value:.{digits}f}"
    )
