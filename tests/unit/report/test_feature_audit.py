"""The table and the figure say what the record says."""

import io
from dataclasses import replace

import pytest
from matplotlib.colors import to_hex
from rich.console import Console

from nescio.records import AuditedFeature, FeatureAudit, FeatureSide, Provenance, Reach
from nescio.report.feature_audit import (
    MONOTONE,
    NO_CLASS,
    feature_figure,
    feature_table,
    nearest_first,
)
from nescio.report.figures import COLOURS


def reach(median, spread=10.0, proved=1.0):
    """Rows of which a quarter, half and three quarters get there within ½, 1 and 2 medians."""
    if median is None:
        return Reach(0.25, proved, None, None, None, None)
    return Reach(1.0, proved, median / 2, median, 2 * median, median / spread if spread else None)


def side(median, ends=(1, 9), certain=1.0, unknown=None, of=(1, 9), **how):
    return FeatureSide(ends, certain, reach(median, **how), of, unknown)


def feature(name, lower, higher, monotone=False, spread=10.0):
    return AuditedFeature(name, 0, 20.0, 80.5, spread, monotone, lower, higher)


def record(*features, eps=None):
    return FeatureAudit(
        "softmax",
        10,
        ("healthy", "disease"),
        1,
        0.999,
        eps,
        0.2,
        features,
        Provenance.now(0, {}, 1.0),
    )


@pytest.fixture
def five():
    never = side(None, (5, 5), 0.0)
    return record(
        feature("never", never, never, spread=10.0),
        feature("late", side(400.0, (8, 2), of=(6, 4)), side(17_823.0), monotone=True),
        feature(
            "same", side(3.0, spread=None), side(None, spread=None), spread=None, monotone=None
        ),
        feature("soon [x]", side(None, (4, 6), 0.25), side(7.0)),
        feature("sure", side(0.0), side(90.0, None, None)),
    )


def lines(found, width=100):
    file = io.StringIO()
    Console(file=file, width=width).print(feature_table(found))
    return [" ".join(line.split()) for line in file.getvalue().splitlines() if line.strip()]


def test_the_nearest_come_first(five):
    assert [one.name for one in nearest_first(five)] == [
        "sure",
        "soon [x]",
        "late",
        "same",
        "never",
    ]


def test_a_row_for_each_feature(five):
    assert [line for line in lines(five) if "20 80.5" in line] == [
        "sure 20 80.5 already 0 disease 90% 90 9 not known",
        "soon [x] 20 80.5 never – unsure 75% 7 0.7 disease 90%",
        f"late {MONOTONE} 20 80.5 400 40 healthy 80% 17800 1780 disease 90%",
        "same 20 80.5 3 – disease 90% never – disease 90%",
        "never 20 80.5 never – unsure 100% never – unsure 100%",
    ]


def test_what_the_columns_mean_is_said(five):
    text = " ".join(lines(five))
    assert (
        "softmax: 10 rows, each moved along one feature; 20.0 % are 99.9 % certain unmoved" in text
    )
    for words in (
        "until the model is 99.9 % certain.",
        "standard deviation",
        "never: more than half of the rows",
        "the class that most rows end in",
        "100.0 % of this is proved",
    ):
        assert words in text
    half = record(feature("a", side(1.0, proved=0.5), side(1.0, proved=1.0)))
    assert "75.0 % of this is proved" in " ".join(lines(half))
    cut = " ".join(lines(replace(half, budget=60.0, unfollowed=5)))
    assert "Directions followed: 15 of 20. A budget of more than 60 s proves more." in cut


def test_nothing_is_lost_on_a_narrow_terminal(five):
    for width in (80, 100):
        assert max(map(len, lines(five, width))) <= width
        headings = " ".join(lines(five, width)[:6]).split()
        assert headings.count("ends") == headings.count("in") == 2  # no column is cut off
        text = " ".join(lines(five, width))
        assert "…" not in text
        assert [text.count(word) for word in ("disease", "17800", "never", "already")] == [
            5,
            1,
            6,
            1,
        ]


@pytest.fixture
def kernels():
    """A model that knows nothing from 30 on, and is certain at 2."""
    return record(
        feature(
            "far",
            side(2.0, None, None, unknown=reach(300.0)),
            side(None, None, None, unknown=reach(None)),
        ),
        feature(
            "near",
            side(2.0, None, None, unknown=reach(30.0)),
            side(None, None, None, unknown=reach(50.0)),
        ),
        eps=1e-3,
    )


def test_kernels_are_described_by_where_they_stop_knowing(kernels):
    rows = [line for line in lines(kernels) if "20 80.5" in line]
    assert rows == ["near 20 80.5 30 3 2 50 5 never", "far 20 80.5 300 30 2 never – never"]
    assert "stays uncertain" in " ".join(lines(kernels))
    figure = feature_figure(kernels)
    assert "until the model stays uncertain" in figure.axes[0].get_title(loc="left")
    assert sorted(bar.get_width() for bar in figure.axes[0].patches) == pytest.approx([-30, -3, 5])
    assert {to_hex(bar.get_facecolor()) for bar in figure.axes[0].patches} == {to_hex(NO_CLASS)}


def test_the_figure_has_a_bar_for_each_distance(five):
    figure = feature_figure(five)
    (axes,) = figure.axes
    bars = {
        (round(bar.get_y() + bar.get_height() / 2), bar.get_width() > 0): bar
        for bar in axes.patches
    }
    assert {place: bar.get_width() for place, bar in bars.items()} == {
        (0, True): pytest.approx(9.0),  # sure
        (1, True): pytest.approx(0.7),  # soon
        (2, False): pytest.approx(-40.0),  # late
        (2, True): pytest.approx(1782.3),
    }
    colours = {place: to_hex(bar.get_facecolor()) for place, bar in bars.items()}
    healthy, ill = (colour.lower() for colour in COLOURS[:2])
    assert colours == {(0, True): ill, (1, True): ill, (2, False): healthy, (2, True): ill}
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "sure",
        "soon [x]",
        f"late {MONOTONE}",
        "same",
        "never",
    ]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first on top
    words = [text.get_text() for text in axes.texts]
    assert words == [
        "already",
        "+90",
        "never",
        "+7",
        "−400",
        "+17,800",
        "−3",
        "never",
        "never",
        "never",
    ]
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert said == [
        "certain of healthy",
        "certain of disease",
        "middle half of the rows",
        "monotone in the range seen",
    ]


def test_the_line_runs_from_quartile_to_quartile_and_out_where_there_is_none(five):
    late = five.features[1]
    cut = replace(
        late, higher=replace(late.higher, certain=replace(late.higher.certain, upper=None))
    )
    axes = feature_figure(record(cut)).axes[0]
    ends = [
        line.get_xdata().tolist() if hasattr(line.get_xdata(), "tolist") else list(line.get_xdata())
        for line in axes.lines[:2]
    ]
    assert ends[0] == pytest.approx([-20.0, -80.0])
    assert ends[1] == pytest.approx([891.15, axes.get_xlim()[1]])


def test_figures_and_names_stay_inside(five):
    figure = feature_figure(five)
    figure.draw_without_rendering()
    left, right = figure.axes[0].get_window_extent().x0, figure.bbox.x1
    for text in figure.axes[0].texts:
        box = text.get_window_extent()
        assert left - 2 <= box.x0 < box.x1 <= right
    assert figure.legends[0].get_window_extent().x0 >= 0


@pytest.mark.parametrize("name", ["$x_{$", "_a", "a" * 80])
def test_any_name_can_be_drawn(name):
    figure = feature_figure(
        replace(record(feature(name, side(1.0), side(2.0))), classes=(name, name), method=name)
    )
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=30)
    assert file.getvalue().startswith(b"\x89PNG")


def test_nothing_certain_makes_a_figure(five):
    figure = feature_figure(record(five.features[0]))
    figure.savefig(io.BytesIO(), format="png", dpi=30)
    assert [text.get_text() for text in figure.axes[0].texts] == ["never", "never"]
