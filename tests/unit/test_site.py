"""The documentation site, as `make site` builds it, needs no network and no server."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

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
        chromium.close()
    assert wrong == []
