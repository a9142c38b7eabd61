"""Galleries as figures: every image, with what its model says of it."""

import io
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_hex

from nescio.errors import NescioError
from nescio.records import Gallery, GalleryRow, Provenance
from nescio.report.figures import COLOURS
from nescio.report.gallery import gallery_figure

HOW = Provenance(0, {"attack": {"eps": 0.3, "steps": 40}}, 0.0, {})


def image(value, channels=1):
    return tuple(((value, 0.0, 1.0), (0.0, value, 1.0)) for _ in range(channels))


def gallery(start="noise", models=("softmax", "acet"), count=3, channels=1, kinds=("a", "b", "c")):
    rows = [
        GalleryRow(
            name,
            tuple(image(0.1 * j, channels) for j in range(count)),
            ("a",) * count,
            (0.999,) * count,
            (0.2,) * count,
        )
        for name in models
    ]
    return Gallery(
        "digits",
        start,
        tuple(image(0.5, channels) for _ in range(count)),
        kinds[:count],
        tuple(rows),
        HOW,
    )


def texts(figure):
    return [text.get_text() for text in figure.texts]


def test_json_both_ways(tmp_path):
    record = gallery()
    record.save(tmp_path / "g.json")
    assert Gallery.load(tmp_path / "g.json") == record
    damaged = record.to_json().replace('"start": "noise"', '"start": 3')
    with pytest.raises(NescioError, match=r"Gallery\.start"):
        Gallery.from_json(damaged)
    with pytest.raises(NescioError, match="images"):
        Gallery.from_json(record.to_json().replace("0.5", '"dark"', 1))


def test_a_row_for_noise_and_one_for_each_model():
    figure = gallery_figure(gallery())
    assert texts(figure)[1:] == ["noise", "softmax", "acet"]
    assert texts(figure)[0].startswith(
        "digits: noise before and after an attack (ε = 0.3, 40 steps)\n"
    )
    assert [axes.get_xlabel() for axes in figure.axes] == ["a", "b", "c", *["20.0 % → 99.9 %"] * 6]
    drawn = [np.asarray(axes.images[0].get_array()) for axes in figure.axes]
    for j in range(3):
        np.testing.assert_array_equal(drawn[3 + j], image(0.1 * j)[0])
    assert {axes.images[0].get_clim() for axes in figure.axes} == {
        (0, 1)
    }  # no image is stretched on its own
    tops = [round(axes.get_position().y1, 6) for axes in figure.axes]
    assert sorted(set(tops), reverse=True) == list(
        dict.fromkeys(tops)
    )  # rows follow each other downwards
    assert len(set(tops)) == 3


def test_samples_are_marked_where_they_are_wrong():
    figure = gallery_figure(gallery("samples"))
    said = [(axes.get_xlabel(), to_hex(axes.xaxis.label.get_color())) for axes in figure.axes[3:6]]
    right, *wrong = said
    assert right[0] == "a\n99.9 %"
    assert right[1] != COLOURS[1].lower()
    assert [colour for _, colour in wrong] == [COLOURS[1].lower()] * 2
    assert texts(figure)[1] == "test images"


def test_colour_is_drawn_in_colour():
    record = gallery(channels=3)
    drawn = np.asarray(gallery_figure(record).axes[4].images[0].get_array())
    np.testing.assert_array_equal(drawn, np.array(record.rows[0].images[1]).transpose(1, 2, 0))


@pytest.mark.parametrize("name", ["$x_{$", "m" * 300, "_a"])
@pytest.mark.parametrize("start", ["noise", "samples"])
def test_any_name_stays_inside_the_figure(name, start):
    record = gallery(start, models=(name,), count=1, kinds=(name,))
    figure = gallery_figure(replace(record, data=name))
    figure.draw_without_rendering()
    box = figure.get_tightbbox()
    assert box.x0 >= 0
    assert box.y0 >= 0
    assert box.x1 <= figure.get_figwidth()
    assert box.y1 <= figure.get_figheight()


def test_it_can_be_written_in_every_format():
    for kind in ("svg", "png", "pdf"):
        file = io.BytesIO()
        gallery_figure(gallery(count=1)).savefig(file, format=kind)
        assert file.tell() > 1000


@pytest.mark.parametrize("empty", [gallery(models=()), gallery(count=0)])
def test_an_empty_gallery_is_refused(empty):
    with pytest.raises(NescioError, match="needs images and models"):
        gallery_figure(empty)
