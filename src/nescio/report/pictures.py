"""Small pictures for a page: each a PNG within it, with words for those who do not see it."""

import base64
import io
import re
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup
from PIL import Image as Png

from nescio.records.images import Image

SHOWN = 72  # pixels of a page that a picture is wide
HEAVY = 40_000  # characters of a PNG within a figure, from which on it gets a palette
COLOURS = 48  # of such a palette; hairlines on tints need no more
EMBEDDED = re.compile(r'data:image/png;base64,([^"]*)')


def picture(image: Image, alt: str, lines: Sequence[str], wrong: bool = False) -> Markup:
    """An image with some lines under it; `wrong` are those that stand out."""
    below = Markup("<br>").join(lines)
    height = round(SHOWN * len(image[0]) / max(1, len(image[0][0])))
    return Markup(
        '<figure class="picture{}"><img src="{}" width={} height={} alt="{}"><figcaption>{}</figcaption></figure>'
    ).format(" wrong" if wrong else "", png(image), SHOWN, height, alt, below)


def row_of(pictures: Sequence[Markup]) -> Markup:
    """Pictures beside each other, in as many lines as the page is narrow."""
    return Markup("<div class=pictures>{}</div>").format(Markup("").join(pictures))


def png(image: Image) -> str:
    """An image, channels × rows × columns in [0, 1], as the address of a PNG that holds it."""
    pixels = np.rint(np.clip(np.array(image), 0, 1) * 255).astype(np.uint8)
    made = (
        Png.fromarray(pixels[0]) if len(pixels) == 1 else Png.fromarray(pixels.transpose(1, 2, 0))
    )
    file = io.BytesIO()
    made.save(file, format="PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def lighter(figure: Markup) -> Markup:
    """A figure whose heavy pictures have few colours, which takes a fraction of the bytes and is not seen."""
    return Markup(EMBEDDED.sub(_with_palette, figure))  # noqa: S704 - only what stands in base64 is changed


def _with_palette(found: re.Match[str]) -> str:
    if len(found[0]) < HEAVY:
        return found[0]
    file = io.BytesIO()
    with Png.open(io.BytesIO(base64.b64decode(found[1]))) as full:
        full.quantize(COLOURS, Png.Quantize.FASTOCTREE, dither=Png.Dither.NONE).save(
            file, format="PNG", optimize=True
        )
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
