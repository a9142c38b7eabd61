"""Sentences made from records: of good and of bad models they say the opposite."""

from dataclasses import replace

import pytest

from nescio.report.audit import audit_words, far_away_words
from nescio.report.decision import fitted_words
from nescio.report.feature_audit import feature_words
from nescio.report.ranking import ranking_words, recommendation_words
from nescio.report.records import ReportContext
from nescio.report.scaling import scaling_words
from nescio.report.verdict import known_words, standings, unknown_words
from report_records import (
    ORIGIN,
    a_contest,
    a_feature_audit,
    a_fitted,
    a_recommendation,
    a_scaling,
    an_audit,
    an_evaluation,
)


def test_a_model_that_is_right_and_honest():
    words = known_words([an_evaluation({}, accuracy=0.95, mmc=0.955, ece=0.012, right_wrong=0.93)])
    assert words == [
        "Accuracy on digits (1000 inputs): 95.0 %.",
        "Its mean confidence is 95.5 %. It is well calibrated: on average it differs from the "
        "accuracy by 1.2 percentage points (ECE).",
        "Its confidence mostly reveals errors: one of its 50 wrong answers looks less certain than "
        "a correct one 93.0 % of the time.",
    ]


@pytest.mark.parametrize(("mmc", "way"), [(0.9, "mostly too high"), (0.3, "mostly too low")])
def test_a_model_that_is_neither(mmc, way):
    words = known_words([an_evaluation({}, accuracy=0.6, mmc=mmc, ece=0.3, right_wrong=0.55)])
    assert words[0] == "Accuracy on digits (1000 inputs): 60.0 %."
    assert (
        "Do not rely on it: on average it differs from the accuracy by 30.0 percentage" in words[1]
    )
    assert way in words[1]
    assert words[2].startswith("Its confidence hardly reveals errors")


def test_nothing_is_said_of_doubts_where_nothing_was_wrong():
    assert len(known_words([an_evaluation({}, accuracy=1.0, right_wrong=None)])) == 2


@pytest.mark.parametrize(
    ("accuracy", "few"), [(0.999, "only wrong answer has"), (0.991, "9 wrong answers have")]
)
def test_of_few_wrong_answers_the_figure_of_the_tables_is_shown_but_not_rated(accuracy, few):
    words = known_words([an_evaluation({}, accuracy=accuracy, right_wrong=0.996)])
    assert words[2] == (
        f"Its {few} a lower confidence than a correct one 99.6 % of the time; so few do not show "
        "whether confidence reveals errors."
    )
    runs = [an_evaluation({}, accuracy=0.991, right_wrong=0.5)] * 2
    assert known_words(runs)[2].startswith(
        "Its confidence hardly reveals errors: one of its 18 wrong answers"
    )


def test_runs_are_averaged_and_say_so():
    words = known_words([an_evaluation({}, accuracy=0.9), an_evaluation({}, accuracy=0.8)])
    assert words[0] == "Accuracy on digits (1000 inputs): 85.0 %, mean of 2 runs."


def test_the_best_and_the_worst_set_are_named():
    words = unknown_words([an_evaluation({"unseen": 0.995, "far": 0.1, "mnist": 0.95})])
    assert words[0].startswith(
        "Best: it recognises classes left out of training (unseen) nearly without"
    )
    assert "99.5 % of the time" in words[0]
    assert words[1].startswith(
        "Worst: it takes inputs far from its data (far) for more familiar than known inputs"
    )
    assert words[2] == "Of 3 kinds of unknown inputs, 2 have an AUROC of at least 0.9."
    assert words[3].endswith(
        "a threshold that accepts 95 % of known inputs accepts 90.0 % of them."
    )


@pytest.mark.parametrize(
    ("auroc", "words"),
    [
        (0.999, "nearly without fail"),
        (0.93, "t mostly recognises"),
        (0.75, "but not reliably"),
        (0.6, "hardly recognises"),
        (0.5, "does not recognise"),
        (0.2, "more familiar than known inputs"),
    ],
)
def test_one_set_is_evaluated_by_its_auroc(auroc, words):
    first = unknown_words([an_evaluation({"mnist": auroc})])[0]
    assert words in first
    assert "“mnist”" in first
    assert f"{auroc:.1%}".replace("%", " %") in first


def test_nothing_is_said_of_the_unknown_without_any():
    assert unknown_words([an_evaluation({})]) == []


def test_attacks_that_failed_are_reported():
    record = replace(
        an_evaluation({}),
        provenance=replace(ORIGIN, settings={"resisted": {"adversarial_samples": 40}}),
    )
    assert unknown_words([record]) == ["adversarial_samples: none of 40 attacks succeeded."]
    assert unknown_words([record, record]) == ["adversarial_samples: none of 80 attacks succeeded."]
    for runs in ([record, an_evaluation({})], [an_evaluation({}), record]):
        assert unknown_words(runs) == [
            "adversarial_samples: none of 40 attacks succeeded in 1 of 2 runs."
        ]


def test_far_away_opposite_models_are_distinguished():
    every = f"along all {an_audit().trials:,} directions tried."
    assert (
        far_away_words(an_audit("affine", 1.0))
        == f"Far away its confidence tends to 1 for any input, {every}"
    )
    assert (
        far_away_words(an_audit("affine", 0.1))
        == "Far away its confidence does not tend to 1 along most directions."
    )
    assert (
        far_away_words(an_audit("kernels", 1.0))
        == f"Far away it reports that it does not know, {every}"
    )
    assert "not proved to report" in far_away_words(an_audit("kernels", 0.2))
    assert (
        far_away_words(an_audit("unknown"))
        == "Far away it was observed to become certain along most directions."
    )
    assert "Along 100.0 % of 100 directions" in audit_words(an_audit("affine", 1.0))[0]


@pytest.mark.parametrize("share", [0.865, 0.9999])
def test_most_directions_are_not_said_to_be_all(share):
    affine, kernels = an_audit("affine", share), an_audit("kernels", share)
    assert far_away_words(affine) == "Far away its confidence tends to 1 along most directions."
    assert (
        far_away_words(kernels)
        == "Far away it reports that it does not know, along most directions."
    )
    assert standings(ReportContext((("plain", affine), ("duq", kernels))))["Far away"] == [
        "Confidence provably → 1 far away along most directions: plain.",
        "Provably uncertain far away along most directions: duq.",
    ]


def test_an_end_that_is_known_and_not_certain_is_reported():
    calm = replace(an_audit("affine", 0.1), end_confidence=(0.3, 0.5, 0.6, 0.8, 1.0))
    assert standings(ReportContext((("ensemble", calm), ("scanned", an_audit("unknown")))))[
        "Far away"
    ] == [
        "Confidence provably does not → 1 far away along most directions, but its median limit is "
        "60.0 %: ensemble.",
        "Nothing proved about the limit far away: scanned.",
    ]


def test_what_is_scaled_away_is_noticed_or_not():
    assert scaling_words(a_scaling(True)) == [
        "Each of 2 features, scaled up to 1,000 times, is flagged by at least one score.",
        "Whole inputs scaled up to 1,000 times are flagged by entropy.",
    ]
    assert scaling_words(a_scaling(False)) == [
        "Of 2 features scaled up to 1,000 times, 2 are flagged by no score: “height” and “width”.",
        "Whole inputs scaled up to 1,000 times are flagged by no score.",
    ]


def test_the_nearest_feature_is_named_or_none():
    assert feature_words(a_feature_audit(3.0))[0] == (
        "The smallest change of a single feature for it to reach 99.9 % confidence, in the median "
        "row "
        "not yet certain: “height” higher by 3 (1.5 standard deviations)."
    )
    assert feature_words(a_feature_audit(None))[0] == (
        "No single feature, moved however far, makes it reach 99.9 % confidence in the median row "
        "not "
        "yet certain."
    )
    assert feature_words(a_feature_audit(0.0))[0].startswith("The median row need not be moved")


def test_of_kernels_the_median_is_of_all_rows():
    assert feature_words(of_kernels(a_feature_audit(3.0))) == [
        "The smallest change of a single feature for it to be uncertain from there on, in the "
        "median "
        "row: “height” higher by 3 (1.5 standard deviations)."
    ]
    assert feature_words(of_kernels(a_feature_audit(None))) == [
        "No single feature, moved however far, makes it be uncertain from there on in the median "
        "row."
    ]
    assert feature_words(of_kernels(a_feature_audit(0.0))) == [
        "The median row need not be moved for it to be uncertain from there on."
    ]


def of_kernels(record):
    """The same, but that what made rows certain is what makes them unknown."""
    [feature] = record.features
    lower, higher = (
        replace(side, unknown=side.certain) for side in (feature.lower, feature.higher)
    )
    return replace(record, eps=0.01, features=(replace(feature, lower=lower, higher=higher),))


def test_a_threshold_and_its_promise():
    assert fitted_words(a_fitted()) == [
        "Use the detector fitted on knn: its threshold, 1.25, was set by 400 inputs of my data.",
        "Guarantee: a new known input, drawn as these were, is accepted with a probability of at "
        "least 0.95.",
    ]
    beside = fitted_words(a_fitted(), "vim")[0]
    assert beside.startswith(
        "Instead of vim there is one fitted on knn: its threshold, 1.25, was set"
    )
    per_class = replace(a_fitted(), thresholds=(1.0, 2.0))
    assert "its thresholds, one for each class, were set" in fitted_words(per_class)[0]


def test_a_recommended_detector_and_what_it_is_worst_at():
    first, second, third = recommendation_words(a_recommendation())
    assert first.startswith("Recommended: knn (mean AUROC over the kinds of outliers 0.950")
    assert "best of 2 detectors; 0.910 on “patches”, its hardest" in first
    assert "accepted with probability at least 0.9." in second
    assert third == "Unknown inputs: not guaranteed."
    record = a_recommendation()
    best = replace(record.ranking[0], refused={"noise": 1.0, "patches": 0.42})
    words = recommendation_words(replace(record, ranking=(best, *record.ranking[1:])))
    assert words[2] == (
        "Unknown inputs: not guaranteed; of these outliers it rejects: noise 100.0 %, "
        "patches 42.0 %."
    )
    assert (
        len(recommendation_words(replace(a_recommendation(), provenance=ORIGIN))) == 1
    )  # it tells no share


def test_who_won_a_contest():
    assert ranking_words(a_contest()) == ["Of 2 detectors, knn is best on noise: mean AUROC 0.970."]


def test_who_is_best_at_what():
    plain = an_evaluation({"noise": 0.9, "far": 0.2}, accuracy=0.97, ece=0.1)
    duq = an_evaluation({"noise": 0.8, "far": 0.99}, accuracy=0.95, ece=0.02)
    records = [("plain", plain), ("duq", duq), ("plain", an_audit()), ("duq", an_audit("kernels"))]
    found = standings(ReportContext(tuple(records)))
    assert list(found) == ["digits, 1,000 inputs"]
    assert found["digits, 1,000 inputs"] == [
        "Highest accuracy on digits: plain (97.0 %); worst: duq (95.0 %).",
        "Best calibrated: duq (off by 2.0 percentage points); worst: plain (off by 10.0 "
        "percentage points).",
        "Best at recognising 2 kinds of unknown inputs, on average: duq (AUROC 0.895); worst: "
        "plain (AUROC 0.550).",
        "On noise, however, plain is best: AUROC 0.900 against 0.800 of duq.",
        "Confidence provably → 1 far away along every direction tried: plain.",
        "Provably uncertain far away along every direction tried: duq.",
    ]


def test_equals_are_not_ranked():
    pair = (("a", an_evaluation({"noise": 0.9})), ("b", an_evaluation({"noise": 0.9})))
    assert (
        standings(ReportContext(pair))["digits, 1,000 inputs"][0]
        == "Highest accuracy on digits: a and b, all equal (95.0 %)."
    )


def test_models_on_different_data_are_not_ranked():
    pair = (
        ("a", an_evaluation({"noise": 0.9})),
        ("b", an_evaluation({"noise": 0.9}, known="iris")),
    )
    assert standings(ReportContext(pair)) == {}


def test_runs_of_one_name_are_one_model():
    pair = (("a", an_evaluation({"noise": 0.9})), ("a", an_evaluation({"noise": 0.7})))
    assert standings(ReportContext(pair)) == {}


def test_each_data_set_has_standings_of_its_own():
    pairs = [
        (f"{data}/{name}", an_evaluation({"noise": 0.9}, known=data))
        for data in ("digits", "moons")
        for name in ("a", "b")
    ]
    audits = [
        (f"{data}/{name}", an_audit(law))
        for data in ("moons", "digits")
        for name, law in (("a", "affine"), ("b", "kernels"))
    ]
    others = [("x", an_audit()), ("y", an_audit())]
    found = standings(ReportContext((*pairs, *audits, *others)))
    assert list(found) == ["digits, 1,000 inputs", "moons, 1,000 inputs", "Far away"]
    assert found["moons, 1,000 inputs"][0].startswith(
        "Highest accuracy on moons: moons/a and moons/b, all equal"
    )
    assert (
        found["moons, 1,000 inputs"][-1]
        == "Provably uncertain far away along every direction tried: moons/b."
    )
    assert "digits" not in " ".join(found["moons, 1,000 inputs"])
    assert found["Far away"] == [
        "Confidence provably → 1 far away along every direction tried: x and y."
    ]
