"""One training loop for every method: progress, validation, checkpoints, and the same numbers from the same seed.

All that is random in a step (order, augmentation, dropout, noise) follows from the seed and the number of the step. A
run killed at any moment and started again therefore ends with the very weights of a run that was never interrupted.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from nescio.data.labelled import as_dataset, split, stable_repr
from nescio.data.transforms import AUGMENTATIONS
from nescio.errors import NescioError, unknown_name
from nescio.methods import as_method
from nescio.progress import bar, say
from nescio.records import History
from nescio.seeds import check_seed, derived_seed, seed_generators
from nescio.training.schedule import SCHEDULES, Schedule
from nescio.training.settings import Settings
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
    """Train a method, or a bare network as `Softmax`, in place; returns the record of the run.

    Args:
        model: what to train; its weights change, its train/eval flags are left as found, its gradients are cleared.
        data: a dataset of `(input, label)`, or a pair of arrays.
        epochs, batch_size: an epoch is cut into batches of nearly equal size, if possible none of a single input.
        optimizer: "adam" or "sgd"; `momentum` is that of "sgd". `weight_decay` is L2, in both.
        schedule: "constant", "step", "cosine", "one_cycle", or any function of `nescio.schedule`'s kind.
        augment: "crop" and "flip" for images, or functions of a batch.
        validation: a dataset, or the share of the training data to set aside.
        patience: stop after so many epochs without a smaller validation loss; the best epoch's weights are kept.
        seed: of everything random after the first weights.
        checkpoint: a file, written after each epoch (and `checkpoint_every` steps); if there, the run goes on from it.
            Members of an ensemble that are trained one after the other have a file each, with `.member0` in its name.
        progress: a bar on standard error; by default only on a terminal.
    """
    check_seed(seed)
    scheme = _named(schedule, SCHEDULES, "schedule")
    scheme = scheme() if isinstance(schedule, str) else scheme
    augment = [augment] if isinstance(augment, str) or callable(augment) else augment
    changes = [_named(change, AUGMENTATIONS, "augmentation") for change in augment]
    if not all(callable(one) and not isinstance(one, type) for one in (scheme, *changes)):
        raise NescioError(
            "a schedule is a function of the share of training done, an augmentation one of a batch"
        )
    train, held = split(as_dataset(data), validation, seed)
    if patience is not None and held is None:
        raise NescioError("patience needs validation data: a dataset, or a share such as 0.1")
    share = 0.0 if held is None else len(held) / (len(held) + len(train))  # type: ignore[arg-type]
    names = tuple(change if isinstance(change, str) else stable_repr(change) for change in augment)
    settings = Settings(
        epochs,
        batch_size,
        optimizer,
        learning_rate,
        momentum,
        weight_decay,
        stable_repr(scheme),
        names,
        share,
        patience,
        checkpoint_every,
        int(seed),
    )
    method = as_method(model)
    flags = [(module, module.training) for module in model.modules()]
    frozen = _kept_in_eval(model, method.net)
    path = None if checkpoint is None else Path(checkpoint)
    histories = []
    with torch.random.fork_rng():
        parts = method.parts()
        _check_place(path, whole=parts[0] is method)
        try:
            for number, part in enumerate(parts):
                own, place, title = settings, path, "train"
                if (
                    part is not method
                ):  # a member, which a killed run finds again by a file of its own
                    own = replace(settings, seed=derived_seed(settings.seed, "member", number))
                    place = None if path is None else _member_path(path, number)
                    title = f"train member {number + 1} of {len(parts)}"
                seed_generators(derived_seed(own.seed, "data", 0))
                trainer = Trainer(part, train, held, own, scheme, changes, frozen)
                histories.append(_run(trainer, place, title, progress))
        finally:
            method.zero_grad()
            for part in parts:
                part.training_step = None
            for module, flag in flags:
                module.training = flag
    return histories[0] if parts[0] is method else History.together(histories, settings.seed)


def _member_path(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}.member{number}{path.suffix}")


def _check_place(path: Path | None, whole: bool) -> None:
    """An error if a run of the other kind, trained as one or member by member, has left its checkpoint there."""
    if path is not None and path.name in ("", ".."):
        raise NescioError(f"checkpoint={str(path)!r} names no file")
    if path is not None and (other := _member_path(path, 0) if whole else path).is_file():
        raise NescioError(
            f"checkpoint {str(other)!r} is of another run, trained "
            f"{'member by member' if whole else 'as one'}; use another path, or delete it"
        )


def _run(trainer: Trainer, checkpoint: Path | None, title: str, progress: bool | None) -> History:
    if checkpoint is not None:
        trainer.resume(checkpoint)
        _tell_resumed(trainer, checkpoint, title, progress)
    with bar(trainer.total, title, progress, trainer.progress.step) as shown:
        trainer.go(shown)
    return trainer.history()


def _tell_resumed(trainer: Trainer, checkpoint: Path, title: str, progress: bool | None) -> None:
    """Say where a run stands that was begun before."""
    epochs, steps = divmod(trainer.progress.step, trainer.per_epoch)
    if trainer.progress.step >= trainer.total or trainer.progress.stopped_early:
        say(f"{title}: trained already (checkpoint {checkpoint})", progress)
    elif trainer.progress.step:
        within = f", step {steps} of {trainer.per_epoch}" if steps else ""
        say(
            f"{title}: resuming from epoch {epochs} of {trainer.settings.epochs}{within} (checkpoint {checkpoint})",
            progress,
        )


def _named(given: Any, table: dict[str, Any], kind: str) -> Any:
    if isinstance(given, str) and given not in table:
        raise unknown_name(kind, given, table)
    return table[given] if isinstance(given, str) else given


def _kept_in_eval(model: nn.Module, net: nn.Module) -> list[nn.Module]:
    """Parts that the user put in eval mode within a model in train mode, as one freezes BatchNorm: they stay so.

    A network that was in eval mode as a whole when it was wrapped in a method has no such parts.
    """
    layers = [module for module in net.modules() if not list(module.children())]
    if not model.training or not any(layer.training for layer in layers):
        return []
    return [module for module in model.modules() if not module.training]
