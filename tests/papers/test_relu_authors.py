"""The authors' networks: their layers in ours, their published errors, and what is left out."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional as F

import nescio
from nescio.errors import NescioError
from nescio.records import Evaluation
from papers.relu_overconfidence import table1, table2
from papers.relu_overconfidence.authors import authors_network, weights_file
from papers.relu_overconfidence.networks import AUTHORS, KINDS, PAPER, deviations, training_of
from papers.workspace import Workspace

RESULTS = Path(__file__).parents[2] / "results"
DATA = Path(os.environ.get("NESCIO_DATA", ""))
NAMES = [(data, kind) for data in AUTHORS for kind in KINDS]
needs_weights = pytest.mark.skipif(
    not (DATA / "networks" / weights_file("cifar10", "plain")).is_file(),
    reason="needs the authors' networks in $NESCIO_DATA/networks",
)


def logits(x, weights):
    """What the authors' code computes, by their names, in TensorFlow's terms."""

    def active(x, name):
        values = (weights[f"{name}.{key}"] for key in ("running_mean", "running_var"))
        mean, variance = values
        scale, shift = weights[f"{name}.weight"], weights[f"{name}.bias"]
        return F.relu(F.batch_norm(x, mean, variance, scale, shift, eps=1e-5))

    x = F.conv2d(x, weights["stem.weight"], padding=1)
    for i in range(9):
        name, first, strided = f"blocks.{i}", i in (0, 3, 6), i in (3, 6)
        before = active(x, f"{name}.norm1")
        x = before if first else x
        out = F.pad(before, (0, 1, 0, 1) if strided else (1, 1, 1, 1))
        out = F.conv2d(out, weights[f"{name}.conv1.weight"], stride=2 if strided else 1)
        out = active(out, f"{name}.norm2")
        out = F.conv2d(out, weights[f"{name}.conv2.weight"], padding=1)
        if strided:
            x, growth = F.avg_pool2d(x, 2), x.shape[1] // 2
            x = F.pad(x, (0, 0, 0, 0, growth, growth))
        x = x + out
    return F.linear(active(x, "last").mean((2, 3)), weights["fc.weight"], weights["fc.bias"])


@needs_weights
@pytest.mark.parametrize(("data", "kind"), NAMES)
def test_a_network_computes_what_theirs_does(data, kind, seed):
    weights = load_file(DATA / "networks" / weights_file(data, kind))
    x = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(seed))
    model = authors_network(None, data, kind)
    found = nescio.predict(model, x)[0]
    torch.testing.assert_close(found, logits(x, weights), rtol=1e-4, atol=1e-4)
    assert found.shape[1] == (100 if data == "cifar100" else 10)


@pytest.mark.slow
@needs_weights
@pytest.mark.parametrize("kind", KINDS)
def test_the_published_error_is_found_on_all_of_cifar10(kind):
    test = nescio.data.load("cifar10").test
    record = nescio.evaluate(authors_network(None, "cifar10", kind), test, scores=["max_prob"])
    published = PAPER.at("test_error", "cifar10", kind).value
    assert 100 * (1 - record.known.accuracy) == pytest.approx(published, abs=0.5)
    mmc = PAPER.at("table1", "cifar10", "cifar10", kind, "mmc").value
    assert record.known.mmc == pytest.approx(mmc, abs=0.005)


def test_missing_weights_are_an_error(tmp_path):
    with pytest.raises(NescioError, match=r"relu-svhn-acet\.safetensors is missing"):
        authors_network(str(tmp_path), "svhn", "acet")


def work_in(folder):
    return Workspace(folder / "results", folder / "runs", root=str(folder), dry=True)


def test_a_stage_knows_the_weights_it_is_of():
    assert len({training_of(AUTHORS[data], kind)["weights"] for data, kind in NAMES}) == 9


@pytest.mark.parametrize("data", AUTHORS)
def test_nothing_is_said_to_be_trained(data, tmp_path):
    known = nescio.data.load("digits")
    found = deviations(AUTHORS[data], known, work_in(tmp_path))
    assert [one.setting for one in found] == ["networks"]
    others = {"attacks", "evaluation", "low-pass of the noise", "unknown sets"}
    others |= set() if data == "cifar10" else {"known images"}
    plan = replace(AUTHORS[data], unknown=())
    found = table1._deviations(work_in(tmp_path), plan, known, attacked=100)
    assert {one.setting for one in found} == others
    images = [one.ours for one in found if one.setting == "known images"]
    assert ["CIFAR-10 stands in" in ours for ours in images] == {
        "cifar10": [],
        "svhn": [False],
        "cifar100": [True],
    }[data]


def evaluations():
    return {
        kind: [Evaluation.load(RESULTS / "relu-table1-authors" / f"cifar100-{kind}-0.json")]
        for kind in KINDS
    }


def test_without_known_images_only_confidences_are_compared(tmp_path):
    """An AUROC against other images than the network's own would look like the paper's."""
    runs, plan = evaluations(), AUTHORS["cifar100"]
    assert all("no label is right" in one.known.name for group in runs.values() for one in group)
    numbers = table1._numbers(plan, runs)
    assert len(numbers) == 3 * 4  # svhn, cifar10, noise, adversarial noise
    assert all("MMC" in one.what and "adversarial samples" not in one.what for one in numbers)
    full = table1._numbers(replace(plan, images=""), runs)
    assert any("AUROC" in one.what for one in full)
    claims = [claim.says for claim in table1.claims_of(plan, runs)]
    assert len(claims) == 3
    assert not any("test error" in says or "AUROC" in says for says in claims)


def test_the_second_row_of_table_2_is_that_of_any_factor():
    """Of the authors' own networks, which are those of the paper's table."""
    from nescio.records import Audit

    for (data, row), kind in (
        (pair, kind) for pair in PAPER.published["overconfident"].items() for kind in pair[1]
    ):
        if data not in AUTHORS:
            continue
        audit = Audit.load(RESULTS / "relu-table2-authors" / f"{data}-{kind}-0.json")
        assert 100 * audit.ever_overconfident == pytest.approx(row[kind], abs=10)
        assert audit.median_factor == pytest.approx(
            PAPER.at("median_factor", data, kind).value, rel=0.25
        )
        if kind == "plain":  # clipped at the first factor that is certain
            assert 100 * audit.overconfident < row[kind] - 25
    assert table2.LIKE == {"crops": "plain"}
