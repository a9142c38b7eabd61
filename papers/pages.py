"""The papers' numbers beside ours in Markdown: a page for one experiment, and one for all."""

import statistics
from collections.abc import Mapping, Sequence
from itertools import groupby
from urllib.parse import quote

from papers.reproduction import Claim, Compared, Reproduction

PAPERS = {
    1: "Know your limits: monotonicity & softmax make neural classifiers overconfident on OOD data",
    2: "Why ReLU networks yield high-confidence predictions far away from the training data and how to mitigate the "
    "problem",
    3: "Classification uncertainty of deep neural networks based on gradient information",
    4: "Uncertainty estimation using a single deep deterministic neural network",
}
VERDICTS = {True: "yes", False: "no", None: "not clear"}  # of a claim
LONG = 20  # rows; a longer table is folded away on the page of all
MEANING = (
    "Mean ± standard deviation over our runs; a difference is ours less the paper's, and – stands where the "
    "paper gives no number. Times are those of the whole work, training included, also where experiments share "
    "their networks."
)
SHARED = "Times were taken on a two-core machine that was shared with other work, so that they are upper bounds."


def reproduction_markdown(record: Reproduction) -> str:
    """The page of one experiment, to stand beside its record and pictures."""
    lines = [
        f"# {escaped(heading(record))}",
        "",
        f"{escaped(_of_paper(record))}. {facts(record)}.",
        "",
    ]
    lines += ["```sh", record.command, "```", ""]
    for picture in record.pictures:
        lines += [f"![{escaped(picture)}]({picture})", ""]
    if record.compared:
        lines += [
            "## The paper's numbers and ours",
            "",
            *_compared(record.compared),
            "",
            MEANING,
            "",
        ]
    if record.claims:
        lines += ["## What the paper says", "", *_claims(record.claims), ""]
    if record.differs:
        rows = [(one.setting, one.paper, one.ours, one.why) for one in record.differs]
        lines += [
            "## What is not as in the paper",
            "",
            *_table(("setting", "paper", "ours", "why"), rows),
            "",
        ]
    if record.remarks:
        lines += ["## Remarks", "", *(f"- {escaped(remark)}" for remark in record.remarks), ""]
    versions = ", ".join(
        f"{name} {version}" for name, version in record.provenance.versions.items()
    )
    return "\n".join([*lines, f"Made with {escaped(versions)}.", ""])


def results_markdown(records: Mapping[str, Reproduction], command: str) -> str:
    """The page of all experiments.

    Args:
        records: by the folder of each, as seen from the page.
        command: what made the page.
    """
    ordered = sorted(
        records.items(), key=lambda one: (one[1].paper, _in_order(one[1].item), one[0])
    )
    lines = [
        "# The papers' tables and figures, made again",
        "",
        f"Made by `{command}` from the records in each folder: no number here is typed by hand.",
        MEANING,
        SHARED,
        "",
        *_summary(ordered),
        "",
    ]
    for paper, found in groupby(ordered, lambda one: one[1].paper):
        lines += [f"## Paper {paper}: {PAPERS.get(paper, '')}".rstrip(": "), ""]
        for folder, record in found:
            lines += _part(folder, record)
    return "\n".join(lines)


def heading(record: Reproduction) -> str:
    """Which part of which paper it is.

    >>> from nescio.records import (Provenance)
    >>> heading(Reproduction("a", 4, "Table 2", "AUROC", "quick", 1, "", (), (), (), (), (), Provenance(0, {}, 1, {})))
    'Paper 4, Table 2: AUROC'
    """
    return f"Paper {record.paper}, {record.item}: {record.title}"


def escaped(text: str) -> str:
    r"""A text that neither ends a cell of a table nor begins a tag.

    >>> escaped("a|b <c>")
    'a\\|b &lt;c>'
    """
    return " ".join(text.replace("\\", "\\\\").replace("|", r"\|").replace("<", "&lt;").split())


def in_time(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> in_time(0.24), in_time(42.4), in_time(119.7), in_time(3661), in_time(3599.9)
    ('0.2 s', '42 s', '2 min', '1 h 1 min', '1 h 0 min')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def number(value: float, unit: str = "", like: float | None = None, sign: bool = False) -> str:
    """A number with the digits that suit its size, or the size of another that stands beside it.

    >>> number(97.816, "%"), number(-0.0312), number(2.5, like=250.0, sign=True), number(12345.6), number(0.00002)
    ('97.82', '−0.031', '+2.5', '12,346', '2e-05')
    """
    size = abs(value if like is None else like)
    if 0 < size < 1e-3:
        made = f"{value:{'+' if sign else ''}.2g}"
        return made.replace("-", "−", 1) if value < 0 else made
    digits = 2 if unit == "%" else 3 if size < 10 else 2 if size < 100 else 1 if size < 1000 else 0
    return f"{value:{'+' if sign else ''},.{digits}f}".replace("-", "−")


def _part(folder: str, record: Reproduction) -> list[str]:
    """An experiment on the page of all: numbers, claims, and where and why it falls short."""
    page = _page(folder)
    lines = [f"### [{escaped(record.name)}]({page}): {escaped(record.item)}", ""]
    lines += [f"{escaped(record.title[:1].upper() + record.title[1:])}. {facts(record)}:", ""]
    lines += ["```sh", record.command, "```", ""]
    if record.compared:
        table = _compared(record.compared)
        if len(record.compared) > LONG:
            lines += [
                f"<details><summary>{len(record.compared)} numbers</summary>",
                "",
                *table,
                "",
                "</details>",
                "",
            ]
        else:
            lines += [*table, ""]
    if record.claims:
        lines += [*_claims(record.claims), ""]
    if record.differs:
        settings = ", ".join(one.setting for one in record.differs)
        lines += [
            f"[Not as in the paper]({page}#what-is-not-as-in-the-paper): {escaped(settings)}.",
            "",
        ]
    return [
        *lines,
        *(f"- {escaped(remark)}" for remark in record.remarks),
        *([""] if record.remarks else []),
    ]


def _page(folder: str) -> str:
    """The address of an experiment's page; what a folder may be called, an address may not."""
    return quote(f"{folder}/README.md")


def _summary(records: Sequence[tuple[str, Reproduction]]) -> list[str]:
    columns = (
        "experiment",
        "paper",
        "what",
        "scale",
        "seeds",
        "numbers",
        "median difference",
        "claims that hold",
        "time",
    )
    rows = []
    for folder, record in records:
        rows.append(
            (
                f"[{escaped(record.name)}]({_page(folder)})",
                f"{record.paper}, {escaped(record.item)}",
                escaped(record.title),
                record.scale,
                str(record.seeds),
                str(sum(one.paper is not None for one in record.compared)),
                _median(record.compared),
                _held(record.claims),
                in_time(record.provenance.seconds),
            )
        )
    return _table(columns, rows, escape=False)


def _median(compared: Sequence[Compared]) -> str:
    """The median size of the differences, for each unit."""
    by_unit: dict[str, list[float]] = {}
    for one in compared:
        if one.paper is not None:
            by_unit.setdefault(one.unit, []).append(abs(one.ours - one.paper))
    found = [(unit, statistics.median(sizes)) for unit, sizes in by_unit.items()]
    return (
        "; ".join(f"{number(value, unit)} {escaped(unit)}".rstrip() for unit, value in found) or "–"
    )


def _compared(compared: Sequence[Compared]) -> list[str]:
    rows = [(one.what, *cells(one)) for one in compared]
    return _table(("", "paper", "ours", "difference"), rows, "|---|--:|--:|--:|")


def cells(one: Compared) -> tuple[str, str, str]:
    """The paper's, ours, and the difference, with as many digits as the larger of both numbers."""
    like = max(abs(one.ours), abs(one.paper or 0.0))

    def shown(value: float, spread: float | None) -> str:
        more = "" if spread is None else f" ± {number(spread, one.unit, like)}"
        return f"{number(value, one.unit, like)}{more} {one.unit}".rstrip()

    if one.paper is None:
        return "–", shown(one.ours, one.spread), "–"
    difference = number(one.ours - one.paper, one.unit, like, sign=True)
    return shown(one.paper, one.paper_spread), shown(one.ours, one.spread), difference


def _claims(claims: Sequence[Claim]) -> list[str]:
    rows = [
        (claim.says, "**no**" if claim.holds is False else VERDICTS[claim.holds], claim.seen)
        for claim in claims
    ]
    return _table(("the paper says", "holds", "what we saw"), rows)


def _held(claims: Sequence[Claim]) -> str:
    """How many claims hold, of how many."""
    verdicts = [claim.holds for claim in claims]
    unclear = f", {verdicts.count(None)} not clear" if None in verdicts else ""
    return f"{verdicts.count(True)} of {len(claims)}{unclear}" if claims else "–"


def _table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], rule: str = "", escape: bool = True
) -> list[str]:
    cells = [[escaped(cell) if escape else cell for cell in row] for row in rows]
    return [
        f"| {' | '.join(columns)} |",
        rule or "|---" * len(columns) + "|",
        *(f"| {' | '.join(row)} |" for row in cells),
    ]


def facts(record: Reproduction) -> str:
    """At which scale, with how many seeds, and how long it took."""
    return f"Scale {record.scale}, seeds: {record.seeds}, {in_time(record.provenance.seconds)}"


def _of_paper(record: Reproduction) -> str:
    return PAPERS.get(record.paper, f"Paper {record.paper}")


def _in_order(item: str) -> tuple[str, int]:
    """Figure 2 before figure 10, and figures before tables."""
    digits = "".join(letter for letter in item if letter.isdigit())
    return item.split()[0] if item else "", int(digits or 0)
