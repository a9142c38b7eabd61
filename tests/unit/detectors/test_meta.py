import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import nescio
from nescio.core.tensorfile import read_tensors, write_tensors
from nescio.data import Samples, noise
from nescio.detectors import MetaClassifier
from nescio.detectors.meta import chosen_features
from nescio.detectors.meta_fit import KINDS, STRENGTHS, fit_meta
from nescio.errors import NescioError
from nescio.models import mlp
from nescio.records import MetaWeights
from nescio.scores import gradient_features


@pytest.fixture(scope="module")
def known():
    return nescio.data.load("digits", unseen=[7, 8, 9])


@pytest.fixture(scope="module")
def model(known):
    """A network that has seen little, so that there are wrong answers to learn from."""
    torch.manual_seed(0)
    model = nescio.methods.Softmax(mlp(64, 7, hidden=(32,)), normalise=known.normalise)
    nescio.train(model, known.train.select(torch.arange(150)), epochs=12, batch_size=32, seed=0)
    return model.eval()


@pytest.fixture(scope="module")
def rest(known):
    return known.train.select(torch.arange(150, len(known.train)))


def rows_with_a_cause(seed, count=2000, features=6):
    """Rows where the odds of being wrong follow from the first two features alone."""
    rows = np.random.default_rng(seed).normal(size=(count, features)) * 3 + 1
    odds = 1.5 * (rows[:, 0] - 1) / 3 - 1.0 * (rows[:, 1] - 1) / 3 - 1
    wrong = np.random.default_rng(seed + 1).random(count) < 1 / (1 + np.exp(-odds))
    return torch.tensor(rows), torch.tensor(wrong), torch.tensor(odds)


@pytest.mark.parametrize("kind", KINDS)
def test_finds_the_cause(kind, seed):
    rows, wrong, odds = rows_with_a_cause(seed)
    fitted = fit_meta(kind, rows[:1500], wrong[:1500], seed)
    found = fitted(rows[1500:])
    assert np.corrcoef(found, odds[1500:])[0, 1] > (0.93 if kind == "nn" else 0.98)
    assert (fitted.strength in STRENGTHS) == (kind not in ("glm", "nn"))


def test_the_regression_without_penalty_is_that_of_scikit_learn(seed):
    rows, wrong, _ = rows_with_a_cause(seed)
    peer = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(rows, wrong)
    torch.testing.assert_close(
        fit_meta("glm", rows, wrong)(rows),
        torch.tensor(peer.decision_function(rows)),
        rtol=2e-3,
        atol=2e-3,
    )


def test_a_sparse_model_leaves_out_what_does_not_count(seed):
    rows, wrong, _ = rows_with_a_cause(seed, features=30)
    weights = {
        kind: fit_meta(kind, rows, wrong, seed).layers[0][0][0] for kind in ("lasso", "ridge")
    }
    assert (weights["lasso"][:2].abs() > 0.3).all()
    assert (weights["lasso"][2:] == 0).sum() >= 10
    assert (weights["ridge"] != 0).all()


def test_a_constant_feature_is_no_trouble(seed):
    rows, wrong, odds = rows_with_a_cause(seed)
    rows[:, 5] = 0.1 + 1e-17
    for kind in ("glm", "nn"):
        found = fit_meta(kind, rows, wrong, seed)(rows)
        assert found.isfinite().all()
        assert np.corrcoef(found, odds)[0, 1] > 0.9


@pytest.mark.parametrize("kind", KINDS)
def test_quality(kind, model, known, rest):
    """With noise it has met, it tells noise of another kind, and still right from wrong."""
    detector = MetaClassifier(model, kind=kind).fit(
        rest, unknown={"uniform": noise.samples("uniform", known.test, 200)}
    )
    record = nescio.evaluate(
        detector,
        known.test,
        {"normal": noise.samples("normal", known.test, 300, seed=3)},
        scores=["max_prob"],
    )
    softmax, own = record.unknown[0].separation
    assert own.score == "meta"
    assert own.auroc > 0.95
    assert own.auroc > softmax.auroc
    assert record.known.misclassification[1].auroc > 0.85


def test_score_is_what_the_fit_says_of_the_features(model, rest):
    detector = MetaClassifier(model, kind="ridge").fit(rest)
    values, names = gradient_features(model, rest, log=True)
    assert detector.feature_names == names
    rows = (values - detector.centre_) / detector.scale_
    torch.testing.assert_close(
        detector.score(rest), rows @ detector.weights_ + detector.bias_, rtol=1e-9, atol=1e-9
    )


def test_what_was_learned_is_readable(model, known, rest, tmp_path):
    detector = MetaClassifier(model, kind="lasso").fit(
        known.test, train=rest, unknown={"noise": noise.samples("uniform", known.test, 60)}
    )
    record = detector.record
    wrong = int((nescio.predict(model, rest)[0].argmax(1) != rest.labels).sum())
    assert (record.wrong, record.right, record.unknown) == (wrong, len(rest) - wrong, {"noise": 60})
    assert record.weights == tuple(detector.weights_.tolist())
    assert record.features == detector.feature_names
    record.save(tmp_path / "weights.json")
    assert MetaWeights.load(tmp_path / "weights.json") == record
    assert MetaClassifier(model, kind="nn").fit(rest).record.weights is None


@pytest.mark.parametrize("kind", KINDS)
def test_survives_saving(kind, model, known, rest, tmp_path):
    detector = MetaClassifier(model, ["l2", "entropy"], kind, seed=4).fit(rest, accept=0.9)
    nescio.save(detector, tmp_path / "d.nescio")
    again = nescio.load(tmp_path / "d.nescio")
    assert again.settings() == detector.settings()
    assert torch.equal(again.score(known.unseen), detector.score(known.unseen))
    assert torch.equal(again.predict(known.unseen), detector.predict(known.unseen))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda t: t["detector.centre_"].fill_(torch.nan), "partly NaN"),
        (lambda t: t["detector.weights_"][0].fill_(torch.inf), "partly NaN or infinite"),
        (lambda t: t.update({"detector.foo_": torch.zeros(2)}), "extra foo_"),
        (lambda t: t.pop("detector.bias_"), "missing or extra bias_"),
        (
            lambda t: t.update({"detector.scale_": torch.ones(4, dtype=torch.float64)}),
            "scale_ is torch.float64",
        ),
    ],
)
def test_a_file_that_no_fit_left_is_refused(model, rest, tmp_path, change, match):
    path = tmp_path / "d.nescio"
    nescio.save(MetaClassifier(model, ["l2"], "ridge").fit(rest), path)
    tensors, about = read_tensors(path, "model")
    change(tensors)
    write_tensors(path, "model", tensors, about)
    with pytest.raises(NescioError, match=match):
        nescio.load(path)


def test_an_unfitted_one_survives_saving(model, tmp_path):
    for features in (None, ["all/l2"]):
        nescio.save(MetaClassifier(model, features), tmp_path / "d.nescio")
        with pytest.raises(NescioError, match="fit"):
            nescio.load(tmp_path / "d.nescio").predict(torch.zeros(1, 1, 8, 8))


def test_features_by_column_layer_or_statistic():
    names = ("conv1/l1", "conv1/l2", "a.b/l1", "a.b/l2", "all/l1", "all/l2", "entropy", "max_prob")
    assert chosen_features(None, names) == names
    assert chosen_features(["a.b", "entropy"], names) == ("a.b/l1", "a.b/l2", "entropy")
    assert chosen_features(["l2"], names) == ("conv1/l2", "a.b/l2", "all/l2")
    assert chosen_features(["all/l2", "conv1/l1"], names) == ("conv1/l1", "all/l2")
    with pytest.raises(NescioError, match="did you mean 'conv1/l2'"):
        chosen_features(["conv1/l3"], names)
    with pytest.raises(NescioError, match="leaves nothing"):
        chosen_features([], names)


def test_only_the_layers_it_needs_are_looked_into(model, known, rest, monkeypatch):
    detector = MetaClassifier(model, ["linear2/l2", "max_prob"]).fit(rest)
    asked = []
    original = nescio.scores.gradient.batch_gradients
    monkeypatch.setattr(
        nescio.scores.gradient,
        "batch_gradients",
        lambda *a, layers: asked.append(layers) or original(*a, layers=layers),
    )
    detector.predict(known.test)
    assert asked == [["linear2"]] * len(asked)
    assert MetaClassifier(model, ["entropy"]).fit(rest).score(known.test).isfinite().all()


def test_too_little_to_learn_from(model, known, rest):
    wrong = nescio.predict(model, rest)[0].argmax(1) != rest.labels
    fine, bad = rest.select((~wrong).nonzero()[:, 0]), rest.select(wrong.nonzero()[:, 0])
    with pytest.raises(
        NescioError, match=r"only 0 of \d+ known inputs are classified wrongly.*at least 10"
    ):
        MetaClassifier(model).fit(fine)
    MetaClassifier(model, kind="glm").fit(
        fine, unknown={"uniform": noise.samples("uniform", known.test, 10)}
    )
    with pytest.raises(NescioError, match="9 unknown ones"):
        MetaClassifier(model).fit(
            fine, unknown={"uniform": noise.samples("uniform", known.test, 9)}
        )
    with pytest.raises(NescioError, match=r"only 0 of .* correctly"):
        MetaClassifier(model).fit(bad)


@pytest.mark.parametrize(
    ("how", "match"),
    [
        ({"kind": "svm"}, "kind of meta-classifier"),
        ({"features": "l2"}, "list of names"),
        ({"features": [3]}, "list of names"),
        ({"features": 5}, "list of names"),
        ({"seed": -1}, "seed"),
    ],
)
def test_refuses(model, how, match):
    with pytest.raises(NescioError, match=match):
        MetaClassifier(model, **how)


def test_refuses_data_it_cannot_learn_from(model, known, rest):
    with pytest.raises(NescioError, match="labelled data"):
        MetaClassifier(model).fit(rest.take(slice(0, 50))[0])
    with pytest.raises(NescioError, match="labels must lie in 0 … 6"):
        MetaClassifier(model).fit(known.unseen)
    with pytest.raises(NescioError, match="with names"):
        MetaClassifier(model).fit(rest, unknown=noise.samples("uniform", known.test, 20))
    with pytest.raises(NescioError, match="unknown feature"):
        MetaClassifier(model, ["conv7"]).fit(rest)
    with pytest.raises(NescioError, match=r"call \.fit"):
        MetaClassifier(model).score(known.test)
    with pytest.raises(NescioError, match="2 draws"):
        MetaClassifier(nescio.methods.Ensemble(lambda: mlp(64, 7), 2)).fit(rest)
    broken = Samples(torch.full((12, 1, 8, 8), torch.nan), torch.zeros(12, dtype=torch.long))
    with pytest.raises(NescioError, match="input 0 "):
        MetaClassifier(model).fit(broken)


def test_same_seed_same_numbers(model, known, rest):
    for kind in ("nn", "elastic_net"):
        one, two, other = (
            MetaClassifier(model, kind=kind, seed=s).fit(rest).score(known.test) for s in (1, 1, 2)
        )
        assert torch.equal(one, two)
        assert kind != "nn" or not torch.equal(one, other)
