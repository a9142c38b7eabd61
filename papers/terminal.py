"""What `python -m papers` prints: a result, and the list of experiments."""

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from nescio.report.table import Styled, Table
from papers.experiment import Experiment
from papers.pages import VERDICTS, cells, facts, heading, in_time
from papers.reproduction import Reproduction

COLOURS = {True: "green", False: "red", None: "yellow"}  # of a claim


def reproduction_table(record: Reproduction) -> RenderableType:
    """For the terminal: the numbers side by side, the claims, what is not as in the paper, and remarks."""
    parts: list[RenderableType] = [
        Text(heading(record), style="bold"),
        Text(facts(record), style="dim"),
    ]
    if record.compared:
        rows = [(one.what, *cells(one)) for one in record.compared]
        columns = ("", "paper", "ours", "difference")
        parts.append(Table("the paper's numbers and ours", columns, rows))
    if record.claims:
        claims = [
            (Styled(VERDICTS[claim.holds], style=COLOURS[claim.holds]), claim.says, claim.seen)
            for claim in record.claims
        ]
        parts.append(Table("what the paper says", ("holds", "claim", "what we saw"), claims))
    if record.differs:
        settings = [(one.setting, one.paper, one.ours, one.why) for one in record.differs]
        columns = ("setting", "paper", "ours", "why")
        parts.append(Table("what is not as in the paper", columns, settings))
    return Group(*parts, *(Text(f"• {remark}") for remark in record.remarks))


def experiments_table(
    experiments: Sequence[Experiment],
    missing: Mapping[str, Sequence[str]],
    took: Mapping[str, float],
) -> RenderableType:
    """Every experiment: its data, those not at hand marked, its scales, and how long the quick one took.

    Args:
        missing: by name, the data of any of its scales that are not at hand.
    """
    title = Text("the papers' tables and figures", "bold")
    table = RichTable(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("name", "paper", "what, and its data", "scales", "quick took"):
        table.add_column(name, overflow="fold", no_wrap=name in ("name", "paper", "quick took"))
    for one in experiments:
        data = Text("; ").join(_data(one, missing[one.name]))
        table.add_row(
            one.name,
            f"{one.paper}, {one.item}",
            Text(f"{one.title}\n") + data,
            "\n".join(one.scales),
            in_time(took[one.name]) if one.name in took else "–",
        )
    return table


def _data(experiment: Experiment, missing: Sequence[str]) -> list[Text]:
    """The data it needs, then those that only the paper's scale needs; of each first what is at hand."""
    further = [name for name in experiment.needed("paper") if name not in experiment.needs]
    found = []
    for scale, names in (("", experiment.needs or ("embedded",)), ("paper: ", further)):
        if here := [name for name in names if name not in missing]:
            found.append(Text(f"{scale}{', '.join(here)}", "dim"))
        if away := [name for name in names if name in missing]:
            found.append(Text(f"{scale}not here: {', '.join(away)}", "yellow"))
    return found
