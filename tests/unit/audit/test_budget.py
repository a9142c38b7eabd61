"""Budgets of time: what fits is proved, the rest measured, and proofs do not depend on it."""

import pytest
import torch

from nescio.audit import budget as budgets
from nescio.audit import certain_from, overconfidence, per_feature, regions_in, unknown_from
from nescio.audit.affine.plane import CrowdedError
from nescio.audit.budget import Budget, seconds_in
from nescio.errors import NescioError
from nescio.methods import DUQ
from nescio.models import mlp


class Clock:
    """Time that passes only when it is set, or by a step each time it is read."""

    def __init__(self, step=0.0):
        self.now, self.step = 100.0, step

    def monotonic(self):
        self.now += self.step
        return self.now


@pytest.fixture
def clock(monkeypatch):
    result = Clock()
    monkeypatch.setattr(budgets, "time", result)
    return result


@pytest.fixture
def net():
    torch.manual_seed(0)
    return mlp(2, 3, hidden=(20, 20)).double()


@pytest.fixture
def rays():
    return torch.randn(2, 60, 2, generator=torch.Generator().manual_seed(1)).double()


@pytest.mark.parametrize(
    "text", ["", "soon", "-1", "0", "0s", "5 days", "1e3", "inf", "nan", "9" * 200]
)
def test_a_budget_that_is_no_time_is_refused(text):
    with pytest.raises(NescioError, match="budget"):
        seconds_in(text)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "60s", True])
def test_a_budget_is_a_number_of_seconds(seconds, net, rays):
    with pytest.raises(NescioError, match="budget must be a number"):
        certain_from(net, *rays, budget=seconds)


def test_batches_grow_and_stop_when_time_does(clock):
    """Items of one second each, in 100 seconds: no batch takes more than half of what is left."""
    done = []
    for some in Budget(100).batches(1000, 64):
        size = some.stop - some.start
        done.append(size)
        clock.now += size
    assert done[:2] == [16, 42]
    assert 95 <= sum(done) <= 100
    assert [one.stop - one.start for one in Budget(None).batches(130, 64)] == [64, 64, 2]


def test_a_part_of_a_budget_is_of_what_is_left(clock):
    whole = Budget(60)
    clock.now += 20
    assert whole.part(0.25).left == 10
    assert whole.part(0.25).seconds == 60  # as it was given
    clock.now += 50
    assert whole.part(0.5).left == 0
    assert not list(whole.batches(5, 5))


@pytest.mark.parametrize(
    ("each", "fixed", "count"),
    [(0.01, 0.0, 1000), (1.0, 0.0, 50), (1.0, 3.0, 32), (100.0, 0.0, 16)],
)
def test_as_many_are_affordable_as_fit(each, fixed, count, clock):
    def work(some):
        clock.now += fixed + each * some

    assert Budget(60).affordable(1000, work) == pytest.approx(count, abs=1)
    assert Budget(None).affordable(1000, work) == 1000


def test_what_is_proved_in_a_budget_is_what_is_proved_without(net, rays, monkeypatch):
    everything = certain_from(net, *rays, limit=400)
    assert everything.proved.all()
    assert everything.unfollowed == 0
    for step, least, most in ((1e-9, 60, 60), (0.02, 1, 59), (10.0, 0, 0)):
        monkeypatch.setattr(budgets, "time", Clock(step))
        result = certain_from(net, *rays, budget=5.0)
        assert least <= result.proved.sum() <= most
        assert result.unfollowed == (~result.proved).sum()
        torch.testing.assert_close(
            result.t[result.proved], everything.t[result.proved], rtol=1e-12, atol=0
        )
        assert (
            result.t[~result.proved] >= everything.t[~result.proved] * (1 - 1e-6)
        ).all()  # a scan is late, if it errs


def test_a_cut_audit_of_kernels_is_late_enough_for_sure(rays, monkeypatch):
    torch.manual_seed(0)
    model = DUQ(mlp(2, hidden=(20,)), 3)
    everything = unknown_from(model, *rays, limit=400)
    for step in (1e-9, 0.05, 10.0):
        monkeypatch.setattr(budgets, "time", Clock(step))
        result = unknown_from(model, *rays, budget=5.0)
        assert (result.t >= everything.t * (1 - 1e-12)).all()
        assert torch.equal(result.t[result.exact], everything.t[result.exact])
        assert result.unfollowed == (everything.exact & ~result.exact).sum()


def test_records_say_what_the_budget_was_and_what_it_left_out(net, rays, monkeypatch):
    whole = overconfidence(net, rays[0], trials=60)
    assert (whole.budget, whole.unfollowed, whole.proved) == (None, 0, 1.0)
    monkeypatch.setattr(budgets, "time", Clock(10.0))
    cut = overconfidence(net, rays[0], trials=60, budget=5)
    assert (cut.budget, cut.unfollowed, cut.proved) == (5.0, 60, 0.0)
    assert cut == type(cut).from_json(cut.to_json())
    assert cut.provenance.settings["budget"] == 5.0
    assert (cut.ends_certain, cut.ends_in) == (
        whole.ends_certain,
        whole.ends_in,
    )  # the law at infinity needs no time
    moved = per_feature(net, rays[0][:5], budget=5)
    assert (moved.budget, moved.unfollowed) == (5.0, 20)
    with pytest.raises(CrowdedError, match="when the budget was spent"):
        regions_in(net, ((-1, 1), (-1, 1)), budget=5)
