"""How a training of DUQ starts: the spread of the first centroids, and the loss far from them.

Far from its centroid a kernel of the paper's σ = 0.1 is so small that the loss of the authors' code
has hardly a gradient; nescio's, from log-kernels, has one at any distance. Two spreads by two
losses, on a thirtieth of FashionMNIST with centroids that move thirty times as fast, so that they
forget their start in as many epochs as those of all images at the paper's γ.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import product
from statistics import fmean
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from nescio import evaluate, train
from nescio.data import Known, Samples
from nescio.evaluation import unknown_set
from nescio.methods import DUQ
from nescio.models import conv3
from nescio.records import Evaluation, Stopwatch
from nescio.store import Source, training_part
from papers.duq.compared import FASHION_SETS, PAPER, experiment
from papers.duq.measured import Measured
from papers.duq.runs import FASHION, auroc
from papers.experiment import Outcome
from papers.over_seeds import above, all_of, over_seeds
from papers.reproduction import Comparison
from papers.workspace import Workspace

IMAGES, EPOCHS, LENGTH_SCALE, MOMENTUM, BATCH = 2000, 8, 0.1, 0.97, 128
WEIGHT_DECAY, JUDGED = 1e-4, 2000  # the latter: images of each test set
SPREADS = {"N(0, 1)": 1.0, "N(0, 0.05²)": 0.05}
OURS, CLAMPED = "our loss", "the authors' loss"
Start = tuple[str, str]  # a spread and a loss
FIRST_GRADIENT = "norm of the first gradient"
MEASURES: Mapping[str, tuple[Callable[[Evaluation], float], str, str]] = {
    "accuracy": (lambda record: record.known.accuracy, "accuracy", "%"),
    "AUROC against NotMNIST": (lambda record: auroc(record, "notmnist"), "notmnist", ""),
    "AUROC against MNIST": (lambda record: auroc(record, "mnist"), "mnist", ""),
}


class ClampedDUQ(DUQ):
    """DUQ with the loss of the authors' code, from kernels in float32.

    torch's binary cross-entropy takes no logarithm for less than −100, and divides its gradient by
    `K (1 − K)` only as far as 1e-12: of a kernel below that, hardly any is left.
    """

    def loss(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        logits = self(x)
        one_hot = F.one_hot(y, self.classes).to(logits.dtype)
        return F.binary_cross_entropy(logits.exp(), one_hot), logits


LOSSES: Mapping[str, type[DUQ]] = {OURS: DUQ, CLAMPED: ClampedDUQ}


def start(work: Workspace) -> Outcome:
    """Two spreads of the first centroids by two losses."""
    starts = list(product(SPREADS, LOSSES))
    by_seed = [{each: evaluated(work, each, seed) for each in starts} for seed in range(work.seeds)]
    runs = {each: [one[each] for one in by_seed] for each in starts}
    gradients = [first_gradients(work, starts, seed) for seed in range(work.seeds)]
    table: list[Comparison] = []
    for each in starts:
        norms = [record.values[_title(each)] for record in gradients]
        table.append(over_seeds(f"{_title(each)}: {FIRST_GRADIENT}", norms))
        for what, (measure, key, unit) in MEASURES.items():
            values = [measure(one) for one in runs[each]]
            paper = PAPER.at("table1", "0", key)
            table.append(over_seeds(f"{_title(each)}: {what}", values, paper, unit))
    robust = all_of(_alike(runs, loss) for loss in LOSSES)
    seen = "; ".join(f"{loss}: {_by_spread(runs, loss)}" for loss in LOSSES)
    claims = (PAPER.claim("robust", robust, f"{seen} (wanted: no clear difference)"),)
    remarks = (*(_effect(runs, what) for what in MEASURES), PAPER.remark("start_length"))
    scaled = {"images": IMAGES, "judged": JUDGED, "epochs": EPOCHS, "momentum": MOMENTUM}
    deviations = PAPER.deviates("start", "notmnist", "losses", seeds=work.seeds, **scaled)
    return Outcome(tuple(table), claims, deviations, remarks)


def evaluated(work: Workspace, each: Start, seed: int) -> Evaluation:
    """Return one run, trained for the evaluation alone."""
    how = {**FASHION.training, "epochs": EPOCHS, "images": IMAGES, "judged": JUDGED}
    how |= {
        "weight_decay": WEIGHT_DECAY,
        "length_scale": LENGTH_SCALE,
        "momentum": MOMENTUM,
        "start": each,
    }
    make = partial(_evaluated, work, each, seed)
    return work.stage(f"{_slug(each)}-{seed}", Evaluation, make, seed=seed, **how)


def _evaluated(work: Workspace, each: Start, seed: int) -> Evaluation:
    known = _known(work)
    model = _model(known, each, seed)
    epochs: dict[str, Any] = {"epochs": work.count(EPOCHS, 1)}
    train(model, _images(known), seed=seed, weight_decay=WEIGHT_DECAY, **epochs, **FASHION.training)
    sets = {name: unknown_set(name, known, work.root) for name in FASHION.unknown}
    judged = {name: work.few(_evenly(samples, JUDGED)) for name, samples in sets.items()}
    return evaluate(model, work.few(_evenly(known.test, JUDGED)), judged, scores=["max_logit"])


def first_gradients(work: Workspace, starts: list[Start], seed: int) -> Measured:
    """Return the norm of the gradient that each start gives its weights in the first step."""

    def measured() -> Measured:
        stopwatch, known, norms = Stopwatch(), _known(work), dict[str, float]()
        x, y = _images(known).take(slice(BATCH))
        for each in starts:
            model = _model(known, each, seed).train()
            model.loss(x, y)[0].backward()  # type: ignore[no-untyped-call]
            gradients = [weight.grad.flatten() for weight in model.parameters()]  # type: ignore[union-attr]
            norms[_title(each)] = float(torch.cat(gradients).norm())
        return Measured(norms, stopwatch.provenance(seed, {"batch": BATCH}))

    how = {"length_scale": LENGTH_SCALE, "batch": BATCH}
    return work.stage(f"first-gradients-{seed}", Measured, measured, seed=seed, **how)


def _model(known: Known, each: Start, seed: int) -> DUQ:
    spread, loss = each
    own: dict[str, Any] = {"length_scale": LENGTH_SCALE, "momentum": MOMENTUM}
    own |= {"centroid_spread": SPREADS[spread], "normalise": known.normalise}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LOSSES[loss](conv3(), len(known.classes), **own)


@cache
def _loaded(root: str | None) -> Known:
    return Source(FASHION.data).load(root)


def _known(work: Workspace) -> Known:
    return work.known(Source(FASHION.data)) if work.dry else _loaded(work.root)


def _images(known: Known) -> Samples:
    samples = training_part(known)
    return samples.select(torch.arange(min(IMAGES, len(samples))))


def _evenly(samples: Samples, count: int) -> Samples:
    """So many of a set, from all over it, since some are sorted by class."""
    return samples.select(torch.arange(count) * len(samples) // count)


def _alike(runs: Mapping[Start, list[Evaluation]], loss: str) -> bool | None:
    """Whether no measure is clearly higher or lower by the spread alone."""
    verdicts = []
    for measure, _, _ in MEASURES.values():
        wide, narrow = ([measure(one) for one in runs[spread, loss]] for spread in SPREADS)
        verdicts.append(wide == narrow or above(wide, narrow) is None)
    return all(verdicts)


def _by_spread(runs: Mapping[Start, list[Evaluation]], loss: str) -> str:
    parts = []
    for what, (measure, _, _) in MEASURES.items():
        means = [fmean(map(measure, runs[spread, loss])) for spread in SPREADS]
        parts.append(f"{what} {means[0]:.3f} with {_WIDE}, {means[1]:.3f} with {_NARROW}")
    return ", ".join(parts)


def _effect(runs: Mapping[Start, list[Evaluation]], what: str) -> str:
    """By how much each of the two changes a measure, with the other as it may be."""
    measure = MEASURES[what][0]
    values = {each: [measure(one) for one in group] for each, group in runs.items()}
    pairs = {
        "spread_ours": ((_NARROW, OURS), (_WIDE, OURS)),
        "spread_clamped": ((_NARROW, CLAMPED), (_WIDE, CLAMPED)),
        "loss_wide": ((_WIDE, CLAMPED), (_WIDE, OURS)),
        "loss_narrow": ((_NARROW, CLAMPED), (_NARROW, OURS)),
    }
    changes = {key: fmean(values[new]) - fmean(values[old]) for key, (new, old) in pairs.items()}
    clear = sum(above(values[new], values[old]) is not None for new, old in pairs.values())
    more = max(changes, key=lambda key: abs(changes[key])).partition("_")[0]
    told: dict[str, Any] = {key: f"{change:+.3f}" for key, change in changes.items()}
    told |= {"what": what, "wide": _WIDE, "narrow": _NARROW, "more": more, "clear": clear}
    return PAPER.remark("start", **told)


def _title(each: Start) -> str:
    return f"{each[0]}, {each[1]}"


def _slug(each: Start) -> str:
    return f"spread-{SPREADS[each[0]]:g}-{'ours' if each[1] == OURS else 'clamped'}"


_WIDE, _NARROW = SPREADS
_TITLE = "FashionMNIST at σ = 0.1: the first centroids, and the loss far from them"
EXPERIMENTS = (experiment("Start", _TITLE, start, FASHION_SETS, scales=("quick",)),)
