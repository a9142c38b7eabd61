"""Methods side by side: figures and table say what the records say."""

import io
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_hex
from rich.console import Console

from nescio.errors import NescioError
from nescio.records import (
    Against,
    Evaluation,
    Histogram,
    KnownSide,
    Provenance,
    Rejection,
    Roc,
    Separation,
    UnknownSide,
)
from nescio.report.comparison import set_tables, write_comparison
from nescio.report.comparison_figures import (
    attacked_figure,
    confidence_figure,
    rejection_figure,
    roc_figure,
)
from nescio.report.table import mean_text, percent_cell

METHODS = ("softmax", "ensemble", "duq")


def evaluated(method, auroc=0.9, sets=("far",), score="entropy", known="digits", inputs=4):
    """An evaluation whose every figure follows from its AUROC; by "margin" it is 0.1 less."""

    def figures(name, value):
        return Separation(name, value, max(value - 0.01, 0.0), max(value - 0.02, 0.0), 1 - value)

    def rejection(name, value):
        return Rejection(name, (0.0, 0.5), (0.5, value), (0.6, 1.0), max(value - 0.1, 0.0), 0.8)

    scores = {score: auroc, "margin": auroc - 0.1}
    curves = tuple(rejection(name, value) for name, value in scores.items())
    rocs = tuple(
        Roc(name, (0.0, 1 - value, 1.0), (0.0, value, 1.0)) for name, value in scores.items()
    )
    found = tuple(figures(name, value) for name, value in scores.items())
    sides = tuple(UnknownSide(name, 5, 0.5, found, curves, rocs) for name in sets)
    confidence = Histogram(
        "confidence", (0.0, 0.5, 1.0), {"known": (1, 3), **dict.fromkeys(sets, (3, 2))}
    )
    return Evaluation(
        method,
        score,
        2,
        1,
        KnownSide(known, inputs, auroc, 0.95, 0.1, 0.2, 0.1, (), ()),
        sides,
        (),
        Provenance(0, {}, 0.0, {}),
        confidence,
    )


def lines_of(axes):
    return [
        (line.get_xdata().tolist(), line.get_ydata().tolist())
        for line in axes.lines
        if len(line.get_xdata())
    ]


def legend_of(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def printed(table, width=120):
    file = io.StringIO()
    Console(file=file, width=width).print(table)
    return [" ".join(line.split()) for line in file.getvalue().splitlines() if line.strip()]


def test_roc_draws_each_method_by_its_own_score():
    figure = roc_figure([evaluated("softmax", 0.8), evaluated("duq", 0.95, score="max_logit")])
    (axes,) = figure.axes
    coin, softmax, duq = lines_of(axes)
    assert coin == ([0, 1], [0, 1])
    assert softmax == ([0, pytest.approx(0.2), 1], [0, 0.8, 1])
    assert duq == ([0, pytest.approx(0.05), 1], [0, 0.95, 1])
    assert legend_of(axes) == ["softmax  0.800", "duq  0.950"]
    assert axes.get_legend().get_title().get_text() == "AUROC"
    assert (axes.get_xlabel(), axes.get_ylabel()) == (
        "unknown inputs accepted",
        "known inputs accepted",
    )


def test_another_score_may_be_named():
    records = [evaluated("softmax", 0.8), evaluated("duq", 0.95, score="max_logit")]
    assert legend_of(roc_figure(records, score="margin").axes[0]) == [
        "softmax  0.700",
        "duq  0.850",
    ]
    assert legend_of(rejection_figure(records, score="margin").axes[0])[:2] == [
        "softmax  0.600",
        "duq  0.750",
    ]
    assert "softmax by margin, duq by margin" in " ".join(
        printed(set_tables(records, score="margin"))
    )
    with pytest.raises(NescioError, match="unknown score in a record of duq 'entropy'"):
        roc_figure(records, score="entropy")


def test_rejection_draws_the_theoretical_maximum_once():
    (axes,) = rejection_figure(
        [evaluated("softmax", 0.8), evaluated("ensemble", 0.9), evaluated("duq", 0.95)]
    ).axes
    assert lines_of(axes) == [([0, 0.5], [0.5, end]) for end in (0.8, 0.9, 0.95)] + [
        ([0, 0.5], [0.6, 1])
    ]
    assert legend_of(axes) == [
        "softmax  0.700",
        "ensemble  0.800",
        "duq  0.850",
        "theoretical maximum  0.800",
    ]
    assert [line.get_linestyle() for line in axes.lines].count("--") == 1


def test_no_curve_is_cut_off():
    low = evaluated("softmax", 0.1, sets=("near", "far"))
    high = replace(
        low, unknown=(evaluated("softmax", 0.9, sets=("near",)).unknown[0], low.unknown[1])
    )
    for axes in rejection_figure([high]).axes:
        assert axes.get_ylim()[0] < 0.1
        assert axes.get_ylim()[1] == 1.01


def test_runs_of_one_method_are_thin_lines_under_one_name():
    records = [evaluated("duq", 0.90), evaluated("softmax", 0.8), evaluated("duq", 0.94)]
    for draw, legend in (
        (roc_figure, ["duq  0.920 ±0.028", "softmax  0.800"]),
        (rejection_figure, ["duq  0.820 ±0.028", "softmax  0.700", "theoretical maximum  0.800"]),
    ):
        (axes,) = draw(records).axes
        assert legend_of(axes) == legend
        colours = {to_hex(line.get_color()) for line in axes.lines if line.get_linewidth() == 0.9}
        thin = [
            line for line in axes.lines if line.get_linewidth() == 0.9 and len(line.get_xdata())
        ]
        assert (len(thin), len(colours)) == (2, 1)


def test_methods_differ_in_colour_and_in_dashes():
    methods = [f"method {i}" for i in range(12)]
    (axes,) = roc_figure([evaluated(name) for name in methods]).axes
    looks = {
        (to_hex(line.get_color()), str(line._dash_pattern))
        for line in axes.lines
        if len(line.get_xdata()) == 3
    }
    assert len(looks) == 12
    first = [line for line in axes.lines if len(line.get_xdata()) == 3][:5]
    assert (
        len({to_hex(line.get_color()) for line in first})
        == len({str(line._dash_pattern) for line in first})
        == 5
    )


def test_each_unknown_set_has_a_panel():
    sets = ("a", "b", "c", "d")
    records = [evaluated(name, sets=sets) for name in METHODS]
    assert [axes.get_title() for axes in roc_figure(records).axes if axes.axison] == [
        f"against {s}" for s in sets
    ]
    assert [axes.get_title() for axes in rejection_figure(records).axes if axes.axison] == [
        f"with {s}" for s in sets
    ]
    assert [axes.get_title() for axes in roc_figure(records, "c").axes] == ["against c"]
    assert [axes.get_title() for axes in roc_figure(records, ["d", "a"]).axes] == [
        "against d",
        "against a",
    ]


def test_by_default_the_sets_that_all_records_have():
    records = [evaluated("softmax", sets=("a", "b", "c")), evaluated("duq", sets=("c", "a"))]
    assert [axes.get_title() for axes in roc_figure(records).axes] == ["against a", "against c"]


def test_confidence_has_a_panel_for_each_method_and_means_of_its_runs():
    first = evaluated("duq", sets=("far", "near"))
    second = replace(
        first,
        confidence=replace(
            first.confidence, counts={"known": (0, 8), "far": (6, 0), "near": (1, 1)}
        ),
    )
    figure = confidence_figure([first, evaluated("softmax", sets=("far", "near")), second])
    panels = figure.axes
    assert [axes.get_title() for axes in panels] == ["duq", "softmax"]
    drawn = [
        (one.get_label(), one.get_data().values.tolist())
        for one in panels[0].patches
        if one.get_label()
    ]
    assert drawn == [
        ("digits", [0.125, 0.875]),
        ("far", [0.8, pytest.approx(0.2)]),
        ("near", [0.55, 0.45]),
    ]
    assert panels[0].get_ylim() == panels[1].get_ylim()
    assert panels[0].get_ylim()[0] == 0
    assert panels[0].get_ylim()[1] >= 0.875
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["digits", "far", "near"]
    assert (
        len(confidence_figure(first, "near").axes[0].patches) == 4
    )  # two sets, each filled and outlined


def test_one_record_will_do():
    assert legend_of(roc_figure(evaluated("duq")).axes[0]) == ["duq  0.900"]


def test_names_may_be_given_to_runs():
    groups = {
        "λ = 0": [evaluated("duq", 0.9)],
        "λ = 0.05": [evaluated("duq", 0.95), evaluated("duq", 0.95)],
    }
    assert legend_of(roc_figure(groups).axes[0]) == ["λ = 0  0.900", "λ = 0.05  0.950 ±0.000"]
    rows = [line for line in printed(set_tables(groups)) if line.startswith("λ")]
    assert [row.split()[:4] for row in rows] == [["λ", "=", "0", "1"], ["λ", "=", "0.05", "2"]]


def test_detectors_on_one_method_are_distinguished():
    records = [evaluated("softmax", 0.9), evaluated("softmax", 0.8, score="threshold")]
    assert legend_of(roc_figure(records).axes[0]) == [
        "softmax, entropy  0.900",
        "softmax, threshold  0.800",
    ]


@pytest.mark.parametrize("names", [["$x_{$", r"$\frac{$", "_a"], ["m" * 300, "n" * 300, "duq"]])
def test_any_name_is_drawn_inside_its_panel(names, tmp_path):
    records = [evaluated(name, known=names[0], sets=(names[1],)) for name in names]
    write_comparison(records, tmp_path)
    for draw in (roc_figure, rejection_figure):
        figure = draw(records)
        figure.draw_without_rendering()
        (axes,) = figure.axes
        box, panel = axes.get_legend().get_window_extent(), axes.get_window_extent()
        assert panel.x0 <= box.x0 < box.x1 <= panel.x1
        assert panel.width > 2 * figure.dpi
        assert len(legend_of(axes)) == (4 if draw is rejection_figure else 3)


def test_table_gives_means_and_deviations():
    rows = printed(
        set_tables([evaluated("softmax", 0.8), evaluated("duq", 0.90), evaluated("duq", 0.94)])
    )
    assert rows[0] == "digits against far: 4 known, 5 unknown inputs"
    assert "softmax 1 80.0% 95.0% 50.0% 0.800 0.790 0.780 20.0%" in rows
    assert (
        "duq 2 92.0% ±2.8 95.0% ±0.0 50.0% ±0.0 0.920 ±0.028 0.910 ±0.028 0.900 ±0.028 8.0% ±2.8"
    ) in rows
    assert "Scored: softmax by entropy, duq by entropy." in rows
    assert "±: standard deviation over runs." in rows
    assert any(row.startswith("AUROC: probability that an unknown input") for row in rows)


def test_table_has_one_part_for_each_set_and_fits_a_terminal():
    records = [
        evaluated(name, value, sets=("far", "near")) for name in METHODS for value in (0.85, 0.9)
    ]
    rows = printed(set_tables(records), width=80)
    assert [row for row in rows if " against " in row] == [
        f"digits against {name}: 4 known, 5 unknown inputs" for name in ("far", "near")
    ]
    assert (
        "ensemble 2 87.5% 95.0% 50.0% 0.875 0.865 0.855 12.5%" in rows
    )  # with the deviations below


def test_an_undefined_figure_is_a_dash():
    assert mean_text([0.5, None]) == "–"
    record = evaluated("duq")
    side = replace(record.unknown[0], separation=(Separation("entropy", None, None, None, None),))
    assert any(
        row.endswith("– – – –")
        for row in printed(set_tables([replace(record, unknown=(side,)), evaluated("duq")]))
    )


@pytest.mark.parametrize(
    ("values", "share", "text"),
    [
        ([0.25], False, "0.250"),
        ([0.25], True, "25.0%"),
        ([0.1, 0.2, 0.3], False, "0.200 ±0.100"),
        ([0.1, 0.2, 0.3], True, "20.0% ±10.0"),
    ],
)
def test_deviation_is_that_of_a_sample(values, share, text):
    assert (str(percent_cell(values)) if share else mean_text(values)) == text
    if len(values) > 1:
        assert np.std(values, ddof=1) == pytest.approx(0.1)


def test_all_is_written_or_nothing(tmp_path):
    records = [evaluated(name) for name in METHODS]
    table = write_comparison(records, tmp_path / "new" / "folder", "far")
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == [
        "confidence.svg",
        "rejection.svg",
        "roc.svg",
        "table.md",
    ]
    assert printed(table) == printed(set_tables(records, "far"))
    with pytest.raises(NescioError, match="histogram of confidence"):
        write_comparison([replace(records[0], confidence=None)], tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_records_without_curves_are_named():
    record = evaluated("duq")
    old = replace(record, unknown=(replace(record.unknown[0], roc=()),), confidence=None)
    with pytest.raises(NescioError, match="score in a record of duq 'entropy'"):
        roc_figure([evaluated("softmax"), old])
    with pytest.raises(NescioError, match="a record of duq has no histogram of confidence"):
        confidence_figure([evaluated("softmax"), old])
    assert len(lines_of(rejection_figure([evaluated("softmax"), old]).axes[0])) == 3
    assert printed(set_tables([old])) == printed(set_tables([record]))


@pytest.mark.parametrize(
    ("records", "unknown", "message"),
    [
        ([], None, "at least one evaluation"),
        ({"duq": []}, None, "at least one evaluation"),
        ([evaluated("duq")], "fra", "unknown set in a record of duq 'fra'; did you mean 'far'"),
        (
            [evaluated("softmax", sets=("a", "b")), evaluated("duq", sets=("b",))],
            "a",
            "unknown set in a record of duq 'a'",
        ),
        (
            [evaluated("softmax", sets=("a",)), evaluated("duq", sets=("b",))],
            None,
            "softmax: a; duq: b",
        ),
        ([evaluated("softmax", sets=())], None, "no unknown data in common"),
        (
            [evaluated("softmax"), evaluated("duq", known="moons")],
            None,
            "4 inputs of digits with 5 of far; 4 inputs of moons",
        ),
        ([evaluated("softmax"), evaluated("duq", inputs=9)], None, "9 inputs of digits"),
    ],
)
def test_what_cannot_be_compared_is_reported(records, unknown, message):
    for make in (roc_figure, rejection_figure, confidence_figure, set_tables):
        with pytest.raises(NescioError, match=message):
            make(records, unknown)


def attacked(method, counts, auroc=0.9, tried=9):
    """An evaluation against adversarial samples, as many as are counted."""
    record = evaluated(method, auroc, sets=("adversarial_samples",))
    how = Against(tried, "loss", 0.3, 80, 0.0075, "linf", True, 1, False)
    side = replace(record.unknown[0], inputs=sum(counts), mmc=0.25, attack=how)
    confidence = Histogram(
        "confidence", (0.0, 0.5, 1.0), {"known": (1, 3), "adversarial_samples": counts}
    )
    return replace(record, unknown=(side,), confidence=confidence)


def test_confidence_in_adversarial_samples_is_counted_on_a_log_scale():
    figure = attacked_figure(
        [attacked("softmax", (0, 9)), attacked("acet", (8, 0)), attacked("acet", (4, 1))]
    )
    panels = figure.axes
    titles = [axes.get_title().splitlines() for axes in panels]
    assert titles == [
        ["softmax", "9 of 9 changed, mean confidence 25.0 %"],
        ["acet", "8 / 5 of 9 changed, mean confidence 25.0 %"],
    ]
    assert all(axes.get_yscale() == "log" for axes in panels)
    assert panels[0].get_ylim() == panels[1].get_ylim()
    floor = panels[0].get_ylim()[0]
    assert 0 < floor < 0.5  # one input of one run can be seen
    assert [axes.patches[0].get_data().values.tolist() for axes in panels] == [[floor, 9], [6, 0.5]]
    assert panels[0].get_ylim()[1] > 9
    assert [line.get_xdata() for line in panels[0].lines] == [[0.25, 0.25]]


def test_adversarial_samples_have_a_figure_of_their_own(tmp_path):
    write_comparison([attacked("softmax", (0, 9)), attacked("acet", (3, 1))], tmp_path)
    assert (tmp_path / "adversarial_samples.svg").stat().st_size > 1000
    with pytest.raises(NescioError, match="unknown set in a record of duq 'adversarial_samples'"):
        attacked_figure([evaluated("duq")])
    with pytest.raises(NescioError, match="has no histogram of confidence"):
        attacked_figure(replace(attacked("acet", (3, 1)), confidence=None))


def test_tables_say_how_many_inputs_an_attack_changed():
    lines = printed(set_tables([attacked("softmax", (0, 9)), attacked("acet", (3, 1))]))
    assert lines[0] == "digits against adversarial_samples: 4 known, 9 attacked inputs"
    text = " ".join(lines)
    assert (
        "Attack of adversarial_samples on 9 inputs: loss increased within ε = 0.3 (linf), 80 "
        "steps of 0.0075." in text
    )
    assert "Misclassified after the attack, and evaluated: softmax 9, acet 4." in text


def test_rejection_has_every_theoretical_maximum():
    """Where an attack failed on more inputs of one model, there are fewer to reject."""
    one, other = attacked("softmax", (0, 9)), attacked("acet", (3, 1))
    curve = replace(other.unknown[0].rejection[0], maximum=(0.7, 1.0), maximum_area=0.95)
    other = replace(other, unknown=(replace(other.unknown[0], rejection=(curve,)),))
    (axes,) = rejection_figure([one, other]).axes
    assert lines_of(axes)[2:] == [([0, 0.5], [0.6, 1]), ([0, 0.5], [0.7, 1])]
    assert legend_of(axes)[-1] == "theoretical maximum  0.800 to 0.950"


def test_many_sets_are_printed_side_by_side(tmp_path):
    sets = ("a", "b", "c", "d")
    records = [evaluated(name, sets=sets) for name in METHODS]
    lines = printed(write_comparison(records, tmp_path))
    assert "duq 1 90.0% 95.0% 0.900 0.900 0.900 0.900" in lines
    assert "softmax 10.0% 10.0% 10.0% 10.0%" in lines
    rows = [
        line
        for line in (tmp_path / "table.md").read_text(encoding="utf-8").splitlines()
        if line[0:1] == "|"
    ]
    names = ["| method", "| ---", *(f"| {name}" for name in METHODS)]
    assert [row.split(" | ")[0] for row in rows] == names * 3
