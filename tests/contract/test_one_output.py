"""A network of one output z is, to everything, one with the two logits (0, z)."""

import copy
import dataclasses
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

import nescio
from nescio import audit
from nescio.core.attacks import ATTACKS, Attack, attack, attack_named
from nescio.core.features import HEAD, forward_with_features
from nescio.data import Samples
from nescio.detectors import DETECTORS
from nescio.methods import METHODS, method_class
from nescio.models import ProbsToLogits
from nescio.records import to_plain
from nescio.scores import GRADIENT, OF_LOGITS, SCORES, gradient_features

D = 4
WITHOUT_FEATURES = [name for name, kind in METHODS.items() if not kind.on_features]
QUIET = {"progress": False}


class Appended(nn.Module):
    """What a user would write in its place: the logit of class 0 is 0."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        z = self.net(x)
        return torch.cat([torch.zeros_like(z), z], -1)


def one_output(seed=0, dropout=0.0):
    torch.manual_seed(seed)
    layers = [nn.Linear(D, 12), nn.ReLU(), nn.Dropout(dropout), nn.Linear(12, 1)]
    return nn.Sequential(*layers).double()


def two_outputs(net):
    """The same network with a last layer of two outputs, the first of which is always 0."""
    twin = copy.deepcopy(net)
    twin[-1] = nn.Linear(12, 2).double()
    with torch.no_grad():
        twin[-1].weight.copy_(torch.cat([torch.zeros_like(net[-1].weight), net[-1].weight]))
        twin[-1].bias.copy_(torch.cat([torch.zeros_like(net[-1].bias), net[-1].bias]))
    return twin


def drawn(seed, count=200):
    x = torch.randn(count, D, generator=torch.Generator().manual_seed(seed)).double()
    noise = torch.randn(count, generator=torch.Generator().manual_seed(seed + 1))
    return Samples(x, (x[:, 0] - x[:, 1] ** 2 + 0.5 + 0.5 * noise > 0).long())


@pytest.fixture(scope="module")
def train():
    return drawn(0)


@pytest.fixture(scope="module")
def known():
    return drawn(10)


@pytest.fixture(scope="module")
def net(train):
    net = one_output()
    nescio.train(net, train, epochs=30, batch_size=50, learning_rate=0.02, **QUIET)
    return net


@pytest.fixture
def x(known):
    return known.inputs[:20]


def same(found, expected, rtol=1e-9):
    torch.testing.assert_close(found, expected, rtol=rtol, atol=1e-12, equal_nan=True)


def facts(record):
    """What a record says, without what a network is called and when it was run."""
    plain = to_plain(record)
    return {key: value for key, value in plain.items() if key not in ("provenance", "method")}


def same_facts(found, expected):
    if isinstance(found, dict):
        assert found.keys() == expected.keys()
        for key, value in found.items():
            same_facts(value, expected[key])
    elif isinstance(found, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same_facts(one, other)
    elif isinstance(found, float):
        assert found == pytest.approx(expected, rel=1e-8, abs=1e-12, nan_ok=True)
    else:
        assert found == expected


@pytest.mark.parametrize("count", [1, 2, 20])
def test_all_shapes_of_one_output_are_two_logits(net, x, count):
    x = x[:count]
    with torch.no_grad():
        z = net(x)
    expected = torch.cat([torch.zeros_like(z), z], 1)[None]
    forms = {
        "column": net,
        "vector": nn.Sequential(net, nn.Flatten(0)),
        "squeezed": Then(net, lambda z: z.squeeze()),
        "draws": Then(net, lambda z: z[None]),
    }
    for form in forms.values():
        assert torch.equal(nescio.predict(form, x, **QUIET), expected)
    three = nescio.predict(Then(net, lambda z: torch.stack([z, -z, 2 * z])), x, **QUIET)
    assert torch.equal(three, torch.stack([expected[0], -expected[0], 2 * expected[0]]))
    same(expected[0].softmax(1)[:, 1], z[:, 0].sigmoid())  # appendix A.1


class Then(nn.Module):
    def __init__(self, net, step):
        super().__init__()
        self.net, self.step = net, step

    def forward(self, x):
        return self.step(self.net(x))


@pytest.mark.parametrize("name", OF_LOGITS)
def test_scores_take_one_logit(name, seed):
    z = 5 * torch.randn(3, 30, 1, generator=torch.Generator().manual_seed(seed))
    for draws in (z, z[:1]):
        if len(draws) > 1 or not SCORES[name].needs_draws:
            assert torch.equal(SCORES[name](draws), SCORES[name](F.pad(draws, (1, 0))))


@pytest.mark.parametrize("layer", ["all", "linear1", "linear2"])
@pytest.mark.parametrize("name", GRADIENT)
def test_gradient_scores_are_of_the_weights_that_there_are(name, layer, net, x):
    found, expected = (SCORES[name](one, x, layer=layer) for one in (net, Appended(net)))
    same(found, expected)
    assert found.isfinite().all()


def test_gradients_of_a_last_layer_are_those_of_the_binary_loss(net, x):
    """At the answer y of an input, ∂ BCE / ∂ (w, b) = (σ(z) − y) (h, 1), whose mean is not 0."""
    values, names = gradient_features(net, x, ["linear2"], **QUIET)
    z, h = net(x).detach()[:, 0], net[:-1](x).detach()
    delta = z.sigmoid() - (z > 0).double()
    gradient = delta[:, None] * torch.cat([h, torch.ones(len(x), 1)], 1)
    same(values[:, names.index("linear2/l2")], gradient.norm(dim=1))
    same(values[:, names.index("linear2/mean")], gradient.mean(1))


@pytest.mark.parametrize("name", DETECTORS)
def test_detectors(name, net, train, known, x):
    """Meta-classifiers see the weights' gradients, so that a row of zeros is no part of them."""
    twin = Appended(net) if name == "meta" else two_outputs(net)
    how = {"unknown": {"far": 10 * x}} if name == "meta" else {"train": train}
    results = []
    for model in (net, twin):
        detector = DETECTORS[name](model).fit(known, **how)
        results.append((detector.score(x), detector.score(100 * x), detector.p_value(x)))
        results[-1] += (detector.predict(x), detector.threshold_)
    for found, expected in zip(*results, strict=True):
        same(found, expected, 1e-7)


def test_the_last_layer_gets_a_row_of_zeros(net, x):
    for bias in (True, False):
        last = nn.Linear(D, 1, bias=bias).double()
        passed = forward_with_features(last, x, [HEAD])
        assert torch.equal(passed.features[HEAD], x)
        assert torch.equal(passed.head.weight, F.pad(last.weight.detach(), (0, 0, 1, 0)))
        assert torch.equal(passed.head(x), passed.head_output)
        assert torch.equal(passed.head_output, passed.logits[0])


def test_a_gate_of_one_output_is_not_taken_for_the_last_layer(x):
    both = Then(nn.Linear(D, 1).double(), lambda z: torch.cat([-z, z], 1))
    with pytest.raises(nescio.NescioError, match="no linear layer"):
        forward_with_features(both, x, [HEAD])


def test_laws_at_infinity(net, x):
    twin, step = two_outputs(net), torch.tensor([1.0, 0.5, -2.0, 0.0])
    found, expected = (audit.asymptote(one, x, step, **QUIET) for one in (net, twin))
    for field in dataclasses.fields(found):
        same(getattr(found, field.name), getattr(expected, field.name))
    found, expected = (audit.certain_from(one, x, step, **QUIET) for one in (net, twin))
    same(found.t, expected.t)
    assert torch.equal(found.proved, expected.proved)
    found, expected = (audit.trace(one, x, step, **QUIET) for one in (net, twin))
    same(found.slope, expected.slope)
    same(found.begin, expected.begin)
    squeezed = audit.asymptote(nn.Sequential(net, nn.Flatten(0)), x, step, **QUIET)
    same(squeezed.slope, audit.asymptote(twin, x, step, **QUIET).slope)


def test_linear_regions(net, x):
    twin = two_outputs(net)
    for found, expected in zip(*(audit.local_affine(one, x) for one in (net, twin)), strict=True):
        same(found, expected)
    found, expected = (audit.region(one, x[0]) for one in (net, twin))
    same(found.at(x), expected.at(x))
    same(found.margins, expected.margins)
    torch.manual_seed(0)
    plane = nn.Sequential(nn.Linear(2, 12), nn.ReLU(), nn.Linear(12, 1)).double()
    window = ((-3.0, 3.0), (-3.0, 3.0))
    records = [audit.regions_in(one, window, **QUIET) for one in (plane, two_outputs(plane))]
    same_facts(*map(facts, records))


AUDITS = {
    "overconfidence": lambda net, x: audit.overconfidence(net, x, **QUIET),
    "per feature": lambda net, x: audit.per_feature(net, x[:3], **QUIET),
    "scaling": lambda net, x: audit.scaling(net, x[:5], **QUIET),
    "monotone": lambda net, x: audit.monotone(
        net, [0.0] * D, [math.inf] + [1.0] * (D - 1), points=100, **QUIET
    ),
}


@pytest.mark.parametrize("name", AUDITS)
def test_audits(name, net, x):
    found, expected = (facts(AUDITS[name](one, x)) for one in (net, two_outputs(net)))
    if name == "monotone":  # of two classes either is one, and which comes first is rounding
        examples = [one.pop("counter_example") for one in (found, expected)]
        assert examples[0]["feature"] == examples[1]["feature"]
    same_facts(found, expected)


def test_features_of_one_number_are_not_logits(x):
    """What kernels are of may be one number, which has no second class."""
    torch.manual_seed(0)
    features = nn.Sequential(nn.Linear(D, 5), nn.ReLU(), nn.Linear(5, 1)).double()
    model = nescio.methods.DUQ(features, classes=2).double()
    found = audit.unknown_from(model, x, torch.ones(D), **QUIET)
    beyond = nescio.predict(model, x + (found.t + 1)[:, None] * torch.ones(D), **QUIET)
    assert (model.confidence(beyond) < 1e-3).all()


@pytest.mark.parametrize("how", [*ATTACKS, Attack("doubt", eps=0.1, steps=3)], ids=str)
def test_attacks(how, net, known, x):
    how = dataclasses.replace(attack_named(how), steps=3)
    twin, data = two_outputs(net), Samples(x, known.labels[:20])
    found, expected = (attack(one, data, how, box=None, **QUIET) for one in (net, twin))
    for part, other in zip(found, expected, strict=True):
        same(part, other)


def test_temperature(net, known):
    scaled = [nescio.TemperatureScaled(one).fit(known, **QUIET) for one in (net, two_outputs(net))]
    assert scaled[0].temperature == pytest.approx(scaled[1].temperature, rel=1e-9)
    same_facts(*(facts(one.record) for one in scaled))


@pytest.mark.parametrize("name", WITHOUT_FEATURES)
def test_methods_train_and_predict(name, train, x):
    """The same steps from the same weights; of its own, a method draws the same in both."""
    dropout, settings = method_class(name).default_dropout, {}
    settings |= {"members": 2} if name in ("ensemble", "anchored") else {}
    settings |= {"samples": 3} if name in ("mc_dropout", "bayes_by_backprop") else {}
    settings |= {"steps": 2} if name == "acet" else {}
    settings |= {"noise": lambda x: x.flip(1)} if name in ("ceda", "acet") else {}
    models, histories = [], []
    for wrap in (lambda net: net, Appended):
        seeds = iter(range(10))

        def make(wrap=wrap, seeds=seeds):
            return wrap(one_output(next(seeds), dropout))

        torch.manual_seed(7)
        model = METHODS[name].from_factory(make, **settings).double()
        torch.manual_seed(8)
        how = {"epochs": 2, "batch_size": 50, "validation": 0.2}
        histories.append(nescio.train(model, train, **how, **QUIET))
        models.append(model)
    logits = [nescio.predict(model, x, **QUIET) for model in models]
    assert logits[0].shape[1:] == (20, 2)
    same(*logits)
    for one, other in zip(*(history.epochs for history in histories), strict=True):
        assert (one.loss, one.validation_loss) == pytest.approx((other.loss, other.validation_loss))


def test_members_that_cannot_be_stacked(x):
    model = nescio.methods.Ensemble([one_output(0), one_output(1)], stacked=False)
    expected = torch.stack([Appended(net)(x) for net in model.networks()])
    same(nescio.predict(model, x, **QUIET), expected.detach())
    loss, logits = model.loss(torch.cat([x, x]), torch.arange(40) % 2)
    assert logits.shape == (40, 2)
    assert loss.isfinite()


def test_the_loss_is_the_binary_cross_entropy(net, known):
    x, y = known.take(slice(None))
    loss, logits = nescio.methods.Softmax(net).loss(x, y)
    same(loss, F.binary_cross_entropy_with_logits(net(x)[:, 0], y.double()))
    assert logits.shape == (200, 2)


def test_a_method_of_ones_own_may_use_the_binary_loss(train):
    class Binary(nescio.methods.Softmax):
        def loss(self, x, y):
            z = self.net(x)[:, 0]
            return F.binary_cross_entropy_with_logits(z, y.to(z)), z

    nets = [one_output(), one_output()]
    models = [Binary(nets[0]), nescio.methods.Softmax(nets[1])]
    records = [nescio.train(model, train, epochs=2, **QUIET) for model in models]
    same(*(net[0].weight for net in nets))
    assert records[0].epochs[-1].accuracy == records[1].epochs[-1].accuracy


@pytest.mark.parametrize("shape", [(200,), (200, 1)])
def test_labels_may_be_as_the_binary_loss_takes_them(shape, net, known):
    x, y = known.inputs, known.labels
    expected = nescio.evaluate(net, known, **QUIET)
    for data in ((x, y.float().view(shape)), [(x, y.view(shape)), (x[:0], y.view(shape)[:0])]):
        record = nescio.evaluate(net, data, **QUIET)
        assert record.known.accuracy == expected.known.accuracy
    pairs = torch.utils.data.TensorDataset(x, y.float().view(shape))
    others = drawn(50)
    nets = [one_output(), one_output()]
    for each, data in zip(nets, (pairs, known), strict=True):
        nescio.train(each, data, epochs=1, **QUIET)
    same(nets[0](x), nets[1](x))
    detector = nescio.Mahalanobis(net).fit(others, train=pairs)
    same(detector.threshold_, nescio.Mahalanobis(net).fit(others, train=known).threshold_)


def test_evaluations_and_decisions(net, known):
    twin, unknown = two_outputs(net), {"far": 30 * known.inputs, "noise": "noise"}
    same_facts(*(facts(nescio.evaluate(one, known, unknown, **QUIET)) for one in (net, twin)))
    records = []
    for one in (net, twin):
        detector = nescio.Threshold(one).fit(drawn(20))
        records.append(facts(nescio.decide(detector, known, {"far": 30 * known.inputs})))
    same_facts(*records)


def test_a_file_of_a_detector(net, train, known, x, tmp_path):
    detector = nescio.ViM(net).fit(known, train=train)
    nescio.save(detector, tmp_path / "detector.nescio")
    loaded = nescio.load(tmp_path / "detector.nescio", model=net)
    assert torch.equal(loaded.score(x), detector.score(x))
    with pytest.raises(nescio.NescioError):
        nescio.load(tmp_path / "detector.nescio", model=one_output(5))


def test_on_the_command_line(tmp_path, monkeypatch, command, train, known):
    monkeypatch.chdir(tmp_path)
    code = "from torch import nn\n\ndef make():\n    return nn.Sequential(nn.Linear(4, 12), "
    (tmp_path / "of_one.py").write_text(f"{code}nn.ReLU(), nn.Linear(12, 1), nn.Flatten(0))\n")
    net = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 1), nn.Flatten(0))
    floats = Samples(train.inputs.float(), train.labels)
    nescio.train(net, floats, epochs=20, learning_rate=0.02, **QUIET)
    save_file(net.state_dict(), "weights.safetensors")
    for name, data in {"train": train, "cal": known, "test": drawn(30)}.items():
        labels = data.labels.double().numpy()
        np.savez(f"{name}.npz", inputs=data.inputs.float().numpy(), labels=labels)
    own = ("--model", "of_one:make", "--weights", "weights.safetensors")
    fit = ("fit", *own, "--data", "cal.npz", "--train", "train.npz", "-o", "detector")
    code, out, err = command(*fit, "--detector", "vim", "--class-names", "healthy,ill")
    assert (code, err) == (0, "")
    assert "2 classes" in out
    assert "outputs verified" in out
    code, out, err = command("score", "detector", "test.npz", "-o", "answers.csv")
    assert code == 0, err
    answers = (tmp_path / "answers.csv").read_text()
    assert "healthy" in answers
    assert "ill" in answers
    for what in (["detector"], own):
        code, out, err = command("evaluate", *what, "--data", "test.npz", "--unknown", "far")
        assert code == 0, err


def test_a_probability_in_place_of_a_logit_is_noticed(net, x):
    wrong, said = nn.Sequential(net, nn.Sigmoid()), r"in \[0, 1\] for all 20 inputs.*ProbsToLogits"
    with pytest.warns(UserWarning, match=said):
        nescio.predict(wrong, x, **QUIET)
    with pytest.warns(UserWarning, match=said):
        nescio.evaluate(wrong, (x, torch.arange(20) % 2), **QUIET)
    with pytest.warns(UserWarning, match=said):
        nescio.Threshold(wrong).fit(x)


def test_probabilities_of_classes_in_place_of_logits_are_noticed(net, x):
    wrong, said = nn.Sequential(two_outputs(net), nn.Softmax(1)), "sum to 1 for all 20 inputs.*Prob"
    with pytest.warns(UserWarning, match=said):
        nescio.predict(wrong, x, **QUIET)
    with pytest.warns(UserWarning, match=said):
        nescio.Threshold(wrong).fit(x)


@pytest.mark.filterwarnings("error")
def test_logits_that_lie_elsewhere_too_are_not(net, x):
    nescio.predict(net, x, **QUIET)
    nescio.predict(nn.Sequential(net, nn.Sigmoid()), x[:19], **QUIET)  # too few to tell
    unsure = Then(net, lambda z: 0.5 + 0.1 * z.tanh())  # logits of a network that knows little
    nescio.predict(unsure, x, **QUIET)


@pytest.mark.filterwarnings("error")
def test_probabilities_can_be_made_logits(net, x):
    logits = nescio.predict(net, x, **QUIET)
    one = ProbsToLogits(nn.Sequential(net, nn.Sigmoid()))
    same(nescio.predict(one, x, **QUIET), logits)
    flat = ProbsToLogits(nn.Sequential(net, nn.Sigmoid(), nn.Flatten(0)))
    same(nescio.predict(flat, x, **QUIET), logits)
    two = ProbsToLogits(nn.Sequential(two_outputs(net), nn.Softmax(1)))
    same(nescio.predict(two, x, **QUIET), logits.log_softmax(-1))
    far = nescio.predict(one, 1e6 * x, **QUIET)
    assert far.isfinite().all()
    with pytest.raises(nescio.NescioError, match="outputs are no probabilities: -"):
        nescio.predict(ProbsToLogits(net), x, **QUIET)


def test_labels_of_more_classes_are_refused(net, x):
    labels = torch.arange(20) % 3
    with pytest.raises(nescio.NescioError, match="0 … 1 for 2 classes, got 0 to 2"):
        nescio.evaluate(net, (x, labels), **QUIET)
    with pytest.raises(nescio.NescioError, match="0 … 1 for 2 classes, got -1 to 1"):
        nescio.train(net, (x, labels - 1), epochs=1, **QUIET)
