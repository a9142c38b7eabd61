"""Evaluations of one network are one run; those of other networks are runs of their own."""

from dataclasses import replace

import pytest

from nescio.report.comparison import by_known_data
from nescio.report.page import report_page
from nescio.report.records import ReportContext, records_in
from nescio.report.runs import failed_attacks, merge_runs
from nescio.report.verdict import verdict_html
from report_records import ORIGIN, a_history, an_evaluation


def held(record, **tried):
    return replace(record, provenance=replace(ORIGIN, settings={"seed": 0, "resisted": tried}))


def test_one_network_has_the_sets_of_all_its_evaluations():
    first = an_evaluation({"noise": 0.9, "far": 0.8})
    second = an_evaluation({"far": 0.1, "mnist": 0.7})
    [one] = merge_runs([first, second])
    assert one.unknown == (
        *first.unknown,
        second.unknown[1],
    )  # the first wins where both have a set
    assert set(one.confidence.counts) == {"known", "noise", "far", "mnist"}
    assert (one.known, one.histograms, one.provenance) == (
        first.known,
        first.histograms,
        first.provenance,
    )


def test_attacks_that_it_resisted_are_those_of_all():
    first, second = held(an_evaluation({}), a=40), held(an_evaluation({}), a=7, b=30)
    [one] = merge_runs([an_evaluation({}), first, second])
    assert failed_attacks(one) == {"a": 40, "b": 30}
    assert merge_runs([first, second])[0].provenance.settings["seed"] == 0


@pytest.mark.parametrize(
    "change", [{"accuracy": 0.951}, {"mmc": 0.96001}, {"nll": 0.2001}, {"brier": 0.1001}]
)
def test_other_networks_are_other_runs(change):
    first = an_evaluation({"noise": 0.9})
    other = replace(first, known=replace(first.known, **change))
    assert merge_runs([first, other, first]) == [first, other]
    assert merge_runs([first, replace(first, score="energy")])[1].score == "energy"


def test_figures_of_one_network_are_equal_up_to_rounding():
    first = an_evaluation({"noise": 0.9})
    near = {name: getattr(first.known, name) * (1 + 5e-7) for name in ("mmc", "nll", "brier")}
    assert merge_runs([first, replace(first, known=replace(first.known, **near))]) == [first]


def test_other_bins_of_confidence_are_not_taken():
    first, second = an_evaluation({"noise": 0.9}), an_evaluation({"far": 0.9})
    other = replace(second, confidence=replace(second.confidence, edges=(0.0, 0.4, 1.0)))
    assert merge_runs([first, other])[0].confidence == first.confidence
    assert merge_runs([replace(first, confidence=None), second])[0].confidence is None


@pytest.mark.usefixtures("undrawn")
def test_two_evaluations_in_the_folder_of_a_run_are_reported_as_one(tmp_path):
    a_history().save(tmp_path / "run" / "history.json")
    an_evaluation({"unseen": 0.95}).save(tmp_path / "run" / "evaluation.json")
    held(an_evaluation({"far": 0.2}), adversarial_samples=40).save(
        tmp_path / "run" / "evaluation-2.json"
    )
    found = records_in([str(tmp_path / "run")])
    text = verdict_html(ReportContext(tuple(found)))
    assert "Accuracy on digits (1000 inputs): 95.0 %." in text
    assert "one of its 50 wrong answers" in text
    assert "Unknown inputs" in text
    assert "Best: it mostly recognises classes left out of training" in text
    assert "Worst: it takes inputs far from its data" in text
    assert "adversarial_samples: none of 40 attacks succeeded." in text
    assert "2 runs" not in report_page(found)


def test_names_are_not_mixed():
    [group] = by_known_data(
        ReportContext((("a", an_evaluation({"noise": 0.9})), ("b", an_evaluation({"far": 0.9}))))
    )
    assert {
        name: [side.name for one in runs for side in one.unknown] for name, runs in group.items()
    } == {
        "a": ["noise"],
        "b": ["far"],
    }
