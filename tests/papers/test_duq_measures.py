"""DUQ: what is measured beside evaluations, against oracles; and runs that are kept."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import nn

from nescio.data import load
from nescio.errors import NescioError
from nescio.methods import DUQ
from nescio.models import mlp
from nescio.records import Evaluation
from papers.duq import appendix, fashion, irrelevant, kinds, start
from papers.duq.compared import cifar_deviations, cifar_pair
from papers.duq.runs import CIFAR, FASHION, duq_run
from papers.workspace import Workspace

KEPT = Path(__file__).parents[2] / "results" / "duq-fashion-paper"


def duqs(distance, **settings):
    """Our loss and the authors' of one point at a distance of its centroid, n = 1."""
    for kind in (DUQ, start.ClampedDUQ):
        model = kind(nn.Identity(), 2, 1, features=1, **settings)
        model.weight.data.fill_(1.0)
        model.centroids.copy_(torch.tensor([[0.0], [100.0]]))
        model.met.fill_(True)
        loss, _ = model.loss(torch.tensor([[distance]]), torch.tensor([0]))
        loss.backward()
        yield loss.item(), model.weight.grad[0].item()


def test_both_losses_are_one_where_kernels_are_not_small():
    (loss, gradient), (same, slope) = duqs(0.5, length_scale=0.5)
    assert loss == pytest.approx(0.5 * 0.5, rel=1e-6)  # −log K = 1/2, the mean of two classes
    assert (same, slope) == pytest.approx((loss, gradient), rel=1e-5)


def test_far_from_a_centroid_the_authors_loss_has_hardly_a_gradient():
    (loss, gradient), (same, slope) = duqs(1.0, length_scale=0.1)  # −log K = 50
    assert (loss, same) == pytest.approx((25, 25), rel=1e-5)
    assert gradient == pytest.approx(100 / 2)  # of d²/(2σ²), by the weight, the mean of two
    # torch divides by no less than 1e-12, so that a fraction K/1e-12 of it is left
    assert slope == pytest.approx(gradient * math.exp(-50) / 1e-12, rel=1e-3)


def test_the_true_confidence_is_that_of_bayes():
    x = torch.tensor([[-2.0, 1.0], [-0.3, 5.0], [0.0, 0.0], [1.4, -3.0]], dtype=torch.float64)
    left, right = norm.pdf(x[:, 0], -1), norm.pdf(x[:, 0], 1)
    expected = np.maximum(left, right) / (left + right)
    assert kinds.true_confidence(x).numpy() == pytest.approx(expected)


class Bayes(DUQ):
    """Kernels that are the true probabilities, and nothing far from the data."""

    def forward(self, x):
        signs = torch.tensor([-2.0, 2.0])
        near = (torch.cdist(x, self.points).amin(1, keepdim=True) <= 1).to(x.dtype)
        return (torch.sigmoid(signs * x[:, :1]) * near + 1e-9).clamp(max=1).log()


def test_the_kinds_of_a_perfect_model():
    model, known = Bayes(nn.Identity(), 2, features=2), load("two_gaussians", seed=0)
    model.points = known.train.inputs
    values = kinds.measure(model, known)
    assert values[kinds.BAYES] < 1e-6
    assert values[kinds.ALEATORIC] == 1
    assert values[kinds.EPISTEMIC] > 0.99
    assert values[f"{kinds.KINDS}energy"] == values[f"{kinds.KINDS}max_logit"] == 1
    within, beside, away = (values[kinds.SECOND + where] for where in kinds_of_points())
    assert 0.27 < within < 0.5  # 1 / (1 + e) at |x| = 1/2
    assert 0.017 < beside < 0.12  # from 1 / (1 + e⁴) to 1 / (1 + e²)
    assert away < 1e-6


def kinds_of_points():
    return kinds.WITHIN, kinds.BESIDE, kinds.AWAY


def test_labels_of_the_toy_are_signs_flipped_now_and_then():
    known = irrelevant.toy(3)
    for part in (known.train, known.test):
        wrong = (part.inputs[:, 0] > 0).long() != part.labels
        assert wrong.float().mean().item() == pytest.approx(irrelevant.FLIPPED, abs=0.025)
        assert part.inputs.std(0).tolist() == pytest.approx([1, 1], abs=0.1)
    assert not torch.equal(known.train.inputs, known.test.inputs)


def test_sensitivity_is_that_of_small_differences():
    torch.manual_seed(0)
    net, x, step = mlp(2, 4, hidden=(8,)).double(), torch.randn(20, 2).double(), 1e-6
    moves = step * torch.eye(2, dtype=torch.float64)
    slopes = [(net(x + move) - net(x - move)) / (2 * step) for move in moves]
    expected = [slope.square().sum(1).mean().sqrt().item() for slope in slopes]
    assert irrelevant.sensitivity(net, x).tolist() == pytest.approx(expected, rel=1e-6)


def test_couplings_are_reversible_and_keep_areas():
    torch.manual_seed(0)
    net = appendix.reversible_duq().net.double()
    x = torch.randn(50, 2, dtype=torch.float64)
    back = net(x)
    for coupling in reversed(net):
        back = coupling.inverse(back)
    torch.testing.assert_close(back, x)
    jacobian = torch.func.vmap(torch.func.jacrev(lambda one: net(one[None])[0]))(x)
    torch.testing.assert_close(torch.linalg.det(jacobian), torch.ones(50, dtype=torch.float64))
    assert (jacobian - torch.eye(2)).abs().amax(0).min() > 1e-3  # both coordinates do move


@pytest.fixture
def kept(tmp_path):
    """The committed run of the paper's length, and copies of it as other seeds or weights."""
    folder = tmp_path / "kept"
    folder.mkdir()
    names = ("duq-fashion-0-0.json", "duq-fashion-0-0-history.json", "stages.json")
    for name in names:
        shutil.copy(KEPT / name, folder / name)

    def copy(weight, seed):
        stages = json.loads((folder / "stages.json").read_text())
        for end in ("", "-history"):
            old, new = f"duq-fashion-0-0{end}", f"duq-fashion-{weight:g}-{seed}{end}"
            shutil.copy(folder / f"{old}.json", folder / f"{new}.json")
            run = {**stages[old]["run"], "name": f"duq-fashion-{weight:g}"}
            run["own"] = {**run["own"], "gradient_penalty": weight}
            stages[new] = {**stages[old], "run": run, "seed": seed}
        (folder / "stages.json").write_text(json.dumps(stages))

    return folder, copy


def test_rows_are_of_the_runs_that_are_kept(kept, tmp_path):
    folder, copy = kept
    work = Workspace(folder, tmp_path / "none", "paper", seeds=3)
    outcome = fashion.fashion(work)
    assert {one.what.partition(":")[0] for one in outcome.compared} == {"λ = 0 (1 run)"}
    assert outcome.claims[0].holds is None
    assert "no run with λ = 0.05" in outcome.claims[0].seen
    copy(0.0, 2)
    copy(0.05, 0)
    outcome = fashion.fashion(work)
    heads = {one.what.partition(":")[0] for one in outcome.compared}
    assert heads == {"λ = 0 (2 runs)", "λ = 0.05 (1 run)"}
    assert outcome.claims[0].holds is None  # one run is no evidence
    assert not (tmp_path / "none").exists()  # nothing was trained


def test_without_a_run_that_is_kept_there_is_an_error(tmp_path):
    work = Workspace(tmp_path, tmp_path / "runs", "paper", seeds=3)
    with pytest.raises(NescioError, match="duq-table1 --scale paper"):
        fashion.fashion(work)


@pytest.mark.parametrize(("scale", "network"), [("day", "resnet9"), ("paper", "resnet18")])
def test_cifar_has_a_network_and_a_recipe_for_each_scale(scale, network, tmp_path):
    work = Workspace(tmp_path, tmp_path, scale)
    pair = cifar_pair(work)
    assert (pair.network, pair.data, pair.unknown) == (network, CIFAR.data, CIFAR.unknown)
    said = [(one.setting, one.ours) for one in cifar_deviations(work)]
    assert (("network", f"{network} of width 32") in said) == (scale == "day")
    assert duq_run(work, pair, 0.5).own["centroid_spread"] == 0.05
    assert "centroid_spread" not in duq_run(work, FASHION, 0.5).own


def accuracies(*values):
    record = Evaluation.load(KEPT / "duq-fashion-0-0.json")
    return [replace(record, known=replace(record.known, accuracy=value)) for value in values]


def test_the_effects_of_spread_and_loss_are_differences_of_means():
    wide, narrow = start.SPREADS
    runs = {
        (wide, start.OURS): accuracies(0.5, 0.52),
        (narrow, start.OURS): accuracies(0.6, 0.62),
        (wide, start.CLAMPED): accuracies(0.8, 0.82),
        (narrow, start.CLAMPED): accuracies(0.85, 0.87),
    }
    words = start._effect(runs, "accuracy")
    assert "by +0.100 with our loss and +0.050 with the authors'" in words
    assert "by +0.300 with N(0, 1) and +0.250 with N(0, 0.05²): most by the loss." in words
    assert "Of these four differences 4 " in words
    assert start._alike(runs, start.OURS) is False
    runs[narrow, start.OURS] = accuracies(0.4, 0.62)
    assert start._alike(runs, start.OURS) is True
