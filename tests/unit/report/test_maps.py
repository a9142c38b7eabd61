"""Figures of maps, from records alone."""

import io
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import LogNorm, to_hex

from nescio.errors import NescioError
from nescio.records import Map, Points, Provenance, Surface
from nescio.report.figures import COLOURS, plot_text, save_figure
from nescio.report.maps import map_figure

X, Y = tuple(np.linspace(-1, 1, 12).tolist()), tuple(np.linspace(2, 6, 10).tolist())


def tuples(rows):
    return tuple(map(tuple, rows.tolist()))


def surface(name, low, high):
    """Values that grow along x, then y, with slopes that shrink from 5 times their range to 0."""
    rows = np.linspace(low, high, 120).reshape(10, 12)
    return Surface(name, name.replace("_", " "), tuples(rows), tuples(5 * (high - rows)))


def a_map(method, draws, *surfaces):
    points = Points((0.0, 0.5, -0.5), (2.5, 3.0, 5.5), (0, 1, 0))
    return Map(
        method,
        "moons",
        draws,
        ("height", "weight"),
        ("upper", "lower"),
        X,
        Y,
        surfaces,
        surface("confidence", 0.5, 1.0),
        points,
        Provenance(0, {}, 0.0, {}),
    )


@pytest.fixture
def maps():
    return [
        a_map("softmax", 1, surface("entropy", 0.0, 0.4)),
        a_map("mc_dropout", 50, surface("entropy", 0.1, 0.7), surface("variance", 0.0, 0.2)),
        a_map("ensemble", 5, surface("entropy", 0.0, 0.5), surface("variance", 0.1, 0.3)),
    ]


def meshes(figure):
    """The fields that are drawn, panel by panel."""
    panels = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    return [
        found for axes in panels for found in axes.collections if hasattr(found, "get_coordinates")
    ]


def bars(figure):
    return [axes for axes in figure.axes if axes.get_label() == "<colorbar>"]


def texts(figure):
    return [
        text.get_text()
        for axes in figure.axes
        for text in (*axes.texts, axes.title, axes.yaxis.label)
    ]


def test_each_score_has_one_scale_and_one_bar(maps):
    figure = map_figure(maps)
    assert len(bars(figure)) == 2
    entropy, variance = (0.0, 0.7), (0.0, 0.3)
    assert [mesh.get_clim() for mesh in meshes(figure)] == [
        entropy,
        entropy,
        variance,
        entropy,
        variance,
    ]
    assert all(mesh.get_rasterized() for mesh in meshes(figure))
    assert {mesh.colorbar.extend for mesh in meshes(figure) if mesh.colorbar} == {"neither"}


def test_a_score_without_bounds_is_drawn_on_the_scale_of_its_points():
    one = a_map(
        "duq", 1, surface("max_logit", 0.0, 1190.0)
    )  # 10 more for each node along x, 120 for each along y
    (mesh,) = meshes(map_figure([one], "max_logit"))
    # the points are nearest to the nodes (5 or 6, 1), (8, 2) and (3, 8)
    low = mesh.get_clim()[0]
    assert low in (170.0, 180.0)
    assert mesh.get_clim()[1] == pytest.approx(low + 4 * (990.0 - low))
    assert mesh.colorbar.extend == "both"


@pytest.mark.parametrize("saturation", [False, True])
def test_each_value_is_drawn_at_its_point(maps, saturation):
    for one, mesh in zip(maps, meshes(map_figure(maps, "entropy", saturation)), strict=True):
        entropy = one.scores[0]
        assert np.array_equal(mesh.get_array(), entropy.slopes if saturation else entropy.values)
        corners = mesh.get_coordinates()
        centres = (corners[:-1, :-1] + corners[1:, 1:]) / 2
        np.testing.assert_allclose(centres[..., 0], np.tile(X, (10, 1)), atol=1e-12)
        np.testing.assert_allclose(centres[..., 1], np.tile(Y, (12, 1)).T, atol=1e-12)


def test_panels_say_whose_they_are_and_what_is_missing(maps):
    words = texts(map_figure(maps))
    assert {
        "entropy",
        "variance",
        "softmax\nweight",
        "mc dropout\nweight",
        "ensemble\nweight",
    } <= set(words)
    assert words.count("needs several\nsamples") == 1
    again = texts(map_figure([replace(maps[1], scores=maps[1].scores[:1]), maps[2]]))
    assert again.count("not in this map") == 1


def test_one_draw_is_no_reason_for_a_score_that_needs_no_more(maps):
    duq = a_map("duq", 1, surface("max_logit", 0.0, 1.0))
    words = texts(map_figure([maps[0], duq]))
    assert words.count("not in this map") == 2
    assert "needs several\nsamples" not in words


@pytest.mark.parametrize("change", [{"x": ()}, {"y": ()}, {"x": X[1:]}])
def test_a_map_without_a_value_for_each_point_is_reported(maps, change):
    with pytest.raises(
        NescioError, match="map of softmax on moons cannot be drawn: expected a value of entropy"
    ):
        map_figure([replace(maps[0], **change)])


def test_colours_and_points_are_explained(maps):
    figure = map_figure(maps, "entropy")
    assert figure.get_suptitle() == "moons: white = certain, dark = uncertain"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["upper", "lower"]
    assert figure.axes[0].get_xlabel() == "height"
    dots = [found for found in figure.axes[0].collections if not hasattr(found, "get_coordinates")]
    assert [found.get_offsets().tolist() for found in dots] == [
        [[0.0, 2.5], [-0.5, 5.5]],
        [[0.5, 3.0]],
    ]
    assert (figure.axes[0].get_ylabel(), map_figure(maps).axes[0].get_ylabel()) == (
        "weight",
        "softmax\nweight",
    )
    marks = [(line.get_color(), line.get_marker()) for line in figure.legends[0].get_lines()]
    assert marks == [(COLOURS[0], "o"), (COLOURS[1], "s")]
    assert [to_hex(found.get_facecolor()[0]).upper() for found in dots] == list(COLOURS[:2])
    assert "white = flat score" in map_figure(maps, saturation=True).get_suptitle()


def test_one_score_is_laid_out_in_threes(maps):
    figure = map_figure([*maps, *maps[:2]], "entropy")
    panels = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    assert [axes.get_title() for axes in panels[:5]] == [
        "softmax",
        "mc dropout",
        "ensemble",
        "softmax",
        "mc dropout",
    ]
    assert panels[0].get_subplotspec().get_gridspec().get_geometry() == (2, 3)
    assert [axes.axison for axes in panels] == [True] * 5 + [False]
    assert figure.axes[-1].get_ylabel() == "entropy"
    # only where nothing stands below has a panel of the first row its x-axis told
    ticks = [axes.xaxis.get_major_ticks()[0] for axes in panels[:5]]
    assert [tick.label1.get_visible() for tick in ticks] == [False, False, True, True, True]
    assert [axes.get_xlabel() for axes in panels[:5]] == ["", "", "height", "height", "height"]
    assert [axes.get_ylabel() for axes in panels[:5]] == ["weight", "", "", "weight", ""]


def test_white_is_certain_for_confidence_too(maps):
    (mesh,) = meshes(map_figure(maps[:1], "confidence"))
    white = (1.0, 1.0, 1.0)
    assert mesh.cmap(mesh.norm(1.0))[:3] == pytest.approx(white, abs=0.05)
    first = meshes(map_figure(maps, "entropy"))[0]
    assert first.cmap(first.norm(0.0))[:3] == pytest.approx(white, abs=0.05)
    for name in ("confidence", "entropy"):  # and so is a slope of 0, of either
        (mesh,) = meshes(map_figure(maps[:1], name, saturation=True))
        assert mesh.cmap(mesh.norm(0.0))[:3] == pytest.approx(white, abs=0.05)
        assert sum(mesh.cmap(mesh.norm(2.5))[:3]) < 1.5


def test_saturation_is_drawn_on_a_log_scale_that_takes_zeros(maps):
    figure = map_figure(maps, saturation=True)
    assert all(isinstance(mesh.norm, LogNorm) for mesh in meshes(figure))
    entropy, variance = pytest.approx((3e-8, 3.0)), pytest.approx((1e-8, 1.0))
    assert [mesh.get_clim() for mesh in meshes(figure)] == [
        entropy,
        entropy,
        variance,
        entropy,
        variance,
    ]
    assert {mesh.colorbar.extend for mesh in meshes(figure) if mesh.colorbar} == {"min"}
    assert len(bars(figure)) == 2
    assert np.ma.allequal(meshes(figure)[0].norm([0.0]), 0.0)  # zero has a colour: white
    flat = a_map("flat", 1, Surface("entropy", "entropy", *[((0.0,) * 12,) * 10] * 2))
    for saturation in (False, True):
        low, high = meshes(map_figure([flat], saturation=saturation))[0].get_clim()
        assert low < high
    label = replace(maps[0].scores[0], label="1 − max p")
    bar = map_figure([replace(maps[0], scores=(label,))], saturation=True).axes[-1]
    assert bar.get_ylabel() == "‖∇ₓ(1 − max p)‖₂"


def test_what_cannot_be_drawn_is_reported(maps):
    with pytest.raises(
        NescioError, match="one or more maps, all of one data set and its classes, got none"
    ):
        map_figure([])
    with pytest.raises(NescioError, match="got moons, blobs"):
        map_figure([maps[0], replace(maps[1], data="blobs")])
    with pytest.raises(NescioError, match="and its classes, got moons"):
        map_figure([maps[0], replace(maps[1], classes=("lower", "upper"))])
    with pytest.raises(
        NescioError, match="unknown score of these maps 'entropi'; did you mean 'entropy'"
    ):
        map_figure(maps, ["entropi"])
    with pytest.raises(NescioError, match="unknown score of these maps 'variance'"):
        map_figure(maps[:1], ["variance"])


@pytest.mark.parametrize(
    ("name", "start"), [("m.svg", b"<?xml"), ("m.png", b"\x89PNG"), ("M.PDF", b"%PDF")]
)
def test_files_are_of_the_kind_their_name_says_and_small(maps, tmp_path, name, start):
    fine = np.linspace(0, 1, 120)
    rows = tuples(np.add.outer(fine, fine))
    big = []
    for one in maps:
        scores = tuple(replace(score, values=rows, slopes=rows) for score in one.scores)
        big.append(replace(one, x=tuple(fine), y=tuple(fine), scores=scores))
    save_figure(map_figure(big), tmp_path / name)
    written = (tmp_path / name).read_bytes()
    assert written.startswith(start)
    assert len(written) < 1_000_000


def test_other_kinds_of_files_are_refused(maps, tmp_path):
    with pytest.raises(
        NescioError, match=r"must end in one of \.svg, \.png, \.pdf, got '.*m\.jpg'"
    ):
        save_figure(map_figure(maps[:1]), tmp_path / "m.jpg")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["$x_{$", r"$\frac{$", "b $ c $ d", "_a"])
def test_any_name_can_be_drawn_and_none_vanishes(maps, name):
    surface = replace(maps[0].scores[0], label=name)
    one = replace(
        maps[0],
        method=name,
        data=name,
        features=(name, name),
        classes=(name, "b"),
        scores=(surface,),
    )
    for figure in (
        map_figure([one]),
        map_figure([one, one], ["entropy", "confidence"], saturation=True),
    ):
        figure.savefig(io.BytesIO(), format="png", dpi=30)
        drawn = figure.legends[0].get_texts()[0].get_text()
        assert drawn == plot_text(name)
        assert not drawn.startswith("_")
        assert figure.get_suptitle().startswith(plot_text(name))
        assert plot_text(name) in {axes.get_xlabel() for axes in figure.axes}


def test_many_classes_and_a_long_title_stay_inside_the_figure(maps):
    names = tuple(f"class number {k}" for k in range(30))
    figure = map_figure([replace(maps[0], classes=names, data="measurements of one year.csv")])
    figure.draw_without_rendering()
    for part in (figure.legends[0], figure._suptitle):
        box = part.get_window_extent()
        assert 0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert 0 <= box.y0 < box.y1 <= figure.bbox.y1
    assert len(figure.legends[0].get_texts()) == 30
    plain = map_figure(maps[:1])
    plain.draw_without_rendering()
    heights = [one.axes[0].get_window_extent().height for one in (plain, figure)]
    assert heights[1] > 0.9 * heights[0]  # the panel has kept its room


def test_a_score_named_twice_is_drawn_once(maps):
    assert len(meshes(map_figure(maps, ["entropy", "entropy"]))) == 3


def test_titles_tell_variants_of_a_method_apart(maps):
    twice = [maps[1], maps[1]]
    figure = map_figure(twice, "entropy", titles=["with $ penalty", "mc_dropout, none"])
    assert [axes.get_title() for axes in figure.axes[:2]] == [
        plot_text("with $ penalty"),
        "mc_dropout, none",
    ]
    assert {"one\nweight", "two\nweight"} <= set(texts(map_figure(twice, titles=["one", "two"])))
    for wrong in (["one"], ["one", "two", "three"], "ab"):
        with pytest.raises(NescioError, match=r"titles=.*; expected one for each of 2 maps"):
            map_figure(twice, "entropy", titles=wrong)
