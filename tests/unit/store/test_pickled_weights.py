"""Weights in a pickle are refused, with a command that makes safetensors of them, and that works as
it is printed.
"""

import shlex
import subprocess
import sys

import pytest
import torch
from torch import nn

from forked import Forked
from nescio.errors import NescioError
from nescio.store.user_network import load_weights

KEPT = {
    "a state_dict": lambda net: net.state_dict(),
    "a checkpoint": lambda net: {
        "epoch": 3,
        "state_dict": net.state_dict(),
        "optimizer": {"lr": 0.1},
    },
    "a checkpoint with model_state_dict": lambda net: {
        "model_state_dict": net.state_dict(),
        "loss": 0.5,
    },
    "a checkpoint with model": lambda net: {"model": net.state_dict(), "args": ["--lr"]},
}


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)
        self.last.weight = self.first.weight
        self.register_buffer("turned", torch.arange(6.0).reshape(2, 3).T)

    def forward(self, x):
        return self.last(self.first(x))


def advised(path):
    """The command that the refusal of a file advises, as words."""
    with pytest.raises(NescioError, match=r"is a pickle .* never read") as caught:
        load_weights(Tied(), path)
    (line,) = (line for line in str(caught.value).splitlines() if line.startswith("python -c "))
    return [sys.executable, *shlex.split(line)[1:]]


def run_advised(path):
    """Run that command's program in a child: its exit code and standard error."""
    _, flag, program, *words = advised(path)
    assert flag == "-c"

    def work():
        sys.argv = [flag, *words]
        exec(program, {"__name__": "__main__"})

    code, _, err = Forked(work, path.parent).wait()
    return code, err


def test_the_command_works_as_it_is_printed(tmp_path):
    torch.save(Tied().state_dict(), tmp_path / "net.pt")
    subprocess.run(advised(tmp_path / "net.pt"), check=True)
    load_weights(Tied(), tmp_path / "net.safetensors")


@pytest.mark.parametrize("keep", KEPT.values(), ids=KEPT)
def test_the_command_makes_weights_that_can_be_loaded(tmp_path, keep):
    net, again = Tied(), Tied()
    path = tmp_path / "my net's.pt"
    torch.save(keep(net), path)
    assert run_advised(path) == (0, "")
    load_weights(again, tmp_path / "my net's.safetensors")
    assert all(
        torch.equal(value, again.state_dict()[name]) for name, value in net.state_dict().items()
    )


def test_it_does_not_take_the_place_of_other_weights(tmp_path):
    torch.save({}, tmp_path / "net.pth")
    (tmp_path / "net.safetensors").write_text("mine")
    assert advised(tmp_path / "net.pth")[-1] == str(tmp_path / "net-weights.safetensors")


def test_it_runs_no_code(tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    torch.save({"w": Evil()}, tmp_path / "net.bin")
    code, err = run_advised(tmp_path / "net.bin")
    assert code == 1
    assert "weights_only" in err.lower()
    assert not (tmp_path / "ran").exists()
