"""How unknown is an input? Scores `(N,)`: higher = more likely unknown (OOD), without exception."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from inspect import isfunction
from typing import Any

from torch import Tensor, nn

from nescio.errors import NescioError, unknown_name
from nescio.scores.gradient import GradientFeatures as GradientFeatures
from nescio.scores.gradient import gradient_features as gradient_features
from nescio.scores.spec import DECLARED
from nescio.scores.spec import Score as Score
from nescio.scores.spec import ScoreError as ScoreError
from nescio.scores.spec import ScoreSpec as ScoreSpec
from nescio.scores.spec import declare as declare

# A score is a line here, in the order of tables; SCORES is built from these.
# isort: off
from nescio.scores.output import max_prob as max_prob
from nescio.scores.output import margin as margin
from nescio.scores.output import entropy as entropy
from nescio.scores.output import normalised_entropy as normalised_entropy
from nescio.scores.output import max_logit as max_logit
from nescio.scores.output import energy as energy
from nescio.scores.output import expected_entropy as expected_entropy
from nescio.scores.output import variance as variance
from nescio.scores.output import mutual_information as mutual_information
from nescio.scores.gradient import gradient_l1 as gradient_l1
from nescio.scores.gradient import gradient_l2 as gradient_l2
from nescio.scores.gradient import gradient_min as gradient_min
from nescio.scores.gradient import gradient_max as gradient_max
from nescio.scores.gradient import gradient_std as gradient_std
# isort: on

# all scores by name
SCORES: dict[str, ScoreSpec] = {
    name: DECLARED[function]
    for name, function in tuple(globals().items())
    if isfunction(function) and function in DECLARED
}
# functions of logits alone
OF_LOGITS = {name: spec for name, spec in SCORES.items() if not spec.of_model}
# those that look into the network
GRADIENT = {name: spec for name, spec in SCORES.items() if spec.of_model}
# what stands for a score: a name, a spec or a function of logits
ScoreLike = str | ScoreSpec | Callable[[Tensor], Tensor]


def score_spec(score: ScoreLike, table: Mapping[str, ScoreSpec] = SCORES) -> ScoreSpec:
    """Return the spec of a score: a name, a spec, or a function of logits `(S, N, C)`.

    A name may have parameters, `gen(gamma=0.1)`; that of a gradient a layer, `gradient_l2:conv2`.

    >>> score_spec("gradient_l2:conv2").parameters
    {'layer': 'conv2'}
    """
    if isinstance(score, str):
        spec = SCORES.get(score.partition(":")[0]) or SCORES.get(score.partition("(")[0].rstrip())
        spec = None if spec is None else spec.parse(score)
    elif isinstance(score, ScoreSpec):
        spec = score
    else:
        spec = _of_function(score)
    if spec is None:
        raise unknown_name("score", score, table)
    if spec.of_model and spec.name not in table:
        raise NescioError(
            f"{spec} looks into the network, and is no function of its logits alone; expected one "
            f"of {', '.join(table)}"
        )
    return spec


def _of_function(function: Any) -> ScoreSpec | None:
    """Return the spec of one of our functions or, under a name that none has, of a user's."""
    if not callable(function) or isinstance(function, type):
        return None
    own, parameters = function, {}
    if isinstance(function, partial) and not function.args:  # a partial of one is flat
        own, parameters = function.func, function.keywords
    if ours := next((spec for spec in SCORES.values() if spec.function is own), None):
        return ours.with_parameters(**parameters) if parameters else ours
    spec = ScoreSpec.of(function)
    return replace(spec, name=f"{spec.name} (function)") if spec.name in SCORES else spec


def score_specs(scores: Any, table: Mapping[str, ScoreSpec] = SCORES) -> list[ScoreSpec]:
    """Return the specs of several scores, each once; one alone may come bare, and None is none.

    >>> [str(spec) for spec in score_specs(["entropy", "gradient_l2:conv2"])]
    ['entropy', 'gradient_l2:conv2']
    """
    if isinstance(scores, str | ScoreSpec) or callable(scores):
        scores = [scores]
    if not isinstance(scores, Sequence | None):
        raise NescioError(f"scores must be names such as 'entropy', or functions, got {scores!r}")
    specs: dict[str, ScoreSpec] = {}
    for spec in (score_spec(score, table) for score in scores or ()):
        if specs.get(str(spec), spec) != spec:  # a function of the same name
            spec = replace(spec, name=f"{spec.name} {len(specs) + 1}")
        specs[str(spec)] = spec
    return list(specs.values())


def is_named(spec: ScoreSpec) -> bool:
    """Return whether a score can be found again by its name, as files and records need it.

    >>> is_named(score_spec("entropy")), is_named(score_spec(lambda logits: -logits[0, :, 0]))
    (True, False)
    """
    return spec.name in SCORES and spec.function is SCORES[spec.name].function


def usual_scores(draws: int) -> list[ScoreSpec]:
    """Return the scores of logits with so many draws, all cheap once the logits are there.

    >>> [spec.name for spec in usual_scores(draws=1)]
    ['max_prob', 'margin', 'entropy', 'normalised_entropy', 'max_logit', 'energy']
    """
    return [spec for spec in OF_LOGITS.values() if draws > 1 or not spec.needs_draws]


def scores_of(
    specs: Sequence[ScoreSpec], model: nn.Module, x: Tensor, logits: Tensor
) -> dict[str, Tensor]:
    """Return scores `(B,)` by name, of a batch of inputs with logits `(S, B, C)`.

    Those of the gradient, all together, cost one more pass forward and back.

    >>> logits = nescio.predict(net, x)
    >>> list(scores_of(score_specs(["entropy", "energy"]), net, x, logits))
    ['entropy', 'energy']
    """
    values = {str(spec): spec(logits) for spec in specs if not spec.of_model}
    layers = {str(spec): spec.parameters.get("layer", "all") for spec in specs if spec.of_model}
    if layers:
        names = list(dict.fromkeys(str(layer) for layer in layers.values()))
        options: dict[str, Any] = {"log": True, "batch_size": len(x), "progress": False}
        features, columns = gradient_features(model, x, names, **options)
        for spec in (spec for spec in specs if spec.of_model):
            column = f"{layers[str(spec)]}/{spec.name.removeprefix('gradient_')}"
            values[str(spec)] = features[:, columns.index(column)]
    return {str(spec): values[str(spec)] for spec in specs}


def natural(name: str, values: Tensor) -> Tensor:
    """Return a score on the scale that papers plot: a probability where it is the log of one.

    Its gradient in x vanishes as a model saturates; that of the log does not.

    >>> import torch
    >>> natural("max_prob", torch.tensor([0.0, -1000.0]))
    tensor([1., 0.])
    """
    return values.exp() if name in SCORES and SCORES[name].log_of else values


def natural_name(name: str) -> str:
    """Return what `natural` gives, for the label of an axis.

    >>> natural_name("max_prob")
    '1 − max p'
    """
    label = SCORES[name].log_of if name in SCORES else None
    return label or name.replace("_", " ")
