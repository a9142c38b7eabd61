import pytest
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, OneCycleLR

from nescio.errors import NescioError
from nescio.training.schedule import SCHEDULES, Constant, Cosine, OneCycle, Step

TOTAL = 200


def rates(make):
    """The learning rates a torch scheduler goes through, as shares of the largest."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = make(optimizer)
    found = []
    for _ in range(TOTAL):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


def test_cosine_is_torchs():
    want = rates(lambda optimizer: CosineAnnealingLR(optimizer, T_max=TOTAL))
    assert [Cosine()(step / TOTAL) for step in range(TOTAL)] == pytest.approx(want, abs=1e-12)


def test_one_cycle_is_torchs_up_to_a_step():
    want = rates(
        lambda optimizer: OneCycleLR(optimizer, max_lr=1.0, total_steps=TOTAL, cycle_momentum=False)
    )
    got = [OneCycle()(step / TOTAL) for step in range(TOTAL)]
    assert got == pytest.approx(want, abs=0.02)  # torch counts one step less in each phase
    for t, factor in ((0.0, 0.04), (0.15, 0.52), (0.3, 1.0), (0.65, (1 + 4e-6) / 2), (1.0, 4e-6)):
        assert OneCycle()(t) == pytest.approx(factor, rel=1e-12)


def test_step_drops_at_its_milestones():
    schedule = Step(at=(0.5, 0.75), factor=0.1)
    assert [schedule(t) for t in (0, 0.49, 0.5, 0.74, 0.75, 0.99)] == pytest.approx(
        [1, 1, 0.1, 0.1, 0.01, 0.01]
    )


@pytest.mark.parametrize("name", SCHEDULES)
def test_factors_lie_between_nothing_and_one(name):
    factors = [SCHEDULES[name]()(step / TOTAL) for step in range(TOTAL)]
    assert all(0 < factor <= 1 for factor in factors)


def test_prints_as_it_is_called():
    assert repr(Step(at=(0.5,), factor=0.2)) == "Step(at=(0.5,), factor=0.2)"
    assert repr(Constant()) == "Constant()"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Step(at=(1.5,)),
        lambda: Step(factor=0),
        lambda: Step(at="a"),
        lambda: Step(at=0.5),
        lambda: Step(factor="a"),
        lambda: OneCycle(warm_up=0),
        lambda: OneCycle(warm_up="a"),
        lambda: OneCycle(end=None),
    ],
)
def test_refuses_nonsense(make):
    with pytest.raises(NescioError):
        make()
