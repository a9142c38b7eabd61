"""What `python -m papers` prints: a result, and the list of experiments."""

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from papers.experiment import Experiment
from papers.pages import claims_table, deviations_table, facts, heading, in_time, numbers_table
from papers.reproduction import Reproduction


def reproduction_table(record: Reproduction) -> RenderableType:
    """Return the numbers side by side, the claims, what is not as in the paper, and remarks."""
    parts = [Text(heading(record), style="bold"), Text(facts(record), style="dim")]
    tables = [
        numbers_table(record, "the paper's numbers and ours"),
        claims_table(record, "what the paper says"),
        deviations_table(record, "what is not as in the paper"),
    ]
    remarks = [Text(f"• {remark}") for remark in record.remarks]
    return Group(*parts, *(table for table in tables if table.rows), *remarks)


def experiments_table(
    experiments: Sequence[Experiment],
    missing: Mapping[str, Sequence[str]],
    took: Mapping[str, float],
) -> RenderableType:
    """Return every experiment: its data, its scales, and how long the quick one took.

    Args:
        missing: by name, the data of any of its scales that are not available.
    """
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.title, table.title_justify = Text("the papers' tables and figures", "bold"), "left"
    for name in ("name", "paper", "what, and its data", "scales", "quick took"):
        table.add_column(name, overflow="fold", no_wrap=name in ("name", "paper", "quick took"))
    for one in experiments:
        table.add_row(
            one.name,
            f"{one.paper}, {one.item}",
            Text(f"{one.title}\n") + Text("; ").join(_data(one, missing[one.name])),
            "\n".join(one.scales),
            in_time(took[one.name]) if one.name in took else "–",
        )
    return table


def _data(experiment: Experiment, missing: Sequence[str]) -> list[Text]:
    """The data it needs, then those of the paper's scale alone; of each first what is available."""
    further = [name for name in experiment.needed("paper") if name not in experiment.needs]
    parts = []
    for scale, names in (("", experiment.needs or ("embedded",)), ("paper: ", further)):
        if present := [name for name in names if name not in missing]:
            parts.append(Text(f"{scale}{', '.join(present)}", "dim"))
        if absent := [name for name in names if name in missing]:
            parts.append(Text(f"{scale}not here: {', '.join(absent)}", "yellow"))
    return parts
