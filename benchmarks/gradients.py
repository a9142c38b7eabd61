"""What gradient statistics cost, against one-by-one autograd, the `gradient-metrics` package, and a
step of training.

    pip install -c constraints.txt -e '.[bench]'
    python benchmarks/gradients.py

All eight statistics of every layer of `lenet` (3.3 million weights), for a batch of 256 images.
One-by-one autograd computes the same eight for each layer and the whole network; the package, which
has no skewness and no kurtosis, computes the other six for each layer. Both take their inputs one
after another, so they are timed on a few and their time is scaled to the batch (which flatters the
package: it goes back through all of its batch for each input). Timings are interleaved,
and each ratio is that of the medians. Memory is the growth of a fresh process's peak during the
call, as Linux tells it.
"""

import subprocess
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from nescio.models import lenet
from nescio.scores import gradient_features
from timing import in_turns, sizes

try:
    from gradient_metrics import GradientMetricCollector
    from gradient_metrics.metrics import Max, MeanStd, Min, PNorm
except ImportError:
    GradientMetricCollector = None

IMAGE = (1, 28, 28)
GIB = 2**30


def prepared(batch: int) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return lenet(10).eval(), torch.rand(batch, *IMAGE)


def ours(model: nn.Module, x: Tensor) -> None:
    gradient_features(model, x, batch_size=len(x), progress=False)


def one_by_one(model: nn.Module, x: Tensor) -> None:
    for one in x.split(1):
        losses(model, one).sum().backward()
        layers = [
            torch.cat([p.grad.flatten() for p in layer.parameters()]) for layer in layers_of(model)
        ]
        for entries in [*layers, torch.cat(layers)]:
            eight(entries)
        model.zero_grad()


def eight(g: Tensor) -> list[Tensor]:
    mean, std = g.mean(), g.std(correction=0)
    z = (g - mean) / std
    return [g.abs().sum(), g.norm(), g.min(), g.max(), mean, std, z.pow(3).mean(), z.pow(4).mean()]


def package(model: nn.Module, x: Tensor) -> None:
    """As its documentation says: metrics for each layer, and a collector of the losses of a
    batch.
    """
    plain = {
        "grad_transform": torch.Tensor.contiguous
    }  # it cannot read gradients whose channels are innermost
    kinds = ((PNorm, {"p": 1}), (PNorm, {"p": 2}), (Min, {}), (Max, {}), (MeanStd, {}))
    metrics = [kind(layer, **plain, **how) for layer in layers_of(model) for kind, how in kinds]
    GradientMetricCollector(metrics)(losses(model, x))


def training(model: nn.Module, x: Tensor) -> None:
    losses(model, x).sum().backward()
    model.zero_grad()


def losses(model: nn.Module, x: Tensor) -> Tensor:
    logits = model(x)
    return F.cross_entropy(logits, logits.argmax(1), reduction="none")


def layers_of(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if list(module.parameters(recurse=False))]


def growth(batch: int) -> int:
    """Bytes by which the peak memory of this process grows in one call."""
    model, x = prepared(batch)
    ours(model, x[:2])  # what is loaded once, and stays
    before = peak()
    ours(model, x)
    return peak() - before


def peak() -> int:
    """Bytes this process has had in memory at most; `getrusage` would count what the one that
    started it had too.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def main() -> int:
    growing = {
        "--growth": {
            "action": "store_true",
            "help": "only print how many bytes the peak memory grows",
        }
    }
    given = sizes(
        __doc__, growing, repeats=(7, 1), batch=(256, 4), few=(16, 2)
    )  # few: one after another
    if given.growth:
        print(growth(given.batch))
        return 0
    model, x = prepared(given.batch)
    few = x[: given.few]
    works = [lambda: ours(model, x), lambda: training(model, x), lambda: one_by_one(model, few)]
    if GradientMetricCollector is not None:
        works.append(lambda: package(model, few))
    fast, step, *slow = in_turns(*works, repeats=given.repeats)
    loop, *other = [taken * given.batch / given.few for taken in slow]
    command = [sys.executable, __file__, "--growth", "--batch", str(given.batch)]
    child = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    memory = int(child.stdout)
    scaled = f"timed on {given.few}, scaled to {given.batch}"
    table = Table(f"lenet, {given.batch} images", "seconds", "ratio", "wanted", "")
    for what, taken, *rest in (
        ("eight statistics of every layer", f"{fast:.3f}"),
        ("one forward and backward pass", f"{step:.3f}", f"ours {fast / step:.2f}×", "≤ 4×"),
        ("autograd, one by one", f"{loop:.3f}", f"{loop / fast:.1f}× ours", "≥ 15×", scaled),
        *[
            ("gradient-metrics", f"{taken:.3f}", f"{taken / fast:.1f}× ours", "≥ 10×", scaled)
            for taken in other
        ],
        *(
            []
            if other
            else [("gradient-metrics", "", "", "≥ 10×", "not installed; it is in the extra bench")]
        ),
        ("growth of peak memory", "", f"{memory / GIB:.2f} GiB", "< 1 GiB", "a process of its own"),
    ):
        table.add_row(what, taken, *rest)
    Console(width=120).print(
        table, f"medians of {given.repeats} interleaved, {torch.get_num_threads()} threads"
    )
    slower = fast / step > 4 or loop / fast < 15 or any(taken / fast < 10 for taken in other)
    return int((slower or memory >= GIB) and not given.toy)


if __name__ == "__main__":
    sys.exit(main())
