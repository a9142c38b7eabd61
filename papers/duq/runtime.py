"""The run-time paragraph: what DUQ's penalty and kernels cost beside softmax and an ensemble.

A step of training is loss, backward pass, optimizer and move of the centroids, on one batch; an
ensemble takes five of a softmax network's. All is timed in one run, interleaved, and only ratios
are compared: the paper's seconds are a GPU's.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor

from nescio import predict
from nescio.methods import DUQ, Ensemble, Method, Softmax, TrainingStep
from nescio.models import network_for
from nescio.records import Stopwatch
from papers.duq.compared import PAPER
from papers.duq.timings import Timings
from papers.experiment import Experiment, Outcome
from papers.over_seeds import over_seeds
from papers.reproduction import Comparison
from papers.workspace import Workspace

MEMBERS, CLASSES = 5, 10
TRAIN, PREDICT = "step: ", "prediction: "
SOFTMAX, PLAIN, PENALISED, ENSEMBLE = "softmax", "DUQ", "DUQ with penalty", "ensemble"
MAX_OVERHEAD = 1.5  # times a softmax network: what we take "only a marginal overhead" to allow


def runtime(work: Workspace) -> Outcome:
    """The paragraph's ratios again."""
    network, shape = work.pick(("conv3", (1, 28, 28)), ("resnet18", (3, 32, 32)))
    timings = work.stage("timings", Timings, lambda: timed(work, network, shape), network=network)
    taken = {name: median(rounds) for name, rounds in timings.seconds.items()}
    ratio = {name: taken[name] / taken[name.partition(": ")[0] + ": " + SOFTMAX] for name in taken}
    penalised, plain, ensemble = (ratio[TRAIN + name] for name in (PENALISED, PLAIN, ENSEMBLE))
    kernels, faster = ratio[PREDICT + PLAIN], taken[PREDICT + ENSEMBLE] / taken[PREDICT + PLAIN]
    steps = "steps of a softmax network"
    longer = f"{kernels:.2f} times as long (wanted: below {MAX_OVERHEAD})"
    claims = (
        PAPER.claim(
            "no_longer", penalised <= ensemble, f"{penalised:.2f} against {ensemble:.2f} {steps}"
        ),
        PAPER.claim(
            "expensive", plain < penalised / 2, f"{plain:.2f} against {penalised:.2f} {steps}"
        ),
        PAPER.claim("marginal", kernels < MAX_OVERHEAD, longer),
        PAPER.claim("faster", faster > 3, f"{faster:.2f} times as fast (wanted: above 3)"),
    )
    epochs, predictions = PAPER.published["epoch"], PAPER.published["prediction"]
    relative = {name: seconds / epochs[SOFTMAX] for name, seconds in epochs.items()}
    compared = (
        *_rows(ratio, TRAIN, "a step of training, times softmax", relative),
        *_rows(ratio, PREDICT, "prediction, times softmax", predictions),
    )
    why = "the network that our runs are of" if work.quick else "the same work for any image"
    values = {"threads": timings.threads, "batch": timings.batch, "side": f"{shape[1]}×{shape[2]}"}
    return Outcome(compared, claims, PAPER.deviates("runtime", **values, network=network, why=why))


def timed(work: Workspace, network: str, shape: tuple[int, ...]) -> Timings:
    """Time each piece of work, interleaved."""
    stopwatch = Stopwatch()
    batch, many = (8, 8) if work.dry else (128, work.pick(512, 256))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        tasks = {**training(network, shape, batch), **prediction(network, shape, many)}
        rounds = interleaved(tasks, work.count(15, 1))
    settings = {"batch": batch, "images": many, "rounds": len(rounds[TRAIN + SOFTMAX])}
    origin = stopwatch.provenance(0, settings)
    return Timings(network, batch, torch.get_num_threads(), rounds, origin)


def training(network: str, shape: tuple[int, ...], batch: int) -> dict[str, Callable[[], Any]]:
    """A step of each method, again and again on one batch."""
    x, y = torch.randn(batch, *shape), torch.arange(batch) % CLASSES
    single = [step(Softmax(network_for(network, shape, CLASSES)), x, y) for _ in range(MEMBERS)]
    return {
        TRAIN + SOFTMAX: single[0],
        TRAIN + PLAIN: _duq_step(_duq(network, shape, 0.0), x, y),
        TRAIN + PENALISED: _duq_step(_duq(network, shape, 0.1), x, y),
        TRAIN + ENSEMBLE: lambda: [one() for one in single],
    }


def step(model: Method, x: Tensor, y: Tensor) -> Callable[[], None]:
    """Return a step of training."""
    model.train()
    model.training_step = TrainingStep(step=0, steps_per_epoch=1, steps=1, inputs=len(x))
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=1e-4)
    model.after_step(x, y)

    def once() -> None:
        optimizer.zero_grad()
        loss, _ = model.loss(x, y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        model.after_step(x, y)

    return once


def _duq_step(model: DUQ, x: Tensor, y: Tensor) -> Callable[[], None]:
    """Return a step whose centroids were first put where the data are, as later in training."""
    once = step(model, x, y)
    model.momentum = 0.999
    return once


def prediction(network: str, shape: tuple[int, ...], images: int) -> dict[str, Callable[[], Any]]:
    """So many images through each method."""
    x = torch.randn(images, *shape)
    models = {
        SOFTMAX: Softmax(network_for(network, shape, CLASSES)),
        PLAIN: _duq(network, shape, 0.0),
        ENSEMBLE: Ensemble(lambda: network_for(network, shape, CLASSES), MEMBERS),
    }
    run = partial(predict, progress=False)
    return {PREDICT + name: partial(run, model, x) for name, model in models.items()}


def interleaved(
    tasks: Mapping[str, Callable[[], Any]], rounds: int
) -> dict[str, tuple[float, ...]]:
    """Seconds of each task in each round, after a first one that makes what later ones reuse."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for round_ in range(-1, rounds):
        for name, task in tasks.items():
            started = time.perf_counter()
            task()
            if round_ >= 0:
                seconds[name].append(time.perf_counter() - started)
    return {name: tuple(values) for name, values in seconds.items()}


def _duq(network: str, shape: tuple[int, ...], penalty: float) -> DUQ:
    return DUQ(network_for(network, shape, None), CLASSES, gradient_penalty=penalty, momentum=0.0)


def _rows(
    ratio: Mapping[str, float], kind: str, what: str, paper: Mapping[str, float]
) -> tuple[Comparison, ...]:
    names = [name.removeprefix(kind) for name in ratio if name.startswith(kind)]
    return tuple(
        over_seeds(f"{name}: {what}", [ratio[kind + name]], paper[name])
        for name in names
        if name != SOFTMAX
    )


_TITLE = "What DUQ costs beside softmax and an ensemble"
EXPERIMENTS = (Experiment("duq-runtime", 4, "Run time", _TITLE, runtime, once=True),)
