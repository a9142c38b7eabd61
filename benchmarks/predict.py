"""What `evaluate` costs beyond the forward passes it cannot do without.

    python benchmarks/predict.py

Runs `conv3` over 10 000 images (half known, half unknown) bare, and through `evaluate` with eight
scores, in turns, and prints the ratio of the medians. Eight scores of logits need draws, so the
network's one output stands for two that differ a little; those of the gradient have a benchmark of
their own.
"""

import sys

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from nescio import evaluate
from nescio.data import Samples
from nescio.models import conv3
from nescio.scores import OF_LOGITS
from timing import in_turns, sizes

LIMIT = 1.15
EIGHT = [name for name in OF_LOGITS if name != "normalised_entropy"]


class Twice(nn.Module):
    """One forward pass, handed out as two draws that differ a little."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        logits = self.net(x)
        return torch.stack([logits, 1.1 * logits])


def bare(net: nn.Module, sets: list[Samples], batch_size: int) -> None:
    with torch.inference_mode():
        for samples in sets:
            for start in range(0, len(samples), batch_size):
                net(samples.inputs[start : start + batch_size])


def main() -> int:
    given = sizes(__doc__, images=(10_000, 20), repeats=(5, 1), batch_size=(256, 8))
    torch.manual_seed(0)
    net = Twice(conv3(10)).eval()
    half = given.images // 2
    known, unknown = (
        Samples(torch.rand(half, 1, 28, 28), torch.randint(10, (half,)), name="rand")
        for _ in range(2)
    )
    plain, whole = in_turns(
        lambda: bare(net, [known, unknown], given.batch_size),
        lambda: evaluate(
            net, known, {"unknown": unknown}, scores=EIGHT, batch_size=given.batch_size
        ),
        repeats=given.repeats,
    )
    ratio = whole / plain
    table = Table("conv3", "seconds (median)", "ratio")
    table.add_row("bare forward passes", f"{plain:.2f}", "1.00")
    table.add_row(f"evaluate, {len(EIGHT)} scores", f"{whole:.2f}", f"{ratio:.2f}")
    Console().print(
        table, f"{given.images} images, batches of {given.batch_size}, at most {LIMIT} wanted"
    )
    return int(ratio > LIMIT and not given.toy)


if __name__ == "__main__":
    sys.exit(main())
