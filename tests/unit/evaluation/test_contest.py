"""All detectors on the same data: what each would find by itself, in a record and a table."""

import io

import pytest
import torch
from rich.console import Console
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nescio
from feature_data import digits, digits_model
from nescio.data import noise
from nescio.data.batches import halves
from nescio.detectors import DETECTORS
from nescio.errors import NescioError
from nescio.records import Contest
from nescio.report.ranking import ranking_table, ranking_tables
from quality_bars import bar


@pytest.fixture(scope="module")
def known():
    return digits()


@pytest.fixture(scope="module")
def model():
    return digits_model(0)


@pytest.fixture(scope="module")
def record(model, known):
    sets = {"digits": known.unseen, "uniform": noise.samples("uniform", known.test, 200)}
    return nescio.contest(model, known.test, sets, known.train)


def test_takes_in_every_detector(record):
    names = {one.name for one in record.contestants}
    assert {"max_prob", "energy", *DETECTORS} - names == {"threshold", "meta"}
    assert set(record.skipped) == {"meta"}
    assert record.unknown == {"digits": 533, "uniform": 200}
    assert abs(record.known - record.calibrated) <= 1


def test_says_of_each_what_it_finds_alone(record, model, known):
    calibration, test = halves(known.test)
    x = torch.cat([x for x, _ in test])
    detector = nescio.Threshold(model, "energy").fit(calibration)
    found = next(one for one in record.contestants if one.name == "energy")
    assert found.auroc["digits"] == nescio.metrics.auroc(
        detector.score(x), detector.score(known.unseen)
    )
    assert found.fpr95["digits"] == nescio.metrics.fpr_at_tpr(
        detector.score(x), detector.score(known.unseen)
    )
    assert found.mean == pytest.approx(sum(found.auroc.values()) / 2)


def test_the_best_is_first_and_all_clear_their_bar(record):
    means = [one.mean for one in record.contestants]
    assert means == sorted(means, reverse=True)
    assert means[0] > 0.95
    aurocs = {one.name: one.auroc["digits"] for one in record.contestants}
    assert {name: auroc for name, auroc in aurocs.items() if auroc <= bar(name).auroc} == {}


def test_round_trip_and_tables(record, tmp_path):
    record.save(tmp_path / "c.json")
    assert Contest.load(tmp_path / "c.json") == record
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(ranking_tables(record))
    printed = console.export_text()
    for one in record.contestants:
        assert f"| {one.name} | {one.mean:.3f} | " in ranking_table(record).markdown()
        assert one.name in printed
    assert "fraction of unknown inputs accepted" in printed.replace("\n", " ")


def test_what_cannot_work_is_left_out_with_the_reason(known):
    class Headless(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(7, 64))

        def forward(self, x):
            return x.flatten(1) @ self.weight.T

    record = nescio.contest(
        Headless(), known.test, {"digits": known.unseen}, candidates=["energy", "mahalanobis"]
    )
    assert [one.name for one in record.contestants] == ["energy"]
    assert "no linear layer" in record.skipped["mahalanobis"]
    with pytest.raises(NescioError, match=r"none of mahalanobis can work here; .*no linear layer"):
        nescio.contest(Headless(), known.test, {"digits": known.unseen}, candidates=["mahalanobis"])


def test_bad_input_is_reported(model, known):
    with pytest.raises(NescioError, match="must come with names"):
        nescio.contest(model, known.test, known.unseen)
    with pytest.raises(NescioError, match="did you mean 'energy'"):
        nescio.contest(model, known.test, {"digits": known.unseen}, candidates=["enrgy"])


def test_refuses_training_data_that_can_be_read_only_once():
    x = torch.randn(100, 2)
    with pytest.raises(NescioError, match="can be read only once"):
        nescio.contest(torch.nn.Linear(2, 3), x, {"far": 9 * x}, iter(x.split(10)))


def test_a_seed_fixes_the_halves_and_is_on_record(model, known):
    sets = {"digits": known.unseen}
    first, same, other = (
        nescio.contest(model, known.test, sets, candidates=["energy"], seed=seed)
        for seed in (5, 5, 6)
    )
    assert (first.provenance.seed, other.provenance.seed) == (5, 6)
    assert first.contestants[0].auroc == same.contestants[0].auroc != other.contestants[0].auroc


def test_a_loader_that_shuffles_comes_in_one_order_for_all(model, known):
    shuffled = DataLoader(TensorDataset(known.test.inputs, known.test.labels), 64, shuffle=True)
    found = nescio.contest(
        model, shuffled, {"digits": known.unseen}, candidates=["energy", "max_prob"]
    )
    assert found.known + found.calibrated == len(known.test)
