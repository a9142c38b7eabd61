"""Lemmas 1 to 4 as they are printed: where they hold, and a counter-example where they do not."""

import math
from functools import partial

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from nescio.audit import asymptote, local_affine, monotone, scaling
from nescio.models import mlp
from nescio.records import Monotonicity, Scaling
from nescio.report import despine, line_style, title_left
from papers.experiment import Experiment, Outcome
from papers.know_your_limits.figure2 import softmax_jacobian
from papers.know_your_limits.models import PAPER
from papers.over_seeds import over_seeds
from papers.workspace import Workspace

GAP = 60.0  # by which a logit is ahead where limits are looked at
CLASSES = (2, 3, 10)


def lemmas(work: Workspace) -> Outcome:
    """Two networks that meet the premise, one for lemma 1 and one for lemma 4; limits of others."""
    points = work.count(4096, 64)
    looked: dict[str, Monotonicity] = {}
    for name, low, high in (("kinked", [0.0], [math.inf]), ("tied", [0.0, 0.1], [math.inf, 5.0])):
        search = partial(monotone, NETS[name](), low, high, points=points, progress=False)
        looked[name] = work.stage(f"monotone-{name}", Monotonicity, search, points=points)
    x = torch.tensor([[1.0, 0.5]])
    scale = partial(scaling, tied(), x, features=[0], rays=False, progress=False)
    scaled = work.stage("scaling-tied", Scaling, scale)
    second = _largest_slopes(work.count(1000, 20))
    same, others = _lemma3(work.count(100, 5))
    work.picture("lemmas.svg", _figure(scaled))
    return _outcome(looked, scaled, second, same, others)


def kinked() -> nn.Module:
    """Return the ReLU network of x with the logits `|x − 5|` and `|x − 5| + x`.

    >>> kinked()(torch.tensor([[2.0]], dtype=torch.float64)).tolist()
    [[3.0, 5.0]]
    """
    first, last = nn.Linear(1, 4), nn.Linear(4, 2)
    for layer, weight, bias in (
        (first, [[1.0], [-1.0], [1.0], [-1.0]], [-5.0, 5.0, 0.0, 0.0]),
        (last, [[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, -1.0]], [0.0, 0.0]),
    ):
        layer.load_state_dict({"weight": torch.tensor(weight), "bias": torch.tensor(bias)})
    return nn.Sequential(first, nn.ReLU(), last).double()


def tied() -> nn.Module:
    """Return the linear network of (x, y) with the logits `x + y`, `x − y` and 0."""
    net = nn.Linear(2, 3, bias=False)
    net.load_state_dict({"weight": torch.tensor([[1.0, 1.0], [1.0, -1.0], [0.0, 0.0]])})
    return net.double()


NETS = {"kinked": kinked, "tied": tied}


def _largest_slopes(count: int) -> float:
    """Return the largest `|∂p_c / ∂f_c'|` with one of random logits far above or below others."""
    generator = torch.Generator().manual_seed(0)
    largest = []
    for classes in CLASSES:
        logits = torch.randn(count, classes, generator=generator, dtype=torch.float64)
        for far in (GAP, -GAP):
            moved = logits.clone()
            moved[:, 0] = far
            largest.append(float(softmax_jacobian(moved)[:, 0].abs().amax()))
    return max(largest)


def _lemma3(count: int) -> tuple[list[float], list[float]]:
    """Return `(∂p_c / ∂f_c')⁻¹ − ∂f_c' / ∂x_d` far along rays, for c = c' and for c ≠ c'."""
    same, others = [], []
    for classes in CLASSES:
        with torch.random.fork_rng():
            torch.manual_seed(classes)
            net, x = mlp(3, classes, hidden=(20, 20)).double(), torch.randn(count, 3).double()
        way = torch.zeros_like(x)
        way[:, 0] = x[:, 0]  # scaling the first feature moves x along it
        law = asymptote(net, x, way, progress=False)
        ahead = law.slope.sort(1).values
        # where the largest logit is ahead by the gap of all others, and every law holds
        t = torch.maximum(2 * GAP / (ahead[:, -1] - ahead[:, -2]), 1.01 * law.start + 1)
        z = law.at(t)
        lead = z.amax(1) - z.topk(2, 1).values[:, 1]
        steep = (lead > GAP) & (lead < 5 * GAP)  # else numbers run out of digits
        slopes = local_affine(net, (x + t[:, None] * way)[steep])[0][:, None, :, 0]
        difference = 1 / _exact_jacobian(z[steep]) - slopes
        diagonal = torch.eye(classes, dtype=torch.bool).expand_as(difference)
        same += difference[diagonal].tolist()
        others += difference[~diagonal].tolist()
    return same, others


def _exact_jacobian(z: Tensor) -> Tensor:
    """Return `p_c (1(c = c') − p_c')` `(N, C, C)`, with all digits where some p rounds to 1."""
    log_p = z.log_softmax(1)
    rest = z[:, None, :].expand(-1, z.shape[1], -1)
    itself = torch.eye(z.shape[1], dtype=torch.bool)
    log_rest = rest.masked_fill(itself, -torch.inf).logsumexp(2) - z.logsumexp(1, keepdim=True)
    products = -(log_p[:, :, None] + log_p[:, None, :]).exp()
    return torch.where(itself, (log_p + log_rest).exp()[:, :, None], products)


def _outcome(
    looked: dict[str, Monotonicity],
    scaled: Scaling,
    second: float,
    same: list[float],
    others: list[float],
) -> Outcome:
    x = torch.tensor([[2.0], [8.0]])
    slopes = local_affine(kinked(), x)[0][:, 0, 0].tolist()
    direction = scaled.directions[0]
    assert direction.confidence is not None  # noqa: S101 - the input is not 0
    norms = direction.scores[0].gradient_mean if direction.scores else ()
    before, after = norms[0], norms[-1]
    far = f"×{scaled.factors[-1]:,.0f}"
    premise = all(bool(one.monotone) for one in looked.values())
    points = f"no exception among {looked['kinked'].points} points"
    compared = (
        over_seeds(f"lemma 2: largest slope, one logit at ±{GAP:g} (in the limit: 0)", [second]),
        over_seeds("lemma 3, c = c': log₁₀ of the smallest value", [math.log10(min(same))]),
        over_seeds("lemma 3, c ≠ c': log₁₀ of minus the largest", [math.log10(-max(others))]),
        over_seeds(f"lemma 4, a tie: gradient of 1 − max p at {far} (as printed: 0)", [after]),
        over_seeds(f"lemma 4, a tie: confidence at {far}", [direction.confidence[-1]], unit="%"),
    )
    signs = f"at least {min(same):.2g} for c = c', at most {max(others):.2g} for c ≠ c'"
    kink = f"slopes of f₁ = |x − 5| at 2 and 8: {slopes[0]:+g} and {slopes[1]:+g}"
    tie = f"f = (x + y, x − y, 0), y = 0.5: ‖∇(1 − max p)‖ {before:.3f} at first, {after:.3f} {far}"
    claims = (
        PAPER.claim("lemma1", slopes[0] * slopes[1] > 0, f"{kink}; p is monotone: {points}"),
        PAPER.claim("lemma2", second < 1e-20, f"largest slope {second:.2g}"),
        PAPER.claim("lemma3", min(*same, *others) > 0, signs),
        PAPER.claim("lemma4", after < 1e-6 * before, tie),
    )
    names = ("lemma1", "lemma2", "lemma3", "lemma4") if premise else ("lemma2", "lemma3")
    return Outcome(compared, claims, (), tuple(PAPER.remark(name) for name in names))


def _figure(scaled: Scaling) -> Figure:
    figure = Figure(figsize=(8.4, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    x = torch.linspace(0, 12, 241, dtype=torch.float64)[:, None]
    with torch.no_grad():
        logits = kinked()(x)
    for number in range(2):
        left.plot(x[:, 0], logits[:, number], label=f"f{'₁₂'[number]}", **line_style(number))
    left.plot(x[:, 0], 10 * logits.softmax(1)[:, 1], label="10 p₂", **line_style(2))
    left.set(title="lemma 1: p is monotone, no logit is", xlabel="x")
    left.legend(frameon=False)
    direction = scaled.directions[0]
    right.plot(scaled.factors, direction.confidence or (), label="confidence", **line_style(0))
    for course in (direction.scores or ())[:1]:
        label = "‖∇(1 − max p)‖"
        right.plot(scaled.factors, course.gradient_mean, label=label, **line_style(1))
    right.set(title="lemma 4: two logits tie", xlabel="factor of x", xscale="log", ylim=(0, 1.02))
    right.legend(frameon=False)
    despine(left, right)
    title_left(figure, "Where lemmas 1 and 4, as printed, have an exception")
    return figure


_TITLE = "Lemmas 1 to 4 as they are printed, with exceptions to three of them"
EXPERIMENTS = (Experiment("limits-lemmas", 1, "Lemmas 1 to 4", _TITLE, lemmas, once=True),)
