"""What the search of ACET costs, against the loop one would write first.

    python benchmarks/acet.py

One step of ACET on `lenet` with a batch of 128: noise, a search of 40 steps around it, then loss,
backward pass and optimizer on both kinds of inputs. The straightforward loop calls `backward()` on
the confidence, which computes the gradients of all weights too, and clears them. Both searches have
the same start, steps and projection and both keep the best iterate of each input; what they reach
is printed beside their times, which are medians of turns.
"""

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from nescio.methods import ACET, CEDA
from nescio.models import lenet
from timing import in_turns, sizes

IMAGE = (1, 28, 28)


class Straightforward(CEDA):
    """ACET as one would write it first."""

    eps, steps, step_size = 0.3, 40, 0.0075

    def outliers(self, x: Tensor) -> Tensor:
        noise = super().outliers(x)
        self.eval()
        best, best_value = noise.clone(), self.certainty(self(noise)).detach()
        way, share = 2 * torch.rand(noise.shape) - 1, torch.rand(len(noise))
        here = (noise + self.eps * share.view(-1, 1, 1, 1) * way).clamp(0, 1)
        for step in range(self.steps + 1):
            here = here.detach().requires_grad_()
            values = self.certainty(self(here))
            better = values > best_value
            best[better], best_value[better] = here.detach()[better], values.detach()[better]
            if step < self.steps:
                values.sum().backward()
                here = here.detach() + self.step_size * here.grad.sign()
                here = torch.minimum(torch.maximum(here, noise - self.eps), noise + self.eps).clamp(
                    0, 1
                )
        self.zero_grad()
        self.train()
        return best


def step(model: CEDA, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> None:
    optimizer.zero_grad()
    model.loss(x, y)[0].backward()
    optimizer.step()


def reached(model: CEDA, x: Tensor) -> float:
    """The mean log-confidence of the noise the search ends in, from one random state."""
    torch.manual_seed(1)
    worst = model.outliers(x)
    with torch.no_grad():
        model.eval()
        value = model.certainty(model(worst)).mean().item()
        model.train()
    return value


def trained(net: nn.Module, x: Tensor, y: Tensor) -> None:
    """A few steps of CEDA, so that there is something to search for."""
    model = CEDA(net).train()
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    for _ in range(5):
        step(model, optimizer, x, y)


def main() -> None:
    given = sizes(__doc__, batch=(128, 4), repeats=(5, 1), threads=(torch.get_num_threads(),) * 2)
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    x, y = torch.rand(given.batch, *IMAGE), torch.arange(given.batch) % 10
    net = lenet(10)
    trained(net, x, y)
    ours, plain = ACET(net).train(), Straightforward(net).train()
    values = reached(ours, x), reached(plain, x)
    optimizer = torch.optim.SGD(
        net.parameters(), 1e-9
    )  # the network stays what it is, and so does the work
    times = in_turns(
        *(lambda m=model: step(m, optimizer, x, y) for model in (ours, plain)),
        repeats=given.repeats,
    )
    table = Table("one step, 40 iterations", "seconds", "ratio", "log-confidence reached")
    for name, seconds, value in zip(("nescio", "straightforward"), times, values, strict=True):
        table.add_row(name, f"{seconds:.3f}", f"{seconds / times[1]:.2f}", f"{value:.5f}")
    Console().print(
        table,
        f"asked for: at most 0.75; here {times[0] / times[1]:.2f}, on {given.threads} threads",
    )


if __name__ == "__main__":
    main()
