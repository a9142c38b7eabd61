"""What holds for every method, by membership in METHODS."""

from functools import partial

import pytest
import torch
from torch import nn

import nescio
from nescio.data import Samples
from nescio.methods import METHODS, Softmax, default_settings, method_for
from nescio.models import mlp
from nescio.scores import SCORES

pytestmark = pytest.mark.parametrize("name", METHODS)


@pytest.fixture
def known():
    return nescio.data.load("digits", unseen=[7, 8, 9])


def made(name, make_net, classes, normalise, inputs):
    """A method that can be run untrained, for which an RBF network needs inputs."""
    own = {"rbf": {"centres": inputs, "gamma": 0.05, "solver": "steps"}, "acet": {"steps": 5}}
    return method_for(name, make_net, classes, normalise, **own.get(name, {}))


def small(name, known, width, dropout):
    make_net = partial(mlp, 64, hidden=(width,), dropout=dropout)
    return made(name, make_net, 7, known.normalise, known.train.take(slice(300))[0])


@pytest.fixture
def model(name, known, seed):
    torch.manual_seed(seed)
    return small(name, known, 32, METHODS[name].default_dropout)


def test_is_named_described_and_paired_with_a_score(name):
    assert METHODS[name].name == name
    assert METHODS[name].score in SCORES
    assert METHODS[name].__doc__.splitlines()[0].endswith(".")


def test_keeps_every_setting_under_its_name(name, model):
    assert default_settings(name).keys() <= model.settings().keys()
    assert all(hasattr(model, setting) for setting in default_settings(name))


def test_gives_logits(model, known):
    logits = nescio.predict(model, known.test)
    assert logits.dim() == 3
    assert logits.shape[1:] == (len(known.test), 7)


def test_loss_is_a_scalar_that_falls(model, known):
    history = nescio.train(model, known.train, epochs=5, seed=1)
    assert history.method == model.name
    assert history.epochs[-1].loss < history.epochs[0].loss


def test_confidence_is_between_zero_and_one(model, known):
    confidence = model.confidence(nescio.predict(model, known.test))
    assert confidence.shape == (len(known.test),)
    assert ((confidence >= 0) & (confidence <= 1)).all()


def test_knows_digits_from_digits_it_never_saw(model, known):
    nescio.train(model, known.train, epochs=15, batch_size=64, seed=0)
    record = nescio.evaluate(model, known.test, {"unseen": known.unseen}, scores=[model.score])
    assert record.known.accuracy > 0.95
    assert record.unknown[0].separation[0].auroc > 0.88


def test_has_a_normalisation_of_its_own(model, known):
    model.double()
    assert all(value.dtype == torch.float64 for value in model.normalise.buffers())
    assert all(value.dtype == torch.float32 for value in known.normalise.buffers())


def test_same_seed_same_weights(name, known):
    states = []
    for _ in range(2):
        torch.manual_seed(3)
        model = small(name, known, 16, 0.2)
        nescio.train(model, known.train, epochs=1, seed=5)
        states.append(model.state_dict())
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


def test_survives_saving(model, known, tmp_path):
    nescio.save(model, tmp_path / "m.nescio")
    again = nescio.load(tmp_path / "m.nescio")
    assert type(again) is type(model)
    assert torch.equal(nescio.predict(again, known.test), nescio.predict(model, known.test))


def test_resumes_from_any_step(name, known, tmp_path):
    def start(checkpoint):
        torch.manual_seed(3)
        model = small(name, known, 16, 0.2)
        nescio.train(
            model, known.train, epochs=2, seed=5, checkpoint=checkpoint, checkpoint_every=3
        )
        return model.state_dict()

    class Cut(Samples):
        """Data that are cut off after some batches, as a killed process would be."""

        left = 5

        def take(self, index):
            Cut.left -= 1
            if Cut.left < 0:
                raise KeyboardInterrupt
            return super().take(index)

    whole = start(None)
    inputs, labels = known.train.inputs, known.train.labels
    torch.manual_seed(3)
    model = small(name, known, 16, 0.2)
    path = tmp_path / "c.safetensors"
    with pytest.raises(KeyboardInterrupt):
        nescio.train(
            model, Cut(inputs, labels), epochs=2, seed=5, checkpoint=path, checkpoint_every=3
        )
    assert path.exists()
    resumed = start(path)
    assert all(torch.equal(whole[key], resumed[key]) for key in whole)


@pytest.mark.parametrize("fault", [None, "nan input"])
def test_prediction_leaves_it_as_found(model, known, fault):
    check_untouched(model, known.test, fault)


def check_untouched(model, data, fault):
    hook = model.register_forward_hook(lambda *_: None)
    model.train()
    next(model.modules()).training = True
    weights = list(model.parameters())
    weights[0].requires_grad_(False)
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    random = torch.random.get_rng_state()
    x = data.take(slice(0, 9))[0].clone()
    if fault:
        x[3] = torch.nan
        with pytest.raises(nescio.NescioError, match="input 3 "):
            nescio.predict(model, x)
    else:
        nescio.predict(model, x)
    assert all(module.training for module in model.modules())
    assert [weight.requires_grad for weight in weights] == [False] + [True] * (len(weights) - 1)
    assert all((weight.grad == 1).all() for weight in weights)
    assert all(torch.equal(state[key], value) for key, value in model.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), random)
    assert list(model._forward_hooks) == [hook.id]
    assert all(not module._forward_hooks for module in model.modules() if module is not model)


def test_refuses_a_method_for_a_network(name):
    if not METHODS[name].on_network:
        assert (
            not METHODS[name]
            .from_factory(lambda: pytest.fail("no network is needed"), classes=7)
            .networks()
        )
        return
    with pytest.raises(nescio.NescioError, match="which is a method; give its network"):
        method_for(
            name,
            lambda _: Softmax(mlp(64, 7)),
            7,
            **({"features": 7} if METHODS[name].on_features else {}),
        )


def test_accepts_a_network_without_normalisation(name):
    def make(classes):
        return nn.Sequential(
            nn.Flatten(), nn.Linear(4, 8), nn.Dropout(), nn.Linear(8, classes or 6)
        )

    model = made(name, make, 3, None, torch.zeros(1, 4))
    assert nescio.predict(model, torch.zeros(2, 4)).shape[1:] == (2, 3)
