import io
from collections import Counter

import pytest
import torch
from rich.console import Console

import nescio
from nescio.data import Samples
from nescio.data.batches import halves
from nescio.data.outliers import IMAGES, ROWS
from nescio.detectors import DETECTORS
from nescio.detectors.named import detector_named
from nescio.errors import NescioError
from nescio.methods import Softmax
from nescio.models import mlp
from nescio.records import Recommendation
from nescio.report.ranking import recommendation_table
from small_nets import Draws


def trained(seed):
    known = nescio.data.load("digits", unseen=[7, 8, 9], seed=seed)
    torch.manual_seed(seed)
    model = Softmax(mlp(64, 7), normalise=known.normalise)
    nescio.train(model, known.train, epochs=15, batch_size=64, seed=seed)
    return model.eval(), known


@pytest.fixture(scope="module")
def ready():
    return trained(0)


@pytest.fixture(scope="module")
def found(ready):
    model, known = ready
    return nescio.recommend(model, known.test, known.train)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_its_choice_is_near_the_best_on_digits_it_has_never_seen(seed):
    model, known = trained(seed)
    chosen = nescio.recommend(model, known.test, known.train, seed=seed)
    of = {}
    for name in (one.name for one in chosen.record.ranking):
        detector = detector_named(model, name).fit(known.test, train=known.train)
        of[name] = nescio.metrics.auroc(detector.score(known.test), detector.score(known.unseen))
    assert of[chosen.record.detector] > max(of.values()) - 0.03


def test_the_ranking_tells_what_was_tried_and_on_what(found):
    record = found.record
    tried = {one.name for one in record.ranking} | set(record.skipped)
    assert tried == {
        "max_prob",
        "entropy",
        "max_logit",
        "energy",
        *(set(DETECTORS) - {"threshold"}),
    }
    assert set(record.skipped) == {"meta"}
    means = [one.mean for one in record.ranking]
    assert means == sorted(means, reverse=True)
    assert record.detector == record.ranking[0].name
    for one in record.ranking:
        assert list(one.auroc) == list(IMAGES)
        assert one.mean == pytest.approx(sum(one.auroc.values()) / len(IMAGES))
        assert one.worst == min(one.auroc.values())


def test_the_winner_comes_fitted_by_a_half_that_had_no_part_in_the_choice(ready, found):
    model, known = ready
    expected = detector_named(model, found.record.detector).fit(
        halves(known.test)[0], train=known.train
    )
    assert torch.equal(found.detector.calibration_, expected.calibration_)
    assert found.record.calibrated == len(expected.calibration_)
    assert torch.equal(found.detector.predict(known.unseen), expected.predict(known.unseen))
    assert (found.detector.predict(known.unseen) == -1).double().mean() > 0.6


def test_outliers_are_made_from_the_other_half(ready, monkeypatch):
    model, known = ready
    module = __import__("sys").modules["nescio.evaluation.recommend"]
    made = []
    monkeypatch.setattr(module, "make_outliers", lambda x, *_: made.append(x) or {"same": x})
    nescio.recommend(model, known.test, candidates=["energy", "max_prob"])
    fitted, tested = (torch.cat([x for x, _ in half]) for half in halves(known.test))
    rows = [{tuple(row) for row in part.flatten(1).tolist()} for part in (made[0], fitted, tested)]
    assert not rows[0] & rows[1]
    assert rows[0] == rows[2]


def test_looks_at_nothing_but_what_it_is_given(ready):
    """Known inputs are read, and nothing else but their labels; the model is left as it was."""
    model, known = ready
    read = Counter()

    class Watched(torch.utils.data.Dataset):
        def __len__(self):
            return 200

        def __getitem__(self, index):
            read[index] += 1
            return known.test[index]

    before = {key: value.clone() for key, value in model.state_dict().items()}
    state = torch.random.get_rng_state()
    found = nescio.recommend(model, Watched(), candidates=["energy", "entropy"])
    assert set(read) == set(range(200))
    some = Samples(known.test.inputs[:200], known.test.labels[:200])
    again = nescio.recommend(model, some, candidates=["energy", "entropy"])
    assert [one.auroc for one in found.record.ranking] == [
        one.auroc for one in again.record.ranking
    ]
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), state)


def test_follows_from_its_seed(ready):
    model, known = ready
    aurocs = [
        [
            (one.name, one.auroc)
            for one in nescio.recommend(model, known.test, inputs=50, seed=seed).record.ranking
        ]
        for seed in (3, 3, 4)
    ]
    assert aurocs[0] == aurocs[1] != aurocs[2]


def test_an_auroc_in_the_record_is_that_of_the_detector(ready, found):
    """For outliers that are the same for every seed."""
    known = ready[1]
    own = torch.cat([x for x, _ in halves(known.test)[1]])
    far = own.amax() + own.amin() - own
    expected = nescio.metrics.auroc(found.detector.score(own), found.detector.score(far))
    assert found.record.ranking[0].auroc["inverted"] == pytest.approx(expected)


def test_passes_over_what_cannot_work_and_says_why(ready, monkeypatch):
    """As a detector on features does for a model without a linear layer, or with draws."""
    model, known = ready

    class Picky(nescio.Threshold):
        name, layers = "picky", ("(head)",)

    monkeypatch.setitem(DETECTORS, "picky", Picky)
    draws = Draws(model, model)
    found = nescio.recommend(
        draws, known.test, candidates=["energy", "picky", "mutual_information"]
    )
    assert [one.name for one in found.record.ranking if one.name != "energy"] == [
        "mutual_information"
    ]
    assert "draws (2)" in found.record.skipped["picky"]
    assert found.record.draws == 2
    with pytest.raises(NescioError, match="none of picky can work here"):
        nescio.recommend(draws, known.test, candidates=["picky"])
    usual = nescio.recommend(draws, known.test)
    assert "mutual_information" in {one.name for one in usual.record.ranking}


def test_functions_of_logits_are_candidates(ready):
    def lead(logits):
        return -logits[0].topk(2, 1).values.diff(dim=1).abs()[:, 0]

    def energy(logits):
        raise IndexError("none")

    model, known = ready
    candidates = ["energy", lead, energy, lambda z: z[0, :, 0], lambda z: z[0, :, 1]]
    best = nescio.recommend(model, known.test, known.train, candidates=candidates)
    named = {ranked.name: ranked.mean for ranked in best.record.ranking}
    assert set(named) == {"energy", "lead", "<lambda>", "<lambda> 5"}
    assert best.record.skipped == {
        "energy (function)": "the score energy (function) raised IndexError: none"
    }
    alone = nescio.recommend(model, known.test, known.train, candidates=[lead])
    assert alone.record.ranking[0].mean == named["lead"]
    assert alone.detector.score_name == "lead"
    unknown = {"unseen": known.unseen}
    record = nescio.contest(model, known.test, unknown, known.train, candidates=["energy", lead])
    assert {contestant.name for contestant in record.contestants} == {"energy", "lead"}
    for wrong in (nescio.KNN, nescio.KNN(model)):
        with pytest.raises(NescioError, match="candidates must be names of detectors or scores"):
            nescio.recommend(model, known.test, candidates=["energy", wrong])


def test_tables_have_outliers_of_their_own(blobs):
    torch.manual_seed(0)
    model = mlp(2, 3)
    nescio.train(Softmax(model), blobs, epochs=5, seed=0)
    found = nescio.recommend(model, blobs)
    assert list(found.record.ranking[0].auroc) == list(ROWS)


def test_record_and_table(found, tmp_path):
    found.record.save(tmp_path / "r.json")
    assert Recommendation.load(tmp_path / "r.json") == found.record
    file = io.StringIO()
    Console(file=file, width=160).print(recommendation_table(found.record))
    for one in found.record.ranking:
        assert one.name in file.getvalue()
        assert f"{one.mean:.3f}" in file.getvalue()


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ({"candidates": ["energi"]}, "did you mean 'energy'"),
        ({"candidates": []}, "names of detectors"),
        ({"candidates": "energy"}, "names of detectors"),
        ({"inputs": 0}, "inputs"),
        ({"accept": 2}, "accept"),
        ({"seed": -1}, "seed"),
    ],
)
def test_refuses_bad_input(ready, how, what):
    model, known = ready
    with pytest.raises(NescioError, match=what):
        nescio.recommend(model, known.test, **how)


def test_says_when_there_are_too_few_inputs_or_broken_ones(ready):
    model, known = ready
    with pytest.raises(NescioError, match="at least 99"):
        nescio.recommend(model, known.test.select(torch.arange(40)), accept=0.99)
    broken = known.test.inputs[:100].clone()
    broken[3] = torch.nan
    with pytest.raises(NescioError, match="NaN"):
        nescio.recommend(model, broken)
    with pytest.raises(NescioError, match="Module, got a"):
        nescio.recommend("digits", known.test)


def test_refuses_training_data_that_can_be_read_only_once():
    x = torch.randn(100, 2)
    with pytest.raises(NescioError, match="can be read only once"):
        nescio.recommend(torch.nn.Linear(2, 3), x, iter(x.split(10)))


def test_will_not_calibrate_on_what_was_learned_from(ready):
    model, known = ready
    again = Samples(known.test.inputs.clone(), known.test.labels)
    with pytest.raises(NescioError, match="calibrated on what it learned from"):
        nescio.recommend(model, known.test, again)
