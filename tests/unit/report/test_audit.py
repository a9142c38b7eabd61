"""The verdict, the table and the figure of an audit at infinity say what the record says."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from nescio.metrics.percent import percent
from nescio.records import Audit, Provenance, Ray, from_plain, to_plain
from nescio.report.audit import audit_figure, audit_tables, audit_words

RAY = Ray((1.0, 10.0, 100.0), (0.6, 0.7, 1.0), (0.5, 0.8, 1.0), (2.0, 30.0), 30.0, 60.0, None, 1.0)
PLAIN = Audit(
    method="softmax",
    law="affine",
    trials=10_000,
    classes=3,
    draws=1,
    drawn=False,
    low=(0.0,),
    high=(1.0,),
    certain=0.999,
    bold=0.95,
    eps=1e-3,
    ends_certain=1.0,
    ends_in=(6000, 0, 4000),
    end_confidence=(1.0,) * 5,
    reached=1.0,
    at_once=0.0,
    median_factor=6.12,
    factors=tuple(1 + step / 10 for step in range(101)),
    proved=1.0,
    overconfident=0.987,
    ends_unknown=None,
    unknown_factor=None,
    unknown_factors=None,
    unknown_exact=None,
    rays=(RAY,),
    provenance=Provenance.now(0, {}, 1.0),
)
DUQ = replace(
    PLAIN,
    method="duq",
    confidence_kind="kernel",
    law="kernels",
    ends_certain=0.0,
    ends_in=None,
    end_confidence=(0.0,) * 5,
    reached=0.2,
    median_factor=None,
    proved=0.0,
    factors=(1.0,) * 20 + (None,) * 81,
    ends_unknown=0.99996,
    unknown_factor=1.5,
    unknown_factors=(1.5,) * 101,
    unknown_exact=1.0,
    overconfident=0.0,
    rays=(
        replace(
            RAY, asymptote=None, breakpoints=None, start=None, certain_from=None, unknown_from=3.0
        ),
    ),
)


def test_the_verdict_of_a_plain_network():
    assert audit_words(PLAIN) == [
        "Along 100.0 % of 10,000 directions the confidence of this network provably → 1 as the "
        "input "
        "is scaled; the median input must be scaled 6.12 times for a confidence of 99.9 %.",
        "Scaled that far and projected back into the box of the data, 98.7 % of the inputs are "
        "answered with a "
        "confidence above 95.0 %.",
    ]


def test_points_that_were_drawn_are_not_called_inputs():
    words = " ".join(audit_words(replace(PLAIN, drawn=True)))
    assert words.startswith(
        "Along 100.0 % of 10,000 directions, through random points in the box of the data, the "
        "confidence of this network provably → 1 as the input is scaled; the median point"
    )
    assert "98.7 % of the points are answered" in words
    kernels = " ".join(audit_words(replace(DUQ, drawn=True)))
    assert "the median point does so" in kernels
    figure = audit_figure(replace(PLAIN, drawn=True))
    assert (
        figure.get_suptitle()
        == "softmax: 10,000 points drawn in the box of the data, scaled to infinity"
    )
    assert figure.axes[1].get_ylabel() == "fraction of points"
    assert "inputs" not in words + kernels + "".join(
        axes.get_title(loc="left") for axes in figure.axes
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"proved": 0.0}, "for a confidence of 99.9 % (measured)."),
        ({"proved": 0.5}, "(50.0 % of the factors are proved, the others measured)"),
        (
            {"median_factor": 1.0, "at_once": 0.6},
            "60.0 % of the inputs have a confidence of 99.9 % unscaled",
        ),
        (
            {"median_factor": None, "reached": 0.25},
            "the median input never reaches a confidence of 99.9 %, but 25.0 %",
        ),
        (
            {"median_factor": None, "reached": 0.0},
            "never reaches a confidence of 99.9 %, nor does any other",
        ),
        (
            {"median_factor": None, "reached": 0.0, "proved": 0.0},
            "was not observed to reach a confidence of 99.9 %, nor",
        ),
        (
            {"proved": 0.03, "budget": 60.0, "unfollowed": 9700},
            "Factors proved: 300; measured: 9,700. A budget of more than 60 s proves more.",
        ),
        ({"median_factor": 17782.8}, "scaled 17,800 times"),
        ({"ends_certain": 0.99999}, "Along >99.9 % of"),
        (
            {"ends_certain": 0.9, "end_confidence": (0.6, 0.9, 1.0, 1.0, 1.0)},
            "in the limit is at least 60.0 %",
        ),
        ({"ends_certain": 0.9, "draws": 5}, "Its 5 samples need not agree there"),
    ],
)
def test_other_verdicts(change, said):
    assert said in " ".join(audit_words(replace(PLAIN, **change)))


def test_inputs_projected_at_many_factors_have_a_sentence_of_their_own():
    for reached in (0.0, 1.0):
        words = audit_words(replace(PLAIN, reached=reached, ever_overconfident=0.995))
        assert words[-1] == (
            "At one factor or another, 99.5 % of the inputs are answered with a confidence above "
            "95.0 % when projected back into the box of the data."
        )


def test_without_a_box_nothing_is_projected():
    assert len(audit_words(replace(PLAIN, overconfident=None))) == 1
    assert (
        len(audit_words(replace(PLAIN, reached=0.0, median_factor=None))) == 1
    )  # nor where none was scaled


def test_the_verdict_of_kernels():
    first, second, _ = audit_words(DUQ)
    assert first == (
        "Along >99.9 % of 10,000 directions this network provably ends uncertain, with a "
        "confidence "
        "below 0.1 %; the median input does so when scaled 1.50 times or more."
    )
    assert second == (
        "Before that, the median input was not observed to reach a confidence of 99.9 %, but 20.0 "
        "% of "
        "them do."
    )
    softmax = replace(DUQ, method="rbf", confidence_kind="softmax")
    first, *_ = audit_words(replace(softmax, unknown_exact=0.0, unknown_factor=1.0))
    assert (
        "every probability within 0.1 % of 1/3; the median input does so unscaled and at any "
        "larger factor at the latest." in first
    )
    first, *_ = audit_words(replace(DUQ, unknown_factor=None, ends_unknown=0.3))
    assert first.endswith(
        "30.0 % of 10,000 directions this network provably ends uncertain, with a confidence "
        "below 0.1 %."
    )


def test_the_verdict_of_kernels_follows_their_confidence_not_the_name_of_their_method():
    assert audit_words(replace(DUQ, method="a_duq_of_mine")) == audit_words(DUQ)
    assert "1/3" in audit_words(replace(DUQ, confidence_kind="softmax"))[0]
    old = {key: value for key, value in to_plain(DUQ).items() if key != "confidence_kind"}
    first = audit_words(from_plain(Audit, old, "audit"))[0]  # a record that does not say it
    assert "ends uncertain, with a confidence at most 0.1 % above its least; the" in first


def test_the_verdict_of_what_only_was_measured():
    first, second, _ = audit_words(
        replace(
            PLAIN, law="unknown", ends_certain=None, ends_in=None, end_confidence=None, proved=0.0
        )
    )
    assert "nothing is proved" in first
    assert second.startswith("As far as measured, the median input must be scaled 6.12 times")


def test_shares_that_are_not_all_are_never_said_to_be():
    assert [percent(value) for value in (0.0, 1e-9, 0.0004, 0.001, 0.5, 0.9996, 1.0)] == [
        "0.0 %",
        "<0.1 %",
        "<0.1 %",
        "0.1 %",
        "50.0 %",
        ">99.9 %",
        "100.0 %",
    ]


def printed(record, classes=()):
    file = io.StringIO()
    Console(file=file, width=100).print(audit_tables(record, classes))
    return file.getvalue()


def test_the_table_tells_where_rays_end():
    text = printed(PLAIN, ("cat", "dog", "[b]eel"))
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert rows.index("cat 6000 60.0%") < rows.index("[b]eel 4000 40.0%")
    assert "dog" not in text
    many = printed(
        replace(PLAIN, classes=14, ends_in=(3000, 2000, 1000, *[500] * 6, 100, 400, 300, 200, 0))
    )
    assert "3 others" in many
    assert "10.0%" in many
    assert "rays end certain" not in printed(DUQ)


def test_the_figure_draws_what_happens_on_a_ray():
    figure = audit_figure(PLAIN)
    left, right = figure.axes
    curve = left.lines[0]
    assert list(curve.get_ydata()) == [0.6, 0.7, 1.0]
    marks = {
        line.get_marker(): line.get_xdata()[0]
        for line in left.lines
        if line.get_marker() != "None" and len(line.get_xdata())
    }
    assert (marks["|"], marks["^"]) == (30.0, 60.0)
    assert next(list(line.get_xdata()) for line in left.lines if line.get_marker() == ".") == [
        2.0,
        30.0,
    ]
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {
        "breakpoint: the affine map changes",
        "certain for the first time",
        "one affine map from here on",
        "the affine map at infinity",
        "fraction certain (99.9 %)",
    }
    steps = right.lines[0]
    assert steps.get_xdata()[50] == PLAIN.factors[50]
    assert steps.get_ydata()[50] == 0.5


def test_the_figure_of_kernels_has_a_second_curve():
    figure = audit_figure(DUQ)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[-2:] == ["fraction certain (99.9 %)", "fraction uncertain from there on"]
    assert max(figure.axes[1].lines[0].get_ydata()) == pytest.approx(
        0.19
    )  # 20 of 101 percentiles are reached
    audit_figure(replace(PLAIN, rays=(), factors=(None,) * 101))  # nothing to draw is no error
