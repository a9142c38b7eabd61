"""Table 1's layout: cells from records, for a terminal of any width and in Markdown."""

import io
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from nescio.records import Against, Evaluation, KnownSide, Provenance, Separation, UnknownSide
from nescio.report.side_by_side import side_by_side

SETS = ("fashion", "noise", "adversarial_noise", "adversarial_samples")


def judged(method, auroc=0.9, sets=SETS, known="digits", changed=40, steps=80):
    sides = [
        UnknownSide(name, 50, 0.5, (Separation("entropy", auroc, auroc, auroc, 1 - auroc),), (), ())
        for name in sets
    ]
    for i, name in enumerate(sets):
        if name.startswith("adversarial"):
            aim, count = ("loss", changed) if name == "adversarial_samples" else ("confidence", 50)
            how = Against(50, aim, 0.3, steps, 0.0075, "linf", True, 1, False)
            sides[i] = replace(sides[i], inputs=count, attack=how)
    side = KnownSide(known, 100, auroc, 0.95, 0.1, 0.2, 0.1, (), ())
    return Evaluation(method, "entropy", 2, 1, side, tuple(sides), (), Provenance(0, {}, 0.0, {}))


def printed(table, width):
    file = io.StringIO()
    Console(file=file, width=width).print(table)
    return file.getvalue().splitlines()


def rows_of(markdown):
    """Cells of each line of a Markdown table, where a bar after a backslash is none."""
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    return [
        [cell.strip() for cell in line.replace(r"\|", "¦").strip("|").split("|")] for line in lines
    ]


THREE = [judged("softmax", 0.9), judged("ceda", 0.95), judged("acet", 0.99)]


def test_methods_stand_side_by_side_under_their_test_errors():
    table = side_by_side(THREE)
    assert table.methods == ("softmax", "ceda", "acet")
    assert table.errors == ("10.00%", "5.00%", "1.00%")
    assert [name for name, _ in table.rows] == ["digits", *SETS]
    assert [cell.figures for cell in table.rows[0][1]] == [("95.0%", "–", "–")] * 3
    assert [cell.figures for cell in table.rows[1][1]] == [
        ("50.0%", "0.900", "10.0%"),
        ("50.0%", "0.950", "5.0%"),
        ("50.0%", "0.990", "1.0%"),
    ]


def test_markdown_has_the_cells_of_the_terminal():
    table = side_by_side(THREE)
    head, rule, columns, *rows = rows_of(table.markdown())
    heads = (("softmax, TE 10.00%", "", ""), ("ceda, TE 5.00%", "", ""), ("acet, TE 1.00%", "", ""))
    assert head == ["digits against unknown sets", *(word for group in heads for word in group)]
    assert rule == [":---", *["---:"] * 9]
    assert columns == ["", *["MMC", "AUROC", "FPR95"] * 3]
    terminal = [line.split() for line in printed(table, 200)]
    for (name, cells), row in zip(table.rows, rows, strict=True):
        figures = [figure for cell in cells for figure in cell.figures]
        assert row == [name, *figures]
        assert [name, *figures] in terminal
    assert "- TE: test error." in table.markdown().splitlines()


def test_several_runs_give_means_and_deviations():
    table = side_by_side([judged("ceda", 0.90), judged("ceda", 0.94), judged("acet", 0.9)])
    assert table.errors == ("8.00% ±2.83", "10.00%")
    assert table.rows[1][1][0].figures == ("50.0% ±0.0", "0.920 ±0.028", "8.0% ±2.8")
    assert "±: standard deviation over runs." in table.notes
    lines = [line.split() for line in printed(table, 80)]
    at = lines.index(["noise", "50.0%", "0.920", "8.0%", "50.0%", "0.900", "10.0%"])
    assert lines[at + 1] == ["±0.0", "±0.028", "±2.8"]


def test_notes_say_how_strong_the_attacks_were_and_what_they_changed():
    notes = side_by_side(
        [judged("softmax", changed=50), judged("acet", changed=7), judged("acet", changed=9)]
    ).notes
    assert (
        "Attack of adversarial_noise on 50 inputs: confidence raised within ε = 0.3 (linf), 80 steps of 0.0075."
        in notes
    )
    assert (
        "Attack of adversarial_samples on 50 inputs: loss raised within ε = 0.3 (linf), 80 steps of 0.0075."
        in notes
    )
    at = notes.index("Of these 50, ended in a wrong class and were judged: softmax 50, acet 7 / 9.")
    assert notes[at - 1].startswith("Attack of adversarial_samples")
    assert (
        sum("wrong class" in note for note in notes) == 1
    )  # noise has no class that could be wrong
    assert [note for note in notes if "fashion" in note] == [
        "Inputs: 100 of digits, 50 of fashion, 50 of noise."
    ]


def test_attacks_that_differ_are_told_for_each_method():
    notes = side_by_side([judged("softmax"), judged("acet", steps=200)], "adversarial_noise").notes
    (note,) = (note for note in notes if note.startswith("Attack"))
    assert note.startswith("Attack of adversarial_noise on 50 inputs: softmax by confidence raised")
    assert "80 steps of 0.0075; acet by" in note
    assert note.endswith("200 steps of 0.0075.")


@pytest.mark.parametrize("width", [100, 80])
def test_three_methods_fit_a_terminal_side_by_side(width):
    lines = printed(side_by_side(THREE), width)
    assert max(map(cell_len, lines)) <= width
    (head,) = (line for line in lines if "softmax, TE 10.00%" in line)
    assert "ceda, TE 5.00%" in head
    assert "acet, TE 1.00%" in head
    columns = next(line for line in lines if "MMC" in line)
    row = next(line for line in lines if line.startswith("fashion"))
    for name, figure in (
        ("MMC", "50.0%"),
        ("AUROC", "0.900"),
        ("FPR95", "10.0%"),
    ):  # figures end where heads do
        assert columns.index(name) + len(name) == row.index(figure) + len(figure)
    at = next(
        i
        for i, line in enumerate(lines)
        if line.startswith("adversarial_s" if width == 100 else "adversarial_")
    )
    assert lines[at].split()[-9:] == [
        "50.0%",
        "0.900",
        "10.0%",
        "50.0%",
        "0.950",
        "5.0%",
        "50.0%",
        "0.990",
        "1.0%",
    ]
    if width == 80:
        assert [line.split(" ")[0] for line in lines[at : at + 4]] == [
            "adversarial_",
            "noise",
            "adversarial_",
            "samples",
        ]


@pytest.mark.parametrize("width", [80, 60, 40])
def test_where_it_is_narrow_groups_are_stacked(width):
    records = [
        judged(name, value)
        for name in ("softmax", "ensemble", "ceda", "acet")
        for value in (0.9, 0.94)
    ]
    lines = printed(side_by_side(records), width)
    assert max(map(cell_len, lines)) <= width
    heads = [line for line in lines if "MMC" in line and "AUROC" in line]
    assert len(heads) == {80: 2, 60: 2, 40: 4}[width]  # three, two and one in a row
    assert sum(line.split().count("0.920") for line in lines) == 4 * len(
        SETS
    )  # no figure is broken
    assert sum(line.split().count("±0.028") for line in lines) == 4 * len(SETS)


def test_names_are_no_markdown_and_no_markup():
    records = [
        judged("a|b", known="<script>", sets=("[bold]x", "*far*", "`$x$`", "two\nlines", "_k_"))
    ]
    table = side_by_side(records)
    text = table.markdown()
    assert "<" not in text.replace("&lt;", "")
    head, _, _, *rows = rows_of(text)
    assert head[:2] == ["&lt;script&gt; against unknown sets", "a¦b, TE 10.00%"]
    assert len({len(row) for row in rows_of(text)}) == 1
    assert [row[0] for row in rows] == [
        "&lt;script&gt;",
        r"\[bold\]x",
        r"\*far\*",
        r"\`\$x\$\`",
        "two lines",
        r"\_k\_",
    ]
    assert any("[bold]x" in line for line in printed(table, 80))


def test_a_long_name_is_folded():
    lines = printed(
        side_by_side([judged("m" * 90, sets=("n" * 50,)), judged("acet", sets=("n" * 50,))]), 80
    )
    assert max(map(cell_len, lines)) <= 80
    table = lines[: next(i for i, line in enumerate(lines) if line.startswith("Judged"))]
    assert sum(line.count("m") for line in table) == 90
    assert sum(line.count("n") for line in table[1:]) >= 50


def test_an_undefined_figure_is_a_dash():
    record = judged("acet", sets=("far",))
    side = replace(record.unknown[0], separation=(Separation("entropy", None, None, None, None),))
    (_, (cell,)) = side_by_side(replace(record, unknown=(side,))).rows[1]
    assert cell.figures == ("50.0%", "–", "–")
