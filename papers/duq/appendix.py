"""Appendix C on two moons: a reversible network (figure 9), and what else the penalty can be on."""

from collections.abc import Sequence
from functools import partial
from statistics import median, stdev

import torch
from torch import Tensor, nn

from nescio.methods import DUQ
from nescio.models import mlp
from papers.duq.compared import PAPER, experiment
from papers.duq.planes import (
    CERTAIN,
    FAR,
    HEAD,
    TWO_SIDED,
    UNCERTAIN,
    Models,
    compare,
    draw,
    duq_model,
    evaluate_models,
    far_away,
    on_data,
    settings,
)
from papers.experiment import Outcome
from papers.workspace import Workspace

COUPLINGS = 4
REVERSIBLE = "reversible network"
SUM = TWO_SIDED  # of all kernels, the paper's choice
KERNELS, FEATURES = "on the kernels", "on the features"
WEAK, SHARED = ", weak", ", shared"  # a tenth of the penalty, and one projection for a batch
PENALTY, WEAK_PENALTY = 1.0, 0.1


class Coupling(nn.Module):
    """One coordinate of the plane moves by a function of the other (Dinh et al. 2014).

    >>> coupling, x = Coupling(moves=1), torch.randn(3, 2)
    >>> torch.allclose(coupling.inverse(coupling(x)), x, atol=1e-6)
    True
    """

    def __init__(self, moves: int) -> None:
        super().__init__()
        self.shift, self.moves = mlp(1, 1, hidden=(20, 20)), moves

    def forward(self, x: Tensor) -> Tensor:
        return x + self._shift(x)

    def inverse(self, y: Tensor) -> Tensor:
        """Return the point that is mapped to y; the coordinate it depends on has not moved."""
        return y - self._shift(y)

    def _shift(self, x: Tensor) -> Tensor:
        shift, rest = self.shift(x[:, [1 - self.moves]]), torch.zeros(len(x), 1, dtype=x.dtype)
        return torch.cat([shift, rest] if self.moves == 0 else [rest, shift], dim=1)


def reversible_duq() -> DUQ:
    """Return DUQ over a network that maps no two points to one, without a penalty."""
    net = nn.Sequential(*(Coupling(moves=i % 2) for i in range(COUPLINGS)))
    return DUQ(net, 2, features=2, **HEAD)


def _on(target: str, weight: float = PENALTY) -> Models:
    """DUQ with the penalty on a target, with a projection for each input and for each batch."""
    name = f"on the {target}{WEAK if weight == WEAK_PENALTY else ''}"
    models = (
        partial(duq_model, weight, penalty_target=target, shared_projection=shared)
        for shared in (False, True)
    )
    return dict(zip((name, name + SHARED), models, strict=True))


OTHERS: Models = {**_on("kernels"), **_on("features"), **_on("kernels", WEAK_PENALTY)}


def figure9(work: Workspace) -> Outcome:
    """A reversible network in place of the penalty."""
    evaluations = evaluate_models(work, (TWO_SIDED, REVERSIBLE), {REVERSIBLE: reversible_duq})
    draw(work, "figure9.svg", evaluations)
    runs = evaluations[REVERSIBLE]
    on, away = median(map(on_data, runs)), median(map(far_away, runs))
    seen = (
        f"median over seeds of its mean certainty: {on:.2f} on test data (wanted: above {CERTAIN}),"
        f" {away:.3f} farther than {FAR:g} from all training points (wanted: below {UNCERTAIN})"
    )
    claims = (PAPER.claim("reversible", on > CERTAIN and away < UNCERTAIN, seen),)
    deviations = PAPER.deviates("reversible", *settings(work), "one_scale", couplings=COUPLINGS)
    return Outcome(compare(evaluations), claims, deviations, (PAPER.remark("reversible"),))


def appendix_c2(work: Workspace) -> Outcome:
    """The penalty on the vector of kernels or on the features, by Hutchinson's estimator."""
    evaluations = evaluate_models(work, (SUM, *OTHERS), OTHERS)
    draw(work, "appendixc.2.svg", evaluations)
    on, away = (
        {title: [measure(run) for run in runs] for title, runs in evaluations.items()}
        for measure in (on_data, far_away)
    )
    own, shared = (KERNELS, FEATURES), (KERNELS + SHARED, FEATURES + SHARED)
    parts = (f"{title}: {median(on[title]):.2f} and {median(away[title]):.3f}" for title in OTHERS)
    medians = f"mean certainty on test data and far away, median over seeds: {'; '.join(parts)}"
    wanted = f"{medians} (wanted: above {CERTAIN}, below {UNCERTAIN})"
    spreads = {title: _spread(values) for title, values in away.items()}
    listed = ", ".join(f"{title}: {value:.3f}" for title, value in spreads.items())
    seen = (
        f"standard deviation over seeds of the mean certainty far away: {listed} (wanted: with a "
        "projection for each input, more than on the sum of kernels)"
    )

    def good(titles: Sequence[str]) -> bool:
        return all(median(on[t]) > CERTAIN and median(away[t]) < UNCERTAIN for t in titles)

    inconsistent = all(spreads[title] > spreads[SUM] for title in own)
    claims = (
        PAPER.claim("both_targets", good(own), wanted),
        PAPER.claim("inconsistent", inconsistent, seen),
        PAPER.claim("shared", good(shared), wanted),
    )
    names = {"own": KERNELS + WEAK, "shared": KERNELS + WEAK + SHARED}
    weak = {f"on_{key}": median(on[name]) for key, name in names.items()}
    weak |= {f"away_{key}": median(away[name]) for key, name in names.items()}
    remark = PAPER.remark("projections", strong=PENALTY, weak=WEAK_PENALTY, **weak)
    deviations = PAPER.deviates("projections", *settings(work), "one_scale")
    return Outcome(compare(evaluations), claims, deviations, (remark, PAPER.remark("consistency")))


def _spread(values: Sequence[float]) -> float:
    return stdev(values) if len(values) > 1 else 0.0


_SEEDS = {"quick": 5, "paper": 5}
_TARGETS = "The penalty on kernels or features, by random projections"
EXPERIMENTS = (
    experiment("Figure 9", "Two moons: a reversible network", figure9, seeds=_SEEDS),
    experiment("Appendix C.2", _TARGETS, appendix_c2, seeds=_SEEDS),
)
