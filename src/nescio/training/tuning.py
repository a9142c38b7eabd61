"""The two settings of DUQ that must suit the data, chosen by small sweeps (van Amersfoort et al. 2020, section 4)."""

import inspect
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from nescio.arrays import items
from nescio.core.logits import classes
from nescio.core.predict import predict, predict_labelled
from nescio.data.batches import length
from nescio.data.labelled import as_dataset, as_int64, check_labels, fingerprint, split, stable_repr
from nescio.data.samples import Samples
from nescio.errors import DivergedError, NescioError, check_float, check_int, unknown_name
from nescio.methods import DUQ
from nescio.metrics import auroc
from nescio.metrics.percent import percent
from nescio.progress import say
from nescio.records import Provenance, Selection, Trial, to_plain
from nescio.scores import OF_LOGITS
from nescio.seeds import check_seed, derived_seed
from nescio.training.settings import check_same
from nescio.training.train import train as train_model

LENGTH_SCALES = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
PENALTIES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
BY_MISTAKES = "AUROC of right against wrong answers on validation data"
FEW = 20  # mistakes, below which their AUROC is mostly luck
OURS = (
    "validation",
    "seed",
    "checkpoint",
    "checkpoint_every",
    "progress",
)  # of fit, but not for the caller to set
USUAL = {
    one.name: one.default
    for one in inspect.signature(train_model).parameters.values()
    if one.default is not one.empty and one.name not in OURS
}

Make = Callable[..., nn.Module]  # which must be a DUQ
Place = str | os.PathLike[str]


def select_length_scale(
    make: Make,
    data: Dataset[Any] | tuple[Any, Any],
    candidates: Iterable[float] = LENGTH_SCALES,
    *,
    validation: float | Dataset[Any] | tuple[Any, Any] = 0.1,
    seeds: int = 1,
    epochs: int = 10,
    seed: int = 0,
    record: Place | None = None,
    progress: bool | None = None,
    **training: Any,
) -> Selection:
    """The length scale of the highest accuracy on validation data, without a gradient penalty (section 4.2).

    Of equals the smallest is chosen: the paper finds accuracy on two moons the same for all, but needs small ones for
    a model that is certain only near its data. Every trial starts from the same weights and sees the same data in the
    same order. One whose training fails, since its loss becomes NaN, is recorded so, and never chosen.

    Args:
        make: makes a DUQ with fresh weights from settings, as in
            `select_length_scale(lambda **own: DUQ(conv3(), 10, normalise=known.normalise, **own), known.train)`.
        data: a dataset of `(input, label)`, or a pair of arrays.
        candidates: the values to try.
        validation: a dataset, or the share of `data` to set aside.
        seeds: how many trainings there are for each value; their mean decides.
        epochs: of each training; it may be shorter than that of the model to be, but not so short that accuracy is
            still poor: it would tell how soon a value learns, not how well.
        seed: of everything random.
        record: a file that is written after each trial; if there, trials of the same sweep are not repeated.
        progress: a bar for each training and a line for each trial; by default only on a terminal.
        training: further settings of `fit`.
    """
    values = _candidates(candidates, least=1e-6, most=1e6)
    train, held = _parts(data, validation, seed)
    aim = Aim(
        "length_scale",
        "validation accuracy at gradient penalty 0",
        "accuracy",
        {"gradient_penalty": 0.0},
    )
    sweep = Sweep(
        make, aim, values, train, held, None, seeds, seed, _training(epochs, training), progress
    )
    return sweep.run(record)


def select_penalty(
    make: Make,
    data: Dataset[Any] | tuple[Any, Any],
    candidates: Iterable[float] = PENALTIES,
    *,
    unknown: Any = None,
    validation: float | Dataset[Any] | tuple[Any, Any] = 0.1,
    seeds: int = 1,
    epochs: int = 10,
    seed: int = 0,
    record: Place | None = None,
    progress: bool | None = None,
    **training: Any,
) -> Selection:
    """The weight of the gradient penalty whose certainty best tells what the model does not know.

    By default that is the AUROC of right against wrong answers on validation data (section 4.3), which the paper
    prefers, as it needs no other data. A model without a mistake has no such AUROC and counts as 1: none of its wrong
    answers is more certain than a right one. A few mistakes are a weak ground (see `doubts`), so set enough data aside.
    With `unknown` it is the AUROC of validation data against that (section 4.2), which should not be the data that the
    model is judged by later. Of equals the smallest is chosen, since a penalty costs accuracy.

    Args:
        make: makes a DUQ with fresh weights from settings, as in
            `select_penalty(lambda **own: DUQ(conv3(), 10, length_scale=0.1, **own), known.train)`.
        unknown: data of another kind, as `predict` takes them.
        data, candidates, validation, seeds, epochs, seed, record, progress, training: as in `select_length_scale`.
    """
    if isinstance(unknown, Iterator):
        raise NescioError(
            "unknown data are read once for each trial, but an iterator can be read only once; give a "
            "tensor, a dataset or a loader"
        )
    values = _candidates(candidates)
    train, held = _parts(data, validation, seed)
    criterion = BY_MISTAKES
    if unknown is not None:
        criterion = (
            f"AUROC of validation data against {getattr(unknown, 'name', '') or 'unknown data'}"
        )
    aim = Aim("gradient_penalty", criterion, "auroc", {})
    sweep = Sweep(
        make, aim, values, train, held, unknown, seeds, seed, _training(epochs, training), progress
    )
    return sweep.run(record)


def doubts(record: Selection) -> list[str]:
    """What speaks against a choice, in sentences: models that only guess, values all alike, too few mistakes."""
    told = []
    sound = [trial for trial in record.trials if trial.accuracy is not None]
    chance = 1 / record.provenance.settings["method_settings"]["classes"]
    best = max(trial.accuracy or 0.0 for trial in sound)
    if best < chance + (1 - chance) / 5:  # a fifth of the way from guessing to perfection
        told.append(
            f"The best accuracy of all trials is {percent(best)}, near the {percent(chance)} of guessing; they "
            "have learned too little to choose by."
        )
    if len(sound) > 1 and len({getattr(trial, record.measure) for trial in sound}) == 1:
        told.append(
            f"All values tried are alike by this measure, so {record.value:g} is only the smallest of them."
        )
    wrong = round((1 - (record.chosen.accuracy or 0.0)) * record.inputs)
    if record.criterion == BY_MISTAKES and wrong < FEW:
        told.append(
            f"The choice rests on {wrong} wrong answers, fewer than {FEW}, and so on luck; set more data "
            "aside for validation, or choose by data of another kind."
        )
    return told


@dataclass(frozen=True)
class Aim:
    """Which setting is looked for, and by what."""

    setting: str
    criterion: str  # in words
    measure: str  # the figure of a trial that decides
    fixed: dict[str, float]  # settings that all trials have in common


@dataclass(frozen=True)
class Sweep:
    """Trainings that differ in one setting only."""

    make: Make
    aim: Aim
    candidates: tuple[float, ...]
    train: Dataset[Any]
    held: Dataset[Any]
    unknown: Any
    seeds: int
    seed: int
    training: dict[str, Any]
    progress: bool | None

    def __post_init__(self) -> None:
        if isinstance(self.make, nn.Module) or not callable(self.make):
            raise NescioError(
                "make must be a function that makes a DUQ with fresh weights from settings, such as "
                f"lambda **own: DUQ(conv3(), 10, **own), not a {type(self.make).__name__}"
            )
        check_int("seeds", self.seeds)

    def run(self, place: Place | None) -> Selection:
        """Try every candidate that is not on record yet, and choose."""
        first = self.fresh(self.candidates[0], self.seed)
        settings = self.settings(first)
        kept = None if place is None or not os.path.exists(place) else _kept(place, settings)
        trials = {} if kept is None else {trial.value: trial for trial in kept.trials}
        left = [value for value in self.candidates if value not in trials]
        if kept is not None and not left:
            return kept
        self.check(first)
        for value in left:
            trials[value] = self.trial(value, first)
            self.tell(trials[value], len(trials))
            done = tuple(trials[one] for one in self.candidates if one in trials)
            found = self.record(done, settings)
            if found is not None and place is not None:
                found.save(place)
        if found is None:
            raise self.nothing(done)
        return found

    def fresh(self, value: float, seed: int, before: DUQ | None = None) -> DUQ:
        """A model with the first weights of a seed, or an error if `make` did not make one, or not a new one."""
        asked = {self.aim.setting: value, **self.aim.fixed}
        with torch.random.fork_rng():
            torch.manual_seed(derived_seed(seed, "weights", 0))
            try:
                model = self.make(**asked)
            except TypeError as error:
                raise NescioError(
                    f"make must take the settings {' and '.join(asked)} by name and pass them on to DUQ, "
                    f"once each; called with them it fails: {error}"
                ) from error
        if not isinstance(model, DUQ):
            raise NescioError(f"make must return a DUQ, not a {type(model).__name__}")
        for name, wanted in asked.items():
            if getattr(model, name) != wanted:
                raise NescioError(
                    f"make was asked for {name}={wanted:g}, and made a DUQ with "
                    f"{getattr(model, name):g}; it must pass on the settings it is given"
                )
        if before is not None and not {*map(id, model.parameters())}.isdisjoint(
            map(id, before.parameters())
        ):
            raise NescioError(
                "make gave a network that it had given before; each trial needs fresh weights, so make "
                "the network inside of it"
            )
        return model

    def settings(self, model: DUQ) -> dict[str, Any]:
        """What decides how the sweep goes, as plain data: a record is only taken up under the same."""
        own = {name: value for name, value in model.settings().items() if name != self.aim.setting}
        other = (
            fingerprint(self.unknown)
            if isinstance(self.unknown, Samples)
            else f"{length(self.unknown)} inputs"
        )
        plain: dict[str, Any] = to_plain(
            {
                "setting": self.aim.setting,
                "criterion": self.aim.criterion,
                "candidates": self.candidates,
                "seeds": self.seeds,
                "seed": self.seed,
                "model": f"crc {zlib.crc32(stable_repr(model).encode()):08x}",
                "method_settings": own,
                "data": fingerprint(self.train),
                "validation_data": fingerprint(self.held),
                "unknown_data": None if self.unknown is None else other,
                "training": {name: _in_words(value) for name, value in self.training.items()},
            }
        )
        return plain

    def check(self, model: DUQ) -> None:
        """An error if a trained model could not be judged on the data; better now than after its training."""
        logits, labels = self.answers(model)
        check_labels(labels, logits.shape[2])
        if self.unknown is not None:
            predict(model, self.unknown, progress=False)

    def answers(self, model: DUQ) -> tuple[Tensor, Tensor]:
        """Logits of the validation data, and their labels."""
        logits, labels = predict_labelled(model, self.held, progress=False)
        if labels is None:
            raise NescioError("the validation data have no labels; expected pairs (input, label)")
        return logits, as_int64(labels)

    def trial(self, value: float, before: DUQ) -> Trial:
        """Train with one value, once for each seed, and measure."""
        started = time.monotonic()
        accuracies: list[float] = []
        aurocs: list[float | None] = []
        failed = None
        for repeat in range(self.seeds):
            seed = self.seed if repeat == 0 else derived_seed(self.seed, "repeat", repeat)
            model = self.fresh(value, seed, before)
            watched = None if self.training["patience"] is None else self.held
            try:
                train_model(
                    model,
                    self.train,
                    validation=watched,
                    seed=seed,
                    progress=self.progress,
                    **self.training,
                )
                accuracy, separation = self.measured(model)
            except DivergedError as error:
                failed = str(error)
                break
            accuracies.append(accuracy)
            aurocs.append(separation)
        means = (None, None) if failed else (_mean(accuracies), _mean(aurocs))
        return Trial(
            value, *means, tuple(accuracies), tuple(aurocs), failed, time.monotonic() - started
        )

    def measured(self, model: DUQ) -> tuple[float, float | None]:
        """Accuracy on validation data and, if it decides, the AUROC, which is None of a model that is never right."""
        logits, labels = self.answers(model)
        right = (classes(logits) == labels).cpu().numpy()
        accuracy = float(right.mean())
        if self.aim.measure == "accuracy":
            return accuracy, None
        score = OF_LOGITS[model.score]
        known = score(logits).cpu().numpy()
        if self.unknown is None:
            known, other = known[right], known[~right]
            if len(other) == 0:
                return accuracy, 1.0  # no mistake to tell
        else:
            other = score(predict(model, self.unknown, progress=False)).cpu().numpy()
        return accuracy, auroc(known, other) if len(known) else None

    def record(self, trials: tuple[Trial, ...], settings: dict[str, Any]) -> Selection | None:
        """The record of some trials, or None if none of them can be chosen."""
        aim = self.aim
        sound = [trial for trial in trials if getattr(trial, aim.measure) is not None]
        if not sound:
            return None
        best = max(
            sound, key=lambda trial: float(getattr(trial, aim.measure))
        )  # of equals the first, the smallest
        origin = Provenance.now(self.seed, settings, fsum(trial.seconds for trial in trials))
        inputs = len(self.held)  # type: ignore[arg-type]
        return Selection(
            DUQ.name, aim.setting, best.value, aim.criterion, aim.measure, inputs, trials, origin
        )

    def nothing(self, trials: tuple[Trial, ...]) -> NescioError:
        """The error when there is nothing to choose from."""
        failures = [trial for trial in trials if trial.failed is not None]
        if len(failures) == len(trials):
            return NescioError(
                f"training failed with every {self.aim.setting}; with {failures[0].value:g}: "
                f"{failures[0].failed}"
            )
        inputs = len(self.held)  # type: ignore[arg-type]
        return NescioError(
            f"no {self.aim.setting} gave a single right answer on the {inputs} validation inputs; set "
            "more data aside for validation, or train for longer"
        )

    def tell(self, trial: Trial, count: int) -> None:
        """A line on standard error, where progress is shown."""
        figure = getattr(trial, self.aim.measure)
        result = "failed" if trial.failed else "undefined" if figure is None else f"{figure:.4f}"
        say(
            f"{self.aim.setting} {trial.value:g} ({count} of {len(self.candidates)}): {self.aim.measure} {result}, "
            f"{trial.seconds:.1f} s",
            self.progress,
        )


def _candidates(given: Any, least: float = 0.0, most: float = 1e100) -> tuple[float, ...]:
    """Numbers to try, in ascending order, each once."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise NescioError(f"candidates must be numbers such as (0.1, 0.2), not {given!r}")
    values = sorted(
        {check_float("a candidate", one, least, most) for one in items("candidates", given)}
    )
    if not values:
        raise NescioError("there are no candidates to choose from; give at least one")
    return tuple(values)


def _parts(data: Any, validation: Any, seed: Any) -> tuple[Dataset[Any], Dataset[Any]]:
    """Training and validation data, the same for all trials."""
    train, held = split(as_dataset(data), validation, check_seed(seed))
    if held is None:
        raise NescioError(
            "validation must be a dataset, or the share of the data to set aside, such as 0.1, not None"
        )
    return train, held


def _training(epochs: Any, given: dict[str, Any]) -> dict[str, Any]:
    """All settings that `fit` is to have, with its own defaults, or an error naming the one it does not have."""
    for name in given:
        if name not in USUAL:
            raise unknown_name("setting of the trainings", name, USUAL)
    return USUAL | given | {"epochs": check_int("epochs", epochs)}


def _kept(place: Place, settings: dict[str, Any]) -> Selection:
    """The record in a file, or an error if it is of another sweep."""
    found = Selection.load(place)
    check_same(found.provenance.settings, settings, repr(str(Path(place))))
    return found


def _in_words(value: Any) -> Any:
    """A setting as plain data; of a function, how it prints."""
    if isinstance(value, list | tuple):
        return [_in_words(one) for one in value]
    return stable_repr(value) if callable(value) else value


def _mean(values: list[Any]) -> float | None:
    """The mean of those that are defined, or None."""
    defined = [value for value in values if value is not None]
    return fsum(defined) / len(defined) if defined else None
