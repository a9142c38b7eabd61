"""Figures of evaluations, and what every figure does with names that come from data."""

import html
import io
import re
import warnings

import pytest
from matplotlib import rc_context
from matplotlib.figure import Figure

from nescio.errors import NescioError
from nescio.records import Evaluation, Histogram, KnownSide, Provenance, Rejection, UnknownSide
from nescio.report.evaluation import histogram_figure, rejection_curves_figure
from nescio.report.figures import (
    MAX_NAME,
    figure_format,
    ignore_missing_glyphs,
    legend_below,
    plot_text,
    save_figure,
    text_width,
)

HOSTILE = ["$x_{$", r"$\frac{$", "b $ c $ d", "_a", r"a\$b$", "$", "__$$"]


def words_in(figure):
    """Each text of a figure as a reader meets it, from a file in which text stays text."""
    file = io.BytesIO()
    with rc_context({"svg.fonttype": "none"}):
        figure.savefig(file, format="svg")
    lines = re.findall(r"<text[^>]*>([^<]*)</text>", file.getvalue().decode())
    return [html.unescape(line).strip().removeprefix("\u200a") for line in lines]


def an_evaluation(known, unknown, method="softmax"):
    def rejection(score, end):
        return (Rejection(score, (0.0, 0.5), (0.8, end), (0.9, 1.0), 0.8, 0.9),)

    sides = tuple(UnknownSide(name, 5, 0.5, (), rejection("entropy", 0.6)) for name in unknown)
    counts = {"known": (1, 3), **dict.fromkeys(unknown, (3, 2))}
    return Evaluation(
        method,
        "entropy",
        2,
        1,
        KnownSide(known, 4, 0.8, 0.9, 0.1, 0.2, 0.1, (), rejection("entropy", 0.95)),
        sides,
        (Histogram("entropy", (0.0, 0.25, 0.75), counts),),
        Provenance(0, {}, 0.0, {}),
    )


def test_any_name_is_shown_as_it_is():
    record = an_evaluation(HOSTILE[0], HOSTILE[1:], method="$m$")
    words = words_in(histogram_figure(record))
    assert set(HOSTILE) <= set(words)
    assert "$m$: entropy on each set" in words
    words = words_in(rejection_curves_figure(record))
    assert {HOSTILE[0], *(f"with {name}" for name in HOSTILE[1:])} <= {
        word.replace("\u200a", "") for word in words
    }
    assert "$m$: accuracy when unknown-looking inputs are rejected" in words


@pytest.mark.parametrize("kind", ["svg", "png", "pdf"])
def test_letters_that_the_font_lacks_are_no_matter(tmp_path, kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert text_width("日本", 10) > 0
        figure = histogram_figure(an_evaluation("日本", ["언어"]))
        legend_below(figure, *figure.axes[0].get_legend_handles_labels(), size=9)
        save_figure(figure, tmp_path / f"a.{kind}")
        with ignore_missing_glyphs(), pytest.raises(UserWarning, match="something else"):
            warnings.warn("something else", stacklevel=1)


def test_a_long_name_is_cut_in_its_middle():
    assert plot_text("x" * MAX_NAME) == "x" * MAX_NAME
    cut = plot_text("a" + "x" * MAX_NAME + "z")
    assert len(cut) == MAX_NAME
    assert cut[0] + cut[-1] == "az"
    assert "…" in cut


def test_histograms_draw_shares():
    axes = histogram_figure(an_evaluation("moons", ["far"])).axes[0]
    outlines = [patch for patch in axes.patches if patch.get_label()]
    assert [(one.get_label(), one.get_data().values.tolist()) for one in outlines] == [
        ("moons", [0.25, 0.75]),
        ("far", [0.6, 0.4]),
    ]
    assert all(one.get_data().edges.tolist() == [0.0, 0.25, 0.75] for one in outlines)
    assert axes.get_xlabel() == "entropy  (higher = more likely unknown)"
    with pytest.raises(NescioError, match="unknown score of this record 'margin'"):
        histogram_figure(an_evaluation("moons", []), "margin")


def test_rejections_draw_accuracy_and_the_best_there_could_be():
    axes = rejection_curves_figure(an_evaluation("moons", ["far"])).axes[0]
    drawn = [
        (line.get_label(), line.get_ydata().tolist(), line.get_linestyle()) for line in axes.lines
    ]
    assert drawn[:2] == [("moons", [0.8, 0.95], "-"), ("with far", [0.8, 0.6], "-")]
    assert [one[1:] for one in drawn[2:]] == [([0.9, 1.0], "--")]


@pytest.mark.parametrize(
    ("names", "wide"),
    [
        (["a", "b", "c"], 5.0),
        ([f"class number {k}" for k in range(30)], 4.4),
        ([f"class number {k}" for k in range(30)], 12.0),
        (["mean concavity of the nuclei, worst value"[:MAX_NAME], "b"], 4.4),
    ],
)
def test_a_legend_stays_inside_its_figure_and_leaves_the_panels_room(names, wide):
    figure = Figure(figsize=(wide, 3.0), layout="constrained")
    axes = figure.subplots()
    handles = [axes.plot([0, 1])[0] for _ in names]
    figure.draw_without_rendering()
    before = axes.get_window_extent().height
    legend_below(figure, handles, names, size=8)
    figure.draw_without_rendering()
    box, room = figure.legends[0].get_window_extent(), figure.bbox
    assert room.x0 <= box.x0 < box.x1 <= room.x1
    assert room.y0 <= box.y0 < box.y1 <= room.y1
    assert [text.get_text() for text in figure.legends[0].get_texts()] == names
    assert (
        axes.get_window_extent().height > before - 0.35 * figure.dpi
    )  # one row is all that they give
    columns = len({round(text.get_window_extent().x0) for text in figure.legends[0].get_texts()})
    used = columns * (max(text_width(name, 8) for name in names) + 5 * 8 / 72)
    assert columns == len(names) or used > wide / 2


def test_a_folder_is_no_figure(tmp_path):
    (tmp_path / "maps.svg").mkdir()
    for name in (tmp_path / "maps.svg", str(tmp_path)):
        with pytest.raises(NescioError, match="is a folder; expected the path of a figure"):
            figure_format(name)
    assert figure_format(tmp_path / "new.PNG") == "png"


@pytest.mark.parametrize("kind", ["svg", "png", "pdf"])
def test_a_figure_is_the_same_file_each_time(tmp_path, kind):
    for name in ("one", "two"):
        save_figure(histogram_figure(an_evaluation("a", ["b"])), tmp_path / f"{name}.{kind}")
    assert (tmp_path / f"one.{kind}").read_bytes() == (tmp_path / f"two.{kind}").read_bytes()
