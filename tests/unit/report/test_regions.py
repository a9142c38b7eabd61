"""The figure of linear regions, from a record alone."""

import io
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection, PolyCollection
from matplotlib.colors import to_hex

from nescio.records import Cell, Points, Provenance, Regions
from nescio.report.figures import COLOURS, save_figure
from nescio.report.regions import regions_figure

LEFT = ((0.0, 0.0), (1.0, 0.0), (1.0, 2.0), (0.0, 2.0))
LOW, HIGH = ((1.0, 0.0), (4.0, 0.0), (1.0, 2.0)), ((4.0, 0.0), (4.0, 2.0), (1.0, 2.0))


@pytest.fixture
def record():
    cells = (Cell(LEFT, False, 0, 0.7), Cell(LOW, True, 1, 0.8), Cell(HIGH, True, 1, 1.0))
    return Regions(
        "softmax",
        "two_moons",
        ("height", "weight"),
        ("upper", "lower"),
        ((0.0, 4.0), (0.0, 2.0)),
        3,
        2,
        1.0,
        cells,
        (((0.5, 0.0), (0.5, 2.0)),),
        Points((0.1, 3.0, 2.0), (1.0, 0.5, 1.5), (0, 1, 1)),
        Provenance(0, {}, 0.0, {}),
    )


def drawn(figure, kind):
    return [found for found in figure.axes[0].collections if type(found) is kind]


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_each_region_is_drawn_and_those_without_end_stand_out(record):
    figure = regions_figure(record)
    bounded, unbounded = drawn(figure, PolyCollection)
    shapes = [
        [path.vertices[:-1].tolist() for path in found.get_paths()]
        for found in (bounded, unbounded)
    ]
    assert shapes == [[list(map(list, LEFT))], [list(map(list, LOW)), list(map(list, HIGH))]]
    for found, strong in (
        (bounded, 2),
        (unbounded, 0),
    ):  # blue and orange: which of red, green, blue is strongest
        assert (found.get_facecolor()[:, :3].argmax(1) == strong).all()
        assert (found.get_facecolor()[:, 3] == 1).all()
        assert found.get_linewidth()[0] > 0
    assert figure.get_suptitle() == "two moons: 3 linear regions, 2 of them unbounded"
    assert legend(figure) == [
        "bounded region",
        "unbounded region",
        "decision boundary",
        "upper",
        "lower",
    ]


def test_boundary_points_and_window_are_those_of_the_record(record):
    figure = regions_figure(record)
    axes = figure.axes[0]
    (line,) = drawn(figure, LineCollection)
    assert [path.vertices.tolist() for path in line.get_paths()] == [[[0.5, 0.0], [0.5, 2.0]]]
    dots = drawn(figure, PathCollection)
    assert [found.get_offsets().tolist() for found in dots] == [
        [[0.1, 1.0]],
        [[3.0, 0.5], [2.0, 1.5]],
    ]
    assert [to_hex(found.get_facecolor()[0]).upper() for found in dots] == list(COLOURS[:2])
    assert (axes.get_xlim(), axes.get_ylim()) == ((0.0, 4.0), (0.0, 2.0))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("height", "weight")


def test_what_a_record_lacks_is_left_out(record):
    bare = replace(
        record,
        data=None,
        classes=(),
        features=("", ""),
        boundary=(),
        points=None,
        count=1,
        unbounded=0,
        cells=record.cells[:1],
    )
    figure = regions_figure(bare)
    assert legend(figure) == ["bounded region"]
    assert figure.get_suptitle() == "softmax: 1 linear region, 0 of them unbounded"
    assert not drawn(figure, LineCollection)


def test_one_record_always_looks_the_same_and_neighbours_differ_in_tint(record, tmp_path):
    save_figure(regions_figure(record), tmp_path / "regions.png")
    assert (tmp_path / "regions.png").stat().st_size > 10_000
    first, second = (io.BytesIO(), io.BytesIO())
    regions_figure(record).savefig(first, format="png")
    regions_figure(record).savefig(second, format="png")
    assert first.getvalue() == second.getvalue()
    strip = [((i, 0.0), (i + 1.0, 0.0), (i + 1.0, 2.0), (float(i), 2.0)) for i in range(30)]
    many = replace(record, cells=tuple(Cell(corners, True, 0, 1.0) for corners in strip))
    (found,) = drawn(regions_figure(many), PolyCollection)
    assert len(np.unique(found.get_facecolor(), axis=0)) == 3


def test_nothing_hangs_over_the_edge(record):
    """Title and legend lie within the figure, also of wide and tall windows."""
    for window in (record.window, ((0.0, 4.0), (0.0, 40.0)), ((0.0, 40.0), (0.0, 2.0))):
        figure = regions_figure(replace(record, window=window))
        figure.canvas.draw()
        box = figure.get_tightbbox()
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= figure.get_figwidth()
        assert box.y1 <= figure.get_figheight()
