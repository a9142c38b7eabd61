"""Maps of the plane in characters, side by side: the darker, or on a dark terminal the lighter, the more certain."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from nescio.metrics.percent import percent
from nescio.records import Map

ROWS, COLUMNS = 7, 14  # a character is about twice as high as wide
SHADES = ((0.95, "█"), (0.8, "▓"), (0.6, "▒"), (0.3, "░"))
LEGEND = "  ".join(f"{mark} over {percent(least, 0)} sure" for least, mark in SHADES)


def picture(maps: Sequence[Map]) -> Table:
    """The confidence of each map, under its method's name."""
    table = Table.grid(padding=(0, 1), pad_edge=False)
    table.add_column(width=1)  # set in a little, as all text is
    for _ in maps:
        table.add_column(width=COLUMNS, no_wrap=True)
    table.add_row("", *(Text(one.method, style="bold") for one in maps))
    table.add_row("", *(Text("\n".join(lines(one))) for one in maps))
    return table


def lines(found: Map) -> list[str]:
    """A map as lines of characters, the top first."""
    values = found.confidence.values
    rows = [_place(i, ROWS, len(values)) for i in reversed(range(ROWS))]  # y grows upwards
    columns = [_place(j, COLUMNS, len(values[0])) for j in range(COLUMNS)]
    return ["".join(_shade(values[i][j]) for j in columns) for i in rows]


def _place(number: int, of: int, points: int) -> int:
    """The grid point nearest to the middle of a cell."""
    return min(points - 1, int((number + 0.5) / of * points))


def _shade(confidence: float) -> str:
    return next((mark for least, mark in SHADES if confidence > least), " ")


def sure_of(found: Map, least: float = 0.95) -> float:
    """The share of the map on which the confidence exceeds a bar."""
    cells = [value > least for row in found.confidence.values for value in row]
    return sum(cells) / len(cells)
