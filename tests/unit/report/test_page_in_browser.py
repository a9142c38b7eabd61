"""A report as a browser shows it: real headless Chromium, which is started and never downloaded."""

import shutil

import pytest

from nescio.report.page import report_page
from report_records import of_every_kind

playwright = pytest.importorskip(
    "playwright.sync_api", reason="needs the Python package playwright"
)
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")

NAME = '"><img src=x onerror=alert(1)>'
NUMBERS = """column => [...document.querySelectorAll("#unknown table")[0].tBodies[0].rows]
    .map(row => row.cells[column].textContent)"""
WIDER = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
# WCAG's contrast of a text with what is behind it
CONTRAST = """selector => {
    const light = colour => {
        const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
            .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = node => {
        const own = getComputedStyle(node).backgroundColor;
        return own === "rgba(0, 0, 0, 0)" ? behind(node.parentElement) : own;
    };
    return Math.min(...[...document.querySelectorAll(selector)].map(node => {
        const pair = [getComputedStyle(node).color, behind(node)].map(light).sort((a, b) => b - a);
        return (pair[0] + 0.05) / (pair[1] + 0.05);
    }));
}"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    made = tmp_path_factory.mktemp("page") / "report.html"
    made.write_text(
        report_page([*of_every_kind("plain"), *of_every_kind(NAME)[:1]]), encoding="utf-8"
    )
    return made


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser, path):
    """Open the page with options of the browser; errors and requests end up in `.wrong`."""
    contexts = []

    def opens(**options):
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.wrong = []
        page.on("console", lambda message: page.wrong.append(message.text))
        page.on("pageerror", lambda error: page.wrong.append(str(error)))
        page.on("dialog", lambda dialog: (page.wrong.append(dialog.message), dialog.dismiss()))
        page.on(
            "request",
            lambda request: (
                request.url.startswith(("file:", "data:")) or page.wrong.append(request.url)
            ),
        )
        page.goto(path.as_uri())
        return page

    yield opens
    for context in contexts:
        context.close()


def test_it_opens_without_errors_and_loads_nothing(opened):
    page = opened()
    page.wait_for_load_state("networkidle")
    assert page.wrong == []
    assert page.locator("img").count() == 0
    assert page.locator("main section").count() > 5


def test_a_click_on_a_heading_sorts_numbers_as_numbers(opened):
    page = opened()
    head = page.locator("#unknown table").first.locator("thead th").nth(5)
    assert head.inner_text().strip() == "AUROC"
    before = page.evaluate(NUMBERS, 5)
    assert head.get_attribute("aria-sort") is None
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert page.evaluate(NUMBERS, 5) == sorted(before, key=float)
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert page.evaluate(NUMBERS, 5) == sorted(before, key=float, reverse=True)
    assert page.locator("#unknown table").first.locator("[aria-sort]").count() == 1


def test_sorting_is_of_values_and_leaves_what_is_missing_last(opened):
    page = opened()
    page.evaluate("""() => {
        const rows = document.querySelectorAll("#unknown table")[0].tBodies[0].rows;
        [9, 100, null, -1].forEach((value, i) => {
            const cell = rows[i].cells[5];
            cell.textContent = value === null ? "–" : String(value);
            value === null ? cell.removeAttribute("data-value") : cell.dataset.value = value;
        });
    }""")
    button = page.locator("#unknown table").first.locator("thead th").nth(5).get_by_role("button")
    button.click()
    assert page.evaluate(NUMBERS, 5) == ["-1", "9", "100", "–"]
    button.click()
    assert page.evaluate(NUMBERS, 5) == ["100", "9", "-1", "–"]


def test_a_keyboard_sorts_too(opened):
    page = opened()
    head = page.locator("#unknown table").first.locator("thead th").nth(5)
    head.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"


def test_the_first_stop_of_a_keyboard_skips_to_the_report(opened):
    page = opened()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the report"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"


def test_both_themes_follow_the_system_and_the_button_remembers(opened):
    def colours(page):
        return page.evaluate("""() => [getComputedStyle(document.body).backgroundColor,
            getComputedStyle(document.body).color,
            getComputedStyle(document.querySelector("svg text")).fill]""")

    light, dark = opened(color_scheme="light"), opened(color_scheme="dark")
    assert all(one != other for one, other in zip(colours(light), colours(dark), strict=True))
    light.get_by_role("button", name="Switch to dark colours").click()
    assert colours(light) == colours(dark)
    light.reload()
    assert colours(light) == colours(dark)
    light.get_by_role("button", name="Switch to light colours").click()
    assert colours(light) != colours(dark)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_stand_out(opened, scheme):
    page = opened(color_scheme=scheme)
    assert (
        page.evaluate(
            CONTRAST, "p, a:not(.skip), th, td, h1, h2, h3, h4, dt, dd, figcaption, caption, button"
        )
        >= 4.5
    )


@pytest.mark.parametrize("width", [320, 360, 768, 1280])
def test_no_width_makes_the_page_scroll_sideways(opened, width):
    page = opened(viewport={"width": width, "height": 700})
    assert not page.evaluate(WIDER)
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert not page.evaluate(WIDER)


def test_a_table_copies_as_numbers_between_tabs(opened):
    page = opened(permissions=["clipboard-read", "clipboard-write"])
    page.locator("#unknown .copy").first.click()
    page.get_by_text("Copied").wait_for()
    lines = page.evaluate("navigator.clipboard.readText()").splitlines()
    heads = lines[0].split("\t")
    assert heads[0] == "model"
    assert all(len(line.split("\t")) == len(heads) for line in lines)
    assert [float(line.split("\t")[5]) for line in lines[1:]] == [0.9, 0.6, 0.9, 0.6]


def test_print_is_light_and_has_no_buttons(opened):
    page = opened(color_scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert (
        page.locator("#theme, .copy, nav").evaluate_all(
            "all => all.filter(one => one.checkVisibility()).length"
        )
        == 0
    )
    assert page.locator("thead button").first.is_visible()  # what a heading says is in it
