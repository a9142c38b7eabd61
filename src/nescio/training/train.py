"""One training loop for every method: progress, validation, checkpoints, reproducible by a seed.

All that is random in a step (order, augmentation, dropout, noise) follows from the seed and the
number of the step. A run killed at any moment and started again therefore ends with the very
weights of a run that was never interrupted.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from nescio.data.batches import as_dataset, split
from nescio.data.transforms import AUGMENTATIONS
from nescio.errors import NescioError, check_name, check_path
from nescio.methods import Method, as_method
from nescio.methods.method import stable_repr
from nescio.progress import bar, say
from nescio.records import History
from nescio.seeds import check_seed, derived_seed, seed_generators
from nescio.training.checkpoint import TrainingSettings
from nescio.training.schedule import SCHEDULES, Schedule
from nescio.training.trainer import Trainer


def train(
    model: nn.Module,
    data: Dataset[Any] | tuple[Any, Any],
    *,
    epochs: int = 30,
    batch_size: int = 128,
    optimizer: str = "adam",
    learning_rate: float = 1e-3,
    momentum: float = 0.9,
    weight_decay: float = 0.0,
    schedule: str | Schedule = "constant",
    augment: Sequence[str | Callable[[Tensor], Tensor]] = (),
    validation: float | Dataset[Any] | None = None,
    patience: int | None = None,
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    progress: bool | None = None,
) -> History:
    """Train a method, or a bare network as `Softmax`, in place, and return the record of the run.

    Args:
        model: the method or network; its train/eval flags stay, its gradients are cleared.
        data: a dataset of `(input, label)`, or a pair of arrays.
        epochs, batch_size: passes over the data, and the largest batch; an epoch is split into
            batches of nearly equal size, if possible none of a single input.
        optimizer, momentum, weight_decay: "adam" or "sgd", the momentum of "sgd", and the L2
            penalty of both.
        learning_rate, schedule: the rate at first, and "constant", "step", "thirds", "cosine",
            "one_cycle", or a function from the fraction of training done to a factor of the rate;
            see `nescio.schedule`.
        augment: "crop" and "flip" for images, or functions of a batch.
        validation: a dataset, or the fraction of the training data to set aside.
        patience: stop after so many epochs without a lower validation loss, with the best weights.
        seed: random seed of everything but the initial weights.
        checkpoint: file to write after each epoch, and after `checkpoint_every` steps; if it
            exists, the run resumes from it. Members of an ensemble that are trained one after the
            other have a file each, with `.member0` in its name.
        progress: whether to show a progress bar on standard error; by default only on a terminal.

    Raises:
        NescioError: if an argument, the data or the checkpoint cannot be used.
        DivergedError: if loss, logits or weights become NaN or infinite.

    >>> model = nescio.methods.Softmax(nescio.models.mlp(2, 3), normalise=known.normalise)
    >>> train(model, known.train, epochs=3, learning_rate=0.01, schedule="cosine").steps
    24
    """
    check_seed(seed)
    rate, changes, names = _rate_and_changes(schedule, augment)
    train_data, validation_data, fraction = _split(data, validation, patience, seed)
    steps = (epochs, batch_size, optimizer, learning_rate, momentum, weight_decay)
    other_settings = (stable_repr(rate), names, fraction, patience, checkpoint_every, int(seed))
    settings = TrainingSettings(*steps, *other_settings)
    path = None if checkpoint is None else check_path("checkpoint", checkpoint)
    method = as_method(model)
    how: dict[str, Any] = {"train": train_data, "validation": validation_data, "schedule": rate}
    how |= {"augmentations": changes, "frozen": _frozen_in_eval(model, method.net)}
    with torch.random.fork_rng():
        return _train_parts(method, settings, partial(Trainer, **how), path, progress)


def _rate_and_changes(
    schedule: str | Schedule, augment: Sequence[str | Callable[[Tensor], Tensor]]
) -> tuple[Schedule, list[Callable[[Tensor], Tensor]], tuple[str, ...]]:
    """Return the functions of schedule and augmentations, and what settings call the latter."""
    rate = _look_up(schedule, SCHEDULES, "schedule")
    rate = rate() if isinstance(schedule, str) else rate
    augment = [augment] if isinstance(augment, str) or callable(augment) else augment
    changes = [_look_up(change, AUGMENTATIONS, "augmentation") for change in augment]
    if not all(callable(f) and not isinstance(f, type) for f in (rate, *changes)):
        functions = "a schedule is a function of the fraction of training done"
        raise NescioError(f"{functions}, an augmentation of a batch")
    return rate, changes, tuple(a if isinstance(a, str) else stable_repr(a) for a in augment)


def _split(
    data: Any, validation: float | Dataset[Any] | None, patience: int | None, seed: int
) -> tuple[Dataset[Any], Dataset[Any] | None, float]:
    """Return training and validation data, and the latter's fraction of all."""
    train_data, validation_data = split(as_dataset(data), validation, seed)
    if patience is not None and validation_data is None:
        raise NescioError("patience needs validation data: a dataset, or a fraction such as 0.1")
    parts = (validation_data, train_data)
    sizes = [0 if part is None else len(part) for part in parts]  # type: ignore[arg-type]
    return train_data, validation_data, sizes[0] / sum(sizes)


def _train_parts(
    method: Method,
    settings: TrainingSettings,
    trainer_of: Callable[..., Trainer],
    path: Path | None,
    progress: bool | None,
) -> History:
    """Train a method as one, or its members one after the other."""
    flags = [(module, module.training) for module in method.modules()]
    parts, histories = method.parts(), []
    separate = parts[0] is not method
    _check_path(path, separate)
    try:
        for number, part in enumerate(parts):
            its_settings, file, title = settings, path, "train"
            if separate:  # a killed run finds each member by its own file
                its_settings = replace(settings, seed=derived_seed(settings.seed, "member", number))
                file = None if path is None else _member_path(path, number)
                title = f"train member {number + 1} of {len(parts)}"
            seed_generators(derived_seed(its_settings.seed, "data", 0))
            trainer = trainer_of(part, settings=its_settings)
            if file is not None:
                trainer.resume(file)
                if state := trainer.resumed():
                    say(f"{title}: {state} (checkpoint {file})", progress)
            with bar(trainer.total, title, progress, trainer.progress.step) as shown:
                trainer.run(shown)
            histories.append(trainer.history())
    finally:
        method.zero_grad()
        for part in parts:
            part.training_step = None
        for module, flag in flags:
            module.training = flag
    return History.together(histories, settings.seed) if separate else histories[0]


def _member_path(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}.member{number}{path.suffix}")


def _check_path(path: Path | None, separate: bool) -> None:
    """Raise an error if a run of the other kind, as one or member by member, left a checkpoint."""
    if path is not None and path.name in ("", ".."):
        raise NescioError(f"checkpoint={str(path)!r} names no file")
    if path is not None and (other := path if separate else _member_path(path, 0)).is_file():
        run = f"another run, trained {'as one' if separate else 'member by member'}"
        raise NescioError(f"checkpoint {str(other)!r} is of {run}; use another path, or delete it")


def _look_up(choice: Any, table: dict[str, Any], kind: str) -> Any:
    return table[check_name(kind, choice, table)] if isinstance(choice, str) else choice


def _frozen_in_eval(model: nn.Module, net: nn.Module) -> list[nn.Module]:
    """Return the modules that the user froze in eval mode, such as BatchNorm: they stay so.

    A network that was in eval mode as a whole when it was wrapped in a method has none.
    """
    layers = [module for module in net.modules() if not list(module.children())]
    if not model.training or not any(layer.training for layer in layers):
        return []
    return [module for module in model.modules() if not module.training]
