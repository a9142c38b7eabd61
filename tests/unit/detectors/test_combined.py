import math

import pytest
import torch
from torch import nn

import nescio
from feature_data import digits_model
from nescio import Combined, Threshold
from nescio.data import Samples
from nescio.data.batches import halves
from nescio.detectors.scorer import calibration_scores
from nescio.errors import NescioError
from nescio.guarantees.conformal import merged_p_value, p_values, surprise
from nescio.models import mlp


@pytest.fixture(scope="module")
def model():
    return digits_model(0)


@pytest.fixture(scope="module")
def axes():
    """A network whose two logits are its two inputs, so that scores have closed forms."""
    net = nn.Linear(2, 2, bias=False)
    net.load_state_dict({"weight": torch.eye(2)})
    return net


@pytest.mark.parametrize("members", [2, 5])
@pytest.mark.parametrize("correlation", [0.0, 0.9, 1.0])
def test_a_merged_p_value_is_small_no_more_often_than_it_says(members, correlation):
    """Of members that have nothing, much, and all to do with each other."""
    generator = torch.Generator().manual_seed(0)
    shared = torch.randn(200_000, generator=generator, dtype=torch.float64)
    own = torch.randn(members, 200_000, generator=generator, dtype=torch.float64)
    normal = correlation**0.5 * shared + (1 - correlation) ** 0.5 * own
    p = torch.special.ndtr(normal).clamp(1e-12, 1)
    found = merged_p_value(p)
    for level in (0.01, 0.05, 0.2, 0.5):
        spread = 4 * (level * (1 - level) / found.numel()) ** 0.5
        assert (found <= level).double().mean() <= level + spread


def test_a_merged_p_value_is_valid_under_the_worst_dependence():
    """P-values that are small together as often as can be: P(e·√(p₁ p₂) ≤ α) is near α, not above.

    If both are at most c, one mirrors the other: p₂ = c − p₁, so their product is below c² / 4.
    """
    u = (torch.arange(1_000_000, dtype=torch.float64) + 0.5) / 1_000_000
    for level in (0.01, 0.05, 0.2):
        c = 2 * level / math.e
        p = torch.stack([u, torch.where(u < c, c - u, u)]).clamp(min=1e-12)
        assert (p[1].sort().values - u).abs().max() < 1e-6  # uniform, too
        share = (merged_p_value(p) <= level).double().mean()
        assert 0.7 * level < share <= level


def test_merging_agrees_with_the_closed_form_and_refuses_what_is_no_p_value():
    p = torch.tensor([[0.001, 0.5, 1.0], [0.004, 0.5, 1.0]], dtype=torch.float64)
    torch.testing.assert_close(
        merged_p_value(p), torch.tensor([0.002 * math.e, 1.0, 1.0], dtype=torch.float64)
    )
    assert torch.equal(merged_p_value(p[:1]), p[0].log().exp())
    for bad in (
        torch.zeros(2, 3),
        torch.full((2, 3), 1.1),
        torch.ones(3),
        torch.ones(0, 3),
        torch.full((1, 1), -0.1),
    ):
        with pytest.raises(NescioError, match="p-values"):
            merged_p_value(bad)


def test_surprise_is_the_p_value_made_to_grow(seed):
    generator = torch.Generator().manual_seed(seed)
    held = (
        torch.randn(50, generator=generator, dtype=torch.float64).round(decimals=1).sort().values
    )  # with ties
    scores = torch.linspace(-6, 8, 1001, dtype=torch.float64)
    found, p = surprise(scores, held), p_values(scores, held)
    assert (found[scores >= held[0]].diff() > 0).all()
    assert (found[scores < held[0]] == 0).all()  # p = 1, however usual: it outvotes nobody
    inside = scores <= held[-1]
    assert (found[inside].neg().exp() >= p[inside] - 1e-12).all()  # never smaller, so no less valid
    torch.testing.assert_close(surprise(held, held).neg().exp(), p_values(held, held))
    steep = found[scores > held[-1]].diff() / scores.diff()[0]
    torch.testing.assert_close(steep, torch.full_like(steep, 1 / (held[-1] - held[25])))
    assert surprise(torch.tensor([torch.nan, torch.inf, 0.0]), held).isnan().tolist() == [
        True,
        True,
        False,
    ]
    alike = surprise(torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.full((9,), 2.0))
    assert alike[0] == alike[1] == 0
    assert (alike[1:].diff() > 0).all()


def test_a_member_that_finds_all_usual_does_not_silence_the_others(model, known):
    """Far away a softmax is surer than of what it knows; what is far from that stays unknown."""
    generator = torch.Generator().manual_seed(0)
    far = 1000 * torch.randn(100, 1, 8, 8, generator=generator)
    sure = nescio.Threshold(model, "max_prob").fit(known.test)
    assert (sure.predict(far) == -1).double().mean() < 0.1
    both = Combined(model, ["max_prob", "mahalanobis"]).fit(known.test, train=known.train)
    assert (both.predict(far) == -1).double().mean() > 0.9


@pytest.mark.parametrize(
    "members",
    [["max_logit", "energy"], pytest.param(["max_logit", "entropy"], marks=pytest.mark.slow)],
)
def test_both_p_values_of_known_inputs_hold_in_small_samples(axes, members):
    """Over many fits: of members that say nearly the same, and of members that differ."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(200):
        known, new = (torch.randn(n, 2, generator=generator) for n in (80, 200))
        detector = Combined(axes, members).fit(known, accept=0.9)
        found.append(torch.stack([detector.merged_p_value(new), detector.p_value(new)]))
    found = torch.stack(found)  # (fits, 2, new)
    for level in (0.05, 0.1, 0.3):
        share = (found <= level).double().mean(2)
        spread = 4 * share.std(0) / len(share) ** 0.5
        assert (share.mean(0) <= level + spread).all()
        assert (
            share[:, 1].mean() >= level - 1 / 40 - spread[1]
        )  # the second calibration wastes nothing


def test_nothing_is_calibrated_on_what_it_learned_from(model, known, monkeypatch):
    """Of known data a quarter teaches, a quarter gives p-values, and a half sets the threshold."""
    detector = Combined(model, ["energy", ("meta", {"kind": "glm", "features": ["all/l2"]})])
    noisy = Samples(
        known.test.inputs + 0.6 * torch.randn(known.test.inputs.shape), known.test.labels
    )
    seen = {"learned": [], "ranked": [], "calibrated": []}
    meta, learn = detector.members[1], detector.members[1].learn
    scores = detector._scores

    def learned(data):
        seen["learned"] += [x for x, _ in data]
        learn(data)

    def ranked(x, looked):
        seen["ranked" if not seen["calibrated"] else "scored"].append(x)
        return scores(x, looked)

    def calibrated(own, data, *how):
        seen["calibrated"] += [x for x, _ in data]
        seen["scored"] = []
        return calibration_scores(own, data, *how)

    meta.learn, detector._scores = learned, ranked
    monkeypatch.setattr("nescio.detectors.detector.calibration_scores", calibrated)
    detector.fit(noisy)
    parts = [torch.cat(seen[part]).flatten(1) for part in ("learned", "ranked", "calibrated")]
    rows = [{tuple(row) for row in part.tolist()} for part in parts]
    assert sum(map(len, rows)) == len(set.union(*rows))
    assert [round(4 * len(part) / len(noisy)) for part in rows] == [1, 1, 2]
    assert len(set.union(*rows)) == len(noisy)


def test_given_training_data_known_data_are_halved(model, known):
    """One half for p-values and one for the threshold, which has all if others give p-values."""
    n = len(known.test)
    detector = Combined(model, ["energy", "max_prob"]).fit(known.test, train=known.train)
    assert len(detector.calibration_) + len(detector.members[0].calibration_) == n
    first, second = halves(known.train)
    detector.fit(known.test, train=first, member_calibration=second)
    assert len(detector.calibration_) == n
    assert len(detector.members[1].calibration_) == sum(len(x) for x, _ in second)
    with pytest.raises(NescioError, match="train"):
        detector.fit(known.test, member_calibration=second)


def test_score_is_the_mean_surprise_of_its_members(model, known):
    detector = Combined(model, ["energy", "max_prob"]).fit(known.test)
    x = known.unseen
    expected = [
        surprise(Threshold(model, name).score(x), one.calibration_)
        for name, one in zip(("energy", "max_prob"), detector.members, strict=True)
    ]
    torch.testing.assert_close(detector.score(x), torch.stack(expected).mean(0))
    p = detector.member_p_values(x)
    for row, name, one in zip(p, ("energy", "max_prob"), detector.members, strict=True):
        assert torch.equal(row, p_values(Threshold(model, name).score(x), one.calibration_))
    torch.testing.assert_close(
        detector.merged_p_value(x), (math.e * (p[0] * p[1]).sqrt()).clamp(max=1)
    )
    assert detector.merged_p_value(x.take(slice(0, 3))[0][2]) == detector.merged_p_value(x)[2]


def test_ranking_survives_far_beyond_the_calibration_data(axes):
    """Where all p-values tie, what is farther stays odder."""
    known = torch.randn(80, 2, generator=torch.Generator().manual_seed(0))
    detector = Combined(axes, ["max_logit", "energy"]).fit(known)
    far = -torch.tensor([[10.0, 10.0], [100.0, 100.0], [1e4, 1e4]])
    assert detector.merged_p_value(far).unique().numel() == 1
    assert (detector.score(far).diff() > 0).all()


def test_runs_the_model_once_for_all_members(model, known):
    detector = Combined(model, ["energy", "max_prob", "entropy"]).fit(known.test)
    calls = []
    handle = model.register_forward_hook(lambda *_: calls.append(1))
    detector.score(known.test.take(slice(0, 100))[0])
    handle.remove()
    assert len(calls) == 1


def test_members_come_by_name_with_settings_or_made(model):
    detector = Combined(
        model, ["energy", ("threshold", {"score": "entropy"}), Threshold(model, "margin"), "meta"]
    )
    assert detector.member_names == ("energy", "entropy", "margin", "meta")
    assert detector.settings()["members"][1] == ["threshold", {"score": "entropy"}]
    assert all(one.model is model for one in detector.members)


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ([], "must be a list"),
        ("energy", "must be a list"),
        (["energi"], "did you mean 'energy'"),
        (["combined"], "not a combined one"),
        ([3], "must be the name"),
        ([("threshold", 3)], "must be the name"),
    ],
)
def test_refuses_members_that_are_none(model, members, what):
    with pytest.raises(NescioError, match=what):
        Combined(model, members)


def test_refuses_a_member_over_another_model(model, axes):
    with pytest.raises(NescioError, match="over another model"):
        Combined(model, [Threshold(axes)])


def test_a_model_that_draws_has_members_that_compare_draws(known):
    torch.manual_seed(0)
    model = nescio.methods.MCDropout(mlp(64, 7, dropout=0.2), samples=4)
    detector = Combined(model).fit(known.test)
    assert "mutual_information" in detector.member_names
    assert detector.score(known.unseen).isfinite().all()


def test_says_which_member_finds_it_most_unusual(model, known):
    detector = Combined(model, ["energy", "max_prob"]).fit(known.test)
    x = known.unseen.take(slice(0, 30))[0].clone()
    x[4] = torch.nan
    found = detector.explain(x)
    fine = [index for index in range(30) if index != 4]
    least, oddest = detector.member_p_values(x[fine]).min(0)
    for index, p, who in zip(fine, least.tolist(), oddest.tolist(), strict=True):
        assert found[index].verdict.endswith(
            f"Most unusual to {detector.member_names[who]}: p = {p:.2g}."
        )
    assert "Most unusual" not in found[4].verdict


def test_saving_keeps_what_members_learned_and_one_model(model, known, tmp_path):
    noisy = Samples(
        known.test.inputs + 0.6 * torch.randn(known.test.inputs.shape), known.test.labels
    )
    detector = Combined(
        model, ["energy", ("meta", {"kind": "nn", "features": ["all/l2", "entropy"]})]
    ).fit(noisy)
    nescio.save(detector, tmp_path / "d")
    again = nescio.load(tmp_path / "d")
    assert torch.equal(again.score(known.unseen), detector.score(known.unseen))
    assert torch.equal(again.merged_p_value(known.unseen), detector.merged_p_value(known.unseen))
    assert all(one.model is again.model for one in again.members)
    nescio.save(model, tmp_path / "m")
    learned = sum(
        b.numel() * b.element_size()
        for n, b in detector.named_buffers()
        if not n.startswith("model.")
    )
    assert (tmp_path / "d").stat().st_size < (tmp_path / "m").stat().st_size + learned + 4096


def test_is_better_than_its_members_where_each_has_a_blind_side(axes):
    """Known inputs lie on a line; max_logit sees what leaves it one way, entropy the other."""
    generator = torch.Generator().manual_seed(0)
    gap = torch.randn(2000, generator=generator).abs() + 3
    height = 4 + torch.randn(2000, generator=generator)
    known = torch.stack([height, height - gap], 1)
    low, near = known - 6, torch.stack([known[:, 0], known[:, 0] - 0.2 * gap], 1)
    unknown = torch.cat([low, near])
    held, new = known[:1500], known[1500:]
    of = {name: Threshold(axes, name) for name in ("max_logit", "entropy")}
    alone = [nescio.metrics.auroc(one.score(new), one.score(unknown)) for one in of.values()]
    both = Combined(axes, list(of)).fit(held)
    assert nescio.metrics.auroc(both.score(new), both.score(unknown)) > max(alone) + 0.1


class Functional(nn.Module):
    """A network with a linear layer, but not for its head."""

    def __init__(self):
        super().__init__()
        self.first, self.weight = nn.Linear(2, 8), nn.Parameter(torch.randn(3, 8))

    def forward(self, x):
        return self.first(x).relu() @ self.weight.T


class Draws(nn.Module):
    """Several answers for each input, by no method of ours."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(2, 3)

    def forward(self, x):
        return torch.stack([self.net(x + shift) for shift in (-0.1, 0.0, 0.1)])


@pytest.mark.parametrize("batch_size", [1, 256])
@pytest.mark.parametrize(
    ("make", "left", "taken"),
    [
        (Draws, ["mahalanobis"], ("energy", "max_prob")),
        (Functional, ["mahalanobis"], ("energy", "max_prob")),
        (
            lambda: nn.Sequential(nn.Linear(2, 3), nn.LogSoftmax(1)),
            ["energy"],
            ("mahalanobis", "max_prob"),
        ),
        (
            lambda: nn.Sequential(Functional(), nn.LogSoftmax(1)),
            ["mahalanobis", "energy"],
            ("max_prob", "entropy"),
        ),
    ],
)
def test_what_a_model_does_not_have_is_done_without(make, left, taken, batch_size):
    torch.manual_seed(0)
    x = torch.randn(400, 2)
    found = nescio.Combined(make()).fit(x, batch_size=batch_size)
    assert sorted(found.without) == sorted(left)
    assert found.member_names == taken
    alone = torch.cat([found.predict(one[None]) for one in x[:50]])
    assert torch.equal(alone, found.predict(x[:50]))


def test_members_that_were_asked_for_are_not_exchanged():
    torch.manual_seed(0)
    with pytest.raises(NescioError, match="no linear layer"):
        nescio.Combined(Functional(), ["energy", "mahalanobis"]).fit(torch.randn(400, 2))
    with pytest.raises(NescioError, match="log-probabilities, whose energy is 0"):
        nescio.Threshold(nn.Sequential(nn.Linear(2, 3), nn.LogSoftmax(1)), "energy").fit(
            torch.randn(400, 2)
        )


def test_an_input_that_some_member_has_no_number_for_is_explained(known, seed, monkeypatch):
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    detector = Combined(net).fit(torch.randn(400, 2))
    x = torch.randn(5, 2)
    scores = detector._scores

    def holed(x, seen):
        found = scores(x, seen)
        found[1, x[:, 0] > 50] = torch.nan
        return found

    monkeypatch.setattr(detector, "_scores", holed)
    x[2, 0] = 100.0
    found = detector.explain(x)
    assert [one.answer for one in found] == detector.predict(x).tolist()
    assert found[2].answer == -1
    with pytest.raises(NescioError, match="some members give NaN"):
        detector.member_p_values(x)


def test_data_that_can_be_read_only_once_are_named_where_they_would_be_read_twice(known):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.LogSoftmax(1))
    x = torch.randn(400, 2)
    assert Combined(net).fit(x[:200], train=x[200:]).without.keys() == {"energy"}
    with pytest.raises(NescioError, match="train would have to be read again"):
        Combined(net).fit(x[:200], train=iter([x[200:]]))
