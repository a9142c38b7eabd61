"""The surest and least sure inputs are really those, and nothing else is kept of the data."""

import numpy as np
import pytest
import torch
from torch import nn

import nescio
from nescio.data import Samples
from nescio.errors import NescioError
from nescio.evaluation.extremes import MAX_FEATURES, MAX_PIXELS, Extremes
from nescio.records import Examples
from nescio.scores import SCORES
from small_nets import Draws, small


class Pixels(nn.Module):
    """Two logits from the mean of an image."""

    def forward(self, x):
        mean = x.flatten(1).mean(1)
        return torch.stack([mean, -mean], 1)


@pytest.fixture
def points(seed):
    generator = torch.Generator().manual_seed(seed)
    known = Samples(
        4 * torch.randn(500, 2, generator=generator),
        torch.randint(3, (500,), generator=generator),
        name="k",
    )
    return known, 9 * torch.randn(333, 2, generator=generator)


def largest(logits):
    return -logits[0].amax(1)


@pytest.mark.parametrize("score", ["entropy", "energy", None, "gradient_l2", largest])
@pytest.mark.parametrize("batch_size", [7, 64, 1000])
def test_they_are_those_of_a_full_sort(points, score, batch_size):
    known, other = points
    model = small()
    found = nescio.examples(model, known, {"u": other}, each=5, score=score, batch_size=batch_size)
    values = {
        name: nescio.Threshold(model, score).score(x).numpy()
        for name, x in (("k", known.inputs), ("u", other))
    }
    for one in (found.known, *found.unknown):
        order = np.argsort(values[one.name], kind="stable")
        assert [example.number for example in one.surest] == order[:5].tolist()
        assert [example.number for example in one.unsure] == order[:-6:-1].tolist()
        assert one.inputs == len(order)
        for example in (*one.surest, *one.unsure):
            assert example.score == pytest.approx(values[one.name][example.number], rel=1e-9)
    assert found.score == getattr(score, "__name__", score or "max_prob")


def test_what_is_said_of_each(points):
    known, other = points
    model = small()
    found = nescio.examples(
        model, known, {"u": (other, torch.ones(333).long())}, classes="abc", features=["w", "h"]
    )
    p = nescio.predict(model, known.inputs)[0].double().softmax(1)
    for one in (*found.known.surest, *found.known.unsure):
        assert one.answer == "abc"[int(p[one.number].argmax())]
        assert one.truth == "abc"[int(known.labels[one.number])]
        assert one.confidence == pytest.approx(float(p[one.number].max()), abs=1e-6)
        assert one.values == pytest.approx(known.inputs[one.number].tolist(), rel=1e-5)
        assert one.image is None
    assert {one.truth for one in found.unknown[0].surest} == {
        None
    }  # their labels count other classes
    assert found.features == ("w", "h")
    assert Examples.from_json(found.to_json()) == found


def test_evaluate_shows_the_same_in_one_pass(points):
    known, other = points
    model = Draws(small(0), small(1))
    eyes = Extremes.of(model)
    nescio.evaluate(model, known, {"u": other}, watch=eyes.see, batch_size=50)
    seen, found = eyes.record("k", 0, 0.0), nescio.examples(model, known, {"u": other})
    assert (seen.known, seen.unknown) == (found.known, found.unknown)


def test_a_detector_ranks_by_its_own_score(points):
    known, other = points
    detector = nescio.KNN(small(), k=3).fit(known)
    found = nescio.examples(detector, known, {"u": other}, each=3)
    order = detector.score(other).numpy().argsort(kind="stable")
    assert found.score == "knn"
    assert [one.number for one in found.unknown[0].unsure] == order[:-4:-1].tolist()
    by_entropy = nescio.examples(detector, known, score="entropy", each=3)
    assert by_entropy.known == nescio.examples(detector.model, known, score="entropy", each=3).known


def test_no_input_stands_at_both_ends():
    same = torch.zeros(30, 2)  # all equally sure
    for count, each in ((30, 6), (5, 4), (1, 3), (2, 1), (7, 4)):
        found = nescio.examples(small(), same[:count], each=each, batch_size=3).known
        numbers = [one.number for one in (*found.surest, *found.unsure)]
        assert len(numbers) == len(set(numbers)) == min(count, 2 * each)


def test_images_are_small_and_stretched_only_where_they_must(seed):
    x = torch.rand(20, 3, 2 * MAX_PIXELS, 40, generator=torch.Generator().manual_seed(seed))
    found = nescio.examples(
        Pixels(), x, {"far": 100 * x, "wide": x[:, :1], "odd": x[:, :2]}, each=2
    )
    one = found.known.surest[0]
    assert np.shape(one.image) == (3, MAX_PIXELS, 32)
    assert one.span is None
    # each of the pixels is a mean: of two rows and, 40 columns being 5 for every 4, of overlapping
    # pairs of columns
    assert one.image[0][0][0] == pytest.approx(float(x[one.number, 0, :2, :2].mean()), abs=6e-4)
    far = found.unknown[0].surest[0]
    assert far.span == pytest.approx(
        (float(100 * x[far.number].min()), float(100 * x[far.number].max()))
    )
    assert 0 <= np.min(far.image) <= np.max(far.image) <= 1
    assert np.shape(found.unknown[1].surest[0].image) == (1, MAX_PIXELS, 32)
    assert found.unknown[2].surest[0].image is None  # two channels are no picture
    assert found.features == ()


def test_of_wide_tables_some_features_are_kept():
    found = nescio.examples(nn.Linear(100, 2), torch.randn(9, 100), each=1)
    assert len(found.features) == len(found.known.surest[0].values) == MAX_FEATURES
    assert found.left_out == 100 - MAX_FEATURES


def test_sets_by_name_are_made_as_for_an_evaluation(points):
    known, _ = points
    found = nescio.examples(small(), known, ["far", "adversarial_noise"], attacked=20, each=2)
    assert [(one.name, one.inputs) for one in found.unknown] == [
        ("far", 500),
        ("adversarial_noise", 20),
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"each": 0}, "each"),
        ({"score": "entropi"}, "did you mean 'entropy'"),
        ({"classes": ["a"]}, "names for 1 classes"),
        ({"features": ["a"]}, "got 1 feature names"),
        ({"unknown": {"known": torch.zeros(1, 2)}}, "may not be called"),
        ({"unknown": ["farr"]}, "did you mean 'far'"),
    ],
)
def test_bad_input_is_reported(points, given, message):
    with pytest.raises(NescioError, match=message):
        nescio.examples(small(), points[0], **given)


def test_every_score_there_is_can_rank(points):
    known, _ = points
    for score in SCORES:
        assert nescio.examples(
            Draws(small(0), small(1)) if "gradient" not in score else small(), known, score=score
        )
