"""One table, for a terminal, as Markdown and as HTML."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from nescio.metrics.percent import percent
from nescio.report.table import (
    Percent,
    Styled,
    Table,
    auroc_cell,
    format_number,
    mean_text,
    percent_cell,
)

NAME = '"><img src=x onerror=alert(1)>'
FRACTIONS = (0.0, 1e-9, 0.0004, 0.001, 0.5, 0.999, 0.9996, 1.0)


def printed(table, width=80):
    file = io.StringIO()
    Console(file=file, width=width).print(table)
    return file.getvalue().splitlines()


def rows_of(markdown):
    """The cells of each line of a Markdown table, where a bar after a backslash is no border."""
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.replace(r"\|", "¦")[1:-1].split("|")] for line in lines]


def test_a_notebook_shows_the_markdown():
    made = Table("both", ("name", "count"), [("a", 1)])
    assert made._repr_markdown_() == made.markdown()


def test_html_numbers_are_plain_and_sorted_by_their_full_value():
    made = Table(
        "both", ("name", "count", "share"), [("a", 1797, 0.98765), ("b", None, 0.5)]
    ).html()
    assert '<td class=number data-value="1797">1797</td>' in made
    assert '<td class=number data-value="0.98765">0.988</td>' in made
    assert "<td class=number>–</td>" in made
    assert "<caption>both</caption>" in made
    assert "<th scope=row>a</th>" in made
    assert made.count("<th scope=col") == 3


def test_a_cell_may_show_one_thing_and_be_sorted_by_another():
    rows = [("x", Styled("0.946 ±0.006", 0.946)), ("y", Percent(0.5)), ("z", True)]
    made = Table("", ("a", "b"), rows).html()
    assert '<td class=number data-value="0.946">0.946 ±0.006</td>' in made
    assert '<td class=number data-value="0.5">50.0</td>' in made
    assert "<th scope=col class=number>b, %</th>" in made
    assert "<td>yes</td>" in made


def test_fractions_are_shown_as_in_words():
    shown = ["0.0", "<0.1", "<0.1", "0.1", "50.0", "99.9", ">99.9", "100.0"]
    assert [Percent(value).text("") for value in FRACTIONS] == shown
    for value in FRACTIONS:
        assert percent(value) == Percent(value).text(" %")
    assert "&lt;0.1</td>" in Table("", ("share",), [(Percent(1e-9),)]).html()
    assert "<td class=number>–</td>" in Table("", ("share",), [(Percent(None),)]).html()


def test_all_words_of_html_are_escaped():
    made = Table(NAME, (NAME,), [(NAME,), (Styled(NAME),)], [NAME]).html()
    assert "<img" not in made
    assert made.count("&#34;&gt;&lt;img src=x") == 6


def test_the_same_cells_in_a_terminal_and_in_markdown():
    rows = [
        ["softmax", 2, Percent(0.5), 0.25, auroc_cell(0.95)],
        ["duq", 1, Percent(1.0), None, None],
    ]
    table = Table("all", ["method", "runs", "accuracy", "NLL", "AUROC"], rows, ["a note"])
    cells = [["softmax", "2", "50.0%", "0.250", "0.950"], ["duq", "1", "100.0%", "–", "–"]]
    head, rule, *body = rows_of(table.markdown())
    assert head == ["method", "runs", "accuracy", "NLL", "AUROC"]
    assert rule == ["---", *["---:"] * 4]
    assert body == cells
    assert table.markdown().splitlines()[-1] == "- a note"
    lines = [line.split() for line in printed(table)]
    assert all(row in lines for row in [head, *cells])
    assert lines[0] == ["all"]
    assert lines[-1] == ["a", "note"]


@pytest.mark.parametrize("width", [100, 60, 40])
def test_a_narrow_terminal_folds_words_and_breaks_no_number(width):
    names = ("adversarial_samples", "adversarial_noise", "fashion", "n" * 30)
    rows = [[name, Percent(0.5), auroc_cell([0.90, 0.94])] for name in names]
    lines = printed(Table("t", ["a set of data", "mean confidence", "AUROC"], rows), width)
    assert max(map(cell_len, lines)) <= width
    words = [word for line in lines for word in line.split()]
    assert words.count("0.920") == words.count("±0.028") == words.count("50.0%") == 4
    assert sum(line.count("n") for line in lines if set(line.strip().split("  ")[0]) <= {"n"}) == 30


def test_names_are_no_markdown_and_no_markup():
    names = ("<script>", "[bold]x", "*far*", "`$x$`", "two\nlines", "_k_", "a|b")
    table = Table("[i]t[/i]", ("name",), [(name,) for name in names])
    text = table.markdown()
    assert "<" not in text.replace("&lt;", "")
    escaped = [
        "&lt;script&gt;",
        r"\[bold\]x",
        r"\*far\*",
        r"\`\$x\$\`",
        "two lines",
        r"\_k\_",
        "a¦b",
    ]
    assert [row[0] for row in rows_of(text)[2:]] == escaped
    assert {"[i]t[/i]", "[bold]x"} <= {line.strip() for line in printed(table)}


def test_markdown_has_links_and_bold_cells():
    text = Table("", ("a", "b"), [(Styled("x", link="x/y.md"), Styled("no", style="bold red"))])
    assert "| [x](x/y.md) | **no** |" in text.markdown()


def test_columns_may_be_left_out_and_rows_stand_out():
    table = Table("t", ("a", "b", "c"), [(1, 2, 3)], row_styles={0: "bold"}).without("b")
    assert (table.columns, table.rows) == (["a", "c"], [[1, 3]])
    file = io.StringIO()
    Console(file=file, width=80, force_terminal=True).print(table)
    assert "\x1b[1m    1" in file.getvalue()


def test_several_runs_give_means_and_deviations():
    assert mean_text([0.90, 0.94]) == "0.920 ±0.028"
    assert mean_text([0.9, None]) == "–"
    assert str(percent_cell([0.90, 0.94])) == "92.0% ±2.8"
    assert str(percent_cell([0.9])) == "90.0%"
    assert percent_cell([0.9, None]).value is None
    assert auroc_cell([0.65, None]) is None
    assert [auroc_cell(value).style for value in (0.65, 0.75, 0.95)] == ["red", "yellow", "green"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0.000"), (-2.5, "-2.500"), (1e-7, "1.0e-07"), (3e12, "3.0e+12"), (10**12, str(10**12))],
)
def test_no_number_is_hidden(value, shown):
    assert format_number(value) == shown
