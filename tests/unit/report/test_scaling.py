"""The table and the figure say what the record says."""

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from nescio.records import Course, Direction, Gauge, Provenance, Scaling
from nescio.report.figures import plot_text
from nescio.report.scaling import LINES, scaling_figure, scaling_table, worst_first

FACTORS = (1.0, 1e3, 1e6)


def direction(name, feature, certain_from, flagged, confidence=1.0):
    """One along which max_prob and entropy end by flagging these shares."""
    courses = tuple(
        Course(
            score,
            (0.1, 0.2, 3 * end),
            (first, 1e-5, 0.0),
            (2.0, 2e-5, 0.0),
            (0.05, 0.1, end),
            end >= 0.5,
        )
        for score, end, first in zip(("max_prob", "entropy"), flagged, (1.0, 0.5), strict=True)
    )
    return Direction(
        name, feature, 9, certain_from, (0.9, 0.95, confidence), (0.8, 0.85, 0.99), courses
    )


def record(*directions):
    gauges = (Gauge("max_prob", "1 − max p", 0.15), Gauge("entropy", "entropy", 0.3))
    return Scaling("softmax", 10, 2, 1, FACTORS, gauges, directions, Provenance.now(0, {}, 1.0))


@pytest.fixture
def four():
    return record(
        direction("both", 0, None, (1.0, 0.75), 0.5),
        direction("ray", None, 1.0, (0.0, 0.0)),
        Direction("still", 1, 0, None, None, None, None),
        direction("late", 2, 17782.794, (0.0, 0.0)),
        direction("soon [x]", 3, 1000.0, (0.125, 0.0)),
        direction("one", 4, 1.0, (0.25, 0.5)),
    )


def lines(found, width=120):
    file = io.StringIO()
    Console(file=file, width=width).print(scaling_table(found))
    return [" ".join(line.split()) for line in file.getvalue().splitlines() if line.strip()]


def test_worst_come_first_and_the_ray_last(four):
    rows = [
        line
        for line in lines(four)
        if line.startswith(("both", "ray", "still", "late", "soon", "one"))
    ]
    assert rows == [
        "soon [x] ×1,000 100.0% 12.5% 0.0% none",
        "late ×17,800 100.0% 0.0% 0.0% none",
        "one ×1 100.0% 25.0% 50.0% entropy",
        "both never 50.0% 100.0% 75.0% all",
        "still – – – – 0 everywhere",
        "ray ×1 100.0% 0.0% 0.0% none",
    ]


def test_what_the_columns_mean_is_said(four):
    text = " ".join(lines(four))
    assert "softmax: 10 inputs, scaled up to ×1,000,000" in text
    for words in (
        "median confidence stays above 99.9 %",
        "accepts 95 % of the unscaled inputs",
        "flag at least half",
    ):
        assert words in text


def test_only_rays_make_a_table_and_a_figure():
    found = record(direction("ray", None, 1.0, (0.0, 0.0)))
    assert any(line.startswith("ray ×1 ") for line in lines(found))
    assert len(scaling_figure(found).axes[0].lines) == 2  # and the threshold


def test_nothing_is_lost_on_a_narrow_terminal(four):
    assert max(map(len, lines(four, 80))) <= 80
    assert " ".join(lines(four, 80)).split()[-200:] == " ".join(lines(four, 120)).split()[-200:]


def test_the_figure_draws_every_direction_that_moves(four):
    axes = np.reshape(scaling_figure(four).axes, (2, 2))
    for number in (0, 1):
        above, below = axes[:, number]
        named = {
            line.get_label(): line for line in above.lines if not line.get_label().startswith("_")
        }
        assert set(named) == {
            "soon [x]",
            "late",
            "one",
            "both",
            "ray",
            "threshold that accepts 95 %",
        }
        assert named["both"].get_ydata().tolist() == [0.1, 0.2, 3 * (1.0, 0.75)[number]]
        assert all(
            line.get_xdata().tolist() == list(FACTORS) for line in (named["both"], *below.lines)
        )
        gradients = {line.get_label(): line.get_ydata().tolist() for line in below.lines}
        assert gradients["both"] == pytest.approx([(1.0, 0.5)[number], 1e-5, 0.0], abs=1e-300)
        assert (named["ray"].get_color(), named["ray"].get_linestyle()) == ("black", "--")
        assert named["threshold that accepts 95 %"].get_ydata()[0] == four.gauges[number].threshold
        assert above.get_title() == four.gauges[number].label
        assert (above.get_xscale(), above.get_yscale(), below.get_yscale()) == (
            "log",
            "linear",
            "log",
        )
        assert (above.get_xlabel(), below.get_xlabel()) == ("", "factor")
        assert below.get_xlim() == pytest.approx((1.0, 1e6))
        low, high = below.get_ylim()
        assert (
            0 < low < 1e-5 < 1 < high
        )  # a gradient of 0 is off the scale, and does not stretch it
        assert low > 1e-20
    assert [one.get_ylabel() for one in axes[:, 0]] == ["mean score", "mean ‖∇ₓ score‖₂"]
    assert scaling_figure(four).get_suptitle().startswith("softmax: scores of 10 inputs as they")


@pytest.mark.parametrize("name", ["$x_{$", r"$\frac{$", "b $ c $ d", "_a"])
def test_any_name_can_be_drawn_and_none_vanishes(name):
    figure = scaling_figure(replace(record(direction(name, 0, None, (1.0, 0.75))), method=name))
    figure.savefig(io.BytesIO(), format="png", dpi=30)
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == [plot_text(name), "threshold that accepts 95 %"]
    assert figure.get_suptitle().startswith(f"{plot_text(name)}: scores of 10")


def test_long_names_stay_inside_the_figure():
    many = [
        direction(f"worst fractal dimension of a nucleus, {i}", i, 10.0 + i, (0.0, 0.0))
        for i in range(9)
    ]
    figure = scaling_figure(record(*many))
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent()
    assert 0 <= box.x0 < box.x1 <= figure.bbox.x1


def test_of_equals_the_more_confident_comes_first():
    least, most = (
        direction(name, i, 10.0, (0.0, 0.0), end)
        for i, (name, end) in enumerate((("a", 0.5), ("b", 0.9)))
    )
    assert [one.name for one in worst_first(record(least, most))] == ["b", "a"]


def test_of_many_features_the_telling_ones_stand_out():
    many = [direction(f"f{i}", i, 10.0 + i, (0.0, 0.0)) for i in range(18)]
    many += [direction(f"f{i}", i, None, (1.0, 1.0), 0.5) for i in range(18, 20)]
    found = record(*reversed(many), direction("ray", None, 1.0, (0.0, 0.0)))
    assert [one.name for one in worst_first(found)][:3] == ["ray", "f0", "f1"]
    above = scaling_figure(found).axes[0]
    coloured = {
        line.get_label(): line.get_color() for line in above.lines if line.get_color() in LINES
    }
    assert set(coloured) == {"f0", "f1", "f2", "f17", "f18", "f19"}
    assert len(set(coloured.values())) == 6
    assert sum(line.get_color() == "0.75" for line in above.lines) == 20


def test_flat_gradients_can_be_drawn():
    dead = direction("dead", 0, 1.0, (0.0, 0.0))
    courses = tuple(
        Course(c.score, c.mean, (0.0,) * 3, (0.0,) * 3, c.flagged, c.notices) for c in dead.scores
    )
    found = record(Direction("dead", 0, 9, 1.0, dead.confidence, dead.median_confidence, courses))
    file = io.BytesIO()
    scaling_figure(found).savefig(file, format="png", dpi=30)
    assert file.getvalue().startswith(b"\x89PNG")


def test_nothing_moved_still_makes_a_figure():
    found = record(Direction("still", 0, 0, None, None, None, None))
    scaling_figure(found).savefig(io.BytesIO(), format="png", dpi=30)
    assert any("0 everywhere" in line for line in lines(found))
