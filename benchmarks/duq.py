"""What DUQ costs: its gradient penalty in training, and its kernels in prediction.

    python benchmarks/duq.py

A step of training is loss, backward pass, optimizer and move of the centroids, of DUQ over `conv3`
on a batch of 128: without the penalty, with it by the rules of `nescio.methods.double_backward`,
and with it by torch's plain double backward. Prediction is `nescio.predict` in batches of 256, by
DUQ and by a softmax network. What is compared is timed in turns, and each ratio is that of the
medians.
"""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from unittest.mock import patch

import torch
from rich.console import Console
from rich.table import Table

import nescio
from nescio.methods import DUQ, Softmax, duq
from nescio.methods.method import TrainingStep
from nescio.models import conv3
from timing import in_turns, sizes

PENALTY, IMAGE = 0.1, (1, 28, 28)


def step(penalty: float, batch: int) -> Callable[[], None]:
    """A step of training, again and again on one batch."""
    torch.manual_seed(0)
    model = DUQ(conv3(), 10, gradient_penalty=penalty, momentum=0.0).train()
    model.training_step = TrainingStep(step=0, steps_per_epoch=1, steps=1, inputs=batch)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=1e-4)
    x, y = torch.randn(batch, *IMAGE), torch.arange(batch) % 10
    model.after_step(
        x, y
    )  # centroids where the data are, as later in training: kernels that are not all but 0
    model.momentum = 0.999

    def once() -> None:
        optimizer.zero_grad()
        loss, _ = model.loss(x, y)
        loss.backward()
        optimizer.step()
        model.after_step(x, y)

    return once


def training(batch: int, repeats: int) -> list[float]:
    plain, ours, theirs = (step(penalty, batch) for penalty in (0.0, PENALTY, PENALTY))

    def by_torch() -> None:
        with patch.object(duq, "CheapDoubleBackward", nullcontext):
            theirs()

    return in_turns(plain, ours, by_torch, repeats=repeats)


def prediction(images: int, repeats: int) -> list[float]:
    torch.manual_seed(0)
    models = Softmax(conv3(10)), DUQ(conv3(), 10)
    x = torch.randn(images, *IMAGE)
    return in_turns(
        *(lambda m=m: nescio.predict(m, x, progress=False) for m in models), repeats=repeats
    )


def main() -> int:
    given = sizes(__doc__, repeats=(25, 1), images=(1024, 8), batch=(128, 8))
    plain, ours, theirs = training(given.batch, given.repeats)
    softmax, kernels = prediction(given.images, given.repeats)
    table = Table("conv3, 28×28 images", "seconds", "ratio", "wanted", "the paper, on a GPU")
    for what, taken, *rest in (
        ("a step without penalty", plain),
        (
            "a step with penalty",
            ours,
            f"{ours / plain:.2f}× without",
            "≤ 3.0×",
            "103 s to 27 s an epoch: 3.8×",
        ),
        (
            "a step with penalty, plain double backward",
            theirs,
            f"{theirs / ours:.2f}× ours",
            "≥ 1.8×",
        ),
        (f"{given.images} predictions, softmax", softmax),
        (
            f"{given.images} predictions, DUQ",
            kernels,
            f"{kernels / softmax:.2f}× softmax",
            "≤ 1.10×",
            "1.25×",
        ),
    ):
        table.add_row(what, f"{taken:.4f}", *rest)
    work = f"a step: loss, backward pass, optimizer, centroids; batch {given.batch}, λ = {PENALTY}"
    Console(width=120).print(
        table, f"{work}; medians of {given.repeats}, interleaved, {torch.get_num_threads()} threads"
    )
    slower = ours / plain > 3.0 or theirs / ours < 1.8 or kernels / softmax > 1.1
    return int(slower and not given.toy)


if __name__ == "__main__":
    sys.exit(main())
