"""A sweep: trainings that differ in one setting only, recorded one by one."""

import os
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from math import fsum
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from nescio.core.logits import classes
from nescio.core.predict import predict, predict_labelled
from nescio.data.batches import as_int64, check_labels, fingerprint, length
from nescio.data.samples import Samples
from nescio.errors import DivergedError, NescioError, check_int
from nescio.methods.method import Method, stable_repr
from nescio.metrics import auroc
from nescio.progress import say
from nescio.records import Provenance, Selection, Trial, to_plain
from nescio.scores import OF_LOGITS
from nescio.seeds import derived_seed
from nescio.training.checkpoint import check_same_settings
from nescio.training.train import train as train_model

Make = Callable[..., nn.Module]  # which must be a method with the setting, such as DUQ
File = str | os.PathLike[str]


@dataclass(frozen=True)
class Sweep:
    """Trainings that differ in one setting only."""

    make: Make
    setting: str  # to choose
    criterion: str  # in words
    measure: str  # the number of a trial that decides
    fixed: dict[str, float]  # settings that all trials share
    candidates: tuple[float, ...]
    train: Dataset[Any]
    validation: Dataset[Any]
    unknown: Any
    seeds: int
    seed: int
    training: dict[str, Any]
    progress: bool | None

    def __post_init__(self) -> None:
        if isinstance(self.make, nn.Module) or not callable(self.make):
            raise NescioError(
                "make must be a function that makes a DUQ with fresh weights from settings, such "
                f"as lambda **own: DUQ(conv3(), 10, **own), got a {type(self.make).__name__}"
            )
        check_int("seeds", self.seeds)

    def run(self, file: File | None) -> Selection:
        """Try every candidate that is not on record yet, and choose."""
        first = self.fresh_model(self.candidates[0], self.seed)
        settings, trials = self.settings(first), dict[float, Trial]()
        if file is not None and os.path.exists(file):
            before = Selection.load(file)
            check_same_settings(before.provenance.settings, settings, repr(os.fspath(file)))
            trials = {trial.value: trial for trial in before.trials}
            if trials.keys() >= set(self.candidates):
                return before
        # before any training, raise an error if a model cannot be evaluated on the data
        logits, labels = self.predictions(first)
        check_labels(labels, logits.shape[2])
        if self.unknown is not None:
            predict(first, self.unknown, progress=False)
        for value in [value for value in self.candidates if value not in trials]:
            trials[value] = self.run_trial(value, first)
            self.report(trials[value], len(trials))
            done = tuple(trials[v] for v in self.candidates if v in trials)
            record = self.record(first.name, done, settings)
            if record is not None and file is not None:
                record.save(file)
        if record is None:
            raise self.nothing_to_choose(done)
        return record

    def fresh_model(self, value: float, seed: int, before: Method | None = None) -> Method:
        """Return a model with the initial weights of a seed, or raise if `make` is at fault."""
        asked = {self.setting: value, **self.fixed}
        with torch.random.fork_rng():
            torch.manual_seed(derived_seed(seed, "weights", 0))
            try:
                model = self.make(**asked)
            except TypeError as error:
                how = f"take the settings {' and '.join(asked)} by name and pass them on to DUQ"
                reason = f"once each; called with them it fails: {error}"
                raise NescioError(f"make must {how}, {reason}") from error
        settings = model.settings() if isinstance(model, Method) else {}
        if not isinstance(model, Method) or self.setting not in settings:
            raise NescioError(f"make must return a DUQ, got a {type(model).__name__}")
        for name, wanted in asked.items():
            if settings[name] != wanted:
                raise NescioError(
                    f"make was asked for {name}={wanted:g}, but made a {type(model).__name__} with "
                    f"{settings[name]:g}; it must pass on the settings it is given"
                )
        used = set() if before is None else {*map(id, before.parameters())}
        if not used.isdisjoint(map(id, model.parameters())):
            advice = "each trial needs fresh weights, so make the network inside of it"
            raise NescioError(f"make returned a network that it had returned before; {advice}")
        return model

    def settings(self, model: Method) -> dict[str, Any]:
        """Return what determines the sweep; a record is resumed only under the same."""
        unknown = None if self.unknown is None else f"{length(self.unknown)} inputs"
        if isinstance(self.unknown, Samples):
            unknown = fingerprint(self.unknown)
        settings = model.settings()
        del settings[self.setting]
        names = ("setting", "criterion", "candidates", "seeds", "seed")
        plain: dict[str, Any] = {
            **{name: getattr(self, name) for name in names},
            "model": f"crc {zlib.crc32(stable_repr(model).encode()):08x}",
            "method_settings": settings,
            "data": fingerprint(self.train),
            "validation_data": fingerprint(self.validation),
            "unknown_data": unknown,
            "training": {name: _plain_setting(v) for name, v in self.training.items()},
        }
        return {name: to_plain(value) for name, value in plain.items()}

    def predictions(self, model: Method) -> tuple[Tensor, Tensor]:
        """Return logits and labels of the validation data."""
        logits, labels = predict_labelled(model, self.validation, progress=False)
        if labels is None:
            raise NescioError("validation data must be pairs (input, label), got no labels")
        return logits, as_int64(labels)

    def run_trial(self, value: float, before: Method) -> Trial:
        """Train with one value, once for each seed, and measure."""
        started, failed = time.monotonic(), None
        accuracies: list[float] = []
        aurocs: list[float | None] = []
        how = {"progress": self.progress, **self.training}
        how["validation"] = None if how["patience"] is None else self.validation
        for repeat in range(self.seeds):
            seed = self.seed if repeat == 0 else derived_seed(self.seed, "repeat", repeat)
            model = self.fresh_model(value, seed, before)
            try:
                train_model(model, self.train, seed=seed, **how)
                accuracy, separation = self.evaluate(model)
            except DivergedError as error:
                failed = str(error)
                break
            accuracies.append(accuracy)
            aurocs.append(separation)
        means = (None, None) if failed else (_mean(accuracies), _mean(aurocs))
        each, seconds = (tuple(accuracies), tuple(aurocs)), time.monotonic() - started
        return Trial(value, *means, *each, failed, seconds)

    def evaluate(self, model: Method) -> tuple[float, float | None]:
        """Return validation accuracy and, if it decides, the AUROC; None if nothing is right."""
        logits, labels = self.predictions(model)
        correct = (classes(logits) == labels).cpu().numpy()
        accuracy = float(correct.mean())
        if self.measure == "accuracy":
            return accuracy, None
        score = OF_LOGITS[model.score]
        known = score(logits).cpu().numpy()
        if self.unknown is not None:
            unknown = score(predict(model, self.unknown, progress=False)).cpu().numpy()
        elif correct.all():
            return accuracy, 1.0  # no mistake to detect
        else:
            known, unknown = known[correct], known[~correct]
        return accuracy, auroc(known, unknown) if len(known) else None

    def record(
        self, method: str, trials: tuple[Trial, ...], settings: dict[str, Any]
    ) -> Selection | None:
        """Return the record of some trials, or None if none of them can be chosen."""
        sound = [trial for trial in trials if getattr(trial, self.measure) is not None]
        if not sound:
            return None
        best = max(sound, key=lambda trial: float(getattr(trial, self.measure)))  # first of equals
        origin = Provenance.now(self.seed, settings, fsum(trial.seconds for trial in trials))
        inputs = len(self.validation)  # type: ignore[arg-type]
        by = self.criterion, self.measure, inputs
        return Selection(method, self.setting, best.value, *by, trials, origin)

    def nothing_to_choose(self, trials: tuple[Trial, ...]) -> NescioError:
        """Return the error when no trial can be chosen."""
        setting, first = self.setting, trials[0]
        if all(trial.failed is not None for trial in trials):
            reason = f"with {first.value:g}: {first.failed}"
            return NescioError(f"training failed with every {setting}; {reason}")
        on = f"on the {len(self.validation)} validation inputs"  # type: ignore[arg-type]
        advice = "set more data aside for validation, or train for longer"
        return NescioError(f"no {setting} gave a single correct prediction {on}; {advice}")

    def report(self, trial: Trial, count: int) -> None:
        """Print a line on standard error, where progress is shown."""
        setting, measure, total = self.setting, self.measure, len(self.candidates)
        figure = getattr(trial, measure)
        result = "failed" if trial.failed else "undefined" if figure is None else f"{figure:.4f}"
        line = f"{setting} {trial.value:g} ({count} of {total}): {measure} {result}"
        say(f"{line}, {trial.seconds:.1f} s", self.progress)


def _plain_setting(value: Any) -> Any:
    """Return a setting as plain data; of a function, how it prints."""
    if isinstance(value, list | tuple):
        return [_plain_setting(entry) for entry in value]
    return stable_repr(value) if callable(value) else value


def _mean(values: list[Any]) -> float | None:
    defined = [value for value in values if value is not None]
    return fsum(defined) / len(defined) if defined else None
