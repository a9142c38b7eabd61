"""Markup of the page: figures, pictures, headings and lists. Everything from data is escaped."""

import base64
import hashlib
import io
import re
from collections.abc import Iterable, Sequence
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.linalg import LinAlgError
from PIL import Image as PillowImage

from nescio.errors import NescioError
from nescio.records.pictures import Image
from nescio.report.figures import ignore_missing_glyphs
from nescio.report.table import join

SVG, LINK = "http://www.w3.org/2000/svg", "{http://www.w3.org/1999/xlink}href"
WIDE_FIGURE = 7.5  # inches, above which a narrow screen scrolls a figure
MAX_DRAWN = 6  # records of one kind that have figures of their own
MAX_OPEN_MODELS = 2  # models whose parts are all open; those of more are folded away
HEAVY_SVG = 100_000  # characters, above which what is drawn in colour becomes a bitmap
BITMAP_DPI = 110
COLOUR = re.compile(r"(?<=: )#([0-9a-f]{6})(?=;|$)")
PICTURE_WIDTH = 72  # pixels on the page
HEAVY_PNG, PALETTE_COLOURS = 40_000, 48  # characters above which a bitmap gets a palette
EMBEDDED_PNG = re.compile(r'data:image/png;base64,([^"]*)')


def paragraphs(sentences: Iterable[str]) -> Markup:
    """Return each text as a paragraph.

    >>> paragraphs(["One.", "Two."])
    Markup('<p>One.</p><p>Two.</p>')
    """
    return join(Markup("<p>{}</p>").format(text) for text in sentences)


def heading(text: str, level: int = 3) -> Markup:
    """Return a heading within a section.

    >>> heading("Far away & beyond")
    Markup('<h3>Far away &amp; beyond</h3>')
    """
    return Markup(f"<h{level}>{{}}</h{level}>").format(text)  # noqa: S704 - a number


def items(sentences: Sequence[str]) -> Markup:
    """Return a list, or nothing if there are no sentences.

    >>> items(["one", "two"])
    Markup('<ul><li>one</li><li>two</li></ul>')
    """
    inside = join(Markup("<li>{}</li>").format(text) for text in sentences)
    return Markup("<ul>{}</ul>").format(inside) if inside else inside


def terms(pairs: Iterable[tuple[str, str]]) -> Markup:
    """Return terms with their definitions."""
    inside = join(Markup("<div><dt>{}</dt><dd>{}</dd></div>").format(*pair) for pair in pairs)
    return Markup("<dl class=terms>{}</dl>").format(inside)


def details(summary: str, inside: Markup) -> Markup:
    """Return a part that is folded away until it is opened.

    >>> details("More", Markup("<p>words</p>"))
    Markup('<details><summary>More</summary><p>words</p></details>')
    """
    return Markup("<details><summary>{}</summary>{}</details>").format(summary, inside)


def model_part(name: str, inside: Markup, models: int) -> Markup:
    """Return what is said of one of so many models: under a heading, or of many folded away."""
    if models > MAX_OPEN_MODELS:
        return Markup("<details class=apart><summary>{}</summary>{}</details>").format(name, inside)
    return (heading(name) if models > 1 else Markup("")) + inside


def level_within(models: int) -> int:
    """Return the level of headings inside `model_part`."""
    return 4 if 1 < models <= MAX_OPEN_MODELS else 3


def not_drawn(count: int, what: str) -> Markup:
    """Return a sentence on the records that have no figures of their own, if there are any."""
    more = count - MAX_DRAWN
    return paragraphs([f"{more} more {what} in the tables only."]) if more > 0 else Markup("")


def figure(picture: Figure, alt: str, caption: str = "") -> Markup:
    """Return a figure as inline SVG in the page's colours, with its text alternative.

    >>> markup = figure(Figure(figsize=(2, 2)), alt="an empty figure")
    >>> "<svg" in markup
    True
    """
    svg = _to_svg(picture)
    if len(svg) > HEAVY_SVG:
        for axes in picture.axes:
            # black and grey lines stay lines, to follow the theme
            coloured = [line for line in axes.lines if len(set(to_rgb(line.get_color()))) > 1]
            for part in (*axes.collections, *axes.images, *axes.patches, *coloured):
                part.set_rasterized(True)
        svg = min(svg, _to_svg(picture), key=len)
    below = Markup("<figcaption>{}</figcaption>").format(caption) if caption else ""
    room = "scroll wide" if picture.get_figwidth() > WIDE_FIGURE else "scroll"
    return Markup(
        '<figure><div class="{}" tabindex=0 role=group aria-label="{}">{}</div>{}</figure>'
    ).format(room, f"figure: {alt}", _inline(svg, alt), below)


def picture(image: Image, alt: str, lines: Sequence[str], wrong: bool = False) -> Markup:
    """Return a small image with some lines under it; `wrong` ones stand out."""
    pixels = np.rint(np.clip(np.array(image), 0, 1) * 255).astype(np.uint8)  # (C, H, W)
    png = PillowImage.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))
    height = round(PICTURE_WIDTH * len(image[0]) / max(1, len(image[0][0])))
    kind, below = " wrong" if wrong else "", Markup("<br>").join(lines)
    return Markup(
        '<figure class="picture{}"><img src="{}" width={} height={} alt="{}">'
        "<figcaption>{}</figcaption></figure>"
    ).format(kind, _data_url(png), PICTURE_WIDTH, height, alt, below)


def picture_row(pictures: Iterable[Markup]) -> Markup:
    """Return pictures beside each other, wrapped on a narrow page."""
    return Markup("<div class=pictures>{}</div>").format(join(pictures))


def with_palette(drawn: Markup) -> Markup:
    """Return a figure whose heavy bitmaps have few colours, a fraction of the bytes."""

    def smaller(match: re.Match[str]) -> str:
        if len(match[0]) < HEAVY_PNG:
            return match[0]
        with PillowImage.open(io.BytesIO(base64.b64decode(match[1]))) as full:
            kind = PillowImage.Quantize.FASTOCTREE
            return _data_url(full.quantize(PALETTE_COLOURS, kind, dither=PillowImage.Dither.NONE))

    return Markup(EMBEDDED_PNG.sub(smaller, drawn))  # noqa: S704 - only base64 is changed


def _data_url(image: PillowImage.Image) -> str:
    file = io.BytesIO()
    image.save(file, format="PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def _to_svg(picture: Figure) -> str:
    file = io.StringIO()
    # text stays text, whatever fonts are here: the reader's browser has its own
    settings = mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "nescio"})
    metadata = {"Date": None}
    with ignore_missing_glyphs(), settings:
        try:
            picture.savefig(file, format="svg", transparent=True, dpi=BITMAP_DPI, metadata=metadata)
        except (LinAlgError, OverflowError) as error:  # of a damaged record
            what = "a record holds numbers too far apart to be drawn in one figure"
            raise NescioError(f"{what} ({error})") from error
    return file.getvalue()


def _inline(svg: str, alt: str) -> Markup:
    """Return an SVG with text alternative, in the page's colours and type, with unique ids."""
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", LINK[1:-5])
    root = ElementTree.fromstring(svg)  # noqa: S314 - matplotlib wrote it just now
    for part in root.findall(f"{{{SVG}}}metadata"):
        root.remove(part)
    prefix = hashlib.sha256((svg + alt).encode()).hexdigest()[:8]
    for part in root.iter():
        if part.tag in (f"{{{SVG}}}g", f"{{{SVG}}}defs"):
            part.attrib.pop("id", None)  # nothing refers to it, and all figures name them alike
        for name, mark in (
            ("id", "^"),
            (LINK, "^#"),
            ("clip-path", r"url\(#"),
            ("style", r"url\(#"),
        ):
            if name in part.attrib:
                part.set(name, re.sub(mark, rf"\g<0>{prefix}-", part.attrib[name]))
        if "style" in part.attrib:
            style = re.sub(r"'DejaVu Sans'.*?(?=;|$)", "var(--type)", part.attrib["style"])
            part.set("style", COLOUR.sub(lambda match: _themed(match[1]), style))
    title = ElementTree.Element(f"{{{SVG}}}title")
    title.text = alt
    root.insert(0, title)
    root.attrib |= {"role": "img", "aria-label": alt}
    return Markup(ElementTree.tostring(root, encoding="unicode"))  # noqa: S704 - all text in it is escaped here


def _themed(colour: str) -> str:
    """Return black, white and greys as the page's ink and paper, and colours as they are."""
    ends = {"000000": "currentColor", "ffffff": "var(--paper)"}
    if colour in ends or not colour[:2] == colour[2:4] == colour[4:]:
        return ends.get(colour, f"#{colour}")
    ink = 100 - round(int(colour[:2], 16) / 2.55)
    return f"color-mix(in srgb, currentColor {ink}%, var(--paper))"
