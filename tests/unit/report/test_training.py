"""The table and the figure of a sweep say what its record says."""

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from nescio.records import Provenance, Selection, Trial
from nescio.report.figures import COLOURS
from nescio.report.training import (
    CHOSEN,
    FAILED,
    selection_figure,
    selection_table,
    selection_words,
)

WRONG = "AUROC of right against wrong answers on validation data"


def trial(value, accuracy, auroc=None, failed=None):
    """One whose three seeds lie about their mean, or one that came to nothing."""
    accuracies = () if failed else (accuracy - 0.01, accuracy, accuracy + 0.01)
    aurocs = () if failed else (None,) * 3 if auroc is None else (auroc - 0.02, auroc, auroc + 0.02)
    return Trial(value, accuracy, auroc, accuracies, aurocs, failed, 2.0)


@pytest.fixture
def scales():
    trials = (
        trial(0.05, 0.9),
        trial(0.1, 0.92),
        trial(1.0, 0.8),
        trial(2.0, None, failed="the loss became [nan]"),
    )
    words = "validation accuracy at gradient penalty 0"
    return Selection(
        "duq", "length_scale", 0.1, words, "accuracy", 500, trials, Provenance.now(0, {}, 8.0)
    )


@pytest.fixture
def penalties():
    trials = trial(0.0, 0.93, 0.88), trial(0.1, 0.92, 0.91), trial(0.5, 0.9, 0.9), trial(1.0, 0.89)
    return Selection(
        "duq", "gradient_penalty", 0.1, WRONG, "auroc", 500, trials, Provenance.now(0, {}, 8.0)
    )


def lines(found, width=120):
    file = io.StringIO()
    Console(file=file, width=width).print(selection_table(found))
    return [" ".join(line.split()) for line in file.getvalue().splitlines() if line.strip()]


def test_the_table_has_a_row_for_each_trial(scales, penalties):
    assert lines(scales)[0] == "duq: length_scale by validation accuracy at gradient penalty 0"
    assert lines(scales)[1:3] == ["length_", "scale accuracy seconds remark"]
    assert lines(scales)[4:] == [
        "0.05 90.0% 2.000",
        "0.1 92.0% 2.000 chosen",
        "1 80.0% 2.000",
        "2 – 2.000 failed: the loss became [nan]",
    ]
    assert lines(penalties)[1:3] == ["gradient_", "penalty accuracy AUROC seconds remark"]
    assert lines(penalties)[4:] == [
        "0 93.0% 0.8800 2.000",
        "0.1 92.0% 0.9100 2.000 chosen",
        "0.5 90.0% 0.9000 2.000",
        "1 89.0% – 2.000 undefined: no wrong answer, or no correct one",
    ]


def test_the_verdict_says_what_and_why(scales, penalties):
    why = "length_scale 0.1 chosen: 92.0%, the best validation accuracy at gradient penalty 0"
    assert selection_words(scales) == f"{why} (500 inputs, 40 of them misclassified)"
    why = f"gradient_penalty 0.1 chosen: 0.9100, the best {WRONG}"
    assert selection_words(penalties) == f"{why} (500 inputs, 40 of them misclassified)"


def drawn(axes, colour, marker):
    """The points of markers of one kind, together."""
    found = [
        line.get_xydata()
        for line in axes.lines
        if line.get_marker() == marker and line.get_color() == colour
    ]
    return np.concatenate(found).tolist() if found else []


def test_the_figure_marks_what_was_chosen(scales):
    figure = selection_figure(scales)
    (axes,) = figure.axes
    places = np.log10([0.05, 0.1, 1.0, 2.0])
    assert drawn(axes, COLOURS[0], "o") == [
        [x, y] for x, y in zip(places, (0.9, 0.92, 0.8), strict=False)
    ]
    assert drawn(axes, CHOSEN, "o") == [[places[1], 0.92]]
    assert drawn(axes, FAILED, "x") == [[places[3], 0.05]]
    assert len(drawn(axes, COLOURS[0], ".")) == 9  # every seed
    words = [text.get_text() for text in axes.texts]
    assert words == ["failed", "92.0%"]
    assert axes.get_xticks().tolist() == pytest.approx(places)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.05", "0.1", "1", "2"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("length scale σ", "accuracy")
    assert figure.get_suptitle() == "duq: length scale σ = 0.1"
    assert (
        axes.get_title(loc="left")
        == "chosen by the validation accuracy at gradient penalty 0 (500 inputs, 3 seeds)"
    )


def test_accuracy_stands_beside_auroc(penalties):
    above, below = selection_figure(penalties).axes
    assert (above.get_ylabel(), below.get_ylabel()) == ("accuracy", "AUROC")
    assert [y for _, y in drawn(below, COLOURS[0], "o")] == [0.88, 0.91, 0.9]
    assert [y for _, y in drawn(above, "0.5", "o")] == [0.93, 0.92, 0.9, 0.89]
    assert [text.get_text() for text in below.texts] == ["undefined", "0.9100"]
    assert [label.get_text() for label in below.get_xticklabels()] == ["0", "0.1", "0.5", "1"]
    zero, first = drawn(below, COLOURS[0], "o")[:2]
    assert zero[0] < first[0]  # 0 has no place on a log axis, and stands beside it
    dotted = [line for line in below.lines if line.get_linestyle() == ":"]
    assert [line.get_xydata().tolist() for line in dotted] == [[zero, first]]


def test_labels_do_not_run_into_each_other(scales):
    trials = tuple(trial(value, 0.5) for value in (1e-4, 0.1, 0.11, 0.12, 100.0))
    axes = selection_figure(replace(scales, trials=trials, value=0.11)).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        "0.0001",
        "",
        "0.11",
        "",
        "100",
    ]


def test_one_candidate_and_one_seed_are_enough(penalties):
    alone = Trial(0.0, 0.9, 0.8, (0.9,), (0.8,), None, 1.0)
    above, below = selection_figure(replace(penalties, trials=(alone,), value=0.0)).axes
    assert drawn(below, COLOURS[0], ".") == []
    assert above.get_title(loc="left") == f"chosen by the {WRONG} (500 inputs)"


@pytest.mark.parametrize("name", ["$x_{$", r"$\frac{$", "a long name " * 20])
def test_any_name_of_unknown_data_can_be_drawn(penalties, name):
    figure = selection_figure(
        replace(penalties, criterion=f"AUROC of validation data against {name}")
    )
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=30)
    assert file.getvalue().startswith(b"\x89PNG")
    box = figure.axes[0].title.get_window_extent()
    assert box.x1 <= figure.bbox.x1
