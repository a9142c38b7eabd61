"""DUQ's two settings that must suit the data, chosen by sweeps (van Amersfoort et al. 2020)."""

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

from torch.utils.data import Dataset

from nescio.arrays import items
from nescio.data.batches import as_dataset, split
from nescio.errors import NescioError, check_float, check_int, check_name
from nescio.metrics.percent import percent
from nescio.records import Selection
from nescio.seeds import check_seed
from nescio.training.sweep import File, Make, Sweep
from nescio.training.train import train

LENGTH_SCALES = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
PENALTIES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
BY_MISTAKES = "AUROC of right against wrong answers on validation data"
MIN_MISTAKES = 20  # below which their AUROC is mostly luck
NOT_FOR_TRIALS = ("validation", "seed", "checkpoint", "checkpoint_every", "progress")
TRAINING_DEFAULTS = {
    name: argument.default
    for name, argument in inspect.signature(train).parameters.items()
    if argument.default is not argument.empty and name not in NOT_FOR_TRIALS
}

Data = Dataset[Any] | tuple[Any, Any]


def select_length_scale(
    make: Make,
    data: Data,
    candidates: Iterable[float] = LENGTH_SCALES,
    *,
    validation: float | Data = 0.1,
    seeds: int = 1,
    epochs: int = 10,
    seed: int = 0,
    record: File | None = None,
    progress: bool | None = None,
    **training: Any,
) -> Selection:
    """Choose the length scale of the highest validation accuracy, without a gradient penalty.

    Of equal ones the smallest is chosen (section 4.2): the paper finds accuracy on two moons the
    same for all, but needs small ones for a model that is certain only near its data. Every trial
    starts from the same weights and sees the same data in the same order. One whose training
    diverges is recorded as failed, and never chosen.

    Args:
        make: makes a DUQ with fresh weights from settings, as in `select_length_scale(lambda
            **own: DUQ(conv3(), 10, normalise=known.normalise, **own), known.train)`.
        data: a dataset of `(input, label)`, or a pair of arrays.
        candidates: the values to try.
        validation: a dataset, or the fraction of `data` to set aside.
        seeds: trainings for each value; their mean decides.
        epochs: of each training; they may be fewer than for the final model, but not so few that
            accuracy is still poor: it would tell how fast a value learns, not how well.
        seed: random seed.
        record: file to write after each trial; if it exists, trials of the same sweep are skipped.
        progress: whether to show progress on standard error; by default only on a terminal.
        training: further arguments of `train`.

    Returns:
        The record of all trials; the chosen length scale is its `value`.

    >>> make = lambda **own: nescio.methods.DUQ(nescio.models.mlp(2), 3, momentum=0.9, **own)
    >>> select_length_scale(make, known.train, (0.1, 0.3), epochs=2).value in (0.1, 0.3)
    True
    """
    values = _checked_candidates(candidates, least=1e-6, most=1e6)
    criterion = "validation accuracy at gradient penalty 0"
    aim = "length_scale", criterion, "accuracy", {"gradient_penalty": 0.0}
    parts = _training_and_validation(data, validation, seed)
    how = _training_arguments(epochs, training)
    return Sweep(make, *aim, values, *parts, None, seeds, seed, how, progress).run(record)


def select_penalty(
    make: Make,
    data: Data,
    candidates: Iterable[float] = PENALTIES,
    *,
    unknown: Any = None,
    validation: float | Data = 0.1,
    seeds: int = 1,
    epochs: int = 10,
    seed: int = 0,
    record: File | None = None,
    progress: bool | None = None,
    **training: Any,
) -> Selection:
    """Choose the weight of the gradient penalty whose confidence best separates known and unknown.

    By default that is the AUROC of right against wrong predictions on validation data (section
    4.3), which the paper prefers, as it needs no other data. A model without a mistake has no such
    AUROC and counts as 1. A few mistakes are weak evidence (see `doubts`), so set enough data
    aside. With `unknown` it is the AUROC of validation data against that (section 4.2), which
    should not be the data that the model is evaluated on later. Of equal ones the smallest is
    chosen, since a penalty costs accuracy.

    Args:
        make: makes a DUQ with fresh weights from settings, as in
            `select_penalty(lambda **own: DUQ(conv3(), 10, length_scale=0.1, **own), known.train)`.
        unknown: unknown data, as `predict` takes them.
        data, candidates, validation, seeds, epochs, seed, record, progress, training: as in
            `select_length_scale`.

    Returns:
        The record of all trials; the chosen weight is its `value`.

    >>> make = lambda **own: nescio.methods.DUQ(nescio.models.mlp(2), 3, momentum=0.9, **own)
    >>> select_penalty(make, known.train, (0.0, 0.5), epochs=1).value in (0.0, 0.5)
    True
    """
    if isinstance(unknown, Iterator):
        problem = "unknown data are read once for each trial, but an iterator can be read only once"
        raise NescioError(f"{problem}; give a tensor, a dataset or a loader")
    values = _checked_candidates(candidates)
    name = getattr(unknown, "name", "") or "unknown data"
    criterion = BY_MISTAKES if unknown is None else f"AUROC of validation data against {name}"
    aim = "gradient_penalty", criterion, "auroc", dict[str, float]()
    parts = _training_and_validation(data, validation, seed)
    how = _training_arguments(epochs, training)
    return Sweep(make, *aim, values, *parts, unknown, seeds, seed, how, progress).run(record)


def doubts(record: Selection) -> list[str]:
    """Return what speaks against a choice, in sentences."""
    sentences = []
    sound = [trial for trial in record.trials if trial.accuracy is not None]
    chance = 1 / record.provenance.settings["method_settings"]["classes"]
    best = max(trial.accuracy or 0.0 for trial in sound)
    if best < chance + (1 - chance) / 5:  # a fifth of the way from guessing to perfection
        near = f"near the {percent(chance)} of guessing; they have learned too little to choose by"
        sentences.append(f"The best accuracy of all trials is {percent(best)}, {near}.")
    if len(sound) > 1 and len({getattr(trial, record.measure) for trial in sound}) == 1:
        smallest = f"{record.value:g} is only the smallest of them"
        sentences.append(f"All values are equal by this measure; {smallest}.")
    wrong = round((1 - (record.chosen.accuracy or 0.0)) * record.inputs)
    if record.criterion == BY_MISTAKES and wrong < MIN_MISTAKES:
        few = f"{wrong} wrong predictions, fewer than {MIN_MISTAKES}, and so on luck"
        advice = "set more data aside for validation, or choose by unknown data"
        sentences.append(f"The choice rests on {few}; {advice}.")
    return sentences


def _checked_candidates(raw: Any, least: float = 0.0, most: float = 1e100) -> tuple[float, ...]:
    """Return the numbers to try, in ascending order, each once."""
    if isinstance(raw, str) or not isinstance(raw, Iterable):
        raise NescioError(f"candidates must be numbers such as (0.1, 0.2), got {raw!r}")
    values = {check_float("a candidate", v, least, most) for v in items("candidates", raw)}
    if not values:
        raise NescioError("candidates must hold at least one number")
    return tuple(sorted(values))


def _training_and_validation(
    data: Any, validation: Any, seed: Any
) -> tuple[Dataset[Any], Dataset[Any]]:
    """Return training and validation data, the same for all trials."""
    train, validation_data = split(as_dataset(data), validation, check_seed(seed))
    if validation_data is None:
        raise NescioError("validation must be a dataset, or a fraction such as 0.1, got None")
    return train, validation_data


def _training_arguments(epochs: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return all arguments for `train`, or raise an error naming the one it does not have."""
    for name in options:
        check_name("setting of the trainings", name, TRAINING_DEFAULTS)
    return TRAINING_DEFAULTS | options | {"epochs": check_int("epochs", epochs)}
