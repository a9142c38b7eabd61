"""What a subclass of a method declares is used wherever its name was once looked up."""

from functools import partial

import pytest
import torch
from torch import nn

import nescio
from nescio.evaluation import small_model
from nescio.methods import ACET, DUQ, METHODS, MCDropout, Method
from nescio.sklearn import NescioClassifier
from nescio.store.run import maker


class Smoothed(Method):
    """The example of `Method`, which declares no score."""

    name = "smoothed"

    def loss(self, x, y):
        logits = self(x)
        return nn.functional.cross_entropy(logits, y, label_smoothing=0.1), logits


class MyDUQ(DUQ):
    """Another name."""

    name = "my_duq"


class MyACET(ACET):
    """Another name."""

    name = "my_acet"


class MyDropout(MCDropout):
    """Another name."""

    name = "my_dropout"


@pytest.fixture
def _listed(monkeypatch):
    for kind in (MyDUQ, MyACET, MyDropout):
        monkeypatch.setitem(METHODS, kind.name, kind)


@pytest.fixture
def known():
    return nescio.data.load("three_blobs")


def test_a_method_without_a_score_has_that_of_a_softmax(known):
    model = Smoothed(nn.Linear(2, 3))
    nescio.train(model, known.train, epochs=1)
    detector = nescio.Threshold(model).fit(known.test)
    expected = nescio.scores.max_prob(nescio.predict(model, known.test))
    assert torch.equal(detector.score(known.test), expected)
    assert nescio.evaluate(model, known.test, {"itself": known.test}).score == "max_prob"
    assert nescio.examples(model, known.test, ["far"]).score == "max_prob"


@pytest.mark.parametrize("kind", ["sigmoid", None, ["kernel"]])
def test_a_kind_of_confidence_that_is_none_is_reported_with_the_class(kind):
    with pytest.raises(nescio.NescioError, match="of Mine must be 'softmax' or 'kernel', got"):
        type("Mine", (Smoothed,), {"confidence_kind": kind})


def dropouts(model):
    return {layer.p for layer in model.modules() if isinstance(layer, nn.Dropout)}


@pytest.mark.usefixtures("_listed")
def test_a_subclass_of_dropout_gets_networks_that_drop(known):
    x, y = known.test.take(slice(None))
    make = partial(NescioClassifier, hidden=(8,), epochs=1, random_state=0)
    for name, expected in (("my_dropout", {0.2}), ("my_acet", set())):
        assert dropouts(make(name).fit(x.numpy(), y.numpy()).model_) == expected
        assert dropouts(small_model(name, known, epochs=1)[0]) == expected
        assert dropouts(maker(known, name, "mlp", "cpu", {}, None)()) == expected


@pytest.mark.usefixtures("_listed")
def test_a_subclass_has_the_settings_of_small_data(known):
    x, y = known.test.take(slice(None))
    make = partial(NescioClassifier, hidden=(8,), epochs=1, random_state=0)
    assert make("my_duq").fit(x.numpy(), y.numpy()).model_.momentum == 0.9
    assert make("my_acet").fit(x.numpy(), y.numpy()).model_.steps == 5
    own = make("my_duq", method_settings={"momentum": 0.8}).fit(x.numpy(), y.numpy())
    assert own.model_.momentum == 0.8


def test_an_audit_tells_the_confidence_of_a_subclass(known):
    model = MyDUQ(nescio.models.mlp(2, hidden=(8,)), classes=3)
    nescio.train(model, known.train, epochs=1)
    record = nescio.audit.overconfidence(model, known.test.inputs[:3], trials=3)
    assert record.confidence_kind == "kernel"
    words = nescio.report.audit_words(record)
    assert "with a confidence below" in words[0]
