"""The papers' numbers beside ours in Markdown: a page for one experiment, and one for all."""

import statistics
from collections.abc import Mapping, Sequence
from itertools import groupby
from urllib.parse import quote

from nescio.report import Styled, Table
from papers.paper import FOLDERS, read_paper
from papers.reproduction import Claim, Comparison, Reproduction

VERDICTS = {  # of a claim
    True: Styled("yes", style="green"),
    False: Styled("no", style="bold red"),
    None: Styled("not clear", style="yellow"),
}
FOLDED_ROWS = 20  # a longer table is folded away on the page of all
MEANING = (
    "Mean ± standard deviation over our runs; a difference is ours less the paper's, and – stands "
    "where the paper gives no number. Times are those of the whole work, training included, also "
    "where experiments share their networks."
)
SHARED = (
    "Times were taken on a two-core machine that was shared with other work, so that they are "
    "upper bounds."
)
SUMMARY = (
    *("experiment", "paper", "what", "scale", "seeds", "numbers", "median difference"),
    *("claims that hold", "time"),
)


def reproduction_markdown(record: Reproduction) -> str:
    """Return the page of one experiment, to stand beside its record and pictures."""
    lines = [f"# {escaped(heading(record))}", "", f"{escaped(_title(record))}. {facts(record)}."]
    lines += ["", "```sh", record.command, "```", ""]
    for picture in record.pictures:
        lines += [f"![{escaped(picture)}]({picture})", ""]
    if record.compared:
        table = numbers_table(record).markdown()
        lines += ["## The paper's numbers and ours", "", table, MEANING, ""]
    if record.claims:
        lines += ["## What the paper says", "", claims_table(record).markdown()]
    if record.deviations:
        lines += ["## What is not as in the paper", "", deviations_table(record).markdown()]
    if record.remarks:
        lines += ["## Remarks", "", *(f"- {escaped(remark)}" for remark in record.remarks), ""]
    versions = ", ".join(f"{name} {number}" for name, number in record.provenance.versions.items())
    return "\n".join([*lines, f"Made with {escaped(versions)}.", ""])


def results_markdown(records: Mapping[str, Reproduction], command: str) -> str:
    """Return the page of all experiments.

    Args:
        records: by the folder of each, as seen from the page.
        command: what made the page.
    """
    titles = {paper.number: paper.title for paper in map(read_paper, FOLDERS)}
    ordered = sorted(records.items(), key=lambda one: (one[1].paper, _order(one[1].item), one[0]))
    lines = [
        "# The papers' tables and figures, made again",
        "",
        f"Made by `{command}` from the records in each folder: no number here is typed by hand.",
        *(MEANING, SHARED, "", _summary(ordered).markdown()),
    ]
    for paper, group in groupby(ordered, lambda one: one[1].paper):
        lines += [f"## Paper {paper}: {titles.get(paper, '')}".rstrip(": "), ""]
        for folder, record in group:
            lines += _part(folder, record)
    return "\n".join(lines)


def heading(record: Reproduction) -> str:
    """Return which part of which paper it is."""
    return f"Paper {record.paper}, {record.item}: {record.title}"


def facts(record: Reproduction) -> str:
    """Return the scale, how many seeds, and how long it took."""
    return f"Scale {record.scale}, seeds: {record.seeds}, {in_time(record.provenance.seconds)}"


def escaped(text: str) -> str:
    r"""Return text that neither ends a cell of a table nor begins a tag.

    >>> escaped("a|b <c>")
    'a\\|b &lt;c>'
    """
    return " ".join(text.replace("\\", "\\\\").replace("|", r"\|").replace("<", "&lt;").split())


def in_time(seconds: float) -> str:
    """Return a time in the unit that suits it.

    >>> in_time(0.24), in_time(42.4), in_time(119.7), in_time(3661), in_time(3599.9)
    ('0.2 s', '42 s', '2 min', '1 h 1 min', '1 h 0 min')
    """
    if seconds < 59.5:
        return f"{seconds:.{1 if seconds < 10 else 0}f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def number(value: float, unit: str = "", like: float | None = None, sign: bool = False) -> str:
    """Return a number with the digits that suit its size, or the size of another beside it.

    >>> number(97.816, "%"), number(-0.0312), number(2.5, like=250.0, sign=True), number(0.00002)
    ('97.82', '−0.031', '+2.5', '2e-05')
    >>> number(12345.6)
    '12,346'
    """
    size, plus = abs(value if like is None else like), "+" if sign else ""
    if 0 < size < 1e-3:
        text = f"{value:{plus}.2g}"
        return text.replace("-", "−", 1) if value < 0 else text
    digits = 2 if unit == "%" else 3 if size < 10 else 2 if size < 100 else 1 if size < 1000 else 0
    return f"{value:{plus},.{digits}f}".replace("-", "−")


def numbers_table(record: Reproduction, title: str = "") -> Table:
    """Return the paper's numbers, ours and the differences."""
    rows = [(one.what, *_cells(one)) for one in record.compared]
    return Table(title, ("", "paper", "ours", "difference"), rows)


def claims_table(record: Reproduction, title: str = "") -> Table:
    """Return what the paper says, whether it holds, and what we saw."""
    rows = [(claim.says, VERDICTS[claim.holds], claim.seen) for claim in record.claims]
    return Table(title, ("the paper says", "holds", "what we saw"), rows)


def deviations_table(record: Reproduction, title: str = "") -> Table:
    """Return the settings that are not as in the paper, and why."""
    rows = [(one.setting, one.paper, one.ours, one.why) for one in record.deviations]
    return Table(title, ("setting", "paper", "ours", "why"), rows)


def _cells(one: Comparison) -> tuple[Styled | None, Styled, Styled | None]:
    """The paper's number, ours and the difference, with digits for the larger of both."""
    like = max(abs(one.ours), abs(one.paper or 0.0))

    def cell(value: float, spread: float | None) -> Styled:
        more = "" if spread is None else f" ± {number(spread, one.unit, like)}"
        return Styled(f"{number(value, one.unit, like)}{more} {one.unit}".rstrip(), value)

    ours = cell(one.ours, one.spread)
    if one.paper is None:
        return None, ours, None
    difference = one.ours - one.paper
    shown = Styled(number(difference, one.unit, like, sign=True), difference)
    return cell(one.paper, one.paper_spread), ours, shown


def _part(folder: str, record: Reproduction) -> list[str]:
    """An experiment on the page of all: numbers, claims, and where and why it falls short."""
    page = _page(folder)
    lines = [f"### [{escaped(record.name)}]({page}): {escaped(record.item)}", ""]
    lines += [f"{escaped(record.title[:1].upper() + record.title[1:])}. {facts(record)}:", ""]
    lines += ["```sh", record.command, "```", ""]
    if record.compared:
        table, count = [numbers_table(record).markdown()], len(record.compared)
        if count > FOLDED_ROWS:
            opened = f"<details><summary>{count} numbers</summary>"
            table = [opened, "", *table, "</details>", ""]
        lines += table
    if record.claims:
        lines += [claims_table(record).markdown()]
    if record.deviations:
        settings = escaped(", ".join(one.setting for one in record.deviations))
        lines += [f"[Not as in the paper]({page}#what-is-not-as-in-the-paper): {settings}.", ""]
    remarks = [f"- {escaped(remark)}" for remark in record.remarks]
    return [*lines, *remarks, *([""] if remarks else [])]


def _page(folder: str) -> str:
    """The address of an experiment's page; what a folder may be called, an address may not."""
    return quote(f"{folder}/README.md")


def _summary(records: Sequence[tuple[str, Reproduction]]) -> Table:
    rows = [
        (
            Styled(record.name, link=_page(folder)),
            *(f"{record.paper}, {record.item}", record.title, record.scale),
            *(str(record.seeds), str(sum(one.paper is not None for one in record.compared))),
            *(
                _median(record.compared),
                _count_held(record.claims),
                in_time(record.provenance.seconds),
            ),
        )
        for folder, record in records
    ]
    return Table("", SUMMARY, rows)


def _median(compared: Sequence[Comparison]) -> str:
    """The median size of the differences, for each unit."""
    by_unit: dict[str, list[float]] = {}
    for one in compared:
        if one.paper is not None:
            by_unit.setdefault(one.unit, []).append(abs(one.ours - one.paper))
    medians = {unit: statistics.median(sizes) for unit, sizes in by_unit.items()}
    shown = (f"{number(value, unit)} {unit}".rstrip() for unit, value in medians.items())
    return "; ".join(shown) or "–"


def _count_held(claims: Sequence[Claim]) -> str:
    """How many claims hold, of how many."""
    verdicts = [claim.holds for claim in claims]
    unclear = f", {verdicts.count(None)} not clear" if None in verdicts else ""
    return f"{verdicts.count(True)} of {len(claims)}{unclear}" if claims else "–"


def _title(record: Reproduction) -> str:
    titles = {paper.number: paper.title for paper in map(read_paper, FOLDERS)}
    return titles.get(record.paper, f"Paper {record.paper}")


def _order(item: str) -> tuple[str, int]:
    """Figure 2 before figure 10, and figures before tables."""
    digits = "".join(letter for letter in item if letter.isdigit())
    return item.split()[0] if item else "", int(digits or 0)
