"""What holds for every detector, by membership in DETECTORS."""

import copy

import pytest
import torch

import nescio
from nescio.data import Samples, noise
from nescio.detectors import DETECTORS

pytestmark = pytest.mark.parametrize("name", DETECTORS)


def fitted(name, model, data, **how):
    """A detector as its users fit it: those that learn what to mistrust get some of it."""
    if name == "meta":
        how["unknown"] = {"uniform": noise.samples("uniform", data, 100)}
    detector = DETECTORS[name](model)
    assert detector.fit(data, **how) is detector
    return detector


@pytest.fixture(scope="module")
def ready(model, known):
    return {name: fitted(name, model, known.test) for name in DETECTORS}


@pytest.fixture
def detector(name, ready):
    return copy.deepcopy(ready[name])


def test_accepts_the_share_it_was_asked_for(name, model, known):
    some = known.test.select(torch.arange(100))
    for accept, accepted in ((1e-13, 1), (0.07, 7), (0.5, 50), (0.95, 95), (0.951, 96), (1.0, 100)):
        answers = fitted(name, model, some, accept=accept).predict(some)
        assert (answers != -1).sum() == accepted


def test_answers_known_inputs_with_their_class_and_others_with_minus_one(detector, known):
    answers = detector.predict(known.test)
    sure = answers != -1
    assert (answers[sure] == known.test.labels[sure]).double().mean() > 0.97
    assert (detector.predict(known.held_out) == -1).double().mean() > 0.6


def test_separates(detector, known):
    assert nescio.metrics.auroc(detector.score(known.test), detector.score(known.held_out)) > 0.9


def test_decision_is_score_against_threshold(detector, known):
    assert torch.equal(detector.predict(known.test) == -1, detector.score(known.test) > detector.threshold_)


def test_a_row_that_is_not_finite_is_unknown_and_spoils_no_other(detector, known):
    x = known.test.take(slice(0, 6))[0].clone()
    clean = detector.predict(x)
    x[1, 0, 0, 0], x[4, 0, 2, 2] = torch.nan, torch.inf
    answers = detector.predict(x)
    assert answers[[1, 4]].tolist() == [-1, -1]
    assert torch.equal(answers[[0, 2, 3, 5]], clean[[0, 2, 3, 5]])
    with pytest.raises(nescio.NescioError, match="input 1 "):
        detector.score(x)
    with pytest.raises(nescio.NescioError, match="input 4 "):
        detector.score(x[[0, 0, 0, 0, 4]], batch_size=2)


def test_says_when_it_is_not_fitted(name, model, known):
    with pytest.raises(nescio.NescioError, match="fit"):
        DETECTORS[name](model).predict(known.test)


@pytest.mark.parametrize("accept", [0, 1.01, -0.1, 95, "a"])
def test_refuses_an_impossible_share(name, model, known, accept):
    with pytest.raises(nescio.NescioError, match="accept"):
        DETECTORS[name](model).fit(known.test, accept=accept)


def test_survives_saving(detector, known, tmp_path):
    nescio.save(detector, tmp_path / "d.nescio")
    again = nescio.load(tmp_path / "d.nescio")
    assert torch.equal(again.score(known.held_out), detector.score(known.held_out))
    assert torch.equal(again.predict(known.held_out), detector.predict(known.held_out))


def test_forward_is_score(detector, known):
    assert torch.equal(detector(known.test), detector.score(known.test))


def test_casting_the_model_keeps_the_threshold(detector):
    before = detector.threshold_.item()
    assert detector.half().threshold_.item() == before
    learned = dict(detector.float().named_buffers(recurse=False))
    assert all(value.dtype == torch.float64 for value in learned.values())


def test_a_model_whose_output_is_not_finite_has_no_score_but_an_answer(name, seed):
    class Broken(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)

        def forward(self, x):
            return torch.where(x[:, :1] > 0, self.layer(x), torch.nan)

    torch.manual_seed(seed)
    x = torch.rand(40, 2)
    model = Broken()
    labels = model(x).argmax(1) ^ (torch.arange(40) % 4 == 0)  # a quarter of the answers are wrong
    detector = DETECTORS[name](model).fit(Samples(x, labels), accept=1.0)
    x[3] = -1.0
    answers = detector.predict(x[:5])
    assert answers[3] == -1
    assert torch.equal(answers[[0, 1, 2, 4]], model(x[:5]).argmax(1)[[0, 1, 2, 4]])
    with pytest.raises(nescio.NescioError, match="no score"):
        detector.score(x)


def test_can_balance_right_answers_against_wrong_ones(name, model, known):
    noisy = Samples(known.test.inputs + 0.4 * torch.randn(known.test.inputs.shape), known.test.labels)
    detector = fitted(name, model, noisy, balanced=True)
    wrong = nescio.predict(model, noisy)[0].argmax(1) != noisy.labels
    scores = detector.score(noisy)

    def rate(threshold):
        return (scores[~wrong] <= threshold).double().mean() + (scores[wrong] > threshold).double().mean()

    assert all(rate(detector.threshold_) >= rate(other) for other in scores)
    with pytest.raises(nescio.NescioError, match="two ways"):
        fitted(name, model, noisy, accept=0.9, balanced=True)


def test_random_data_follow_one_seed_and_leave_the_generator_alone(detector):
    class Noise(torch.utils.data.Dataset):
        def __len__(self):
            return 40

        def __getitem__(self, index):
            return torch.rand(1, 8, 8)

    before = torch.random.get_rng_state()
    answers, scores = detector.predict(Noise()), detector.score(Noise())
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(answers == -1, scores > detector.threshold_)


def test_needs_a_model(name):
    with pytest.raises(nescio.NescioError, match="str was given for a model"):
        DETECTORS[name]("digits")
