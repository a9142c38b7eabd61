"""Section 2.3: which uncertainty is of the data and which of the model, made a measurement.

Two overlapping Gaussians, of which the probability of a class is known: `1 / (1 + exp(−2 x))`.
Where they overlap the class cannot be known (aleatoric); far from all points nothing was learned
(epistemic); beside the overlap there is neither.
"""

from functools import partial
from statistics import fmean, median

import torch
from torch import Tensor

from nescio import predict
from nescio.data import Known, load
from nescio.methods import Ensemble, Method
from nescio.metrics import auroc
from nescio.records import Stopwatch
from nescio.scores import SCORES
from papers.duq.compared import PAPER, experiment
from papers.duq.measured import Measured
from papers.duq.planes import (
    EPOCHS,
    GAUSSIAN_PENALTY,
    HEAD,
    OVERLAP,
    TRAINING,
    Models,
    deep_ensemble,
    duq_model,
    empty,
    trained_model,
)
from papers.experiment import Outcome
from papers.over_seeds import above, over_seeds
from papers.workspace import Workspace

DUQ_MODEL, ENSEMBLE = "DUQ", "deep ensemble of 5"
MODELS: Models = {DUQ_MODEL: partial(duq_model, GAUSSIAN_PENALTY), ENSEMBLE: deep_ensemble}
WITHIN, BESIDE, AWAY = "in the overlap", "beside it", "far away"
ALEATORIC, EPISTEMIC = (
    "AUROC, beside it against in the overlap",
    "AUROC, beside it against far away",
)
KINDS = "AUROC, in the overlap against far away, by "
BAYES = "mean difference from the largest true probability, test data"
SECOND = "mean of the second-largest kernel "
SEPARATES, HARDLY = 0.9, 0.75  # what we take an AUROC to say


def section23(work: Workspace) -> Outcome:
    """DUQ and an ensemble, against points of each kind."""
    runs = {title: [_stage(work, title, seed) for seed in range(work.seeds)] for title in MODELS}
    table = [
        over_seeds(f"{title}: {what}", [run.values[what] for run in group])
        for title, group in runs.items()
        for what in group[0].values
    ]
    middle = {
        title: {what: median(run.values[what] for run in group) for what in group[0].values}
        for title, group in runs.items()
    }
    duq, ensemble = middle[DUQ_MODEL], middle[ENSEMBLE]
    own = "AUROC {:.2f} in the overlap and {:.2f} far away, against points beside the overlap"
    both = own.format(duq[ALEATORIC], duq[EPISTEMIC])
    one = own.format(ensemble[ALEATORIC], ensemble[EPISTEMIC])
    captured = duq[ALEATORIC] > SEPARATES and duq[EPISTEMIC] > SEPARATES
    only = ensemble[ALEATORIC] > SEPARATES and ensemble[EPISTEMIC] < HARDLY
    seconds = {
        where: [run.values[SECOND + where] for run in runs[DUQ_MODEL]] for where in (WITHIN, BESIDE)
    }
    near = ", ".join(f"{fmean(values):.2f} {where}" for where, values in seconds.items())
    claims = (
        PAPER.claim("both_kinds", captured, f"{both} (wanted: both above {SEPARATES})"),
        PAPER.claim(
            "near_both", above(seconds[WITHIN], seconds[BESIDE]), f"second-largest kernel: {near}"
        ),
        PAPER.claim("entropy", only, f"{one} (wanted: above {SEPARATES}, and below {HARDLY})"),
    )
    told = {"energy": duq[f"{KINDS}energy"], "largest": duq[f"{KINDS}max_logit"]}
    told |= {"information": ensemble[f"{KINDS}mutual_information"]}
    deviations = PAPER.deviates(
        "gaussians", "kinds", "losses", "centroids", penalty=GAUSSIAN_PENALTY
    )
    return Outcome(tuple(table), claims, deviations, (PAPER.remark("kinds", **told),))


def measure(model: Method, known: Known) -> dict[str, float]:
    """Return a model's confidence where the kinds of points are, and how well scores part them."""
    x = known.test.inputs
    side = x[:, 0].abs()
    regions = {WITHIN: x[side < 0.5], BESIDE: x[(side > 1) & (side < 2)]}
    regions[AWAY] = empty(known, OVERLAP)
    logits = {where: predict(model, points) for where, points in regions.items()}
    confidence = {where: model.confidence(each) for where, each in logits.items()}
    values = {f"mean confidence {where}": _mean(each) for where, each in confidence.items()}
    own = {where: -model.log_confidence(each.double()) for where, each in logits.items()}
    values[BAYES] = _mean((model.confidence(predict(model, x)) - true_confidence(x)).abs())
    values[ALEATORIC] = auroc(own[BESIDE], own[WITHIN])
    values[EPISTEMIC] = auroc(own[BESIDE], own[AWAY])
    ensemble = isinstance(model, Ensemble)
    for name in ("entropy", "mutual_information") if ensemble else ("max_logit", "energy"):
        within, away = (SCORES[name](logits[where]) for where in (WITHIN, AWAY))
        values[KINDS + name] = auroc(within, away)
    if not ensemble:
        kernels = {where: each[0].exp().topk(2).values[:, 1] for where, each in logits.items()}
        values |= {SECOND + where: _mean(each) for where, each in kernels.items()}
    return values


def true_confidence(x: Tensor) -> Tensor:
    """Return the largest class probability of unit Gaussians at (∓1, 0).

    >>> true_confidence(torch.tensor([[0.0, 3.0], [-1.0, 0.0]]))
    tensor([0.5000, 0.8808])
    """
    return torch.sigmoid(2 * x[:, 0].abs())


def _stage(work: Workspace, title: str, seed: int) -> Measured:
    def measured() -> Measured:
        stopwatch, known = Stopwatch(), load("two_gaussians", seed=seed)
        model = trained_model(work, MODELS[title], known, seed)
        return Measured(measure(model, known), stopwatch.provenance(seed, {"model": title}))

    how = {"penalty": GAUSSIAN_PENALTY, "epochs": EPOCHS, **TRAINING, **HEAD}
    return work.stage(f"{title.lower().replace(' ', '-')}-{seed}", Measured, measured, **how)


def _mean(values: Tensor) -> float:
    return float(values.double().mean())


_TITLE = "Epistemic and aleatoric uncertainty of two Gaussians"
EXPERIMENTS = (experiment("Section 2.3", _TITLE, section23, scales=("quick",), seeds={"quick": 5}),)
