"""Scores by name, with parameters, as specs and as functions."""

from functools import partial

import pytest
import torch

import nescio
from nescio.data import Samples
from nescio.errors import NescioError
from nescio.models import mlp
from nescio.scores import SCORES, ScoreError, ScoreSpec, entropy, score_spec, score_specs, scores_of


def tempered(logits, temperature=2.0, power=1):
    """A score with parameters."""
    return entropy(logits / temperature) ** power


@pytest.fixture
def with_parameters(monkeypatch):
    monkeypatch.setitem(SCORES, "tempered", ScoreSpec.of(tempered))


def names(given, *table):
    return [str(spec) for spec in score_specs(given, *table)]


def test_a_name_may_hold_a_layer():
    assert names("gradient_l2:conv2") == ["gradient_l2:conv2"]
    given = ["entropy", "gradient_l2", "gradient_l2:a.b", "gradient_l2"]
    assert names(given) == ["entropy", "gradient_l2", "gradient_l2:a.b"]
    assert names("gradient_l2(layer='a.b')") == ["gradient_l2:a.b"]
    for wrong in ("entropy:conv1", "gradient_l2:", "gradient_l3:conv1", ":conv1", 3, [3], [None]):
        with pytest.raises(NescioError):
            score_specs(wrong)
    with pytest.raises(NescioError, match="gradient_l2:conv1 looks into the network"):
        score_specs("gradient_l2:conv1", {"entropy": SCORES["entropy"]})


def test_a_name_may_hold_parameters(with_parameters):
    logits = torch.randn(1, 5, 3)
    for text in ("tempered(power=2, temperature=3)", "tempered( temperature=3,power=2 )"):
        spec = score_spec(text)
        assert str(spec) == "tempered(temperature=3, power=2)"
        assert spec == score_spec(str(spec)) == score_spec(spec)
        assert torch.equal(spec(logits), tempered(logits, 3, 2))
    assert str(score_spec("tempered")) == str(score_spec("tempered()")) == "tempered"
    assert score_spec("tempered(power=-1.5)").parameters == {"power": -1.5}
    with pytest.raises(NescioError, match="unknown parameter of tempered 'tempreature'; did you"):
        score_spec("tempered(tempreature=3)")
    with pytest.raises(NescioError, match="unknown parameter of entropy"):
        score_spec("entropy(gamma=1)")


NOT_LITERALS = [
    "(3)",
    "(power=__import__('os'))",
    "(power=[1])",
    "(**{})",
    "(",
    ")",
    "(power=1)(power=2)",
    "(power=2**3)",
    "\0",
    ".x",
    "(power=" + "(" * 5000 + ")",
    "(power=" + "-" * 90_000 + "1)",
]


@pytest.mark.parametrize("rest", NOT_LITERALS)
def test_parameters_are_literals_and_nothing_else(with_parameters, rest):
    with pytest.raises(NescioError):
        score_spec(f"tempered{rest}")


def test_a_function_of_logits_is_a_score():
    def spread(logits):
        return logits[0].std(1)

    logits = torch.randn(1, 5, 3)
    net = torch.nn.Linear(3, 3)
    (spec,) = score_specs(spread)
    assert str(spec) == "spread"
    assert torch.equal(scores_of([spec], net, logits[0], logits)["spread"], logits[0].std(1))
    assert score_specs([entropy]) == [SCORES["entropy"]]
    assert names([lambda z: z[0, :, 0], lambda z: z[0, :, 1]]) == ["<lambda>", "<lambda> 2"]
    with pytest.raises(NescioError, match=r"<lambda> must return \(5,\) real numbers, got \(3,\)"):
        scores_of(score_specs(lambda z: z[0, 0]), net, logits[0], logits)


class Spread:
    """A score that is an object."""

    def __call__(self, logits):
        return logits[0].std(1)


def test_a_partial_of_a_score_of_ours_is_it_with_these_parameters(with_parameters):
    spec = score_spec(partial(partial(tempered, temperature=3.0), power=2, temperature=4.0))
    assert spec == SCORES["tempered"].with_parameters(temperature=4.0, power=2)
    logits = torch.randn(1, 5, 3)
    assert torch.equal(spec(logits), tempered(logits, 4.0, 2))


def test_a_function_is_named_after_what_it_calls():
    halved = partial(partial(tempered, temperature=2), power=1)
    assert names([halved, Spread(), partial(Spread())]) == ["tempered", "Spread", "Spread 3"]
    assert names(partial(entropy)) == ["entropy"]
    for no_score in (Spread, nescio.KNN):
        with pytest.raises(NescioError, match="unknown score"):
            score_spec(no_score)


def uses(score):
    """Return what calls a score."""
    torch.manual_seed(0)
    model, data = mlp(4, 3, hidden=(8,)), Samples(torch.randn(40, 4), torch.arange(40) % 3)
    quiet = {"progress": False}
    return {
        "fit": lambda: nescio.Threshold(model, score).fit(data),
        "evaluate": lambda: nescio.evaluate(model, data, scores=["entropy", score], **quiet),
        "examples": lambda: nescio.examples(model, data, score=score, **quiet),
        "scaling": lambda: nescio.audit.scaling(model, data.inputs, scores=[score], **quiet),
    }


@pytest.mark.parametrize("use", uses(None))
def test_an_error_in_a_function_names_the_score(use):
    def broken(logits):
        raise KeyError("temperature")

    with pytest.raises(ScoreError, match="the score broken raised KeyError: 'temp") as caught:
        uses(broken)[use]()
    assert isinstance(caught.value.__cause__, KeyError)

    def stopped(logits):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        uses(stopped)[use]()

    def refused(logits):
        raise NescioError("as it is")

    with pytest.raises(NescioError, match=r"^as it is$"):
        uses(refused)[use]()


WRONG_VALUES = {
    r"\(\)": lambda z: z.sum(),
    "torch.bool": lambda z: z[0, :, 0] > 0,
    "torch.complex128": lambda z: z[0, :, 0].to(torch.complex128),
    "NaN for 40 of 40 inputs": lambda z: z[0, :, 0] * float("nan"),
    "list": lambda z: z[0, :, 0].tolist(),
}


@pytest.mark.parametrize("use", uses(None))
@pytest.mark.parametrize("got", WRONG_VALUES)
def test_what_a_function_returns_is_checked(use, got):
    with pytest.raises(ScoreError, match=rf"<lambda> must return \(40,\) real numbers, got {got}$"):
        uses(WRONG_VALUES[got])[use]()


def test_a_wrong_name_is_answered_with_one_that_works(with_parameters):
    for name in ("entropy", "tempered", "gradient_l2"):
        with pytest.raises(NescioError, match="is no score; expected") as caught:
            score_spec(f"{name}(0.1)")
        example = (
            str(caught.value).split("literals, ")[-1].split("expected ")[-1].split(", which")[0]
        )
        assert score_spec(example).name == name


@pytest.mark.parametrize("inside", ["power=2, power=3", "**{'power': 3}", "power=2, **{}"])
def test_a_parameter_is_named_once_and_by_itself(with_parameters, inside):
    with pytest.raises(NescioError, match="is no score; expected tempered or, with other literals"):
        score_spec(f"tempered({inside})")


def test_a_default_that_is_named_makes_no_other_score(with_parameters):
    spec = SCORES["tempered"]
    defaults = ", ".join(f"{name}={value!r}" for name, value in spec._defaults().items())
    assert [str(each) for each in score_specs(["tempered", f"tempered({defaults})"])] == [
        "tempered"
    ]


def test_thresholds_and_evaluations_take_all_three(with_parameters, tmp_path):
    torch.manual_seed(0)
    model = mlp(4, 3, hidden=(8,))
    data = Samples(torch.randn(100, 4), torch.arange(100) % 3)
    unknown = 3 * torch.randn(50, 4)
    kinds = ("tempered(power=3)", SCORES["tempered"].with_parameters(power=3))
    first, second = (nescio.Threshold(model, kind).fit(data) for kind in kinds)
    assert torch.equal(first.score(unknown), second.score(unknown))
    nescio.save(second, tmp_path / "d.nescio")
    again = nescio.load(tmp_path / "d.nescio")
    assert again.score_name == "tempered(power=3)"
    assert torch.equal(again.predict(unknown), second.predict(unknown))

    def cube(logits):
        return entropy(logits / 2) ** 3

    third = nescio.Threshold(model, cube).fit(data)
    assert torch.equal(third.predict(unknown), second.predict(unknown))
    with pytest.raises(NescioError, match=r"the score 'cube' is a function.* cannot be saved"):
        nescio.save(third, tmp_path / "f.nescio")
    scores = ["max_prob", *kinds, cube]
    record = nescio.evaluate(model, data, {"unseen": unknown}, scores=scores, progress=False)
    found = {one.score: one.auroc for one in record.unknown[0].separation}
    assert list(found) == ["max_prob", "tempered(power=3)", "cube"]
    assert found["cube"] == found["tempered(power=3)"]
    assert type(record).from_json(record.to_json()) == record
