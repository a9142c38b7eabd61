"""The run-time paragraph of *DUQ*: what its penalty and its kernels cost beside a softmax network and an ensemble.

A step of training is loss, backward pass, optimizer and move of the centroids, on one batch; an ensemble takes five of
a softmax network's. All is timed in turns in one run, and only ratios are compared: the paper's seconds are a GPU's.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor

from nescio.core.predict import predict
from nescio.methods import DUQ, Ensemble, Method, Softmax
from nescio.methods.method import TrainingStep
from nescio.models import network_for
from nescio.records import Provenance
from papers.duq.published import EPOCH, PREDICTION
from papers.duq.timings import Timings
from papers.experiment import Experiment, Found, Work
from papers.over_seeds import over_seeds
from papers.reproduction import Claim, Compared, Differs

MEMBERS, CLASSES = 5, 10
TRAIN, PREDICT = "step: ", "prediction: "
SOFTMAX, PLAIN, PENALISED, ENSEMBLE = "softmax", "DUQ", "DUQ with penalty", "ensemble"
LITTLE = 1.5  # times a softmax network: what we take "only a marginal overhead" to allow


def runtime(work: Work) -> Found:
    """The paragraph's ratios again."""
    network, shape = work.pick(("conv3", (1, 28, 28)), ("resnet18", (3, 32, 32)))
    found = work.stage("timings", Timings, lambda: timed(work, network, shape), network=network)
    taken = {name: median(rounds) for name, rounds in found.seconds.items()}
    ratio = {name: taken[name] / taken[name.partition(": ")[0] + ": " + SOFTMAX] for name in taken}
    penalised, plain, kernels = (
        ratio[TRAIN + PENALISED],
        ratio[TRAIN + PLAIN],
        ratio[PREDICT + PLAIN],
    )
    faster = taken[PREDICT + ENSEMBLE] / taken[PREDICT + PLAIN]
    return Found(
        compared=(
            *_rows(ratio, TRAIN, "a step of training, times softmax", _epochs()),
            *_rows(ratio, PREDICT, "prediction, times softmax", PREDICTION),
        ),
        claims=(
            Claim(
                "DUQ with gradient penalty takes no longer to train than a deep ensemble of 5",
                penalised <= ratio[TRAIN + ENSEMBLE],
                f"{penalised:.2f} against {ratio[TRAIN + ENSEMBLE]:.2f} steps of a softmax network",
            ),
            Claim(
                "Computing the Jacobian is expensive: without the penalty an epoch takes a fraction of the time",
                plain < penalised / 2,
                f"{plain:.2f} against {penalised:.2f} steps of a softmax network",
            ),
            Claim(
                "At test time there is only a marginal overhead over a softmax based model",
                kernels < LITTLE,
                f"{kernels:.2f} times as long (wanted: below {LITTLE})",
            ),
            Claim(
                "DUQ is about 4 times faster than a deep ensemble of 5 at test time",
                faster > 3,
                f"{faster:.2f} times as fast (wanted: above 3)",
            ),
        ),
        differs=(
            Differs(
                "machine",
                "a 1080 Ti GPU",
                f"a CPU, {found.threads} threads",
                "ratios alone are compared",
            ),
            Differs(
                "network and data",
                "not told; in the section on CIFAR-10, so ResNet-18",
                f"{network}, batches of {found.batch} random images {shape[1]}×{shape[2]}",
                "the network that our runs are of" if work.quick else "the same work for any image",
            ),
            Differs(
                "the penalty's gradient",
                "plain double backward",
                "rules of our own for convolution, BatchNorm, ReLU and pooling",
                "as our training has it",
            ),
        ),
    )


def timed(work: Work, network: str, shape: tuple[int, ...]) -> Timings:
    """Each piece of work, in turns."""
    started = time.monotonic()
    batch, many = (8, 8) if work.dry else (128, work.pick(512, 256))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        tasks = {**training(network, shape, batch), **prediction(network, shape, many)}
        rounds = in_turns(tasks, work.count(15, 1))
    settings = {"batch": batch, "images": many, "rounds": len(rounds[TRAIN + SOFTMAX])}
    return Timings(
        network,
        batch,
        torch.get_num_threads(),
        rounds,
        Provenance.now(0, settings, time.monotonic() - started),
    )


def training(network: str, shape: tuple[int, ...], batch: int) -> dict[str, Callable[[], Any]]:
    """A step of each method, again and again on one batch."""
    x, y = torch.randn(batch, *shape), torch.arange(batch) % CLASSES
    single = [step(Softmax(network_for(network, shape, CLASSES)), x, y) for _ in range(MEMBERS)]
    return {
        TRAIN + SOFTMAX: single[0],
        TRAIN + PLAIN: step(_duq(network, shape, 0.0), x, y),
        TRAIN + PENALISED: step(_duq(network, shape, 0.1), x, y),
        TRAIN + ENSEMBLE: lambda: [one() for one in single],
    }


def step(model: Method, x: Tensor, y: Tensor) -> Callable[[], None]:
    """A step of training; centroids are first put where the data are, as later in training."""
    model.train()
    model.training_step = TrainingStep(step=0, steps_per_epoch=1, steps=1, inputs=len(x))
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=1e-4)
    model.after_step(x, y)
    if isinstance(model, DUQ):
        model.momentum = 0.999

    def once() -> None:
        optimizer.zero_grad()
        loss, _ = model.loss(x, y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        model.after_step(x, y)

    return once


def prediction(network: str, shape: tuple[int, ...], images: int) -> dict[str, Callable[[], Any]]:
    """So many images through each method."""
    x = torch.randn(images, *shape)
    models = {
        SOFTMAX: Softmax(network_for(network, shape, CLASSES)),
        PLAIN: _duq(network, shape, 0.0),
        ENSEMBLE: Ensemble(lambda: network_for(network, shape, CLASSES), MEMBERS),
    }
    return {
        PREDICT + name: partial(predict, model, x, progress=False) for name, model in models.items()
    }


def in_turns(tasks: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, tuple[float, ...]]:
    """Seconds of each task in each round, after a first one that makes what later ones reuse."""
    found: dict[str, list[float]] = {name: [] for name in tasks}
    for round_ in range(-1, rounds):
        for name, task in tasks.items():
            started = time.perf_counter()
            task()
            if round_ >= 0:
                found[name].append(time.perf_counter() - started)
    return {name: tuple(values) for name, values in found.items()}


def _duq(network: str, shape: tuple[int, ...], penalty: float) -> DUQ:
    return DUQ(network_for(network, shape, None), CLASSES, gradient_penalty=penalty, momentum=0.0)


def _epochs() -> dict[str, float]:
    return {name: seconds / EPOCH[SOFTMAX] for name, seconds in EPOCH.items()}


def _rows(
    ratio: Mapping[str, float], kind: str, what: str, paper: Mapping[str, float]
) -> tuple[Compared, ...]:
    names = [
        name.removeprefix(kind)
        for name in ratio
        if name.startswith(kind) and name != kind + SOFTMAX
    ]
    return tuple(over_seeds(f"{name}: {what}", [ratio[kind + name]], paper[name]) for name in names)


EXPERIMENTS = (
    Experiment(
        "duq-runtime",
        4,
        "Run time",
        "What DUQ costs beside softmax and an ensemble",
        runtime,
        once=True,
    ),
)
