"""Section 2.4: a feature that says nothing of the class, and inputs where it is extreme.

Both features are from a unit Gaussian, and the label is the sign of the first, flipped now and
then. A classifier may ignore the second; then nothing is wrong with an input that has 1000 there.
"""

from functools import partial
from statistics import fmean, median
from typing import Any

import torch
from torch import Tensor, nn

from nescio import predict
from nescio.data import Known, Samples
from nescio.methods import Method, Softmax
from nescio.metrics import auroc
from nescio.models import mlp
from nescio.records import Stopwatch
from papers.duq.compared import PAPER, experiment
from papers.duq.measured import Measured
from papers.duq.planes import EPOCHS, HEAD, TRAINING, Models, duq_model, trained_model
from papers.experiment import Outcome
from papers.over_seeds import above, in_words, over_seeds
from papers.workspace import Workspace

POINTS, FLIPPED = 1000, 0.05
NEAR, FAR = 4.0, 1000.0  # where a feature is put: four standard deviations, and the paper's 1000
PENALTY = 1.0
SOFTMAX, PLAIN, SENSITIVE = "softmax", "DUQ, λ = 0", f"DUQ, λ = {PENALTY:g}"
MODELS: Models = {
    SOFTMAX: lambda: Softmax(mlp(2, 2, hidden=(20, 20, 20))),
    PLAIN: partial(duq_model, 0.0),
    SENSITIVE: partial(duq_model, PENALTY),
}
ACCURACY = "test accuracy"
RATIO = "sensitivity of the features to x₂, as a fraction of that to x₁"
IGNORED, DETECTED = 0.5, 0.95  # a ratio below, an AUROC above: what we take the words to say


def section24(work: Workspace) -> Outcome:
    """Accuracy, sensitivity, and AUROC where either feature is extreme."""
    runs = {title: [_stage(work, title, seed) for seed in range(work.seeds)] for title in MODELS}
    values = {
        title: {what: [run.values[what] for run in group] for what in group[0].values}
        for title, group in runs.items()
    }
    table = [
        over_seeds(f"{title}: {what}", numbers, unit="%" if what == ACCURACY else "")
        for title, measures in values.items()
        for what, numbers in measures.items()
    ]

    def middle(what: str) -> dict[str, float]:
        return {title: median(measures[what]) for title, measures in values.items()}

    ratio, far = middle(RATIO), middle(_against(2, FAR))
    plain, sensitive = values[PLAIN], values[SENSITIVE]
    first, second = (plain[_against(i, NEAR)] for i in (1, 2))
    harder = f"AUROC where x₁ is ±{NEAR:g}: {fmean(first):.3f}, where x₂ is: {fmean(second):.3f}"
    known = (plain[ACCURACY], sensitive[ACCURACY])
    accuracy = f"{fmean(known[0]):.1%} with λ = 0, {fmean(known[1]):.1%} with λ = {PENALTY:g}"
    best = f"the best there is: {1 - FLIPPED:.0%}"
    ignored = f"{RATIO}: {in_words(ratio)} (wanted, of the first two: below {IGNORED})"
    hurt = f"AUROC where x₂ is ±{FAR:g}: {in_words(far)} (wanted, of softmax: below {DETECTED})"
    claims = (
        PAPER.claim("ignored", max(ratio[SOFTMAX], ratio[PLAIN]) < IGNORED, ignored),
        PAPER.claim("hurt", far[SOFTMAX] < DETECTED, hurt),
        PAPER.claim("harder", above(first, second), f"{PLAIN}: {harder}"),
        PAPER.claim("at_odds", above(*known), f"{accuracy}; {best}"),
    )
    told = {"distance": FAR, **{key: far[name] for key, name in _KEYS.items()}}
    along = [fmean(sensitive[_against(i, NEAR)]) for i in (1, 2)]
    near = {"penalty": PENALTY, "distance": NEAR, "first": along[0], "second": along[1]}
    deviations = PAPER.deviates(
        "toy", "losses", "centroids", points=POINTS, flipped=f"{100 * FLIPPED:g} %"
    )
    return Outcome(
        tuple(table),
        claims,
        deviations,
        (PAPER.remark("toy", **told), PAPER.remark("toy_near", **near)),
    )


def toy(seed: int) -> Known:
    """Return points of a plane, and the sign of the first feature, flipped now and then."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2 * POINTS, 2, generator=generator)
    flipped = torch.rand(2 * POINTS, generator=generator) < FLIPPED
    y = ((x[:, 0] > 0) ^ flipped).long()
    train, test = (Samples(x[part], y[part]) for part in (slice(POINTS), slice(POINTS, None)))
    return Known("signs", train, test, ("minus", "plus"), None, "tabular", ("x1", "x2"))


def measure(model: Method, known: Known) -> dict[str, float]:
    """Return accuracy, sensitivity to each feature, and AUROC where one of them is extreme."""
    x, y = known.test.inputs, known.test.labels
    logits = predict(model, x)
    values = {ACCURACY: float((logits[0].argmax(1) == y).double().mean())}
    slopes = sensitivity(model.net, x)
    values[RATIO] = float(slopes[1] / slopes[0])
    own = _uncertainty(model, x)
    for size in (NEAR, FAR):
        for feature in (1, 2):
            moved = x.clone()
            signs = torch.where(x[:, feature - 1] < 0, -1.0, 1.0)
            moved[:, feature - 1] = size * signs
            values[_against(feature, size)] = auroc(own, _uncertainty(model, moved))
            confidence = model.confidence(predict(model, moved))
            values[f"mean confidence where {_where(feature, size)}"] = float(confidence.mean())
    return values


def sensitivity(net: nn.Module, x: Tensor) -> Tensor:
    """Return the root mean square of what a network returns, differentiated by each feature.

    >>> net = nn.Linear(2, 1)
    >>> net.weight.data = torch.tensor([[3.0, -1.0]])
    >>> sensitivity(net, torch.zeros(5, 2))
    tensor([3., 1.])
    """
    jacobian: Tensor = torch.func.vmap(torch.func.jacrev(lambda one: net(one[None])[0]))(
        x
    )  # (N, d, 2)
    return jacobian.square().sum(1).mean(0).sqrt().detach()


def _uncertainty(model: Method, x: Tensor) -> Tensor:
    """The logarithm keeps the order where a kernel is too small for a number."""
    logits = predict(model, x)
    return -model.log_confidence(logits.double()).detach()


def _where(feature: int, size: float) -> str:
    return f"x{'₁₂'[feature - 1]} is ±{size:g}"


def _against(feature: int, size: float) -> str:
    return f"AUROC, test data against points where {_where(feature, size)}"


def _stage(work: Workspace, title: str, seed: int) -> Measured:
    def measured() -> Measured:
        stopwatch, known = Stopwatch(), toy(seed)
        model = trained_model(work, MODELS[title], known, seed)
        return Measured(measure(model, known), stopwatch.provenance(seed, {"model": title}))

    how: dict[str, Any] = {"penalty": PENALTY, "epochs": EPOCHS, **TRAINING, **HEAD}
    name = title.lower().replace(",", "").replace(" = ", "-").replace(" ", "-")
    return work.stage(f"{name.replace('λ', 'penalty')}-{seed}", Measured, measured, **how)


_KEYS = {"softmax": SOFTMAX, "plain": PLAIN, "sensitive": SENSITIVE}
_TITLE = "A feature that does not matter: sensitivity against classification"
EXPERIMENTS = (experiment("Section 2.4", _TITLE, section24, scales=("quick",), seeds={"quick": 5}),)
