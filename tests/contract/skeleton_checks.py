"""Tests of the skeletons alone, run by `test_one_file_one_line.py` with them in the package."""

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
from nescio.scores import SCORES, score_spec


def test_the_package_is_the_copy():
    assert Path(nescio.__file__).is_relative_to(Path(__file__).parents[2])
    tables = {*SCORES, *DETECTORS, *METHODS}
    assert {"gini", "nearest_mean", "predicted_mean", "label_smoothing"} <= tables


@pytest.mark.parametrize("count", [6, 8])
def test_classes_other_than_the_models_are_reported(model, known, count):
    detector = DETECTORS["predicted_mean"](model).fit(known.test, train=known.train)
    detector.keep(means_=detector.means_[torch.arange(count) % 7])
    with pytest.raises(nescio.NescioError, match=f"has learned {count} classes, got 7"):
        detector.predict(known.test)


@pytest.mark.parametrize("name", ["nearest_mean", "predicted_mean"])
def test_names_are_known_everywhere(name, model, known):
    assert str(score_spec("gini(temperature=2)")) == "gini(temperature=2)"
    assert name in named_candidates(None, draws=1)
    detector = nescio.Threshold(model, "gini(temperature=2)").fit(known.test)
    record = nescio.evaluate(detector, known.test, {"unseen": known.unseen}, scores=["gini"])
    assert [one.score for one in record.unknown[0].separation] == ["gini", "threshold"]


@pytest.fixture
def method():
    return METHODS["label_smoothing"]


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
