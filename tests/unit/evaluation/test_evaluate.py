import collections
import dataclasses

import numpy as np
import pytest
import torch
from sklearn.metrics import auc, average_precision_score, log_loss, roc_auc_score
from torch import nn
from torch.utils.data import DataLoader

import nescio
from nescio.core.logits import softmax_confidence
from nescio.data import Samples
from nescio.errors import NescioError
from nescio.records import Evaluation
from nescio.scores import OF_LOGITS, usual_scores


class FixedLogits(nn.Module):
    """A model whose logits are its inputs."""

    def forward(self, x):
        return x


class Counted(FixedLogits):
    """The same, as three draws, counting what it is asked."""

    def __init__(self):
        super().__init__()
        self.asked = collections.UserList()  # which replicas share

    def forward(self, x):
        self.asked.append(len(x))
        return torch.stack([x, 0.5 * x, x + 0.3])


@pytest.fixture
def sides(seed):
    generator = torch.Generator().manual_seed(seed)
    known = Samples(
        2 * torch.randn(200, 4, generator=generator),
        torch.randint(4, (200,), generator=generator),
        name="k",
    )
    return known, torch.randn(100, 4, generator=generator)


def test_figures_are_scikit_learns(sides):
    known, unknown = sides
    record = nescio.evaluate(FixedLogits(), known, {"u": unknown})
    p, q = (v.double().softmax(-1).numpy() for v in (known.inputs, unknown))
    labels = known.labels.numpy()
    correct = p.argmax(-1) == labels
    assert record.known.accuracy == correct.mean()
    assert record.known.mmc == pytest.approx(p.max(-1).mean(), abs=1e-12)
    assert record.known.nll == pytest.approx(log_loss(labels, p), abs=1e-9)
    assert record.known.brier == pytest.approx(
        ((p - np.eye(4)[labels]) ** 2).sum(-1).mean(), abs=1e-12
    )
    assert record.unknown[0].mmc == pytest.approx(q.max(-1).mean(), abs=1e-12)
    found = {one.score: one for one in record.unknown[0].separation}
    entropy = [-(v * np.log(v)).sum(-1) for v in (p, q)]
    truth = np.repeat([0, 1], [200, 100])
    assert found["entropy"].auroc == pytest.approx(
        roc_auc_score(truth, np.concatenate(entropy)), abs=1e-12
    )
    ranked = np.concatenate([1 - p.max(-1), 1 - q.max(-1)])
    assert found["max_prob"].aupr_out == pytest.approx(
        average_precision_score(truth, ranked), abs=1e-12
    )
    assert found["max_prob"].aupr_in == pytest.approx(
        average_precision_score(1 - truth, -ranked), abs=1e-12
    )
    threshold = np.sort(1 - p.max(-1))[189]
    assert found["max_prob"].fpr95 == pytest.approx((1 - q.max(-1) <= threshold).mean(), abs=1e-12)
    wrong = next(one for one in record.known.misclassification if one.score == "entropy")
    assert wrong.auroc == pytest.approx(roc_auc_score(~correct, entropy[0]), abs=1e-12)


def test_many_scores_cost_one_forward_pass(sides):
    known, unknown = sides
    model = Counted()
    record = nescio.evaluate(model, known, {"u": unknown})
    assert sum(model.asked) == 300
    assert record.draws == 3
    assert {one.score for one in record.unknown[0].separation} == set(OF_LOGITS)


def test_histograms_and_curves_account_for_every_input(sides):
    known, unknown = sides
    record = nescio.evaluate(FixedLogits(), known, {"u": unknown})
    assert [one.score for one in record.histograms] == [str(spec) for spec in usual_scores(1)]
    for histogram in record.histograms:
        assert sum(histogram.counts["known"]) == 200
        assert sum(histogram.counts["u"]) == 100
        assert len(histogram.edges) == len(histogram.counts["u"]) + 1
    curve = record.unknown[0].rejection[0]
    assert curve.accuracy[0] == pytest.approx(record.known.accuracy * 200 / 300)
    assert curve.maximum[0] == pytest.approx(200 / 300)
    assert curve.area <= curve.maximum_area


def test_each_score_has_a_roc_curve_whose_area_is_its_auroc(sides):
    known, unknown = sides
    record = nescio.evaluate(FixedLogits(), known, {"u": unknown})
    found = record.unknown[0]
    assert (
        [one.score for one in found.roc]
        == [one.score for one in found.separation]
        == [str(spec) for spec in usual_scores(1)]
    )
    for curve, figures in zip(found.roc, found.separation, strict=True):
        assert (len(curve.known), len(curve.unknown)) == (201, 201)
        assert (curve.known[0], curve.unknown[0], curve.known[-1], curve.unknown[-1]) == (
            0,
            0,
            1,
            1,
        )
        assert auc(curve.unknown, curve.known) == pytest.approx(figures.auroc, abs=1e-4)


def test_roc_takes_known_inputs_as_the_positives():
    known, unknown = torch.tensor([[9.0, 0.0], [8.0, 0.0]]), torch.tensor([[0.1, 0.0], [0.2, 0.0]])
    record = nescio.evaluate(
        FixedLogits(),
        Samples(known, torch.zeros(2, dtype=torch.long)),
        {"u": unknown},
        scores=["margin"],
    )
    curve = record.unknown[0].roc[0]
    assert (curve.unknown, curve.known) == ((0, 0, 0, 0.5, 1), (0, 0.5, 1, 1, 1))


def test_confidence_is_counted_from_0_to_1(sides):
    known, unknown = sides
    found = nescio.evaluate(FixedLogits(), known, {"u": unknown}).confidence
    assert found.score == "confidence"
    assert found.edges == pytest.approx(np.linspace(0, 1, 51), abs=1e-15)
    for side, x in (("known", known.inputs), ("u", unknown)):
        largest = x.double().softmax(-1).amax(-1).numpy()
        assert found.counts[side] == tuple(np.histogram(largest, 50, (0, 1))[0])


def test_confidence_is_what_the_method_says(seed):
    """Of DUQ it is the largest kernel, which is 1 at a centroid and 0 far from all of them."""
    torch.manual_seed(seed)
    model = nescio.methods.DUQ(nn.Identity(), classes=2, features=2, length_scale=0.5)
    at_centroids = torch.linalg.solve(model.weight.detach(), model.centroids)  # W_c x = e_c
    known = Samples(at_centroids, torch.arange(2))
    record = nescio.evaluate(model, known, {"away": at_centroids + 1e4})
    assert (record.confidence.counts["known"][-1], record.confidence.counts["away"][0]) == (2, 2)
    assert (record.known.mmc, record.unknown[0].mmc) == pytest.approx((1, 0), abs=1e-4)


def test_a_record_of_many_scores_and_sets_is_a_small_file(seed):
    generator = torch.Generator().manual_seed(seed)
    known = Samples(torch.randn(2000, 10, generator=generator), torch.zeros(2000, dtype=torch.long))
    sets = {name: torch.randn(2000, 10, generator=generator) for name in ("a", "b", "c")}
    record = nescio.evaluate(FixedLogits(), known, sets)
    assert (len(record.histograms), len(record.unknown)) == (6, 3)
    assert len(record.to_json()) < 300_000


def test_record_survives_json_and_says_how_it_was_made(sides, seed):
    record = nescio.evaluate(FixedLogits(), sides[0], {"u": sides[1]}, seed=5, batch_size=64)
    assert Evaluation.from_json(record.to_json()) == record
    assert record.provenance.seed == 5
    assert record.provenance.settings["batch_size"] == 64
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.draws = 2


def test_takes_a_shuffled_loader(sides):
    known, _ = sides
    loader = DataLoader(known, batch_size=32, shuffle=True)
    assert (
        nescio.evaluate(FixedLogits(), loader).known.accuracy
        == nescio.evaluate(FixedLogits(), known).known.accuracy
    )


def test_a_detector_takes_one_pass_and_a_shuffled_loader(sides):
    known, unknown = sides
    model = Counted()
    detector = nescio.Threshold(model, score="max_prob").fit(known)
    model.asked.clear()
    loader = DataLoader(
        known, batch_size=32, shuffle=True, generator=torch.Generator().manual_seed(3)
    )
    record = nescio.evaluate(
        detector, loader, {"u": iter([unknown[:40], unknown[40:]])}, scores=["max_prob"]
    )
    assert sum(model.asked) == 300
    by_score, own = record.known.misclassification
    assert own.auroc == by_score.auroc


def test_draws_and_their_seed_count_on_both_sides(sides):
    class Random(nn.Module):
        def forward(self, x):
            return torch.stack([x @ torch.randn(4, 4) for _ in range(3)])

    known, unknown = sides
    record = nescio.evaluate(Random(), known, {"u": unknown}, seed=9)
    for side, data in ((record.known, known), (record.unknown[0], unknown)):
        want = softmax_confidence(nescio.predict(Random(), data, seed=9)).mean()
        assert side.mmc == pytest.approx(want.item(), abs=1e-12)


def test_calibration_has_fifteen_bins(sides):
    p = sides[0].inputs.double().softmax(-1)
    known = Samples(
        sides[0].inputs, p.multinomial(1, generator=torch.Generator().manual_seed(0))[:, 0]
    )
    p = p.numpy()
    correct = p.argmax(-1) == known.labels.numpy()
    found = nescio.evaluate(FixedLogits(), known).known.ece
    assert found == pytest.approx(nescio.metrics.ece(p.max(-1), correct, bins=15), abs=1e-12)
    assert found != pytest.approx(nescio.metrics.ece(p.max(-1), correct, bins=10), abs=1e-6)


def test_histogram_edges_surround_the_known_scores_and_no_more():
    known = torch.linspace(1.0, 2.0, 1001)
    far = torch.tensor([-1e6, 1.5, 1e6])
    samples = Samples(torch.stack([known, 0 * known], 1), torch.zeros(1001, dtype=torch.long))
    record = nescio.evaluate(
        FixedLogits(),
        samples,
        {"far": torch.stack([far, -1e9 + 0 * far], 1)},
        scores=["max_logit"],
    )
    low, high = (-2 + 0.001, -1 - 0.001)
    edges = record.histograms[0].edges
    assert (edges[0], edges[-1]) == pytest.approx(
        (low - (high - low), high + (high - low)), abs=1e-6
    )
    counts = record.histograms[0].counts["far"]
    assert (counts[0], counts[-1], sum(counts)) == (1, 1, 3)


def test_nothing_wrong_leaves_the_misclassification_task_undefined():
    known = Samples(5 * torch.eye(3), torch.arange(3))
    record = nescio.evaluate(FixedLogits(), known)
    assert record.known.accuracy == 1.0
    assert all(one.auroc is None for one in record.known.misclassification)
    assert Evaluation.from_json(record.to_json()) == record


def test_a_detector_is_evaluated_by_its_own_score(sides):
    known, unknown = sides
    detector = nescio.Threshold(FixedLogits(), score="energy").fit(known)
    record = nescio.evaluate(detector, known, {"u": unknown}, scores=["energy"])
    energy, own = record.unknown[0].separation
    assert own.score == record.score == "threshold"
    assert dataclasses.replace(own, score="energy") == energy


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"known": torch.zeros(3, 4)}, "labels"),
        ({"known": Samples(torch.zeros(3, 4), torch.tensor([0, 1, 4]))}, "0 … 3"),
        ({"known": Samples(torch.zeros(3, 4), torch.tensor([0, 1, -1]))}, "got -1 to"),
        ({"scores": ["entropi"]}, "did you mean 'entropy'"),
        ({"scores": ["variance"]}, "one draw"),
        ({"scores": 3}, "names"),
        ({"unknown": {"known": torch.zeros(3, 4)}}, "taken"),
        ({"unknown": {"u": torch.full((3, 4), torch.nan)}}, "NaN"),
        ({"unknown": {"u": torch.zeros(3, 5)}}, "classes|logits"),
        ({"unknown": [torch.zeros(3, 4)]}, "names"),
        ({"unknown": {3: torch.zeros(3, 4)}}, "names"),
        (
            {"known": Samples(torch.zeros(3, 4), torch.tensor([0, 1, 2])), "batch_size": 0},
            "batch_size",
        ),
    ],
)
def test_bad_input_is_reported(sides, change, message):
    arguments = {"known": sides[0], "unknown": {"u": sides[1]}, **change}
    with pytest.raises(NescioError, match=message):
        nescio.evaluate(FixedLogits(), **arguments)
