"""Reports of records of the papers: nescio's page, with sections of their own."""

import json
import random
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from damage import changed, emptied, places, with_one_change
from nescio.errors import NescioError
from nescio.records import read_record
from nescio.report.page import MAX_BYTES
from nescio.report.records import ReportContext, records_in
from paper_records import (
    a_radius,
    a_reproduction,
    a_separations,
    a_timings,
    of_every_paper_kind,
    papers_page,
)
from papers.duq.timings import Timings, timings_html
from papers.gradient_uncertainty.separations import separations_html
from papers.relu_overconfidence.radius import radius_html
from papers.report import reproduced, reproductions_html
from papers.reproduction import Comparison
from report_records import ORIGIN, a_history, an_audit

RESULTS = Path(__file__).parents[2] / "results"
BODIES = {type(one).__name__: json.loads(one.to_json()) for _, one in of_every_paper_kind("plain")}


def shown(make, *records):
    return make(ReportContext(tuple(("run", record) for record in records)))


def rows(body):
    """Cells of each row but the headings."""
    found = re.findall(r"<tr>(.*?)</tr>", body)
    return [
        re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in found if "scope=col" not in row
    ]


def headings(text):
    return re.findall(r"<h2[^>]*>(.*?)</h2>", text)


@pytest.mark.parametrize(
    "section", [radius_html, separations_html, timings_html, reproductions_html]
)
def test_there_is_none_without_records(section):
    assert section(ReportContext((("run", an_audit()),))) == ""


def test_times_of_rounds():
    body = shown(timings_html, a_timings())
    assert rows(body) == [
        ["step: softmax", "3", "0.300", "0.250", "0.500"],
        ["step: DUQ", "3", "1.500", "1.250", "2.500"],
    ]
    assert "conv3, batches of 128, 1 thread<" in body
    assert "<h3>" not in body
    assert "<h3>run (2)</h3>" in shown(timings_html, a_timings(), a_timings())
    assert rows(shown(timings_html, Timings("mlp", 1, 2, {"none": ()}, ORIGIN))) == [
        ["none", "0", "–", "–", "–"]
    ]


def test_promises_that_were_kept_broken_or_not_looked_at():
    body = shown(radius_html, a_radius())
    network = ["run", "digits", "1258", "98.0"]
    assert rows(body) == [
        [*network, "0.100", "10.500", "14783", "0.004", "yes"],
        [*network, "0.010", "12.000", "0", "0.000", "–"],
    ]
    assert "At a distance of 30 that is 1e-09 of an RBF network and 0.7 of a ReLU network." in body
    assert "knows nothing, as promised" in body
    broken = shown(radius_html, a_radius(worst=0.11))
    assert rows(broken)[0][-1] == "no"
    assert "a promise that was not kept" in broken
    assert "as promised" not in broken


def test_the_first_radius_on_each_data_set_is_drawn():
    body = shown(radius_html, a_radius(), a_radius(worst=0.05), a_radius("two_moons"))
    assert body.count("<svg") == 2
    assert len(rows(body)) == 6
    assert 'aria-label="figure: run (1): ' in body
    assert 'aria-label="figure: run (3): ' in body
    assert "1 more data sets are in the tables only." in shown(
        radius_html, *(a_radius(f"data {i}") for i in range(7))
    )
    assert "<svg" not in shown(radius_html, replace(a_radius(), distance=(), departs=(), other=()))


def test_the_papers_numbers_come_first_and_provenance_last():
    made = papers_page([*of_every_paper_kind("plain"), ("run", an_audit())])
    assert headings(made) == [
        "The papers’ results, made again",
        "Summary",
        "Far away from the data",
        "How far is far enough",
        "Scores against sets",
        "How long it takes",
        "Provenance",
    ]


def test_the_title_names_what_there_is_only_without_a_model():
    others = [("duq-table2", a_reproduction()), ("fashion", a_separations())]
    assert "<title>Results: duq-table2 and fashion</title>" in papers_page(others)
    made = papers_page([*others, ("duq", an_audit("kernels")), ("duq", a_history())])
    assert "<title>What duq knows, and what it does not</title>" in made
    assert "from 4 records" in made
    alone = papers_page([("plain-history", a_history()), ("duq-table2", a_reproduction())])
    assert "<title>What plain-history knows, and what it does not</title>" in alone


@pytest.mark.parametrize(
    ("kind", "field"),
    [("Radius", "promises"), ("Separations", "accuracy"), ("Timings", "seconds")],
)
def test_a_record_without_what_it_is_about_is_named(kind, field):
    record = next(one for _, one in of_every_paper_kind("plain") if type(one).__name__ == kind)
    with pytest.raises(NescioError, match=f"'run' has a {kind} record without {field}"):
        papers_page([("run", replace(record, **{field: ()}))])


def test_a_reproduction_shows_paper_and_ours_and_what_fell_short():
    made = papers_page([("duq-table2", a_reproduction(ours=0.85))])
    for part in (
        "0.955 ± 0.007",
        "0.850 ± 0.002",
        "−0.105",
        "Too few epochs.",
        "python -m papers duq-table2 --seeds 3",
        "<td>no</td>",
        "12.00 s",
    ):
        assert part in made, part
    assert "Made by <code>python -m papers duq-table2 --seeds 3</code>" in made


def test_a_reproduction_tells_the_farthest_figure_and_the_claims():
    near, claims = reproduced(a_reproduction(ours=0.93))
    assert "by 0.025, is “DUQ: AUROC”" in near
    assert claims == "Table 2 of paper 4: 1 of 1 claims hold in our runs."
    assert (
        reproduced(a_reproduction(ours=0.5))[1]
        == "Table 2 of paper 4: 0 of 1 claims hold in our runs."
    )


def test_the_farthest_figure_is_reported_for_each_unit():
    compared = (
        Comparison("AUROC", 0.9, 0.899),
        Comparison("test error", 1.4, 1.89, unit="%"),
        Comparison("FPR", 0.2, 0.361),
        Comparison("share", 50.0, 50.2, unit="%"),
        Comparison("time", 2.0, 5.0, unit="s"),
        Comparison("not in the paper", None, 99.0),
    )
    [message] = reproduced(replace(a_reproduction(), compared=compared, claims=()))
    assert message.endswith(
        "5 figures stand beside the paper’s; of those without a unit, the farthest apart, by "
        "0.161, is “FPR”; of those in %, the farthest apart, by 0.49 percentage points, is “test "
        "error”; of those in s, the farthest apart, by 3.000 s, is “time”."
    )
    [message] = reproduced(replace(a_reproduction(), compared=compared[3:4], claims=()))
    assert message.endswith("paper’s; the farthest apart, by 0.20 percentage points, is “share”.")


@pytest.mark.parametrize("folder", ["duq-runtime", "gradient-table1", "gradient-figure2"])
def test_the_records_of_this_repository_make_a_page(folder):
    made = papers_page(records_in([str(RESULTS / folder)]))
    assert len(made.encode()) < MAX_BYTES
    assert headings(made)[-1] == "Provenance"


def test_every_record_of_this_repository_is_read():
    read = 0
    for path in sorted(RESULTS.rglob("*.json")):
        if "record" in json.loads(path.read_text(encoding="utf-8")):
            read_record(path)
            read += 1
    assert read > 200


@pytest.mark.parametrize(
    ("kind", "place", "new", "message"),
    [
        ("Radius", "classes", 1, "classes of a Radius"),
        ("Radius", "gamma", -1.0, "gamma of a Radius"),
        ("Radius", "distance.0", -1.0, "distance of a Radius"),
        ("Separations", "accuracy.0", -0.5, "accuracy of a Separations"),
    ],
)
def test_what_cannot_be_is_reported(kind, place, new, message, tmp_path):
    where = [int(part) if part.isdigit() else part for part in place.split(".")]
    (tmp_path / "record.json").write_text(json.dumps(changed(BODIES[kind], where, new)))
    with pytest.raises(NescioError, match="damaged") as error:
        read_record(tmp_path / "record.json")
    assert message in str(error.value)


def shown_or_refused(body, folder):
    (folder / "record.json").write_text(json.dumps(body))
    with suppress(NescioError):  # and nothing else
        assert "<html" in papers_page([("run", read_record(folder / "record.json"))])


def test_numbers_beyond_all_others_are_shown_or_refused(tmp_path):
    shown_or_refused(changed(BODIES["Radius"], ["distance", 0], 1e200), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", BODIES)
def test_a_record_with_anything_emptied_is_shown_or_refused(kind, tmp_path):
    for place in places(BODIES[kind]):
        shown_or_refused(emptied(BODIES[kind], place), tmp_path)


@pytest.mark.filterwarnings("ignore")  # of what is drawn of odd numbers
@pytest.mark.parametrize("changes", [1, pytest.param(14, marks=pytest.mark.slow)])
def test_a_record_with_anything_changed_is_shown_or_refused(changes, seed, tmp_path):
    rng = random.Random(seed)
    for body in BODIES.values():
        for _ in range(changes):
            shown_or_refused(with_one_change(body, rng), tmp_path)
