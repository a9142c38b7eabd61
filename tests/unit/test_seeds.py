import pytest
import torch

from nescio.errors import NescioError
from nescio.seeds import check_seed, derived_seed, seed_generators


def test_seeds_of_different_things_differ():
    found = {
        derived_seed(seed, what, n)
        for seed in range(5)
        for what in ("step", "epoch", "data")
        for n in range(50)
    }
    assert len(found) == 5 * 3 * 50
    assert all(0 <= seed < 2**63 for seed in found)
    assert derived_seed(0, "step", 7) == derived_seed(0, "step", 7)


def test_start_from_is_torchs_manual_seed():
    with torch.random.fork_rng():
        seed_generators(5)
        ours = torch.rand(3)
        torch.manual_seed(5)
        assert torch.equal(torch.rand(3), ours)


@pytest.mark.parametrize("bad", [-1, 2**63, 1.0, "1", None, True, torch.tensor(2.5)])
def test_what_is_no_seed_is_reported(bad):
    with pytest.raises(NescioError, match="seed must be an int"):
        check_seed(bad)
