"""What several draws cost, against the plain way to get them.

    python benchmarks/draws.py

Trains an ensemble of ten perceptrons stacked and one by one; draws fifty networks from Bayes by
backprop vectorised and in a loop; and compares fifty draws of MC dropout, with dropout before the
last layer of `conv3`, to one forward pass. Each pair is timed in turns, and the ratio is that of
the medians.
"""

import sys

import torch
from rich.console import Console
from rich.table import Table
from torch.func import functional_call

import nescio
from nescio.methods import BayesByBackprop, Ensemble, MCDropout
from nescio.models import conv3, mlp
from timing import in_turns, sizes


def ensemble(data: str, hidden: tuple[int, ...], epochs: int, repeats: int) -> list[float]:
    known = nescio.data.load(data)
    inputs = known.train.inputs[0].numel()

    def train(stacked: bool) -> None:
        model = Ensemble(
            lambda: mlp(inputs, len(known.classes), hidden), 10, known.normalise, stacked=stacked
        )
        nescio.train(model, known.train, epochs=epochs, batch_size=64, progress=False)

    return in_turns(lambda: train(False), lambda: train(True), repeats=repeats)


def bayes(
    inputs: int, hidden: tuple[int, ...], count: int, batch: int, repeats: int
) -> list[float]:
    """Fifty networks, each drawn once and run over all batches."""
    model = BayesByBackprop(mlp(inputs, 10, hidden), samples=50).eval()
    x = torch.randn(count, inputs)

    def loop() -> torch.Tensor:
        drawn = []
        for _ in range(50):
            weights = {
                name: mean + std * torch.randn_like(mean)
                for name, (mean, std) in model.posterior().items()
            }
            drawn.append(
                torch.cat([functional_call(model.net, weights, (part,)) for part in x.split(batch)])
            )
        return torch.stack(drawn)

    with torch.no_grad():
        return in_turns(
            loop,
            lambda: nescio.predict(model, x, batch_size=batch, progress=False),
            repeats=3 * repeats,
        )


def dropout(batch: int, repeats: int) -> list[float]:
    """One pass in batches of 64, as the draws are made (and faster here than in one of 256), and
    the draws.
    """
    net = conv3(10, dropout=0.5).eval()
    model, x = MCDropout(net, samples=50).eval(), torch.rand(batch, 1, 28, 28)
    with torch.no_grad():
        return in_turns(
            lambda: [net(part) for part in x.split(64)], lambda: model(x), repeats=3 * repeats
        )


def main() -> int:
    given = sizes(__doc__, epochs=(2, 1), images=(256, 8), repeats=(5, 1))
    epochs, repeats = given.epochs, given.repeats
    torch.manual_seed(0)
    table = Table("", "plain", "nescio", "ratio", "wanted")
    missed = 0
    for what, (plain, ours), wanted in (
        ("train 10 × 2-25-25-25-2", ensemble("two_moons", (25, 25, 25), epochs, repeats), 3.0),
        ("train 10 × 64-100-100-10", ensemble("digits", (100, 100), epochs, repeats), 3.0),
        ("50 draws, 2-25-10, 1024 inputs by 256", bayes(2, (25,), 1024, 256, repeats), 3.0),
        ("50 draws, 64-100-100-10, 640 by 64", bayes(64, (100, 100), 640, 64, repeats), 3.0),
        ("50 draws, 64-100-100-10, one input", bayes(64, (100, 100), 1, 1, repeats), None),
    ):
        goal = "" if wanted is None else f"≥ {wanted}×"
        table.add_row(what, f"{plain:.4f} s", f"{ours:.4f} s", f"{plain / ours:.1f}×", goal)
        missed += wanted is not None and plain / ours < wanted
    once, fifty = dropout(given.images, repeats)
    table.add_row(
        f"conv3, {given.images} images: one pass, 50 draws",
        f"{once:.4f} s",
        f"{fifty:.4f} s",
        f"{fifty / once:.2f}×",
        "≤ 1.2×",
    )
    missed += fifty / once > 1.2
    Console().print(table)
    return int(missed > 0 and not given.toy)


if __name__ == "__main__":
    sys.exit(main())
