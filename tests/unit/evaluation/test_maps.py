"""Maps of the plane, against one point at a time and against differences."""

from copy import deepcopy
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import nescio
from nescio.core.attacks import Attack, attack
from nescio.data import Known, Samples
from nescio.errors import NescioError
from nescio.evaluation.maps import (
    MAX_POINTS,
    METHOD_SETTINGS,
    check_compared,
    small_model,
    trained_map,
    uncertainty_map,
)
from nescio.methods import METHODS, Ensemble, MCDropout, Softmax, method_for
from nescio.models import mlp
from nescio.records import Map
from nescio.scores import OF_LOGITS, natural, natural_name, usual_scores
from nescio.seeds import derived_seed
from nescio.training.train import train as train_model


@pytest.fixture(scope="module")
def known():
    return nescio.data.load("three_blobs")


@pytest.fixture
def several(known, seed):
    """Three networks that disagree, in float64 so that `predict` has the digits of a map."""
    torch.manual_seed(seed)
    return Ensemble(
        lambda: mlp(2, 3, hidden=(16,)), members=3, normalise=deepcopy(known.normalise)
    ).double()


def points_of(found):
    return torch.tensor([(x, y) for y in found.y for x in found.x], dtype=torch.float64)


def flat(rows):
    return torch.tensor(rows, dtype=torch.float64).flatten()


def test_values_are_the_scores_at_the_grid_points(known, several):
    found = uncertainty_map(several, known, width=2.0, resolution=7, batch_size=10)
    logits = nescio.predict(several, points_of(found))
    assert [surface.name for surface in found.scores] == list(OF_LOGITS)
    for surface in found.scores:
        expected = natural(surface.name, OF_LOGITS[surface.name](logits))
        torch.testing.assert_close(flat(surface.values), expected, rtol=1e-4, atol=1e-300)
        assert surface.label == natural_name(surface.name)
    torch.testing.assert_close(
        flat(found.confidence.values), several.confidence(logits), rtol=1e-4, atol=0
    )
    torch.testing.assert_close(
        flat(found.confidence.values), 1 - flat(found.scores[0].values), rtol=0, atol=2e-5
    )


def test_slopes_are_norms_of_differences(known, several):
    found = uncertainty_map(several, known, ["entropy", "max_prob", "variance"], resolution=6)
    grid, step = points_of(found), 1e-5
    for surface in (*found.scores, found.confidence):

        def value(x, name=surface.name):
            logits = nescio.predict(several, x)
            return (
                several.confidence(logits)
                if name == "confidence"
                else natural(name, OF_LOGITS[name](logits))
            )

        moves = step * torch.eye(2, dtype=torch.float64)
        gradient = torch.stack(
            [(value(grid + move) - value(grid - move)) / (2 * step) for move in moves]
        )
        torch.testing.assert_close(flat(surface.slopes), gradient.norm(dim=0), rtol=1e-3, atol=1e-8)


def test_the_square_stands_around_the_data(known):
    found = uncertainty_map(Softmax(mlp(2, 3)), known, "entropy", width=3, resolution=5)
    low, high = known.train.inputs.amin(0), known.train.inputs.amax(0)
    side = 3 * float((high - low).max())
    for axis, middle in zip((found.x, found.y), ((low + high) / 2).tolist(), strict=True):
        assert axis[-1] - axis[0] == pytest.approx(side)
        assert axis[2] == pytest.approx(middle, abs=1e-6)
    assert len(found.scores[0].values) == len(found.scores[0].values[0]) == 5


@pytest.mark.parametrize("width", [3, np.float32(3), np.int64(3), Fraction(3)])
def test_the_width_is_a_number_of_any_make(known, width):
    net = mlp(2, 3)
    found = uncertainty_map(net, known, "entropy", width=width, resolution=5)
    assert found.x == uncertainty_map(net, known, "entropy", width=3.0, resolution=5).x
    assert found.provenance.settings["width"] == 3.0
    assert Map.from_json(found.to_json()) == found


def test_points_that_are_all_one_have_a_square_of_their_own():
    part = Samples(torch.tensor([[2.0, 5.0]] * 4), torch.tensor([0, 1, 0, 1]))
    found = uncertainty_map(
        mlp(2, 2), Known("one", part, part, ("a", "b"), None, "tabular"), width=3.0, resolution=3
    )
    assert (found.x, found.y) == ((0.5, 2.0, 3.5), (3.5, 5.0, 6.5))


def test_numbers_are_rounded_and_survive_json(known, several):
    found = uncertainty_map(several, known, resolution=4)
    for surface in found.scores:
        assert all(
            value == float(f"{value:.5g}")
            for row in (*surface.values, *surface.slopes)
            for value in row
        )
    assert Map.from_json(found.to_json()) == found


def test_facts_of_the_map(known, several):
    found = uncertainty_map(several, known, ["margin"], resolution=3, seed=5)
    assert (found.method, found.data, found.draws, found.classes) == (
        "ensemble",
        "three_blobs",
        3,
        known.classes,
    )
    assert found.features == ("x", "y")
    assert found.provenance.seed == 5
    assert uncertainty_map(several, known, ["margin", "margin"], resolution=2).scores[1:] == ()
    assert found.provenance.settings == {
        "scores": ["margin"],
        "width": 4.0,
        "resolution": 3,
        "batch_size": 1024,
    }
    assert len(found.points.x) == len(found.points.y) == len(found.points.labels) == MAX_POINTS
    assert set(found.points.labels) == {0, 1, 2}
    assert set(zip(found.points.x, found.points.y, strict=True)) <= set(
        map(tuple, known.train.inputs.tolist())
    )


def test_few_or_sorted_points_show_every_class():
    inputs, labels = torch.randn(2000, 2), torch.arange(2000) // 1000
    for chosen in (slice(None), slice(998, 1002)):
        part = Samples(inputs[chosen], labels[chosen], name="sorted")
        found = uncertainty_map(
            mlp(2, 2), Known("sorted", part, part, ("a", "b"), None, "tabular"), resolution=2
        )
        assert set(found.points.labels) == {0, 1}
        assert len(found.points.x) == min(MAX_POINTS, len(part))


def test_scores_that_compare_draws_are_left_out_for_one(known):
    net = Softmax(mlp(2, 3))
    assert [surface.name for surface in uncertainty_map(net, known, resolution=2).scores] == list(
        map(str, usual_scores(1))
    )
    assert [
        one.name
        for one in uncertainty_map(net, known, ["variance", "entropy"], resolution=2).scores
    ] == ["entropy"]


def test_methods_say_whether_they_draw(known):
    for name, method in METHODS.items():
        own = {"centres": torch.zeros(1, 2), "gamma": 1.0} if name == "rbf" else {}
        net = method_for(name, partial(mlp, 2, hidden=(8,), dropout=0.5), 3, **own)
        assert method.sampled == (uncertainty_map(net, known, "entropy", resolution=2).draws > 1), (
            name
        )


def test_scores_that_no_method_could_have_are_reported():
    with pytest.raises(
        NescioError, match=r"variance compares draws, but softmax gives one; expected another"
    ):
        check_compared(["softmax"], ["variance"])
    check_compared(["softmax", "anchored"], ["variance"])
    check_compared(["softmax"], ["variance", "entropy"])
    check_compared(["softmax"], [])


def test_draws_follow_from_the_seed(known, seed):
    torch.manual_seed(seed)
    net = MCDropout(mlp(2, 3, (8,), 0.5), samples=4).double()
    found = uncertainty_map(net, known, ["entropy", "variance"], resolution=5, seed=seed + 5)
    logits = nescio.predict(net, points_of(found), seed=seed + 5)
    for surface in found.scores:
        expected = natural(surface.name, OF_LOGITS[surface.name](logits))
        torch.testing.assert_close(flat(surface.values), expected, rtol=1e-4, atol=1e-12)


class Edge(nn.Linear):
    """Numbers for logits, but with a root of 0 on their way, whose slope is infinite."""

    def forward(self, x):
        return super().forward(x) + (x * 0).sqrt().sum(1, keepdim=True)


def test_slopes_that_are_no_numbers_are_reported(known):
    message = "entropy, or its gradient in the input, is NaN or infinite for 9 of 9 inputs"
    with pytest.raises(NescioError, match=message):
        uncertainty_map(Edge(2, 3), known, ["entropy"], resolution=3)


@pytest.mark.parametrize("classes", [2, 4])
def test_a_network_of_other_classes_is_reported(known, classes):
    with pytest.raises(NescioError, match=f"logits of {classes} classes, but three_blobs has 3"):
        uncertainty_map(mlp(2, classes), known, resolution=2)


def test_the_model_is_left_as_found(known):
    net = Softmax(mlp(2, 3, dropout=0.5))
    random = torch.random.get_rng_state()
    uncertainty_map(net, known, resolution=2)
    assert net.training
    assert all(weight.dtype == torch.float32 and weight.grad is None for weight in net.parameters())
    assert torch.equal(random, torch.random.get_rng_state())


@pytest.mark.parametrize("name", ["iris", "digits"])
def test_only_the_plane_can_be_mapped(name):
    other = nescio.data.load(name)
    with pytest.raises(
        NescioError, match=rf"two features; those of {name} have shape \({other.shape[0]}, ?"
    ):
        uncertainty_map(nn.Linear(4, 3), other)
    with pytest.raises(NescioError, match="two features"):
        trained_map("softmax", other)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"scores": ["entropi"]}, "did you mean 'entropy'"),
        ({"scores": 3}, "scores must be names"),
        ({"resolution": 1}, "resolution must be an int ≥ 2, got 1"),
        ({"resolution": 2.5}, "resolution must be"),
        ({"width": 0}, r"width must be a number from 1e-100 to 1e\+100, got 0"),
        ({"width": float("nan")}, r"width must be a number from 1e-100 to 1e\+100, got nan"),
        ({"width": float("inf")}, "100, got inf"),
        ({"width": "wide"}, "100, got 'wide'"),
        ({"width": True}, "100, got True"),
        ({"width": np.True_}, "100, got "),
        ({"width": 10**400}, "100, got 1000"),
        (
            {"width": 1e-20},
            "width=1e-20 gives no 120 distinct numbers along each side around data from",
        ),
        (
            {"resolution": 2001},
            "resolution must be an int ≥ 2 and < 2001, got 2001",
        ),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_arguments_are_reported_before_any_training(known, monkeypatch, arguments, words):
    with pytest.raises(NescioError, match=words):
        uncertainty_map(mlp(2, 3), known, **arguments)
    monkeypatch.setattr(
        "nescio.evaluation.maps.train_model", lambda *_, **__: pytest.fail("trained")
    )
    with pytest.raises(NescioError, match=words):
        trained_map("softmax", known, **arguments)


def test_bad_data_are_reported(known):
    with pytest.raises(NescioError, match="load returns, got Samples"):
        uncertainty_map(mlp(2, 3), known.train)
    with pytest.raises(NescioError, match="three_blobs has only a test part"):
        uncertainty_map(mlp(2, 3), replace(known, train=None))
    inputs = known.train.inputs.clone()
    inputs[7, 1] = torch.nan
    with pytest.raises(NescioError, match="input 7 holds NaN"):
        uncertainty_map(mlp(2, 3), replace(known, train=Samples(inputs, known.train.labels)))
    with pytest.raises(NescioError, match=r"must be a torch\.nn\.Module"):
        uncertainty_map("softmax", known)


def test_a_trained_map_follows_from_its_seed(known):
    a, b, c = (
        trained_map("ensemble", known, ["entropy"], epochs=1, resolution=4, seed=seed)
        for seed in (0, 0, 1)
    )
    assert a.scores == b.scores != c.scores
    assert a.provenance.settings["training"]["epochs"] == 1
    assert a.provenance.settings["hidden"] == [25, 25, 25]
    assert a.provenance.settings["own"] == {}
    assert Map.from_json(a.to_json()) == a
    with pytest.raises(NescioError, match="unknown method 'ensembel'; did you mean 'ensemble'"):
        trained_map("ensembel", known)


@pytest.mark.parametrize(("method", "dropout"), [("mc_dropout", 0.2), ("softmax", 0.0)])
def test_a_trained_map_is_that_of_a_network_trained_by_hand(known, seed, method, dropout):
    torch.manual_seed(seed + 99)  # what came before does not matter
    found = trained_map(method, known, ["entropy"], epochs=2, resolution=4, seed=seed + 3)
    with torch.random.fork_rng():
        torch.manual_seed(derived_seed(seed + 3, "weights", 0))
        model = METHODS[method](
            mlp(2, 3, (25, 25, 25), dropout), normalise=deepcopy(known.normalise)
        )
    train_model(model, known.train, epochs=2, batch_size=64, seed=seed + 3)
    expected = uncertainty_map(model, known, ["entropy"], resolution=4, seed=seed + 3)
    assert (found.scores, found.confidence) == (expected.scores, expected.confidence)
    assert found.provenance.settings["dropout"] == dropout
    assert found.provenance.seed == seed + 3


def test_far_away_a_softmax_is_certain_and_notices_nothing(known):
    """What paper 1's first figure shows: white, open-ended regions, and a dark band between
    them.
    """
    found = trained_map("softmax", known, ["entropy"], epochs=30, width=8.0, resolution=40)
    entropy, slopes = (
        flat(rows).reshape(40, 40) for rows in (found.scores[0].values, found.scores[0].slopes)
    )
    edge = torch.ones(40, 40, dtype=torch.bool)
    edge[1:-1, 1:-1] = False
    assert entropy[edge].median() < 1e-6
    assert slopes[edge].median() < 1e-6
    assert entropy.max() > 0.5


def test_acet_says_which_settings_it_has_in_the_plane(known):
    few = replace(known, train=known.train.select(torch.arange(32)))
    assert (
        trained_map("acet", few, ["entropy"], epochs=1, resolution=2).provenance.settings["own"]
        == METHOD_SETTINGS["acet"]
    )
    settings = small_model("acet", few, epochs=1)[0].settings()
    assert (
        (settings["eps"], settings["steps"]) == tuple(METHOD_SETTINGS["acet"].values()) == (0.5, 3)
    )


@pytest.mark.slow
def test_noise_teaches_doubt_away_from_two_moons(seed):
    """The contrast of plain, CEDA and ACET in the plane: certain of the moons, but away from them
    only plain.

    Each step of the attack is projected onto its ball, as paper 2 says; in the notebook of its
    authors none has effect.
    """
    moons = nescio.data.load("two_moons")
    x = moons.train.inputs
    low, high = x.amin(0), x.amax(0)
    draws = torch.rand(2000, 2, generator=torch.Generator().manual_seed(seed))
    box = (low + high) / 2 + 3 * (high - low) * (draws - 0.5)
    away = box[
        torch.cdist(box, x).amin(1) > 1.5
    ]  # from where the attack does not come near the moons
    how = Attack(eps=0.5, steps=40, step_size=0.05)  # in standard deviations
    there, calm, worst = {}, {}, {}
    for name in ("softmax", "ceda", "acet"):
        model, _ = small_model(name, moons, seed=seed)
        there[name] = float(model.confidence(nescio.predict(model, moons.test)).mean())
        calm[name] = float(model.confidence(nescio.predict(model, away)).mean())
        worst[name] = float(
            attack(model, away, how, box=None, scale=x.std(0), seed=seed).objective.max().exp()
        )
    assert min(there.values()) > 0.75
    assert calm["acet"] < calm["ceda"] < 0.6  # one half is the least
    assert worst["acet"] < worst["ceda"] < 0.8
    assert calm["softmax"] > 0.9


@pytest.mark.parametrize("make", [tuple, list, np.array])
def test_a_window_is_mapped_from_end_to_end(known, several, make):
    found = uncertainty_map(
        several, known, "entropy", window=make([(-2.5, 3.5), (-3, 4)]), resolution=3
    )
    assert (found.x, found.y) == ((-2.5, 0.5, 3.5), (-3.0, 0.5, 4.0))
    expected = natural("entropy", OF_LOGITS["entropy"](nescio.predict(several, points_of(found))))
    torch.testing.assert_close(flat(found.scores[0].values), expected, rtol=1e-4, atol=1e-300)
    assert found.provenance.settings["window"] == [[-2.5, 3.5], [-3.0, 4.0]]
    assert "width" not in found.provenance.settings
    assert Map.from_json(found.to_json()) == found


@pytest.mark.parametrize(
    ("window", "words"),
    [
        (3, r"must be \(\(left, right\), \(bottom, top\)\) .*, got 3"),
        ((0, 1), "with left < right and bottom < top"),
        (((0, 1),), "left < right"),
        (((1, 0), (0, 1)), "left < right"),
        (((0, 1), (2, 2)), "bottom < top"),
        (((0, float("nan")), (0, 1)), "an end of the window must be a number from .* got nan"),
        (((0, 1), ("low", 1)), "an end of the window must be a number from .* got 'low'"),
        (((1, 1 + 1e-15), (0, 1)), "window=.* gives no 120 distinct numbers along each side"),
    ],
)
def test_what_is_no_window_is_reported(known, window, words):
    with pytest.raises(NescioError, match=words):
        uncertainty_map(mlp(2, 3), known, window=window)


@pytest.mark.parametrize("data", ["two_moons", "three_blobs"])
def test_duq_is_certain_on_its_data_and_not_far_away(data):
    """With its defaults, on the rim of a map that other methods are certain of."""
    found = trained_map("duq", nescio.data.load(data), ["max_logit"], resolution=41)
    confidence = np.array(found.confidence.values)
    edge = np.concatenate([confidence[0], confidence[-1], confidence[:, 0], confidence[:, -1]])
    x, y = np.array(found.points.x), np.array(found.points.y)
    on_data = confidence[np.searchsorted(found.y, y), np.searchsorted(found.x, x)]
    assert np.median(on_data) > 0.8
    assert edge.mean() < 0.2
