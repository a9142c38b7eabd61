import io
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console

from nescio.records import Provenance
from paper_records import papers_page
from papers.pages import reproduction_markdown, results_markdown
from papers.report import reproduced
from papers.reproduction import Claim, Comparison, Deviation, Reproduction
from papers.terminal import experiments_table, reproduction_table


@pytest.fixture
def record():
    return Reproduction(
        name="duq-table9",
        paper=4,
        item="Table 9",
        title="a title",
        scale="quick",
        seeds=3,
        command="python -m papers duq-table9 --seeds 3",
        compared=(
            Comparison("AUROC: a|b <script>", 95.5, 94.25, 0.4, 0.75, "%"),
            Comparison("ratio", 0.5, 0.25),
            Comparison("steps", None, 1234.5),
            Comparison("tiny", 2e-5, 4e-5),
        ),
        claims=(Claim("It is better", True, "1 > 0"), Claim("It is best", False, "1 < 2")),
        deviations=(Deviation("epochs", "30", "10", "time"), Deviation("seeds", "5", "3")),
        remarks=("It falls short, since <b>|",),
        pictures=("a.svg",),
        provenance=Provenance(0, {}, 754.0, {"python": "3.13"}),
    )


def cells(line):
    """The cells of a row of a Markdown table."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def tables(text):
    """Every table of a page, as rows of cells; all rows of a table are as wide as its head."""
    found = [
        block.strip().splitlines() for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    ]
    for table in found:
        assert len({len(cells(row)) for row in table}) == 1
    return [[cells(row) for row in table if not set(row) <= set("|-: ")] for table in found]


def test_the_page_of_an_experiment(record):
    text = reproduction_markdown(record)
    numbers, claims, deviations = tables(text)
    assert numbers == [
        ["", "paper", "ours", "difference"],
        [r"AUROC: a\|b &lt;script&gt;", "95.50 ± 0.40 %", "94.25 ± 0.75 %", "−1.25"],
        ["ratio", "0.500", "0.250", "−0.250"],
        ["steps", "–", "1,234", "–"],
        ["tiny", "2e-05", "4e-05", "+2e-05"],
    ]
    assert claims[1:] == [["It is better", "yes", "1 &gt; 0"], ["It is best", "**no**", "1 &lt; 2"]]
    assert deviations[1:] == [["epochs", "30", "10", "time"], ["seeds", "5", "3", ""]]
    assert text.startswith("# Paper 4, Table 9: a title\n")
    assert "```sh\npython -m papers duq-table9 --seeds 3\n```" in text
    assert "Scale quick, seeds: 3, 13 min." in text
    assert "![a.svg](a.svg)" in text
    assert r"- It falls short, since &lt;b>\|" in text
    assert "python 3.13" in text


def test_an_experiment_that_found_nothing_has_a_page_too(record):
    bare = replace(record, compared=(), claims=(), deviations=(), remarks=(), pictures=())
    assert "##" not in reproduction_markdown(bare)
    assert tables(results_markdown({"r/a": bare}, ""))[0][1][5:] == ["0", "–", "–", "13 min"]


def test_the_page_of_all(record):
    other = replace(record, name="limits", paper=1, item="Figure 10", compared=record.compared[1:2])
    early = replace(other, name="earlier", item="Figure 2")
    text = results_markdown(
        {"../r/x": record, "../r/limits": other, "../r/earlier": early}, "the command"
    )
    summary = tables(text)[0]
    assert [row[0] for row in summary[1:]] == [
        "[earlier](../r/earlier/README.md)",
        "[limits](../r/limits/README.md)",
        "[duq-table9](../r/x/README.md)",
    ]
    # of the paper's three numbers: 1.25 %, and the median of 0.25 and 2e-5
    assert summary[3][1:] == [
        "4, Table 9",
        "a title",
        "quick",
        "3",
        "3",
        "1.25 %; 0.125",
        "1 of 2",
        "13 min",
    ]
    assert re.findall(r"^## (Paper \d)", text, re.MULTILINE) == ["Paper 1", "Paper 4"]
    assert "`the command`" in text
    assert (
        "two-core machine that was shared with other work, so that they are upper bounds"
        in text.split("|")[0]
    )
    assert text.count("It falls short") == 3
    assert "<details>" not in text


def test_long_tables_are_folded_away(record):
    long = replace(record, compared=record.compared * 6)
    text = results_markdown({"r": long}, "")
    assert "<details><summary>24 numbers</summary>\n\n|" in text
    assert "\n\n</details>\n" in text
    assert len(tables(text)[1]) == 25


def test_a_paper_not_known_by_title_goes_by_its_number(record):
    assert "## Paper 7\n" in results_markdown({"r": replace(record, paper=7)}, "")


def shown(thing):
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(thing)
    return console.export_text()


def test_the_table_for_the_terminal(record):
    text = shown(reproduction_table(replace(record, title="[red]plain[/]")))
    assert "Paper 4, Table 9: [red]plain[/]" in text
    assert re.search(r"AUROC: a\|b <script>\s+95\.50 ± 0\.40 %\s+94\.25 ± 0\.75 %\s+−1\.25", text)
    assert re.search(r"It is best\s+no\s+1 < 2", text)
    assert re.search(r"epochs\s+30\s+10\s+time", text)
    assert "• It falls short" in text


def test_a_folder_may_be_called_anything(record):
    made = results_markdown({"../r/a (b)|c": record}, "")
    assert "](../r/a%20%28b%29%7Cc/README.md)" in made
    assert (
        len(cells(next(line for line in made.splitlines() if line.startswith("| [duq-table9]"))))
        == 9
    )


def test_a_claim_may_not_be_clear(record):
    claims = (
        Claim("it is best", None, "0.5 ± 0.3"),
        Claim("it is", True, "1"),
        Claim("it is not", False, "0"),
    )
    unclear = replace(record, claims=claims)
    assert re.search(r"it is best\s+not clear", shown(reproduction_table(unclear)))
    assert "| it is best | not clear | 0.5 ± 0.3 |" in reproduction_markdown(unclear)
    assert "| 1 of 3, 1 not clear |" in results_markdown({"there": unclear}, "")
    assert "1 of 3 claims hold in our runs; of 1 they cannot tell." in " ".join(reproduced(unclear))
    assert "<td>not clear</td>" in papers_page([("a", unclear)])


def listed(name, needs, further=(), **more):
    """An experiment as the list asks for it."""
    usual = {"paper": 2, "item": "Table 1", "title": "[b]", "scales": ("quick", "paper")}
    needed = {"quick": needs, "paper": (*needs, *further)}.__getitem__
    return SimpleNamespace(name=name, needs=needs, needed=needed, **{**usual, **more})


def test_the_list_says_what_is_missing_and_how_long_it_took():
    one = listed("a-table1", ("mnist", "usps"), scales=("quick",))
    two = listed("b-figure1", (), paper=1, item="Figure 1", title="maps")
    text = shown(
        experiments_table([one, two], {"a-table1": ["usps"], "b-figure1": []}, {"b-figure1": 61})
    )
    assert re.search(r"a-table1\s+2, Table 1\s+\[b\]\s+quick\s+–", text)
    assert "mnist; not here: usps" in text
    assert re.search(r"b-figure1\s+1, Figure 1\s+maps\s+quick\s+1 min", text)
    assert "embedded" in text


@pytest.mark.parametrize(
    ("missing", "shown_data"),
    [
        ([], "mnist; paper: cifar10, svhn"),
        (["svhn"], "mnist; paper: cifar10; paper: not here: svhn"),
        (["mnist", "cifar10", "svhn"], "not here: mnist; paper: not here: cifar10, svhn"),
    ],
)
def test_the_list_names_data_that_only_the_papers_scale_needs(missing, shown_data):
    one = listed("a", ("mnist",), ("cifar10", "svhn"))
    (line,) = (
        line
        for line in shown(experiments_table([one], {"a": missing}, {})).splitlines()
        if "svhn" in line
    )
    assert re.fullmatch(rf"\s*{re.escape(shown_data)}\s+paper\s*", line)
