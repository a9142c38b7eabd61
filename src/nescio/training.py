"""One training loop for every method: progress, validation, checkpoints, and the same numbers from the same seed.

All that is random in a step (order, augmentation, dropout, noise) follows from the seed and the number of the step. A
run killed at any moment and started again therefore ends with the very weights of a run that was never interrupted.
"""

import math
import os
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from nescio.checkpoint import Checkpoint, Progress, last_good
from nescio.data.augment import AUGMENTATIONS
from nescio.data.labelled import as_dataset, check_labels, split, take
from nescio.data.samples import Samples
from nescio.errors import NescioError, unknown_name
from nescio.logits import classes, mean_log_probs
from nescio.methods import as_method
from nescio.methods.method import Method
from nescio.predict import check_inputs, like_model, predict, predict_labelled
from nescio.progress import Bar, bar
from nescio.records import Epoch, History, Provenance
from nescio.schedule import SCHEDULES, Schedule
from nescio.seeds import derived_seed, start_from
from nescio.settings import Settings, make_optimizer


def fit(
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
        model: what to train; its weights change, its train/eval flags are left as found.
        data: a dataset of `(input, label)`, or a pair of arrays.
        epochs, batch_size: batches of an epoch are of nearly equal size, none larger than this.
        optimizer: "adam" or "sgd"; `momentum` is that of "sgd". `weight_decay` is L2, in both.
        schedule: "constant", "step", "cosine", "one_cycle", or any function of `nescio.schedule`'s kind.
        augment: "crop" and "flip" for images, or functions of a batch.
        validation: a dataset, or the share of the training data to set aside.
        patience: stop after so many epochs without a smaller validation loss; the best epoch's weights are kept.
        seed: of everything random after the first weights.
        checkpoint: a file, written after each epoch (and `checkpoint_every` steps); if there, the run goes on from it.
        progress: a bar on standard error; by default only on a terminal.
    """
    scheme = _named(schedule, SCHEDULES, "schedule")
    scheme = scheme() if isinstance(schedule, str) else scheme
    changes = [_named(change, AUGMENTATIONS, "augmentation") for change in augment]
    train, held = split(as_dataset(data), validation, seed)
    if patience is not None and held is None:
        raise NescioError("patience needs validation data: give validation=0.1, or a dataset")
    share = 0.0 if held is None else len(held) / (len(held) + len(train))  # type: ignore[arg-type]
    names = tuple(change if isinstance(change, str) else change.__name__ for change in augment)
    settings = Settings(epochs, batch_size, optimizer, learning_rate, momentum, weight_decay, repr(scheme), names,
                        share, patience, seed)  # fmt: skip
    if checkpoint_every is not None and checkpoint_every < 1:
        raise NescioError(f"checkpoint_every must be at least 1 step, not {checkpoint_every}")
    method = as_method(model)
    run = _Run(method, train, held, settings, scheme, changes)
    if checkpoint is not None:
        run.resume(Checkpoint(Path(checkpoint), {"method": method.name, "data": run.fingerprint, **asdict(settings)}))
    flags = [(module, module.training) for module in method.modules()]
    with torch.random.fork_rng(), bar(run.total, "train", progress) as shown:
        shown.advance(run.progress.step)
        try:
            run.go(checkpoint_every, shown)
        finally:
            for module, flag in flags:
                module.training = flag
    return run.history()


class _Run:
    """A training run under way."""

    def __init__(self, method: Method, train: Dataset[Any], held: Dataset[Any] | None, settings: Settings,
                 schedule: Schedule, changes: list[Callable[[Tensor], Tensor]]) -> None:  # fmt: skip
        self.method, self.train, self.held, self.settings = method, train, held, settings
        self.schedule, self.changes = schedule, changes
        self.inputs = len(train)  # type: ignore[arg-type]
        self.classes = _check_task(method, train)
        self.per_epoch = math.ceil(self.inputs / settings.batch_size)
        self.total = self.per_epoch * settings.epochs
        self.optimizer = make_optimizer(method, settings)
        self.progress = Progress()
        self.best: dict[str, Tensor] = {}  # the weights of the best epoch so far
        self.checkpoint: Checkpoint | None = None

    @property
    def fingerprint(self) -> str:
        """What a checkpoint remembers of the data: size, and for data in memory the labels."""
        mark = f", crc {zlib.crc32(self.train.labels.numpy().tobytes())}" if isinstance(self.train, Samples) else ""
        return f"{self.inputs} inputs{mark}"

    def resume(self, checkpoint: Checkpoint) -> None:
        """Take up the run where the checkpoint stands, if there is one."""
        self.checkpoint = checkpoint
        checkpoint.clear_partial()
        if checkpoint.path.exists():
            self.progress, self.best = checkpoint.load(self.method, self.optimizer)

    def go(self, checkpoint_every: int | None, shown: Bar) -> None:
        """Run to the end."""
        batches: tuple[Tensor, ...] = ()
        while self.progress.step < self.total and not self.progress.stopped_early:
            epoch, index = divmod(self.progress.step, self.per_epoch)
            if not batches or index == 0:
                generator = torch.Generator().manual_seed(derived_seed(self.settings.seed, "epoch", epoch))
                batches = torch.randperm(self.inputs, generator=generator).tensor_split(self.per_epoch)
            self._step(batches[index], epoch, index)
            if index == self.per_epoch - 1:
                self._end_epoch(epoch)
                self._save()
            elif checkpoint_every and self.progress.step % checkpoint_every == 0:
                self._save()
            shown.advance(1, self._facts(epoch))
        self.method.zero_grad()
        if self.best:
            self.method.load_state_dict(self.best)

    def _step(self, batch: Tensor, epoch: int, index: int) -> None:
        started, progress = time.monotonic(), self.progress
        start_from(derived_seed(self.settings.seed, "step", progress.step))
        x, y = take(self.train, batch)
        check_inputs(x, self.method)
        check_labels(y, self.classes)
        x, y = like_model(x, self.method), like_model(y, self.method)
        for change in self.changes:
            x = change(x)
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.learning_rate * self.schedule(progress.step / self.total)
        self.method.train()
        self.optimizer.zero_grad()
        loss, logits = self.method.loss(x, y)
        if not loss.isfinite():
            raise NescioError(f"the loss became {loss.item()} in epoch {epoch + 1}, step {index + 1}; "
                              f"{last_good(None if self.checkpoint is None else self.checkpoint.path)}. "
                              "Try a smaller learning rate")  # fmt: skip
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.method.after_step(x, y)
        progress.loss_sum += loss.item() * len(x)
        progress.correct += int((classes(logits.detach().reshape(-1, *logits.shape[-2:])) == y).sum())
        progress.seen += len(x)
        progress.step += 1
        progress.seconds += time.monotonic() - started

    def _end_epoch(self, epoch: int) -> None:
        progress, loss, accuracy = self.progress, None, None
        if self.held is not None:
            logits, labels = predict_labelled(self.method, self.held, progress=False)
            assert labels is not None  # noqa: S101 - `split` gives labelled data only
            log_p = mean_log_probs(logits)[0]
            loss = -float(log_p.gather(-1, labels[:, None]).mean())
            accuracy = float((classes(logits) == labels).double().mean())
            if progress.best_loss is None or loss < progress.best_loss:
                progress.best_loss, progress.best_epoch = loss, epoch + 1
                if self.settings.patience is not None:
                    self.best = {name: value.clone() for name, value in self.method.state_dict().items()}
            elif self.settings.patience is not None:
                progress.stopped_early = epoch + 1 - (progress.best_epoch or 0) >= self.settings.patience
        rate = self.optimizer.param_groups[0]["lr"]
        done = Epoch(epoch + 1, progress.loss_sum / progress.seen, progress.correct / progress.seen, loss, accuracy,
                     rate, progress.seconds)  # fmt: skip
        self.progress.epochs += (done,)
        progress.loss_sum, progress.correct, progress.seen, progress.seconds = 0.0, 0, 0, 0.0

    def _save(self) -> None:
        if self.checkpoint is not None:
            self.checkpoint.save(self.progress, self.method, self.optimizer, self.best)

    def _facts(self, epoch: int) -> str:
        if self.progress.seen:
            loss, accuracy = self.progress.loss_sum / self.progress.seen, self.progress.correct / self.progress.seen
        else:
            loss, accuracy = self.progress.epochs[-1].loss, self.progress.epochs[-1].accuracy
        return f"epoch {epoch + 1}/{self.settings.epochs}  loss {loss:.4f}  accuracy {accuracy:.1%}"

    def history(self) -> History:
        """The record of the run so far."""
        seconds = sum(epoch.seconds for epoch in self.progress.epochs)
        settings = {**asdict(self.settings), "data": self.fingerprint, "threads": torch.get_num_threads()}
        return History(self.method.name, self.progress.epochs, self.progress.step, self.progress.best_epoch,
                       self.progress.stopped_early, Provenance.now(self.settings.seed, settings, seconds))  # fmt: skip


def _named(given: Any, table: dict[str, Any], kind: str) -> Any:
    if isinstance(given, str) and given not in table:
        raise unknown_name(kind, given, table)
    return table[given] if isinstance(given, str) else given


def _check_task(method: Method, train: Dataset[Any]) -> int:
    """The number of classes, after a look at the first inputs and, for data in memory, at all labels."""
    logits = predict(method, take(train, torch.arange(min(2, len(train))))[0], progress=False)  # type: ignore[arg-type]
    if isinstance(train, Samples):
        check_labels(train.labels, logits.shape[2])
        if train.labels.min() == train.labels.max():
            raise NescioError(f"all {len(train)} training inputs are of one class; a classifier needs at least two")
    return logits.shape[2]
