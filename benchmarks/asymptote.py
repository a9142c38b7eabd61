"""What exact laws along rays cost, against running the network.

    python benchmarks/asymptote.py

The pass at infinity of 10 000 rays through `lenet` and through `resnet20`, against one forward pass
in float64 of as many inputs; and the traces of 100 rays through a perceptron of 3 × 256 units,
against running it, 100 inputs at a time, at all the breakpoints they have. What is compared is
timed in turns, and runs in batches of one size.
"""

import torch
from rich.console import Console
from torch import Tensor, nn

from nescio.audit import asymptote, trace
from nescio.models import mlp, network_for
from timing import in_turns, sizes

BATCH = 128


def forward(net: nn.Module, x: Tensor, batch: int = BATCH) -> None:
    with torch.no_grad():
        for part in x.split(batch):
            net(part)


def at_infinity(name: str, shape: tuple[int, ...], count: int, repeats: int) -> tuple[float, float]:
    torch.manual_seed(0)
    net = network_for(name, shape, 10).double().eval()
    x, d = torch.rand(count, *shape).double(), torch.randn(count, *shape).double()
    works = (lambda: asymptote(net, x, d, batch_size=BATCH)), (lambda: forward(net, x))
    ours, plain = in_turns(*works, repeats=repeats)
    return ours, plain


def traced(count: int, width: int, repeats: int) -> tuple[float, float, int]:
    torch.manual_seed(0)
    net = mlp(20, 5, hidden=(width,) * 3).double().eval()
    x, d = torch.randn(count, 20).double(), torch.randn(count, 20).double()
    found = trace(net, x, d)
    points = x[found.ray] + found.begin[:, None] * d[found.ray]
    ours, plain = in_turns(
        lambda: trace(net, x, d), lambda: forward(net, points, count), repeats=repeats
    )
    return ours, plain, len(found.ray) - len(x)


def main() -> None:
    given = sizes(__doc__, rays=(10_000, 8), traces=(100, 4), width=(256, 8), repeats=(3, 1))
    console = Console()

    def tell(what: str, ours: float, plain: float, wanted: str) -> None:
        """A line as soon as it is known: the whole takes minutes."""
        console.print(
            f"{what}: {ours:.2f} s, the network {plain:.2f} s: {ours / plain:.1f}× "
            f"(wanted: {wanted})"
        )

    ours, plain, breakpoints = traced(given.traces, given.width, given.repeats)
    tell(f"{given.traces} traces, {breakpoints} breakpoints", ours, plain, "≤ 15×")
    for name, shape in (("lenet", (1, 28, 28)), ("resnet20", (3, 32, 32))):
        tell(
            f"{given.rays} rays, {name}",
            *at_infinity(name, shape, given.rays, given.repeats),
            "≤ 8×",
        )
    console.print(f"{torch.get_num_threads()} threads")


if __name__ == "__main__":
    main()
