"""One input is answered the same in every batch, also where many tie, and guarantees hold."""

import pytest
import torch
from torch import nn

import nescio
from nescio.data import Samples
from nescio.detectors.scorer import calibration_scores

KINDS = 4
DETECTORS = {
    "energy": lambda net: nescio.Threshold(net, "energy"),
    "max_prob": lambda net: nescio.Threshold(net, "max_prob"),
    "mahalanobis": nescio.Mahalanobis,
    "knn": nescio.KNN,
    "vim": nescio.ViM,
    "combined": nescio.Combined,
}


def a_table(seed):
    """A network, the few rows that its data consist of, and a way to draw them."""
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5)
    )
    kinds = torch.randint(0, 2, (KINDS, 20)).float()
    generator = torch.Generator().manual_seed(seed)
    return net, kinds, lambda count: torch.randint(0, KINDS, (count,), generator=generator)


def in_batches(ask, kinds, rows):
    """What is answered of rows one by one (of copies, once), in threes, and at once."""
    singly = torch.cat([ask(kind[None]) for kind in kinds])[rows]
    x = kinds[rows]
    return singly, torch.cat([ask(part) for part in x.split(3)]), ask(x)


@pytest.mark.parametrize("make", DETECTORS.values(), ids=DETECTORS)
@pytest.mark.parametrize("how", [{"accept": 0.95}, {"accept": 0.7}])
def test_copies_of_one_row_share_their_fate_in_every_batch(make, how, seed):
    """Of four kinds of rows, a quarter each, none is refused at 0.95, and all answers agree."""
    for number in range(3):
        net, kinds, draw = a_table(100 * seed + number)
        detector = make(net)
        detector.fit(
            kinds[draw(400)], **how, **({"train": kinds[draw(300)]} if detector.learns else {})
        )
        rows = draw(40)
        x = kinds[rows]
        one, three, all_ = in_batches(detector.predict, kinds, rows)
        assert torch.equal(one, three)
        assert torch.equal(one, all_)
        one, three, all_ = in_batches(detector.p_value, kinds, rows)
        assert torch.equal(one, three)
        assert torch.equal(one, all_)
        assert torch.equal(one <= 1 - how["accept"] + 1e-12, detector.predict(x) == -1)
        if how["accept"] == 0.95:
            assert (detector.predict(x) != -1).all()


@pytest.mark.parametrize("score", ["energy", "max_prob"])
def test_the_row_that_all_data_are_copies_of_is_known(score, seed):
    for number in range(6):
        net, kinds, _ = a_table(100 * seed + number)
        detector = nescio.Threshold(net, score).fit(kinds[:1].expand(50, 20))
        for size in (1, 2, 3, 7, 50, 300):
            x = kinds[:1].expand(size, 20)
            assert (detector.predict(x) != -1).all()
            assert (detector.p_value(x) == 1).all()


def test_each_class_keeps_its_fraction_in_every_batch(seed):
    for number in range(6):
        net, kinds, draw = a_table(100 * seed + number)
        net[-1].bias.data -= net(kinds).detach().mean(0)  # so that not all rows have the same class
        classes = net(kinds).argmax(1).unique()
        keep = nn.Linear(5, len(classes), bias=False)
        keep.weight.data = torch.eye(5)[classes]
        detector = nescio.Threshold(nn.Sequential(net, keep), "energy")
        detector.fit(kinds[draw(400)], accept=0.9, per_class=True)
        assert all(
            (predicted != -1).all() for predicted in in_batches(detector.predict, kinds, draw(60))
        )


@pytest.mark.parametrize("score", ["energy", "max_prob"])
def test_the_risk_is_bounded_where_the_highest_scoring_row_is_always_wrong(score, seed):
    """It must be refused, singly as in batches, and nothing else: all others are correct."""
    for number in range(8):
        net, kinds, draw = a_table(100 * seed + number)
        answers, worst = net(kinds).argmax(1), nescio.Threshold(net, score).score(kinds).argmax()
        truth = torch.where(torch.arange(KINDS) == worst, (answers + 1) % 5, answers)
        rows, new = draw(1000), draw(90)
        detector = nescio.Threshold(net, score).fit(Samples(kinds[rows], truth[rows]), risk=0.05)
        for predicted in in_batches(detector.predict, kinds, new):
            assert torch.equal(predicted == -1, new == worst)
        assert detector.controlled.errors == 0
        assert detector.controlled.accepted == int((rows != worst).sum())


@pytest.mark.parametrize("make", DETECTORS.values(), ids=DETECTORS)
@pytest.mark.parametrize("place", [0, 17])
def test_one_outlier_among_calibration_data_hardly_moves_the_threshold(make, place):
    """A threshold is nearly a rank: what is far away is refused as before, and so is the risk."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 20), nn.ReLU(), nn.Linear(20, 3))
    train, known, far = torch.randn(2000, 5), torch.randn(500, 5), 4 * torch.randn(1000, 5) + 8
    detector = make(net)
    how = {"train": train} if detector.learns else {}
    before = (detector.fit(known, **how).predict(far) == -1).double().mean()
    for size in (1e4, 1e6):
        spoiled = known.clone()
        spoiled[place, 2] = size
        after = (detector.fit(spoiled, **how).predict(far) == -1).double().mean()
        assert after > before - 0.03


def measured_noise(net, x):
    detector = nescio.Threshold(net, "energy")
    return calibration_scores(detector, x)[0].noise


def test_noise_is_measured_but_not_that_of_a_model_which_answers_otherwise_in_another_batch():
    class ByBatch(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(2, 3)

        def forward(self, x):
            return self.head(x) * (1 + 1 / len(x))

    torch.manual_seed(0)
    x = torch.randn(100, 2)
    assert measured_noise(ByBatch(), x) == 0
    net, kinds, draw = a_table(0)
    assert 0 < measured_noise(net, kinds[draw(100)]) < 1e-5
