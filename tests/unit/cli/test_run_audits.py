"""All audits of a run: what is printed and what is written, for each kind of data and model."""

import pytest
import torch

from nescio.audit import overconfidence
from nescio.cli import run_audits as audits
from nescio.data import load
from nescio.methods import DUQ, Ensemble, Softmax
from nescio.models import mlp
from nescio.records import Audit, Regions
from nescio.report.audit import audit_tables


@pytest.fixture
def moons():
    return load("two_moons")


def small(known):
    torch.manual_seed(0)
    return Softmax(mlp(2, 2, hidden=(6,)), normalise=known.normalise)


def run(folder, model, known, **how):
    how |= {"rows": 5, "trials": 20, "scaled": False}
    return list(audits.RunAudits(folder, model, known, **how).run())


def test_two_features_have_their_regions_drawn(moons, tmp_path):
    printed = run(tmp_path, small(moons), moons)
    record = Regions.load(tmp_path / "regions.json")
    assert record.covered == pytest.approx(1)
    assert record.points is not None
    assert printed[2] == (
        f"{record.count} linear regions around the data, {record.unbounded} unbounded.\n"
    )
    assert (tmp_path / "regions.svg").exists()
    (left, right), (bottom, top) = record.window
    x, _ = moons.train.take(slice(None))
    assert left < x[:, 0].min() < x[:, 0].max() < right
    assert bottom < x[:, 1].min() < x[:, 1].max() < top


def test_too_many_regions_are_reported_and_spoil_nothing(moons, tmp_path, monkeypatch):
    monkeypatch.setattr(audits, "MAX_REGIONS", 3)
    printed = run(tmp_path, small(moons), moons)
    assert "not drawn: more than 3 linear regions" in printed[2]
    assert Audit.load(tmp_path / "audit.json").trials == 20
    assert not (tmp_path / "regions.json").exists()


@pytest.mark.parametrize(
    "make",
    [lambda: DUQ(mlp(2, hidden=(6,)), 2), lambda: Ensemble(lambda: mlp(2, 2, hidden=(6,)), 2)],
)
def test_kernels_and_draws_have_no_regions(make, moons, tmp_path):
    torch.manual_seed(0)
    printed = run(tmp_path, make(), moons)
    assert len(printed) == 3
    assert not (tmp_path / "regions.json").exists()


def test_the_verdict_is_the_record_s(moons, tmp_path):
    model = small(moons)
    _, verdict, _, saved = run(tmp_path / "new" / "folder", model, moons, seed=3)
    found = overconfidence(model, box=audits.box_of(moons), trials=20, seed=3)
    assert [str(part) for part in verdict.renderables[:2]] == [
        str(part) for part in audit_tables(found).renderables[:2]
    ]
    for name in ("features", "audit", "regions"):
        for suffix in ("json", "svg"):
            assert f"{name}.{suffix}" in saved
            assert (tmp_path / "new" / "folder" / f"{name}.{suffix}").stat().st_size


def test_images_have_neither_features_nor_regions(tmp_path):
    digits = load("digits")
    torch.manual_seed(0)
    run(tmp_path, Softmax(mlp(64, 10, hidden=(8,)), normalise=digits.normalise), digits)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["audit.json", "audit.svg"]
    record = Audit.load(tmp_path / "audit.json")
    assert (record.low, record.high) == ((0.0,), (1.0,))
