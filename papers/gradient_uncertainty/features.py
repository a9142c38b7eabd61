"""A network trained on one split of the data, and the gradient statistics of its inputs.

All scores and meta-classifiers are functions of these numbers, so that they are kept in a file: a
new row of a table needs no training.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

import nescio
from nescio import NescioError, derived_seed
from nescio.data import Known, Normalise, Samples, load
from nescio.detectors import labelled_features
from nescio.evaluation import unknown_set
from nescio.methods import Softmax
from nescio.models import network_for
from nescio.records import History, Stopwatch, to_plain
from nescio.scores import gradient_features
from nescio.store import atomic_write
from papers.gradient_uncertainty.plan import RIGHT, WRONG, SplitPlan

VALIDATION = "validation"  # what the meta-classifiers learn from
FACTS = "facts"  # of a file, beside its tensors
FEATURES = ("log", "raw", "few", "raw_few")  # fields of a split, and parts of its file
LATER = ("mixed", "mixes", "networks")  # settings of a plan that features do not depend on
Features = dict[str, Tensor]  # of each set, (N, F)


@dataclass(frozen=True)
class SplitFeatures:
    """The columns of `gradient_features` for validation data, answers to test data, unknown sets.

    Attributes:
        names: of the columns.
        correct: which answers to validation data are, (N,).
        log: of validation data, right and wrong answers, and each unknown set; none is empty.
        raw: the same in their own units, without logarithms.
        few, raw_few: the same of a few other inputs of each unknown set, to learn from.
        accuracy: on test data.
        seconds: that training and all passes took.
    """

    names: tuple[str, ...]
    correct: Tensor
    log: Features
    raw: Features
    few: Features
    raw_few: Features
    accuracy: float
    seconds: float

    def save(self, path: Path, settings: Any) -> None:
        """Write a file, with the settings that made it."""
        kinds = {kind: getattr(self, kind) for kind in FEATURES}
        tensors = {f"{kind}/{name}": v for kind, sets in kinds.items() for name, v in sets.items()}
        facts = {"names": self.names, "accuracy": self.accuracy, "seconds": self.seconds}
        facts |= {"settings": settings, "order": list(tensors)}  # which a file does not keep
        content = save({"correct": self.correct, **tensors}, {FACTS: json.dumps(facts)})
        with atomic_write(path) as file:
            file.write(content)

    @classmethod
    def load(cls, path: Path, settings: Any) -> "SplitFeatures":
        """Read a file, or raise an error if other settings made it."""
        with safe_open(path, "pt") as file:
            facts = json.loads(file.metadata()[FACTS])
            tensors = {name: file.get_tensor(name) for name in facts.pop("order")}
            correct = file.get_tensor("correct")
        if facts.pop("settings") != settings:
            raise NescioError(f"{str(path)!r} was made with other settings; choose another folder")
        kinds: dict[str, Features] = {kind: {} for kind in FEATURES}
        for name, values in tensors.items():
            kind, _, of = name.partition("/")
            kinds[kind][of] = values
        facts |= {"names": tuple(facts["names"]), "correct": correct, **kinds}
        return cls(**facts)


def split_features(
    plan: SplitPlan, split: int, folder: Path, root: str | None, seed: int
) -> SplitFeatures:
    """Return the features of a split, made once and kept in the folder with the network."""
    needed = {one.name: getattr(plan, one.name) for one in fields(plan) if one.name not in LATER}
    settings = {**to_plain(needed), "split": split, "seed": seed}
    path = folder / f"features-{split}.safetensors"
    if not path.exists():
        _made(plan, split, folder, root, derived_seed(seed, "split", split)).save(path, settings)
    return SplitFeatures.load(path, settings)


def _made(plan: SplitPlan, split: int, folder: Path, root: str | None, seed: int) -> SplitFeatures:
    """Train a network on its part of the data, and compute all features."""
    stopwatch, known = Stopwatch(), load(plan.data, root, plan.unseen)
    train, validation, test = divided(known, (plan.train, plan.validation, plan.test), seed)
    training = Stopwatch()
    model, history = _trained(plan, known, train, seed, folder / f"split-{split}.safetensors")
    # a training that was resumed took longer than this time
    earlier_seconds = history.provenance.seconds - training.seconds
    rows, correct, names = labelled_features(model, validation)
    log: Features = {VALIDATION: rows}
    raw: Features = {VALIDATION: gradient_features(model, validation).values}
    for data, sets in (
        (test, {RIGHT: True, WRONG: False}),
        *((load(name, root).test, {f"{name}, {WRONG}": False}) for name in plan.digits),
    ):
        values, right, _ = labelled_features(model, data)
        raw_values = gradient_features(model, data).values
        log |= {name: values[right == wanted] for name, wanted in sets.items()}
        raw |= {name: raw_values[right == wanted] for name, wanted in sets.items()}
    unknown, few = _sets(plan, known, root, seed)
    log |= {name: gradient_features(model, x, log=True).values for name, x in unknown.items()}
    raw |= {name: gradient_features(model, x).values for name, x in unknown.items()}
    return SplitFeatures(
        names=names,
        correct=correct,
        log={name: values for name, values in log.items() if len(values)},
        raw={name: values for name, values in raw.items() if len(values)},
        few={name: gradient_features(model, x, log=True).values for name, x in few.items()},
        raw_few={name: gradient_features(model, x).values for name, x in few.items()},
        accuracy=nescio.evaluate(model, test, scores=["max_prob"]).known.accuracy,
        seconds=stopwatch.seconds + earlier_seconds,
    )


def divided(known: Known, sizes: Sequence[int], seed: int) -> list[Samples]:
    """Return random parts of so many inputs each of all labelled data, test part included."""
    parts = [part for part in (known.train, known.test) if part is not None]
    whole = Samples.joined(parts, known.name)
    if sum(sizes) > len(whole):
        raise NescioError(
            f"{known.name} has {len(whole)} labelled inputs, but {sum(sizes)} are asked for"
        )
    order = torch.randperm(len(whole), generator=torch.Generator().manual_seed(seed))
    ends = np.cumsum([0, *sizes]).tolist()
    return [whole.select(order[a:b]) for a, b in pairwise(ends)]


def _trained(
    plan: SplitPlan, known: Known, train: Samples, seed: int, checkpoint: Path
) -> tuple[Softmax, History]:
    """As in the paper, but for a fixed number of epochs at each of three learning rates."""
    with torch.random.fork_rng():
        torch.manual_seed(derived_seed(seed, "weights", 0))
        net = network_for(plan.network, known.shape, len(known.classes))
    model = Softmax(net, normalise=Normalise.fitted(train))
    history = nescio.train(
        model,
        train,
        epochs=plan.epochs,
        batch_size=plan.batch_size,
        optimizer="sgd",
        learning_rate=plan.learning_rate,
        weight_decay=plan.weight_decay,
        schedule=nescio.schedule.Step(at=(0.6, 0.85), factor=0.1),
        seed=seed,
        checkpoint=checkpoint,
    )
    return model.eval(), history


def _sets(
    plan: SplitPlan, known: Known, root: str | None, seed: int
) -> tuple[dict[str, Samples], dict[str, Samples]]:
    """The unknown sets to evaluate on, and a few other inputs of each to learn from."""
    unknown, few = {}, {}
    for name in plan.unknown:
        data = unknown_set(name, known, root, seed % 2**31)
        order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))
        few[name] = data.select(order[: plan.each])
        unknown[name] = data.select(order[plan.each : plan.each + plan.most])
    return unknown, few
