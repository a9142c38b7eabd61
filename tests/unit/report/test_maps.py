"""Figures of maps, from records alone."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import LogNorm

from nescio.errors import NescioError
from nescio.records import Map, Points, Provenance, Surface
from nescio.report.figures import save_figure
from nescio.report.maps import map_figure

SIDE = tuple(np.linspace(-1, 1, 12))


def surface(name, low, high):
    rows = np.linspace(low, high, 144).reshape(12, 12)
    values = tuple(map(tuple, rows.tolist()))
    return Surface(name, name.replace("_", " "), values, tuple(map(tuple, np.abs(rows).tolist())))


def a_map(method, draws, *surfaces):
    points = Points((0.0, 0.5, -0.5), (0.0, 0.5, -0.5), (0, 1, 0))
    return Map(
        method, "moons", draws, ("height", "weight"), ("upper", "lower"), SIDE, SIDE, surfaces,
        surface("confidence", 0.5, 1.0), points, Provenance(0, {}, 0.0, {}),
    )  # fmt: skip


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
    return [found for axes in panels for found in axes.collections if hasattr(found, "get_coordinates")]


def texts(figure):
    return [text.get_text() for axes in figure.axes for text in (*axes.texts, axes.title, axes.yaxis.label)]


def test_each_score_has_one_scale_and_one_bar(maps):
    figure = map_figure(maps)
    bars = [axes for axes in figure.axes if axes.get_label() == "<colorbar>"]
    assert len(bars) == 2
    entropy, variance = (0.0, 0.7), (0.0, 0.3)
    assert [mesh.get_clim() for mesh in meshes(figure)] == [entropy, entropy, variance, entropy, variance]
    assert all(mesh.get_rasterized() for mesh in meshes(figure))


def test_panels_say_whose_they_are_and_what_is_missing(maps):
    words = texts(map_figure(maps))
    assert {"entropy", "variance", "softmax\nweight", "mc dropout\nweight", "ensemble\nweight"} <= set(words)
    assert words.count("one draw:\nnothing to compare") == 1
    again = texts(map_figure([replace(maps[1], scores=maps[1].scores[:1]), maps[2]]))
    assert again.count("not in this map") == 1


def test_colours_and_points_are_explained(maps):
    figure = map_figure(maps, "entropy")
    assert figure.get_suptitle() == "moons: white = certain, dark = uncertain"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["upper", "lower"]
    assert figure.axes[0].get_xlabel() == "height"
    dots = [found for found in figure.axes[0].collections if not hasattr(found, "get_coordinates")]
    assert [len(found.get_offsets()) for found in dots] == [2, 1]
    assert "no longer notices" in map_figure(maps, saturation=True).get_suptitle()


def test_one_score_is_laid_out_in_threes(maps):
    figure = map_figure([*maps, *maps[:2]], "entropy")
    panels = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    assert [axes.get_title() for axes in panels[:5]] == ["softmax", "mc dropout", "ensemble", "softmax", "mc dropout"]
    assert panels[0].get_subplotspec().get_gridspec().get_geometry() == (2, 3)
    assert [axes.axison for axes in panels] == [True] * 5 + [False]
    assert figure.axes[-1].get_ylabel() == "entropy"


def test_white_is_certain_for_confidence_too(maps):
    (mesh,) = meshes(map_figure(maps[:1], "confidence"))
    white = (1.0, 1.0, 1.0)
    assert mesh.cmap(mesh.norm(1.0))[:3] == pytest.approx(white, abs=0.05)
    first = meshes(map_figure(maps, "entropy"))[0]
    assert first.cmap(first.norm(0.0))[:3] == pytest.approx(white, abs=0.05)


def test_saturation_is_drawn_on_a_log_scale_that_takes_zeros(maps):
    figure = map_figure(maps, saturation=True)
    assert all(isinstance(mesh.norm, LogNorm) for mesh in meshes(figure))
    assert {mesh.get_clim() for mesh in meshes(figure)} == {(0.7e-8, 0.7), (0.3e-8, 0.3)}
    assert np.ma.allequal(meshes(figure)[0].norm([0.0]), 0.0)  # zero has a colour: white
    flat = a_map("flat", 1, Surface("entropy", "entropy", *[tuple([(0.0,) * 12] * 12)] * 2))
    for saturation in (False, True):
        low, high = meshes(map_figure([flat], saturation=saturation))[0].get_clim()
        assert low < high
    label = replace(maps[0].scores[0], label="1 − max p")
    bar = map_figure([replace(maps[0], scores=(label,))], saturation=True).axes[-1]
    assert bar.get_ylabel() == "‖∇ₓ(1 − max p)‖₂"


def test_what_cannot_be_drawn_is_told(maps):
    with pytest.raises(NescioError, match="one or more maps, all of one data set; given: none"):
        map_figure([])
    with pytest.raises(NescioError, match="given: moons, blobs"):
        map_figure([maps[0], replace(maps[1], data="blobs")])
    with pytest.raises(NescioError, match="unknown score of these maps 'entropi'; did you mean 'entropy'"):
        map_figure(maps, ["entropi"])
    with pytest.raises(NescioError, match="unknown score of these maps 'variance'"):
        map_figure(maps[:1], ["variance"])


@pytest.mark.parametrize(("name", "start"), [("m.svg", b"<?xml"), ("m.png", b"\x89PNG"), ("M.PDF", b"%PDF")])
def test_files_are_of_the_kind_their_name_says_and_small(maps, tmp_path, name, start):
    fine = np.linspace(0, 1, 120)
    rows = tuple(map(tuple, np.add.outer(fine, fine).tolist()))
    big = [replace(one, x=tuple(fine), y=tuple(fine), scores=tuple(replace(s, values=rows) for s in one.scores))
           for one in maps]  # fmt: skip
    save_figure(map_figure(big), tmp_path / name)
    written = (tmp_path / name).read_bytes()
    assert written.startswith(start)
    assert len(written) < 1_000_000


def test_other_kinds_of_files_are_refused(maps, tmp_path):
    with pytest.raises(NescioError, match=r"a figure ends in \.svg, \.png, \.pdf, not '.*m\.jpg'"):
        save_figure(map_figure(maps[:1]), tmp_path / "m.jpg")
    assert not list(tmp_path.iterdir())
