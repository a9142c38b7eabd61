"""Table 1 of paper 2: a row for each set of data, and the methods side by side, each under its test error.

The same cells make a table for a terminal, whose groups of columns are stacked where it is narrow, and one in Markdown.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from nescio.report.runs import Records, compared, mean, notes, of_score, over_runs, side_of
from nescio.report.tables import CONVENTIONS, auroc_colour, folded, new_table

COLUMNS = ("MMC", "AUROC", "FPR95")
WIDTHS = (6, 7, 7)  # of a group's figures, with the gaps before them
GAP = 2  # between groups
NAMES = 14  # columns that names of sets have at least, if they need them
TERMS = "TE: test error.\n" + "\n".join(
    line for line in CONVENTIONS.splitlines() if not line.startswith("AUPR")
)


@dataclass(frozen=True)
class Cell:
    """The figures of one method on one set, as text; AUROC also as a number, which has a colour."""

    figures: tuple[str, str, str]
    auroc: float | None


@dataclass(frozen=True)
class SideBySide:
    """A table of methods side by side: known data in the first row, then each unknown set."""

    known: str
    methods: tuple[str, ...]
    errors: tuple[str, ...]  # test error of each method
    rows: tuple[
        tuple[str, tuple[Cell, ...]], ...
    ]  # of each set: its name, and a cell for each method
    notes: tuple[str, ...]

    def markdown(self) -> str:
        """The table in Markdown, with its notes as a list; names that hold marks of Markdown or HTML stay names."""
        heads = [
            _plain(f"{name}, TE {error}")
            for name, error in zip(self.methods, self.errors, strict=True)
        ]
        lines = [
            _line(
                [
                    _plain(f"{self.known} against unknown sets"),
                    *(part for head in heads for part in (head, "", "")),
                ]
            ),
            _line([":---", *["---:"] * 3 * len(heads)]),
            _line(["", *COLUMNS * len(heads)]),
        ]
        lines += [
            _line([_plain(name), *(f for cell in cells for f in cell.figures)])
            for name, cells in self.rows
        ]
        return "\n".join([*lines, "", *(f"- {_plain(note)}" for note in self.notes), ""])

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        widest = max(len(name) for name, _ in self.rows)
        group = GAP + sum(WIDTHS)
        across = max(
            1, (options.max_width - min(widest, NAMES)) // group
        )  # groups that stand side by side
        for first in range(0, len(self.methods), across):
            methods = range(first, min(first + across, len(self.methods)))
            yield self._table(methods, options.max_width - len(methods) * group)
        yield Text("\n".join(self.notes), style="dim")

    def _table(self, methods: Sequence[int], room: int) -> RenderableType:
        """Some methods side by side, after names in so much room; a group is one column, as no head spans several."""
        table = new_table(f"{self.known} against unknown sets")
        table.padding, table.show_edge = (
            (0, GAP - 1, 0, 0),
            False,
        )  # rich adds one more between columns
        table.add_column("", overflow="fold", vertical="top")
        for i in methods:
            head = Text(f"{self.methods[i]}, TE {self.errors[i]}\n", overflow="fold")
            table.add_column(head + _aligned(COLUMNS), width=sum(WIDTHS))
        for name, cells in self.rows:
            table.add_row(Text(folded(name, room)), *(_group(cells[i]) for i in methods))
        return table


def side_by_side(
    records: Records, unknown: str | Sequence[str] | None = None, score: str | None = None
) -> SideBySide:
    """The table of evaluations on the same data, with mean ± standard deviation where a method has several runs.

    Args:
        records, unknown, score: as in `nescio.report.comparison.write_comparison`.
    """
    runs, sets = compared(records, unknown)
    known = next(iter(runs.values()))[0].known
    groups = list(runs.values())
    cells = [
        Cell((over_runs([one.known.mmc for one in group], share=True), "–", "–"), None)
        for group in groups
    ]
    rows = [(known.name, tuple(cells))]
    for name in sets:
        cells = []
        for group in groups:
            sides = [side_of(one, name) for one in group]
            found = [
                of_score(one, side.separation, score)
                for one, side in zip(group, sides, strict=True)
            ]
            aurocs = [one.auroc for one in found]
            figures = (
                over_runs([side.mmc for side in sides], share=True),
                over_runs(aurocs),
                over_runs([one.fpr95 for one in found], share=True),
            )
            cells.append(Cell(figures, mean(aurocs)))
        rows.append((name, tuple(cells)))
    errors = tuple(
        over_runs([1 - one.known.accuracy for one in group], share=True, digits=2)
        for group in groups
    )
    sizes = {
        side.name: side.inputs for name in sets if not (side := side_of(groups[0][0], name)).attack
    }
    inputs = ", ".join(
        f"{count} of {name}" for name, count in {known.name: known.inputs, **sizes}.items()
    )
    terms = f"Inputs: {inputs}.\n{TERMS}"
    return SideBySide(
        known.name, tuple(runs), errors, tuple(rows), tuple(notes(runs, sets, score, terms))
    )


def _group(cell: Cell) -> Text:
    """The figures of a cell in their columns, deviations in a line below."""
    values, *spreads = zip(*(figure.partition(" ")[::2] for figure in cell.figures), strict=True)
    text = _aligned(values, auroc_colour(cell.auroc))
    return text + "\n" + _aligned(spreads[0]) if any(spreads[0]) else text


def _aligned(words: Sequence[str], colour: str = "") -> Text:
    parts = [word.rjust(width) for word, width in zip(words, WIDTHS, strict=True)]
    return Text.assemble(parts[0], (parts[1], colour), parts[2], no_wrap=True)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    r"""Text in which nothing is a mark of Markdown or HTML.

    >>> _plain("a|b <i> far_away _x_")
    'a\\|b &lt;i&gt; far_away \\_x\\_'
    """
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # an underscore within a word is none
    return re.sub(r"([\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", text)
