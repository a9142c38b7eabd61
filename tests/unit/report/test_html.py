"""What sections are made of."""

import re
from xml.etree import ElementTree

import numpy as np
from matplotlib.figure import Figure

from nescio.report.html import HEAVY_SVG, figure, items, terms

NAME = '"><img src=x onerror=alert(1)>'


def a_picture(label="line", colour="black", points=3):
    drawn = Figure()
    axes = drawn.subplots()
    axes.plot(
        np.linspace(0, 1, points),
        np.sin(np.arange(points) * 1.7),
        color=colour,
        label=label,
        marker="o",
    )
    axes.legend(facecolor="white")
    return drawn


def parsed(markup):
    return ElementTree.fromstring(re.search("<svg.*</svg>", markup, re.DOTALL)[0])


def test_a_figure_has_its_text_alternative_and_caption():
    made = figure(a_picture(), f"what {NAME} is", f"below {NAME}")
    drawn = parsed(made)
    assert drawn.get("aria-label") == f"what {NAME} is"
    assert drawn.get("role") == "img"
    assert drawn.find("{*}title").text == f"what {NAME} is"
    assert "<figcaption>below &#34;&gt;&lt;img" in made
    assert "<img" not in made


def test_letters_stay_letters_and_names_stay_names():
    words = [
        one.text
        for one in parsed(figure(a_picture(label=NAME), "alt")).iter(
            "{http://www.w3.org/2000/svg}text"
        )
    ]
    assert NAME in words


def test_black_white_and_grey_follow_the_theme_and_colours_do_not():
    made = figure(a_picture(colour="0.5"), "alt")
    assert not re.search("#(000000|ffffff|808080)", made)
    assert "currentColor" in made
    assert "var(--paper)" in made
    assert "color-mix(in srgb, currentColor 50%, var(--paper))" in made
    assert "#d55e00" in figure(a_picture(colour="#D55E00"), "alt")


def test_a_name_that_looks_like_a_colour_is_left_alone():
    made = figure(a_picture(label="fill: #000000"), "alt: #ffffff")
    assert "fill: #000000</text>" in made
    assert 'aria-label="alt: #ffffff"' in made


def test_ids_are_of_one_figure_alone_and_all_are_found():
    pictures = [figure(a_picture(label=name), "alt") for name in ("one", "other")]
    ids = [set(re.findall(r'\bid="([^"]*)"', made)) for made in pictures]
    assert ids[0]
    assert not ids[0] & ids[1]
    for made, own in zip(pictures, ids, strict=True):
        assert {*re.findall(r'href="#([^"]*)"', made), *re.findall(r"url\(#([^)]*)\)", made)} <= own


def test_a_heavy_figure_becomes_dots_but_its_letters_and_axes():
    heavy = figure(a_picture(colour="#D55E00", points=20_000), "alt")
    assert len(heavy) < HEAVY_SVG
    assert "data:image/png;base64," in heavy
    assert "currentColor" in heavy  # of the axes, which follow the theme
    assert "line" in [one.text for one in parsed(heavy).iter("{http://www.w3.org/2000/svg}text")]


def test_letters_without_a_font_here_are_no_matter():
    assert "未知" in figure(
        a_picture(label="未知"), "alt"
    )  # and no warning, which would be an error


def test_all_words_are_escaped():
    for made in (terms([(NAME, NAME)]), items([NAME])):
        assert "<img" not in made
        assert "&#34;&gt;&lt;img src=x" in made
