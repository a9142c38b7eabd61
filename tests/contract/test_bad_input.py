"""What comes from outside is taken as it is meant, or is a NescioError: every function, every
unusual value.
"""

import numpy as np
import pytest
import torch
from torch import nn

import nescio
from nescio import audit, metrics, scores
from nescio.core.attacks import Attack, attack
from nescio.data import Normalise, Samples, batches
from nescio.detectors import DETECTORS
from nescio.errors import NescioError
from nescio.methods import RBFNetwork
from nescio.records import read_record
from nescio.report import save_figure, write_report
from nescio.sklearn import NescioClassifier
from unusual_values import C, D, N, usable, useless, whole_numbers

X = (
    torch.randint(0, 128, (N, D), generator=torch.Generator().manual_seed(0)) / 128
)  # which all types of floats have
Y = torch.arange(N) % C
S = np.linspace(0, 1, N)
LIMIT = {"limit": 20, "progress": False}
BIG = torch.rand(300, D, generator=torch.Generator().manual_seed(1))


class Takes(nn.Module):
    """A network that takes whatever can be made a float."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(D, 8), nn.ReLU(), nn.Linear(8, C))

    def forward(self, x):
        return self.net(x.float())


def net():
    return Takes().net


def rbf():
    return RBFNetwork(BIG[:5], 1.0, classes=C)


class Rows(torch.utils.data.Dataset):
    def __init__(self, values):
        self.values = values

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return self.values[index]


def fitted(name, _kept={}):  # noqa: B006 - kept between tests
    if name not in _kept:
        detector = DETECTORS[name](net())
        train = {"train": (BIG[:150] + 0.01, torch.arange(150) % C)} if detector.learns else {}
        _kept[name] = detector.fit((BIG, torch.arange(300) % C), 0.9, **train)
    return _kept[name]


INPUTS = {
    "predict": lambda v: nescio.predict(net(), v),
    "predict, taking all": lambda v: nescio.predict(Takes(), v),
    "predict, pair": lambda v: nescio.predict(net(), (v, Y)),
    "predict, batches": lambda v: nescio.predict(net(), [v]),
    "predict, batches of pairs": lambda v: nescio.predict(net(), [(v, Y)]),
    "evaluate": lambda v: nescio.evaluate(net(), (v, Y), progress=False),
    "evaluate, unknown": lambda v: nescio.evaluate(net(), (X, Y), {"u": v}, progress=False),
    "examples": lambda v: nescio.examples(net(), (v, Y), progress=False),
    "fit": lambda v: nescio.train(net(), (v, Y), epochs=1, progress=False),
    "fit, validation": lambda v: nescio.train(
        net(), (X, Y), validation=(v, Y), epochs=1, progress=False
    ),
    "temperature": lambda v: nescio.TemperatureScaled(net()).fit((v, Y)),
    "decide": lambda v: nescio.decide(fitted("threshold"), (v, Y)),
    "recommend": lambda v: nescio.recommend(net(), v, candidates=["max_prob"], progress=False),
    "contest": lambda v: nescio.contest(
        net(), BIG, {"u": v}, candidates=["max_prob"], progress=False
    ),
    "attack": lambda v: attack(net(), v, Attack(steps=1)),
    "asymptote": lambda v: audit.asymptote(net(), v, torch.ones(D)),
    "asymptote, direction": lambda v: audit.asymptote(net(), X, v),
    "certain_from": lambda v: audit.certain_from(net(), v, torch.ones(D), **LIMIT),
    "unknown_from": lambda v: audit.unknown_from(rbf(), v, torch.ones(D), **LIMIT),
    "trace": lambda v: audit.trace(net(), v, torch.ones(D), **LIMIT),
    "local_affine": lambda v: audit.local_affine(net(), v),
    "overconfidence": lambda v: audit.overconfidence(net(), v, **LIMIT),
    "per_feature": lambda v: audit.per_feature(net(), v, **LIMIT),
    "scaling": lambda v: audit.scaling(net(), v, alphas=[1, 10], progress=False),
    "gradient score": lambda v: scores.gradient_l2(net(), v, progress=False),
    "member_p_values": lambda v: fitted("combined").member_p_values(v),
    "centres": lambda v: nescio.train(
        RBFNetwork(3, classes=C, features=D), (v, Y), epochs=1, progress=False
    ),
    "distance": lambda v: rbf().distance(v),
    **{
        f"{name}, {ask}": lambda v, name=name, ask=ask: getattr(fitted(name), ask)(v)
        for name in DETECTORS
        for ask in ("score", "predict", "explain")
    },
    **{
        f"{name}, fit": lambda v, name=name: DETECTORS[name](net()).fit(v, 0.5)
        for name in ("threshold", "knn", "odin")
    },
}
VECTORS = {
    "auroc": lambda v: metrics.auroc(v, S),
    "auroc, unknown": lambda v: metrics.auroc(S, v),
    "aupr_in": lambda v: metrics.aupr_in(v, S),
    "aupr_out": lambda v: metrics.aupr_out(S, v),
    "fpr_at_tpr": lambda v: metrics.fpr_at_tpr(v, S),
    "separation": lambda v: metrics.separation(v, S),
    "balanced_threshold": lambda v: metrics.balanced_threshold(v, S),
    "roc_curve": lambda v: metrics.roc_curve(S, v).area,
    "ece": lambda v: metrics.ece(v, S > 0.5),
    "reliability": lambda v: metrics.reliability(v, S > 0.5).count.tolist(),
    "mmc": metrics.mmc,
    "rejection_curve": lambda v: metrics.rejection_curve(S > 0.5, v).area,
}
OTHERS = {
    "labels": lambda v: nescio.evaluate(net(), (X, v), progress=False),
    "labels to learn": lambda v: nescio.train(net(), (X, v), epochs=1, progress=False),
    "samples": lambda v: Samples(v, Y),
    "samples, labels": lambda v: Samples(X, v),
    "samples, column": lambda v: Samples(X, Y, {"of": v}),
    "samples, places": lambda v: Samples(X, Y).take(v),
    "samples, selection": lambda v: Samples(X, Y).select(v),
    "normalise": lambda v: Normalise(v, torch.ones(N, D)),
    "normalise, std": lambda v: Normalise(torch.ones(N, D), v),
    "normalise, fit": lambda v: Normalise.fitted(v),
    "batches": lambda v: list(batches(v, 5)),
    "a dataset": lambda v: nescio.predict(net(), Rows([v])),
    "box": lambda v: audit.overconfidence(net(), box=v, trials=3, **LIMIT),
    "a box's end": lambda v: audit.overconfidence(
        net(), box=(v, torch.full((D,), 9.0)), trials=3, **LIMIT
    ),
    "monotone": lambda v: audit.monotone(net(), v, torch.ones(D), points=4, progress=False),
    "regions_in": lambda v: audit.regions_in(nn.Linear(2, 3), v, **LIMIT),
    "alphas": lambda v: audit.scaling(net(), X, alphas=v, progress=False),
    "scale": lambda v: attack(net(), X, Attack(steps=1), scale=v),
    "load": nescio.data.load,
    "bins": lambda v: metrics.ece(S, S > 0.5, v),
    "tpr": lambda v: metrics.fpr_at_tpr(S, S, v),
    "accuracy": lambda v: metrics.accuracy(v, Y),
    "brier": lambda v: metrics.brier(v, Y),
    "nll": lambda v: metrics.nll(v, Y),
    **{f"score {name}": score for name, score in scores.OF_LOGITS.items()},
}
EASY = {  # what some take that others cannot
    "samples, column": {"structured"},
    "batches": {"no columns"},
    "distance": {"no rows", "no rows, array"},
    "scale": {"scalar", "nothing"},
    "alphas": {"nothing"},
    "overconfidence": {"nothing"},
}


def answers(ask, values, but=()):
    """The unusual values that are answered, or end in another error than ours."""
    found = {}
    for name, value in values.items():
        try:
            found[name] = ask(value)
        except NescioError:
            continue
        except Exception as error:  # noqa: BLE001 - that there is none is the point
            found[name] = repr(error)
    return {name: value for name, value in found.items() if name not in but}


@pytest.mark.parametrize("name", [*INPUTS, *VECTORS, *OTHERS])
def test_what_is_no_array_of_numbers_is_refused(name):
    ask = (INPUTS | VECTORS | OTHERS)[name]
    values = useless(X) | {"nothing": None, "text": "digits?"}
    assert answers(ask, values, EASY.get(name, ())) == {}


@pytest.mark.parametrize("name", INPUTS)
def test_whole_numbers_and_wrong_shapes_are_refused(name):
    wrong = {
        "wide": torch.rand(N, D + 1),
        "deep": X[None],
        "one and no axis for it": X[0, :2],
        **whole_numbers(X),
    }
    assert answers(INPUTS[name], wrong) == {}


ASKED = [
    "predict",
    "predict, pair",
    "predict, batches",
    "attack",
    "distance",
    "local_affine",
    "gradient score",
    *[f"{name}, {ask}" for name in DETECTORS for ask in ("score", "predict")],
]


@pytest.mark.parametrize("name", ASKED)
def test_inputs_in_any_form_are_answered_as_plain_ones(name):
    plain = INPUTS[name](X)
    for form, value in usable(X).items():
        found = INPUTS[name](value)
        for one, other in zip(found, plain, strict=True):
            torch.testing.assert_close(
                one, other, rtol=1e-6, atol=1e-6, check_dtype=False, msg=lambda _, f=form: f
            )


@pytest.mark.parametrize("name", VECTORS)
def test_scores_in_any_form_are_measured_as_plain_ones(name):
    plain = VECTORS[name](X[:, 0])
    for form, value in usable(X[:, 0]).items():
        assert VECTORS[name](value) == pytest.approx(plain), form
    assert VECTORS[name](X[:, 0].tolist()) == pytest.approx(plain)


def test_scikit_learn_is_given_what_it_can_check():
    classifier = NescioClassifier("softmax", epochs=1, reject=0.5, random_state=0).fit(
        BIG, np.arange(300) % C
    )
    plain = classifier.predict(X.numpy())
    for form, value in usable(X).items():
        assert (classifier.predict(value) == plain).all(), form
    unusual = ("sparse", "nested", "jagged", "meta", "fake", "quantized", "complex", "masked")
    for name, value in useless(X).items():
        if name in unusual:
            with pytest.raises(ValueError):  # noqa: PT011 - scikit-learn's, of which ours is one
                classifier.predict(value)


MODELS = {
    "predict": lambda m: nescio.predict(m, X),
    "evaluate": lambda m: nescio.evaluate(m, (X, Y), progress=False),
    "fit": lambda m: nescio.train(m, (X, Y), epochs=1, progress=False),
    "temperature": lambda m: nescio.TemperatureScaled(m).fit((X, Y)),
    "attack": lambda m: attack(m, X, Attack(steps=1)),
    "gradient score": lambda m: scores.gradient_l2(m, X, progress=False),
    "recommend": lambda m: nescio.recommend(m, BIG, candidates=["max_prob"], progress=False),
    "asymptote": lambda m: audit.asymptote(m, X, torch.ones(D)),
    "certain_from": lambda m: audit.certain_from(m, X, torch.ones(D), **LIMIT),
    "unknown_from": lambda m: audit.unknown_from(m, X, torch.ones(D), **LIMIT),
    "trace": lambda m: audit.trace(m, X, torch.ones(D), **LIMIT),
    "region": lambda m: audit.region(m, X[0]),
    "monotone": lambda m: audit.monotone(
        m, torch.zeros(D), torch.ones(D), points=4, progress=False
    ),
    "overconfidence": lambda m: audit.overconfidence(m, X, **LIMIT),
    "per_feature": lambda m: audit.per_feature(m, X, **LIMIT),
    "scaling": lambda m: audit.scaling(m, X, alphas=[1, 10], progress=False),
    **{name: lambda m, name=name: DETECTORS[name](m).fit(BIG, 0.5) for name in DETECTORS},
}


@pytest.mark.filterwarnings("ignore:.torch.jit")
@pytest.mark.parametrize("name", MODELS)
def test_what_is_no_model_with_weights_is_refused(name):
    frozen = torch.jit.freeze(torch.jit.script(net().eval()))
    wrong = {
        "meta": net().to("meta"),
        "partly meta": nn.Sequential(nn.Linear(D, 8), nn.Linear(8, C).to("meta")),
        "frozen": frozen,
        "lazy": nn.LazyLinear(C),
        "function": len,
        "class": nn.Linear,
        "nothing": None,
        "tensor": X,
    }
    assert answers(MODELS[name], wrong) == {}


@pytest.mark.filterwarnings("ignore:.torch.jit")
def test_a_scripted_model_is_answered_alike_or_refused():
    for scripted in (torch.jit.script(net()), torch.jit.trace(net(), X)):
        for name in ("predict", "attack", "gradient score"):
            found, plain = MODELS[name](scripted), MODELS[name](net())
            if name == "attack":
                found, plain = found.inputs, plain.inputs
            torch.testing.assert_close(found, plain)
        for name in (
            "asymptote",
            "trace",
            "region",
            "monotone",
            "overconfidence",
            "per_feature",
            "scaling",
        ):
            with pytest.raises(NescioError, match="scripted"):
                MODELS[name](scripted)


def test_a_model_with_sparse_weights_is_answered_or_refused():
    sparse = net()
    sparse[0].weight = nn.Parameter(sparse[0].weight.detach().to_sparse())
    for name, ask in MODELS.items():
        for value in answers(ask, {name: sparse}).values():
            assert not isinstance(value, str), (name, value)


PATHS = {
    "load": lambda path, _: nescio.load(path),
    "save": lambda path, _: nescio.save(nescio.models.mlp(D, C), path),
    "record.save": lambda path, record: record.save(path),
    "record.load": lambda path, record: type(record).load(path),
    "read_record": lambda path, _: read_record(path),
    "checkpoint": lambda path, _: nescio.train(net(), (X, Y), epochs=1, checkpoint=path),
    "write_report": lambda path, _: write_report([], path),
    "save_figure": lambda path, _: save_figure(None, path),
}


@pytest.mark.parametrize("name", PATHS)
def test_what_is_no_path_is_refused(name):
    record = nescio.evaluate(net(), (X, Y), scores="entropy", progress=False)
    for wrong in (5, b"name", ["name"], X, *([None] if name != "checkpoint" else [])):
        with pytest.raises(NescioError, match=r"must be a path, a str or a pathlib\.Path, got"):
            PATHS[name](wrong, record)


def test_a_tensor_in_place_of_members_is_not_shown_whole():
    for wrong in (BIG, [BIG]):
        with pytest.raises(NescioError, match="got tensor") as caught:
            nescio.Combined(net(), wrong)
        assert len(str(caught.value)) < 300
