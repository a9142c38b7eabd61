"""The reliability diagram shows the bins of a record, and nothing where a bin is empty."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import nescio
from nescio.data import Samples
from nescio.errors import NescioError
from nescio.report.calibration import reliability_figure


class FixedLogits(nn.Module):
    """A model whose logits are its inputs."""

    def forward(self, x):
        return x


@pytest.fixture
def record():
    # two classes; 0.6 of the first thrice, correct in two of three, and 0.9 twice, correct in both
    return evaluated([0.6, 0.6, 0.6, 0.9, 0.9] * 10, [0, 0, 1, 0, 0] * 10)


def evaluated(p, labels):
    p = torch.tensor(p, dtype=torch.float64)
    return nescio.evaluate(
        FixedLogits(), Samples(torch.stack([p.log(), (1 - p).log()], 1), torch.tensor(labels))
    )


def points(figure):
    return next(line.get_xydata() for line in figure.axes[0].lines if "ECE" in line.get_label())


def test_by_hand(record):
    found = record.known.reliability
    assert len(found.edges) == 16
    # 0.6 lies in ((8/15, 9/15], the ninth bin, and 0.9 in (13/15, 14/15]
    assert found.counts == (0,) * 8 + (30,) + (0,) * 4 + (20, 0)
    assert found.confidence[8] == pytest.approx(0.6)
    assert found.accuracy[8] == pytest.approx(2 / 3)
    assert found.confidence[13] == pytest.approx(0.9)
    assert found.accuracy[13] == 1.0
    assert [i for i, value in enumerate(found.accuracy) if value is not None] == [8, 13]
    assert record.known.ece == pytest.approx(3 / 5 * (2 / 3 - 0.6) + 2 / 5 * 0.1)
    assert type(record).from_json(record.to_json()) == record


def test_the_figure_has_a_point_for_each_bin_with_inputs(record):
    figure = reliability_figure(record)
    np.testing.assert_allclose(points(figure), [[0.6, 2 / 3], [0.9, 1.0]])
    heights = figure.axes[1].patches[0].get_data().values
    np.testing.assert_allclose(heights, np.array(record.known.reliability.counts) / 50)
    assert any("softmax: ECE 8.0 %" in line.get_label() for line in figure.axes[0].lines)


def test_bins_of_few_inputs_are_no_part_of_the_line():
    figure = reliability_figure(evaluated([0.6] * 9 + [0.9] * 10, [0] * 19))
    np.testing.assert_allclose(points(figure), [[0.9, 1.0]])
    faint = [line for line in figure.axes[0].lines if line.get_linestyle() == "None"]
    np.testing.assert_allclose([line.get_xydata() for line in faint], [[[0.6, 1.0]]])


def test_several_models_share_a_figure(record):
    figure = reliability_figure([record, replace(record, method="other")], names=["a_b", "$x"])
    labels = [line.get_label() for line in figure.axes[0].lines]
    assert [label.split(":")[0] for label in labels[1:]] == ["a_b", r"\$x"]
    figure.draw_without_rendering()


def test_what_has_no_bins_is_reported(record):
    old = replace(record, known=replace(record.known, reliability=None))
    with pytest.raises(NescioError, match="evaluations with bins of confidence"):
        reliability_figure([old])
    assert (
        len(reliability_figure([old, record]).axes[0].lines) == 2
    )  # the diagonal, and the one that has some
    with pytest.raises(NescioError, match="one for each of 1"):
        reliability_figure(record, names=["a", "b"])
