"""Tables of several methods: cells from records, for a terminal of any width and in Markdown."""

import io
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from nescio.records import Against, Evaluation, KnownSide, Provenance, Separation, UnknownSide
from nescio.report.comparison import metric_tables

SETS = ("fashion", "noise", "adversarial_noise", "adversarial_samples")


def evaluated(method, auroc=0.9, sets=SETS, known="digits", changed=40, steps=80):
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


def printed(tables, width):
    file = io.StringIO()
    Console(file=file, width=width).print(*tables)
    return file.getvalue().splitlines()


def cells(table):
    return [list(map(str, row)) for row in table.rows]


THREE = [evaluated("softmax", 0.9), evaluated("ceda", 0.95), evaluated("acet", 0.99)]


def test_methods_are_rows_and_sets_are_columns():
    auroc, fpr95, confidence = metric_tables(THREE)
    assert auroc.title == "digits against unknown sets"
    assert auroc.columns[4:] == [f"AUROC: {name}" for name in SETS]
    assert cells(auroc) == [
        [name, "1", accuracy, "95.0%", *[value] * 4]
        for name, accuracy, value in (
            ("softmax", "90.0%", "0.900"),
            ("ceda", "95.0%", "0.950"),
            ("acet", "99.0%", "0.990"),
        )
    ]
    assert fpr95.columns == ("method", *SETS)
    assert cells(fpr95)[1] == ["ceda", *["5.0%"] * 4]
    assert confidence.columns == ("method", "digits", *SETS)
    assert cells(confidence)[2] == ["acet", "95.0%", *["50.0%"] * 4]


def test_several_runs_give_means_and_deviations():
    auroc, fpr95, _ = metric_tables(
        [evaluated("ceda", 0.90), evaluated("ceda", 0.94), evaluated("acet", 0.9)]
    )
    assert cells(auroc)[0] == ["ceda", "2", "92.0% ±2.8", "95.0% ±0.0", *["0.920 ±0.028"] * 4]
    assert cells(fpr95) == [["ceda", *["8.0% ±2.8"] * 4], ["acet", *["10.0%"] * 4]]
    assert "±: standard deviation over runs." in auroc.notes


def test_notes_say_how_strong_the_attacks_were_and_what_they_changed():
    runs = [
        evaluated("softmax", changed=50),
        evaluated("acet", changed=7),
        evaluated("acet", changed=9),
    ]
    notes = list(metric_tables(runs)[0].notes)
    how = "within ε = 0.3 (linf), 80 steps of 0.0075."
    assert f"Attack of adversarial_noise on 50 inputs: confidence increased {how}" in notes
    assert f"Attack of adversarial_samples on 50 inputs: loss increased {how}" in notes
    at = notes.index("Misclassified after the attack, and evaluated: softmax 50, acet 7 / 9.")
    assert notes[at - 1].startswith("Attack of adversarial_samples")
    assert sum("isclassified" in note for note in notes) == 1  # noise has no true class
    assert [note for note in notes if "fashion" in note] == [
        "Inputs: 100 of digits, 50 of fashion, 50 of noise."
    ]


def test_attacks_that_differ_are_described_for_each_method():
    notes = metric_tables(
        [evaluated("softmax"), evaluated("acet", steps=200)], "adversarial_noise"
    )[0].notes
    (note,) = (note for note in notes if note.startswith("Attack"))
    assert note.startswith(
        "Attack of adversarial_noise on 50 inputs: softmax by confidence increased"
    )
    assert "80 steps of 0.0075; acet by" in note
    assert note.endswith("200 steps of 0.0075.")


@pytest.mark.parametrize("width", [100, 80])
def test_a_terminal_breaks_no_number(width):
    records = [
        evaluated(name, value)
        for name in ("softmax", "ensemble", "ceda", "acet")
        for value in (0.9, 0.94)
    ]
    lines = printed(metric_tables(records), width)
    assert max(map(cell_len, lines)) <= width
    words = [word for line in lines for word in line.split()]
    assert words.count("0.920") == words.count("±0.028") == 4 * len(SETS)
    assert words.count("8.0%") == 4 * len(SETS)


def test_names_are_no_markdown_and_no_markup():
    sets = ("[bold]x", "*far*", "`$x$`", "two\nlines", "_k_")
    tables = metric_tables([evaluated("a|b", known="<script>", sets=sets)])
    text = "\n".join(table.markdown() for table in tables)
    assert "<" not in text.replace("&lt;", "")
    assert "**&lt;script&gt; against unknown sets**" in text
    escaped = r"| method | &lt;script&gt; | \[bold\]x | \*far\* | \`\$x\$\` | two lines | \_k\_ |"
    assert escaped in text.splitlines()
    assert any(line.startswith(r"| a\|b | 1 |") for line in text.splitlines())
    assert any("[bold]x" in line for line in printed(tables, 80))


def test_a_long_name_is_folded():
    records = [evaluated("m" * 90, sets=("n" * 50,)), evaluated("acet", sets=("n" * 50,))]
    lines = printed(metric_tables(records)[1:2], 80)
    assert max(map(cell_len, lines)) <= 80
    assert sum(line.count("m") for line in lines[2:]) >= 90
    assert sum(line.count("n") for line in lines[2:]) >= 50


def test_an_undefined_metric_is_a_dash():
    record = evaluated("acet", sets=("far",))
    side = replace(record.unknown[0], separation=(Separation("entropy", None, None, None, None),))
    auroc, fpr95, confidence = metric_tables(replace(record, unknown=(side,)))
    assert auroc.rows[0][-1] is None
    assert [cells(table)[0][-1] for table in (fpr95, confidence)] == ["–", "50.0%"]
