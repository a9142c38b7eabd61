"""A whole report: what stands in it, that it is safe to open, and that it needs nothing else."""

import base64
import hashlib
import itertools
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from nescio.errors import NescioError
from nescio.report import page
from nescio.report.calibration import calibration_html
from nescio.report.comparison import comparison_html
from nescio.report.examples import examples_html
from nescio.report.gallery import attacks_html
from nescio.report.page import MAX_BYTES, Section, report_page
from nescio.report.records import ReportContext, records_in
from nescio.report.verdict import verdict_html
from report_records import (
    a_contest,
    a_decision,
    a_feature_audit,
    a_gallery,
    a_history,
    a_map,
    a_recommendation,
    a_scaling,
    an_audit,
    an_evaluation,
    an_examples,
    of_every_kind,
)

HOSTILE = (
    "<script>alert(1)</script><meta http-equiv=refresh content='0;url=//example.org'>",
    '"><img src=x onerror=alert(1)>',
    "' onload='alert(1) {{ 7 * 7 }} $x_{$ & co",
)
RESULTS = Path(__file__).parents[3] / "results"


class PageParts(HTMLParser):
    """The tags, attributes, ids and words of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.ids, self.words = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def everything():
    return report_page(of_every_kind("plain"))


def headings(text):
    return re.findall(r"<h2[^>]*>(.*?)</h2>", text)


def test_the_verdict_comes_first_and_provenance_last(everything):
    assert headings(everything) == [
        "Summary",
        "Accuracy and calibration",
        "Known against unknown inputs",
        "Selective prediction",
        "Thresholds and guarantees",
        "Far away from the data",
        "Training",
        "Detectors compared",
        "Recommended detector",
        "Weights of the meta-classifier",
        "Provenance",
    ]


@pytest.mark.usefixtures("undrawn")
def test_sections_appear_when_their_records_are_there():
    assert headings(report_page([("run", an_audit())])) == [
        "Summary",
        "Far away from the data",
        "Provenance",
    ]
    assert headings(report_page([("run", a_history())])) == ["Training", "Provenance"]
    assert "Models compared" in headings(
        report_page([(name, an_evaluation({"far": 0.9})) for name in "ab"])
    )


@pytest.mark.usefixtures("undrawn")
def test_a_threshold_that_was_tried_is_in_the_verdict():
    tried, untried = ("run", an_evaluation({"far": 0.9})), "These records hold no threshold"
    assert untried in report_page([tried])
    made = verdict_html(ReportContext((tried, ("run", a_decision()))))
    assert untried not in made
    assert "energy answers “I do not know” if its score is above 1.25" in made
    assert "Unknown inputs rejected (measured, not guaranteed): far 80.0 %." in made


@pytest.mark.usefixtures("undrawn")
def test_the_title_names_models_and_what_else_there_is_only_without_any():
    others = [("attacks", a_gallery()), ("fashion", a_gallery())]
    assert "<title>Results: attacks and fashion</title>" in report_page(others)
    made = report_page([*others, ("duq", an_audit("kernels")), ("duq", a_history())])
    assert "<title>What duq knows, and what it does not</title>" in made
    assert "from 4 records" in made
    many = report_page([(name, a_history()) for name in "abcd"])
    assert "<title>What 4 models know, and what they do not</title>" in many


def test_the_title_does_not_count_a_history_that_stands_beside_its_model():
    files = [
        (name, one)
        for name in ("plain", "acet")
        for one in (an_audit(), an_evaluation({"far": 0.9}))
    ]
    histories = [(f"{name}-history", a_history()) for name in ("plain", "acet")]
    for given in ([*histories, *files], [*files, *histories]):
        assert (
            page._title(ReportContext(tuple(given)))
            == "What plain and acet know, and what they do not"
        )
    alone = ReportContext((("plain-history", a_history()), ("attacks", a_gallery())))
    assert page._title(alone) == "What plain-history knows, and what it does not"


def test_standings_have_a_heading_where_there_are_several_data_sets():
    digits, moons = (
        [(f"{data}/{name}", an_evaluation({"far": 0.9}, known=data)) for name in "ab"]
        for data in ("digits", "moons")
    )
    heading = "<h3>moons, 1,000 inputs</h3><ul><li>Highest accuracy on moons"
    assert heading in verdict_html(ReportContext((*digits, *moons)))
    assert "1,000 inputs</h3>" not in verdict_html(ReportContext(tuple(moons)))


def test_the_contents_lead_to_every_section(everything):
    links = re.findall(r'<li><a href="#([^"]+)">', everything)
    assert links == re.findall(r'<section id="([^"]+)"', everything)


def test_a_page_has_what_a_screen_reader_looks_for(everything):
    seen = PageParts(everything)
    for tag in ("header", "nav", "main", "footer", "h1"):
        assert seen.tags.count(tag) == 1, tag
    assert everything.index('class="skip" href="#content"') < everything.index("<nav")
    assert '<html lang="en">' in everything
    assert seen.tags.count("svg") == everything.count('role="img"') >= 5
    assert seen.tags.count("table") == seen.tags.count("caption") > 5


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("models", [1, 2, 3])
def test_no_level_of_headings_is_passed_over(models):
    records = [
        (f"run {i}", record)
        for i in range(models)
        for record in (
            an_evaluation({"far": 0.9}),
            an_audit(),
            an_examples(),
            a_gallery(),
            a_decision(),
        )
    ]
    levels = [int(level) for level in re.findall(r"<h([1-6])[ >]", report_page(records))]
    assert levels[:2] == [1, 2]
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert ("<h4>" in verdict_html(ReportContext(tuple(records)))) == (
        models == 2
    )  # these have headings above


@pytest.mark.slow
def test_nothing_has_the_id_of_another():
    records = [pair for name in ("a", "b") for pair in of_every_kind(name)]
    ids = PageParts(report_page(records)).ids
    assert len(ids) == len(set(ids)) > 20


def test_figures_that_are_alike_have_ids_of_their_own():
    made = report_page([("run", a_feature_audit(1.0)), ("run", a_feature_audit(1.0))])
    ids = PageParts(made).ids
    assert len(ids) == len(set(ids)) > 5
    used = re.findall(r'(?:url\(|href=")#([^)"]+)', made)
    assert set(used) <= set(ids)
    assert (
        sum(name.startswith("f1-") for name in used)
        == sum(name.startswith("f2-") for name in used)
        > 0
    )


@pytest.mark.parametrize(
    "name", [HOSTILE[0], *(pytest.param(name, marks=pytest.mark.slow) for name in HOSTILE[1:])]
)
def test_a_name_is_but_a_name(name, everything):
    made = report_page(
        [
            *of_every_kind(name),
            (f"other {name}", an_evaluation({name: 0.8, f"{name}2": 0.7}, known=name)),
        ]
    )
    seen, plain = PageParts(made), PageParts(everything)
    assert set(seen.tags) == {*plain.tags, "h4"}  # of two models, which have headings of their own
    assert seen.tags.count("script") == 1
    assert seen.tags.count("meta") == plain.tags.count("meta")
    assert {key for key, _ in seen.attributes} <= {key for key, _ in plain.attributes}
    assert name in "".join(seen.words)
    assert any(key == "aria-label" and name in value for key, value in seen.attributes)


@pytest.mark.slow
def test_text_that_no_file_can_hold_is_shown_as_missing():
    made = report_page(of_every_kind("a\x00b\ud800c\x1b"))
    assert "a\ufffdb\ufffdc\ufffd" in made
    made.encode()
    assert not re.search("[\x00-\x08\x0e-\x1f]", made)


def test_the_policy_allows_its_own_script_and_no_network(everything):
    policy = dict(
        part.split(" ", 1)
        for part in re.search(r'Policy" content="([^"]*)"', everything)[1]
        .replace("&#39;", "'")
        .split("; ")
    )
    script = re.search(r"<script>(.*?)</script>", everything, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy["script-src"] == f"'sha256-{digest}'"
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert policy["img-src"] == "data:"


def test_nothing_is_loaded_from_elsewhere(everything):
    refer = {"src", "href", "xlink:href", "action", "srcset", "poster", "data"}
    places = [value for key, value in PageParts(everything).attributes if key in refer]
    assert places
    assert all(place.startswith(("#", "data:")) for place in places)
    assert not re.search(r"@import|url\((?!#)", everything)


def test_the_same_records_make_the_same_page():
    records = [("a", an_evaluation({"far": 0.9}))]
    assert report_page(records) == report_page(records)


@pytest.mark.slow
def test_runs_of_one_name_are_averaged_side_by_side_and_kept_apart_elsewhere():
    records = [("duq", an_evaluation({"far": auroc}, mmc=auroc)) for auroc in (0.90, 0.94)] + [
        ("one", an_evaluation({"far": 0.8}))
    ]
    made = report_page(records)
    assert "0.920 ±0.028" in made
    assert "duq (1)" in made
    assert "duq (2)" in made


@pytest.mark.usefixtures("undrawn")
def test_a_model_evaluated_in_two_goes_stands_beside_one_that_was_evaluated_in_one():
    far, noise, both = (
        an_evaluation({"far": 0.9}),
        an_evaluation({"noise": 0.7}),
        {"far": 0.9, "noise": 0.8},
    )
    two_goes = (("a", far), ("a", noise))
    for other in (("b", an_evaluation(both)), ("b", far)):
        for given in ((*two_goes, other), (other, *two_goes)):
            text = comparison_html(ReportContext(given))
            assert ("AUROC: noise" in text) == (other[1] is not far)
            assert text.count("<svg") == 3
            assert "±" not in text


@pytest.mark.usefixtures("undrawn")
def test_records_that_cannot_be_compared_are_not():
    other = replace(an_evaluation({"far": 0.9}), unknown=())
    made = report_page(
        [
            ("a", an_evaluation({"far": 0.9})),
            ("b", other),
            ("c", an_evaluation({"far": 0.9}, known="iris")),
        ]
    )
    assert "Models compared" not in headings(made)


@pytest.mark.usefixtures("undrawn")
def test_a_record_without_curves_has_its_tables():
    record = an_evaluation({"far": 0.9})
    bare = replace(
        record, unknown=(replace(record.unknown[0], roc=()),), histograms=(), confidence=None
    )
    made = report_page([("a", bare), ("b", bare)])
    assert "Models compared" in headings(made)
    assert "AUROC" in made


@pytest.mark.usefixtures("undrawn")
def test_a_record_evaluated_by_other_scores_than_its_own_has_its_tables():
    other = replace(an_evaluation({"far": 0.9}), score="max_prob")
    made = report_page([("a", other), ("b", other)])
    assert "Models compared" not in headings(made)
    assert "<td>entropy</td>" in made


@pytest.mark.slow
def test_the_models_of_many_runs_fit_a_page():
    one = records_in([str(RESULTS / "duq-fashion" / "scale-0.1-0")])
    records = [(f"{name}-{i}", record) for i in range(15) for name, record in one]
    made = report_page(records)
    assert len(made.encode()) < MAX_BYTES
    assert "in the tables only" in made


def test_figures_are_left_out_of_a_page_that_would_be_too_large():
    large = page.Markup("<p>words</p><figure>" + "x" * MAX_BYTES + "</figure>")
    sections = (Section("big", "Big", (lambda context: large,)), *page.SECTIONS)
    made = report_page([("run", an_audit())], sections)
    assert len(made.encode()) < MAX_BYTES
    assert "<p>words</p>" in made
    assert "Figures are left out" in made


def test_words_that_are_too_many_are_an_error():
    large = Section("big", "Big", (lambda context: page.Markup("x" * MAX_BYTES),))
    with pytest.raises(NescioError, match="too many records for one page of 3 MB"):
        report_page([("run", an_audit())], [large])


@pytest.mark.parametrize(
    ("kind", "field"),
    [("Contest", "contestants"), ("Recommendation", "ranking"), ("Selection", "trials")],
)
def test_a_record_without_what_it_is_about_is_named(kind, field):
    record = next(one for _, one in of_every_kind("plain") if type(one).__name__ == kind)
    with pytest.raises(NescioError, match=f"'run' has a {kind} record without {field}"):
        report_page([("run", replace(record, **{field: ()}))])


@pytest.mark.usefixtures("undrawn")
def test_the_command_of_a_record_is_the_one_that_was_typed():
    record = an_evaluation({"far": 0.9})
    typed = replace(
        record,
        provenance=replace(record.provenance, command="nescio evaluate 'a <run>' --attacked 100"),
    )
    made = report_page([("mine", typed)])
    assert (
        "<p>Made by <code>nescio evaluate &#39;a &lt;run&gt;&#39; --attacked 100</code></p>" in made
    )
    assert "Made from Python" not in made
    assert "Made from Python." in report_page([("mine", record)])


def test_only_what_is_all_is_called_so_under_pictures():
    sure = replace(an_examples().known.surest[0], confidence=0.99996)
    row = replace(a_gallery().rows[0], confidence=(0.99996, 0.99996))
    pictures = replace(an_examples(), known=replace(an_examples().known, surest=(sure,)))
    noise, samples = (replace(a_gallery(start), rows=(row,)) for start in ("noise", "samples"))
    for make, record in ((examples_html, pictures), (attacks_html, noise), (attacks_html, samples)):
        seen = PageParts(str(make(ReportContext((("run", record),)))))
        words = " ".join([*seen.words, *(value for key, value in seen.attributes if key == "alt")])
        assert words.count("99.9 %") >= 2
        assert "100" not in words


@pytest.mark.usefixtures("undrawn")
def test_only_what_is_all_is_called_so_in_tables():
    models = ReportContext(
        tuple(
            (name, an_evaluation({"far": 0.9}, accuracy=0.99996, mmc=mmc))
            for name, mmc in (("a", 0.96), ("b", 0.96), ("b", 0.97))
        )
    )
    assert re.findall(r">(&gt;99\.9|100\.0)</td>", calibration_html(models)) == ["&gt;99.9"] * 3
    assert re.findall(r">(&gt;99\.9|100\.0)( ±0\.0)?</td>", comparison_html(models)) == [
        ("&gt;99.9", ""),
        ("&gt;99.9", " ±0.0"),
    ]


@pytest.mark.usefixtures("undrawn")
def test_shares_and_seconds_of_tables_are_plain_digits():
    tiny, origin = 2e-20, replace(a_history().provenance, seconds=0.0277)
    curve = replace(an_evaluation({"far": 0.9}).known.rejection[0], area=tiny)
    known = replace(an_evaluation({"far": 0.9}).known, rejection=(curve,))
    low = replace(a_map().confidence, values=((tiny,) * 3,) * 2)
    course = replace(a_scaling(False).directions[0].scores[0], flagged=(0.0, tiny))
    moved = replace(a_scaling(False).directions[0], confidence=(0.5, tiny), scores=(course,))
    quick = replace(a_contest().contestants[0], fit_seconds=0.0277, seconds_per_1000=2e-5)
    ranked = replace(a_recommendation().ranking[0], seconds=0.0277)
    made = report_page(
        [
            ("run", replace(an_evaluation({"far": 0.9}), known=known, provenance=origin)),
            ("run", replace(a_map(), confidence=low)),
            ("run", replace(a_scaling(False), directions=(moved,))),
            ("run", replace(a_contest(), contestants=(quick,))),
            ("run", replace(a_recommendation(), ranking=(ranked,))),
            ("run", replace(a_history(), provenance=origin)),
        ]
    )
    cells = re.findall(r"<td class=number[^>]*>([^<]*)</td>", made)
    assert cells.count("&lt;0.1") == 4
    assert cells.count("0.028") == 5
    assert cells.count("&lt;0.001") == 1
    assert [cell for cell in cells if "e-" in cell] == [
        "2.0e-20"
    ]  # the area itself, which is no share in per cent


def test_nothing_to_show_is_an_error():
    with pytest.raises(NescioError, match="got none"):
        report_page([])


def test_the_records_of_this_repository_make_a_page():
    made = report_page(records_in([str(RESULTS / "detectors-fashion")]))
    assert len(made.encode()) < MAX_BYTES
    assert headings(made)[-1] == "Provenance"


def test_the_command_writes_a_page_without_torch(tmp_path):
    an_evaluation({"far": 0.9}).save(tmp_path / "run" / "evaluation.json")
    code = (
        "import sys; from nescio.cli import main\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "sys.exit('torch' in sys.modules)"
    )
    words = ["report", f"mine={tmp_path / 'run'}", "-o", str(tmp_path / "out" / "report.html")]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Saved:" in done.stdout
    made = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "What mine knows, and what it does not" in made


def test_the_command_says_what_was_given_and_writes_nothing(tmp_path):
    out = tmp_path / "report.html"
    words = [sys.executable, "-m", "nescio", "report", str(tmp_path / "nowhere"), "-o", str(out)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "nowhere" in done.stderr
    assert not out.exists()


def test_the_command_does_not_write_over_its_records(command, tmp_path):
    path = tmp_path / "e.json"
    an_evaluation({"far": 0.9}).save(path)
    before = path.read_bytes()
    assert command("report", path, "-o", path)[0] == 2
    assert path.read_bytes() == before
