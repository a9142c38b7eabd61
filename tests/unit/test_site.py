"""The documentation site, as `make site` builds it, needs no network and no server."""

import importlib
import io
import itertools
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
MKDOCS = shutil.which("mkdocs", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
LOADED = re.compile(
    r"<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=\"?((?:https?:)?//[^\s\">]+)"
)
WIDER = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


def test_the_drawing_of_the_rooms_has_every_layer():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    layers = [re.split(r" [|:] ", layer) for layer in contracts["contracts"][0]["layers"]]
    drawing = (ROOT / "docs" / "images" / "rooms.svg").read_text("utf-8")
    drawn = re.findall(r'class="room"[^>]*>(\w+)<', drawing)
    assert sorted(drawn) == sorted({room for layer in layers[1:] for room in layer} | {"papers"})


@pytest.mark.parametrize("in_row", [6, 3])
def test_no_words_of_the_front_figure_touch(in_row):
    front_figure = importlib.import_module("docs.front_figure")
    widest = front_figure.Column("its negative", torch.zeros(8, 8), 4, 1 - 1e-9, -1)
    figure = front_figure.draw([widest] * 6, in_row, "red", "green")
    page = figure.bbox
    boxes = [text.get_window_extent() for text in figure.texts]
    pictures = [axes.get_window_extent() for axes in figure.axes]
    assert len(pictures) == 6
    assert len(boxes) == 6 * 4 + 2 * 6 // in_row
    for box in boxes + pictures:
        assert page.x0 <= box.x0 <= box.x1 <= page.x1
        assert page.y0 <= box.y0 <= box.y1 <= page.y1
    for one, other in itertools.combinations(boxes + pictures, 2):
        assert not one.padded(2).overlaps(other)


@pytest.mark.slow
def test_the_front_figure_says_what_network_and_detector_answer():
    front_figure = importlib.import_module("docs.front_figure")
    shown = front_figure.columns()
    for layout, in_row in front_figure.LAYOUTS.items():
        drawn = io.StringIO()
        front_figure.draw(shown, in_row, "red", "green").savefig(drawn, format="svg")
        for theme in front_figure.THEMES:
            kept = (front_figure.IMAGES / f"front{layout}-{theme}.svg").read_text("utf-8")
            assert words(kept) == words(drawn.getvalue()), "run `python docs/front_figure.py`"


def words(drawing):
    found = re.findall(r"<!-- (.*?) -->", drawing, re.DOTALL)
    assert len(found) > 20
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if MKDOCS is None:
        pytest.skip("needs mkdocs")
    folder = tmp_path_factory.mktemp("site")
    command = [MKDOCS, "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    return folder


@pytest.mark.slow
def test_no_page_loads_anything_from_outside(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    loaded = {url for page in pages for url in LOADED.findall(page.read_text("utf-8"))}
    assert {url for url in loaded if not url.startswith("https://github.com/")} == set()


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_pages_opened_as_files_can_be_searched_and_fit_a_telephone(site):
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": 1280, "height": 800})
        wrong = []
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda asked: asked.url.startswith("http") and wrong.append(asked.url))
        page.goto((site / "index.html").as_uri())
        page.locator("input.md-search__input").press_sequentially("mahalanobis", delay=20)
        page.locator(".md-search-result__item").first.wait_for(timeout=10_000)
        assert "matching" in page.locator(".md-search-result__meta").inner_text()
        page.set_viewport_size({"width": 400, "height": 800})
        for path in ("index.html", "guide/guarantees.html", "api/records.html", "results.html"):
            page.goto((site / path).as_uri())
            assert not page.evaluate(WIDER), path
        page.goto((site / "index.html").as_uri())
        for theme in ("light", "dark"):
            if theme == "dark":
                page.get_by_title("Switch to dark mode").click()
            figure = page.locator(f"img.front[src$='#only-{theme}']")
            figure.wait_for()
            assert figure.evaluate("image => image.currentSrc").endswith(f"-narrow-{theme}.svg")
            box = figure.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 400
        chromium.close()
    assert wrong == []
