"""What holds for every detector, by membership in DETECTORS."""

import pytest
import torch

import nescio
from nescio.detectors import DETECTORS
from nescio.models import mlp

pytestmark = pytest.mark.parametrize("name", DETECTORS)


@pytest.fixture(scope="module")
def known():
    return nescio.data.load("digits", hold_out=[7, 8, 9])


@pytest.fixture(scope="module")
def model(known):
    torch.manual_seed(0)
    model = nescio.methods.Softmax(mlp(64, 7), normalise=known.normalise)
    nescio.fit(model, known.train, epochs=15, batch_size=64, seed=0)
    return model.eval()


@pytest.fixture
def detector(name, model, known):
    return DETECTORS[name](model).fit(known.test)


def test_accepts_the_share_it_was_asked_for(name, model, known):
    some = known.test.select(torch.arange(100))
    for accept, accepted in ((1e-13, 1), (0.07, 7), (0.5, 50), (0.95, 95), (0.951, 96), (1.0, 100)):
        answers = DETECTORS[name](model).fit(some, accept=accept).predict(some)
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


def test_fit_gives_itself_and_forward_is_score(detector, known):
    assert detector.fit(known.test) is detector
    assert torch.equal(detector(known.test), detector.score(known.test))


def test_casting_the_model_keeps_the_threshold(detector):
    before = detector.threshold_.item()
    assert detector.half().threshold_.item() == before
    assert detector.float().threshold_.dtype == torch.float64


def test_a_model_whose_output_is_not_finite_has_no_score_but_an_answer(name):
    class Broken(torch.nn.Module):
        def forward(self, x):
            return torch.where(x[:, :1] > 0, x, torch.nan)

    x = torch.tensor([[1.0, 0.0], [2.0, 1.0], [-1.0, 3.0]])
    detector = DETECTORS[name](Broken()).fit(x[:2], accept=1.0)
    assert detector.predict(x).tolist() == [0, 0, -1]
    with pytest.raises(nescio.NescioError, match="no score"):
        detector.score(x)


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
