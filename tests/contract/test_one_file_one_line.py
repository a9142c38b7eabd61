"""A new score, detector or method is one file, as a skeleton of the docs, and one line."""

import copy
import importlib.util
import inspect
import itertools
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import nescio
from nescio.detectors import DETECTORS
from nescio.detectors.named import named_candidates
from nescio.methods import METHODS, default_settings, method_for
from nescio.models import mlp
from nescio.scores import OF_LOGITS, SCORES, ScoreSpec, score_spec
from tests.contract import test_damaged_detectors, test_detectors, test_scores

SKELETONS = Path(__file__).parents[2] / "docs" / "skeletons"


def skeleton(name):
    """The module of a skeleton."""
    spec = importlib.util.spec_from_file_location(f"skeleton_{name}", SKELETONS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GINI = ScoreSpec.of(skeleton("score").gini)
NEW = [skeleton("detector").NearestMean, skeleton("detector_with_learn").PredictedMean]


def checks(module):
    """The contract tests of a module, each with its cases."""
    for name, check in vars(module).items():
        if name.startswith("test_"):
            marks = getattr(check, "pytestmark", [])
            cases = [[{m.args[0]: value} for value in m.args[1]] for m in marks]
            for number, case in enumerate(itertools.product(*cases)):
                given = {key: value for part in case for key, value in part.items()}
                yield pytest.param(check, given, id=f"{name}-{number}")


def run(check, given, request):
    """Call a contract test with its case, and with fixtures for the rest."""
    names = inspect.signature(check).parameters
    check(**{n: given[n] if n in given else request.getfixturevalue(n) for n in names})


@pytest.fixture
def score(monkeypatch):
    monkeypatch.setitem(SCORES, GINI.name, GINI)
    monkeypatch.setitem(OF_LOGITS, GINI.name, GINI)
    return GINI.name


@pytest.fixture(params=NEW, ids=lambda kind: kind.name)
def name(request, monkeypatch):
    monkeypatch.setitem(DETECTORS, request.param.name, request.param)
    return request.param.name


@pytest.fixture(scope="module")
def ready(model, known):
    return {kind.name: kind(model).fit(known.test, train=known.train) for kind in NEW}


@pytest.fixture
def detector(name, ready):
    return copy.deepcopy(ready[name])


@pytest.mark.parametrize(("check", "given"), list(checks(test_scores)))
def test_the_score(check, given, score, request):
    run(check, given, request)


@pytest.mark.parametrize(
    ("check", "given"), [*checks(test_detectors), *checks(test_damaged_detectors)]
)
def test_the_detector(check, given, name, request):
    run(check, given, request)


@pytest.mark.parametrize("count", [6, 8])
def test_classes_other_than_the_models_are_told(ready, known, count):
    detector = copy.deepcopy(ready["predicted_mean"])
    detector.keep(means_=detector.means_[torch.arange(count) % 7])
    with pytest.raises(nescio.NescioError, match=f"has learned {count} classes, got 7"):
        detector.predict(known.test)


def test_names_are_known_everywhere(score, name, model, known):
    assert str(score_spec("gini(temperature=2)")) == "gini(temperature=2)"
    assert name in named_candidates(None, draws=1)
    detector = nescio.Threshold(model, "gini(temperature=2)").fit(known.test)
    record = nescio.evaluate(detector, known.test, {"unseen": known.unseen}, scores=[score])
    assert [one.score for one in record.unknown[0].separation] == ["gini", "threshold"]


@pytest.fixture
def method(monkeypatch):
    new = skeleton("method").LabelSmoothing
    monkeypatch.setitem(METHODS, new.name, new)
    return new


def test_a_new_method_is_trained_scored_saved_and_loaded(method, known, tmp_path):
    assert default_settings(method.name) == {"smoothing": 0.1}
    make_net = partial(mlp, 64, hidden=(16,))
    model = method_for(method.name, make_net, 7, known.normalise, smoothing=0.2)
    history = nescio.train(model, known.train, epochs=3, checkpoint=tmp_path / "c")
    assert history.method == method.name
    assert history.provenance.settings["method_settings"] == {"smoothing": 0.2}
    x, y = known.train.take(slice(20))
    assert model.loss(x, y)[0] == F.cross_entropy(model(x), y, label_smoothing=0.2)
    detector = nescio.Threshold(model).fit(known.test, accept=0.9)
    assert (detector.predict(known.test) >= 0).double().mean() >= 0.9
    for thing in (model, detector):
        nescio.save(thing, tmp_path / "saved")
        again = nescio.load(tmp_path / "saved")
        assert type(again) is type(thing)
        logits = [nescio.predict(getattr(one, "model", one), known.test) for one in (thing, again)]
        assert torch.equal(*logits)
    assert again.model.settings() == {"smoothing": 0.2}
    other = method_for(method.name, make_net, 7, known.normalise, smoothing=0.3)
    with pytest.raises(nescio.NescioError, match=r"smoothing=0\.2, not 0\.3"):
        nescio.train(other, known.train, epochs=3, checkpoint=tmp_path / "c")


def test_a_new_method_is_audited_and_evaluated(method, known):
    model = method(mlp(64, 7, hidden=(16,)), known.normalise)
    record = nescio.evaluate(model, known.test, {"unseen": known.unseen})
    assert record.method == method.name
    x = known.test.take(slice(3))[0]
    assert nescio.audit.asymptote(model, x, torch.ones_like(x)).slope.shape == (3, 7)


def test_the_command_line_knows_a_new_method(method, known, tmp_path, capsys):
    from typer.main import get_command

    from nescio.cli import app

    words = f"train {method.name} --data digits --unseen 7,8,9 --smoothing 0.3 --epochs 1"
    get_command(app)(args=[*words.split(), "-o", str(tmp_path / "run")], standalone_mode=False)
    model = nescio.load(next((tmp_path / "run").glob("model*")))
    assert type(model) is method
    assert model.smoothing == 0.3
    with pytest.raises(SystemExit):
        get_command(app)(args=["train", method.name, "--help"])
    assert "probability that is spread over all classes" in capsys.readouterr().out
