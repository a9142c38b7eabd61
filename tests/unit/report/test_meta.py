import io

import pytest
from rich.console import Console

from nescio.errors import NescioError
from nescio.records import MetaWeights, Provenance
from nescio.report.figures import save_figure
from nescio.report.meta import nonzero_weights, weights_figure, weights_table


def record(weights=(0.0, -0.5, 2.0), kind="lasso"):
    return MetaWeights(
        kind,
        ("all/l1", "conv1/l2", "entropy"),
        weights,
        0.1,
        90,
        8,
        {"uniform": 20},
        Provenance.now(0, {}, 0.1),
    )


def test_what_counts_comes_by_weight():
    assert nonzero_weights(record()) == {"entropy": 2.0, "conv1/l2": -0.5}


def test_the_table_says_what_it_was_learned_from():
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(weights_table(record()))
    said = console.export_text()
    assert (
        "lasso: 2 of 3 features have a weight; learned from 90 correct and 8 wrong answers, 20 of "
        "uniform" in said
    )
    assert said.index("+2.000") < said.index("-0.500")
    assert "all/l1" not in said


def test_the_figure_has_a_bar_for_each(tmp_path):
    figure = weights_figure(record())
    assert [bar.get_width() for bar in figure.axes[0].patches] == [2.0, -0.5]
    assert len(weights_figure(record(), most=1).axes[0].patches) == 1
    save_figure(
        weights_figure(record((0.0, 0.0, 0.0))), tmp_path / "none.svg"
    )  # nothing counts: still a figure


def test_a_network_has_no_such_weights():
    with pytest.raises(NescioError, match="no single weight"):
        nonzero_weights(record(None, "nn"))
    with pytest.raises(NescioError, match="got None"):
        nonzero_weights(None)
