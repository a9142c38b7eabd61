"""Figure 2: how the two components of a softmax depend on both logits."""

from typing import Any

import torch
from matplotlib.figure import Figure

from nescio.report import title_left
from papers.experiment import Experiment, Outcome
from papers.know_your_limits.models import PAPER
from papers.over_seeds import over_seeds
from papers.workspace import Workspace

REACH = 10.0  # logits drawn, to both sides of 0
FLAT = 0.01  # a slope that we call flat, of at most ¼


def figure2(work: Workspace) -> Outcome:
    """The probabilities of two classes and their slope, at logits in a square."""
    side = torch.linspace(-REACH, REACH, work.count(201, 21), dtype=torch.float64)
    second, first = torch.meshgrid(side, side, indexing="ij")
    logits = torch.stack([first, second], -1).reshape(-1, 2)
    p = logits.softmax(1)
    jacobian = softmax_jacobian(logits)
    slope = jacobian[:, 0, 0]
    work.picture("softmax.svg", _figure(side, p, slope))
    far, other = torch.tensor([[40.0, 0.0], [-40.0, 0.0]]), torch.tensor([[40.0, 40.0]])
    beyond = float(softmax_jacobian(far.double()).abs().amax())
    together = float(softmax_jacobian(other.double())[0, 0, 0])
    opposite = float((jacobian.sum(2)).abs().amax())
    compared = (
        over_seeds("largest slope ∂p₁/∂f₁ (closed form: ¼)", [float(slope.amax())]),
        over_seeds("largest |∂p₁/∂f₁ + ∂p₁/∂f₂| (closed form: 0)", [opposite]),
        over_seeds(
            f"part of the square where it is below {FLAT:g}",
            [float((slope < FLAT).double().mean())],
            unit="%",
        ),
    )
    seen = f"one logit at ±40, the other at 0: {beyond:.2g}; both at 40: {together:.2g}"
    remarks = (PAPER.remark("drawing"), PAPER.remark("together"))
    return Outcome(compared, (PAPER.claim("interplay", beyond < 1e-15, seen),), (), remarks)


def softmax_jacobian(logits: torch.Tensor) -> torch.Tensor:
    """Return `∂p_c / ∂f_c'` `(N, C, C)` at logits `(N, C)`, by automatic differentiation."""
    slopes: torch.Tensor = torch.func.vmap(torch.func.jacrev(lambda f: f.softmax(0)))(logits)
    return slopes


def _figure(side: torch.Tensor, p: torch.Tensor, slope: torch.Tensor) -> Figure:
    figure = Figure(figsize=(10.2, 3.6), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    titles = ("p₁", "p₂", "∂p₁/∂f₁ = −∂p₁/∂f₂")
    for axes, values, title in zip(panels, (p[:, 0], p[:, 1], slope), titles, strict=True):
        rows = values.reshape(len(side), -1).numpy()
        extent = (-REACH, REACH, -REACH, REACH)
        how: dict[str, Any] = {"vmin": 0, "vmax": 0.25 if values is slope else 1}
        drawn = axes.imshow(rows, origin="lower", extent=extent, cmap="viridis", **how)
        axes.contour(rows, 4, extent=extent, colors="white", linewidths=0.6)
        figure.colorbar(drawn, ax=axes, shrink=0.9)
        axes.set(title=title, xlabel="logit f₁")
    panels[0].set_ylabel("logit f₂")
    title_left(figure, "Softmax of two logits: where one is far ahead, nothing changes any more")
    return figure


_TITLE = "How the components of a softmax depend on two logits"
EXPERIMENTS = (Experiment("limits-figure2", 1, "Figure 2", _TITLE, figure2, once=True),)
