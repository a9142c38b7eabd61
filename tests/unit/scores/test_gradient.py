"""Features and scores of the gradient: names, values, and where data may come from."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nescio
from nescio.core.weight_gradients import STATISTICS
from nescio.errors import NescioError
from nescio.methods import Softmax
from nescio.models import lenet, mlp
from nescio.scores import (
    GRADIENT,
    entropy,
    gradient_features,
    gradient_l2,
    max_prob,
    score_specs,
    scores_of,
)
from single_gradients import assert_exact, entries, ready, statistics_of, used_layers

LAYERS = ["linear1", "linear2", "all"]
NAMES = tuple(
    f"{layer}/{name}"
    for layer in LAYERS
    for name in STATISTICS
    if (layer, name) != ("linear2", "mean")
)


@pytest.fixture
def net(seed):
    torch.manual_seed(seed)
    return ready(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4)), seed)


@pytest.fixture
def x(seed):
    return torch.randn(11, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_there_is_a_column_for_each_statistic_of_each_layer(net, x):
    features = gradient_features(net, x)
    assert features.names == (*NAMES, "entropy", "max_prob")
    assert features.values.shape == (11, 25)
    assert features.values.dtype == torch.float64
    assert not features.values.requires_grad
    assert gradient_features(net, x, log=True).names == features.names


def test_columns_are_the_papers_statistics(net, x):
    assert_exact(net, x)


def test_entropy_and_largest_probability_come_along(net, x):
    values, names = gradient_features(net, x)
    logits = nescio.predict(net, x)
    torch.testing.assert_close(
        values[:, names.index("entropy")], entropy(logits), rtol=1e-12, atol=0
    )
    torch.testing.assert_close(
        values[:, names.index("max_prob")], max_prob(logits), rtol=1e-12, atol=0
    )


def test_what_log_means(net, x):
    """Sizes by their logarithm, the mean over the root mean square, skewness by its asinh."""
    values, names = gradient_features(net, x, log=True)
    layers = used_layers(net, x)
    for number, one in enumerate(x.split(1)):
        for layer, row in entries(net, one, layers).items():
            plain = statistics_of(row)
            wanted = {
                **{name: math.log(plain[name]) for name in ("l1", "l2", "max", "std", "kurtosis")},
                "min": math.log(-plain["min"]),
                "mean": plain["mean"] / math.sqrt((row**2).mean()),
                "skewness": math.asinh(plain["skewness"]),
            }
            for name, value in wanted.items():
                if (layer, name) != ("linear2", "mean"):
                    found = values[number, names.index(f"{layer}/{name}")].item()
                    np.testing.assert_allclose(
                        found, value, rtol=1e-9, atol=1e-12, err_msg=f"{layer}/{name}"
                    )
    doubt = entropy(nescio.predict(net, x)).log()
    torch.testing.assert_close(values[:, names.index("entropy")], doubt, rtol=1e-9, atol=1e-12)


def test_the_mean_that_must_be_zero_is_left_out(net, x):
    assert "linear2/mean" not in gradient_features(net, x).names
    assert "linear2/mean" not in gradient_features(net, x, "linear2").names
    assert "linear1/mean" in gradient_features(net, x, "linear1").names
    features = nn.Sequential(net, nn.Tanh())  # a layer whose output is not the logits
    assert "linear2/mean" in gradient_features(features, x).names


def test_layers_are_chosen_by_name(net, x):
    whole = gradient_features(net, x)
    for layers in (
        ["linear1"],
        ["all"],
        ["all", "linear2"],
        ["linear2", "linear1"],
        ["linear1", "linear1"],
    ):
        some = gradient_features(net, x, layers)
        assert some.names == tuple(
            n for n in whole.names if n.partition("/")[0] in (*layers, "entropy", "max_prob")
        )
        assert torch.equal(
            some.values, whole.values[:, [whole.names.index(name) for name in some.names]]
        )
    assert torch.equal(
        gradient_features(net, x, "all").values, gradient_features(net, x, ["all"]).values
    )


def test_no_layers_leave_the_output(net, x):
    assert gradient_features(net, x, []).names == ("entropy", "max_prob")


def test_a_wrong_name_is_reported_with_those_there_are(net, x):
    with pytest.raises(NescioError, match=r"unknown layer 'linear3'.*Known: all, linear1, linear2"):
        gradient_features(net, x, ["linear1", "linear3"])
    for given in ([1], [None], 0, {"linear1": 1}):
        with pytest.raises(NescioError, match="layers must be names of layers"):
            gradient_features(net, x, given)


def test_batches_do_not_matter(seed):
    torch.manual_seed(seed)
    model = ready(lenet(3, size=8), seed)
    x = torch.randn(7, 1, 8, 8, dtype=torch.float64)
    whole = gradient_features(model, x, log=True)
    for size in (1, 2, 3, 7, 100):
        found = gradient_features(model, x, log=True, batch_size=size)
        assert found.names == whole.names
        torch.testing.assert_close(found.values, whole.values, rtol=1e-9, atol=1e-12)


def test_data_of_any_make(net, x):
    whole = gradient_features(net, x).values
    y = torch.arange(11) % 4
    for data in (
        x.numpy(),
        (x, y),
        TensorDataset(x),
        TensorDataset(x, y),
        DataLoader(TensorDataset(x, y), batch_size=4),
        [x[:5], x[5:]],
        (part for part in x.split(2)),
    ):
        torch.testing.assert_close(
            gradient_features(net, data, batch_size=3).values, whole, rtol=1e-9, atol=1e-12
        )


def test_named_data(seed):
    known = nescio.data.load("three_blobs")
    torch.manual_seed(seed)
    model = Softmax(mlp(2, 3, hidden=(8,)), normalise=known.normalise)
    features = gradient_features(model, known.test)
    assert len(features.values) == len(known.test)
    assert torch.equal(features.values, gradient_features(model, known.test.inputs).values)


def test_inputs_take_the_type_of_the_weights(net, x):
    found = gradient_features(net, x.float()).values
    assert torch.equal(found, gradient_features(net, x.float().double()).values)
    assert gradient_features(net.float(), x).values.dtype == torch.float64


def test_bad_inputs_are_reported(net, x):
    x[7, 2] = torch.nan
    with pytest.raises(NescioError, match="input 7 holds NaN"):
        gradient_features(net, x, batch_size=3)
    with pytest.raises(NescioError, match="cannot be run on a batch of shape"):
        gradient_features(net, torch.zeros(3, 5))
    with pytest.raises(NescioError, match="floating point"):
        gradient_features(net, torch.zeros(3, 6, dtype=torch.uint8))
    with pytest.raises(NescioError, match="the data are empty"):
        gradient_features(net, torch.zeros(0, 6))


def test_logits_that_are_no_numbers_are_reported(net, x):
    with torch.no_grad():
        net[-1].bias[0] = torch.inf
    with pytest.raises(NescioError, match="logits of 11 of 11 inputs are NaN, infinite"):
        gradient_features(net, x)


def test_what_is_no_model_is_reported(x):
    with pytest.raises(NescioError, match="Module, got a str"):
        gradient_features("net", x)
    with pytest.raises(NescioError, match="lazy modules"):
        gradient_features(nn.LazyLinear(3), x)
    with pytest.raises(NescioError, match="tensor of logits"):
        gradient_features(nn.LSTM(6, 4).double(), x)


class Fickle(nn.Module):
    """Uses its second layer for large batches alone."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 4), nn.Linear(4, 4)

    def forward(self, x):
        x = self.first(x)
        return self.second(x) if len(x) > 2 else x


def test_layers_that_come_and_go_are_reported(x):
    with pytest.raises(NescioError, match="different layers for some batches"):
        gradient_features(Fickle().double(), x, batch_size=3)


def test_a_score_is_a_column(net, x):
    values, names = gradient_features(net, x, log=True)
    for name, score in GRADIENT.items():
        for layer in ("linear1", "linear2", "all"):
            column = values[:, names.index(f"{layer}/{name.removeprefix('gradient_')}")]
            assert torch.equal(score(net, x, layer), column)
        assert torch.equal(score(net, x), column)
    assert torch.equal(gradient_l2(net, x, batch_size=11, progress=False), gradient_l2(net, x))


def test_scores_of_a_batch_come_in_the_order_asked_for(net, x):
    logits = nescio.predict(net, x)
    names = [
        "gradient_l2:linear1",
        "entropy",
        "gradient_max",
        "gradient_l2",
        "max_prob",
    ]
    twice = [*names, "gradient_l2:all", "gradient_l2(layer='all')"]  # of all layers, as it is
    found = scores_of(score_specs(twice), net, x, logits)
    assert list(found) == names
    assert torch.equal(found["gradient_l2:linear1"], gradient_l2(net, x, "linear1"))
    assert torch.equal(found["gradient_l2"], gradient_l2(net, x))
    assert torch.equal(found["entropy"], entropy(logits))
    with pytest.raises(NescioError, match="unknown layer 'conv1'"):
        scores_of(score_specs("gradient_l2:conv1"), net, x, logits)
