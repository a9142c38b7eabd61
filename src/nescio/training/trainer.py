"""A training run under way: steps, epochs, and where it stands."""

import math
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from nescio.core.forward import check_inputs, like_model
from nescio.core.logits import classes
from nescio.core.predict import predict, predict_labelled
from nescio.data.labelled import as_int64, check_labels, fingerprint, stable_repr, take
from nescio.data.samples import Samples
from nescio.errors import DivergedError, NescioError
from nescio.methods.method import Method, TrainingStep
from nescio.metrics.percent import percent
from nescio.progress import Bar
from nescio.records import Epoch, History, Provenance
from nescio.seeds import derived_seed, seed_generators
from nescio.training.checkpoint import Checkpoint, Progress
from nescio.training.schedule import Schedule
from nescio.training.settings import Settings, make_optimizer


class Trainer:
    """One run of `fit`; `frozen` are the parts that stay in eval mode."""

    def __init__(
        self,
        method: Method,
        train: Dataset[Any],
        held: Dataset[Any] | None,
        settings: Settings,
        schedule: Schedule,
        changes: list[Callable[[Tensor], Tensor]],
        frozen: list[nn.Module],
    ) -> None:
        self.method, self.train, self.held, self.settings = method, train, held, settings
        self.schedule, self.changes, self.frozen = schedule, changes, frozen
        started = time.monotonic()
        self.solved = method.prepare(
            train, held, settings.seed
        )  # and so before there is an optimizer of its weights
        if self.solved and changes:
            raise NescioError(
                f"augment changes the batches of steps, but this {method.name} was solved for all inputs "
                "at once; leave it out, or let it learn by steps"
            )
        self.progress = Progress(seconds=time.monotonic() - started)
        self.optimizer = make_optimizer(method, settings)
        self.inputs = len(train)  # type: ignore[arg-type]
        self.classes = predict(
            method, take(train, torch.arange(min(2, self.inputs)))[0], progress=False
        ).shape[2]
        for data in (train, held):
            _check_task(data, self.classes)
        if isinstance(train, Samples):
            self._check_kinds(set(train.labels.tolist()))
        least = 1 if settings.batch_size == 1 else 2  # BatchNorm cannot train on a batch of one
        self.per_epoch = max(
            1, min(math.ceil(self.inputs / settings.batch_size), self.inputs // least)
        )
        self.total = self.per_epoch * settings.epochs
        if self.solved:  # a run of one step, which has been made
            self.per_epoch = self.total = 1
        self.best: dict[str, Tensor] = {}  # the weights of the best epoch so far
        self.labels_met: set[int] = set()
        # a buffer that is infinite from the start, as a mask may be, is meant so
        self.finite = {name for name, value in method.named_buffers() if value.isfinite().all()}
        self.checkpoint: Checkpoint | None = None
        marks = {
            "model": _model_mark(method),
            "data": fingerprint(train),
            "validation_data": fingerprint(held),
        }
        self.identity = {
            "method": method.name,
            "method_settings": method.settings(),
            **marks,
            **asdict(settings),
        }
        del self.identity["checkpoint_every"]  # it changes nothing in the weights

    def resume(self, path: Path) -> None:
        """Keep a checkpoint, and take up the run where it stands, if there is one."""
        self.checkpoint = Checkpoint(path, self.identity)
        self.checkpoint.prepare()
        if not path.exists():
            return
        self.progress, self.best = self.checkpoint.load(self.method, self.optimizer)
        step, done = self.progress.step, len(self.progress.epochs)
        if not 0 <= step <= self.total or done != step // self.per_epoch or self.progress.seen < 0:
            raise NescioError(
                f"checkpoint {str(path)!r} is at step {step} after {done} epochs, not possible in a run "
                f"of {self.total} steps with {self.per_epoch} an epoch"
            )

    def go(self, shown: Bar) -> None:
        """Run to the end, and leave the best weights in the model."""
        batches: tuple[Tensor, ...] = ()
        every, fresh = self.settings.checkpoint_every, self.progress.step == 0
        while self.progress.step < self.total and not self.progress.stopped_early:
            epoch, index = divmod(self.progress.step, self.per_epoch)
            if self.solved:
                self._look()
            else:
                if not batches or index == 0:
                    order = self.method.order(
                        self.inputs, self.settings.seed, epoch
                    )  # (inputs,) or (members, inputs)
                    batches = order.tensor_split(self.per_epoch, dim=-1)
                self._step(batches[index].flatten())
            if index == self.per_epoch - 1:
                self._end_epoch(epoch)
                if fresh and epoch == 0:  # a resumed run has not met all labels
                    self._check_kinds(self.labels_met)
                self._save()
            elif every and self.progress.step % every == 0:
                self._save()
            shown.advance(1, self._facts(epoch), ends=index == self.per_epoch - 1)
        if self.best:
            self.method.load_state_dict(self.best)

    def _check_kinds(self, labels: set[int]) -> None:
        if len(labels) < 2:
            raise NescioError(
                f"all {self.inputs} training inputs are of one class; at least two are needed"
            )

    def _step(self, batch: Tensor) -> None:
        started, progress = time.monotonic(), self.progress
        seed_generators(derived_seed(self.settings.seed, "step", progress.step))
        x, y = self._taken(batch)
        for change in self.changes:
            x = change(x)
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.learning_rate * self.schedule(progress.step / self.total)
        self.method.train()
        for module in self.frozen:
            module.training = False
        self.optimizer.zero_grad()
        self.method.training_step = TrainingStep(
            progress.step, self.per_epoch, self.total, self.inputs
        )
        loss, logits = self._loss(x, y)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.method.after_step(x, y)
        self._count(loss, logits, y)
        progress.step += 1
        progress.seconds += time.monotonic() - started

    @torch.no_grad()
    def _look(self) -> None:
        """In place of steps that need not be made, see how the solved method does on its training data."""
        started, progress = time.monotonic(), self.progress
        self.method.eval()
        for batch in torch.split(torch.arange(self.inputs), self.settings.batch_size):
            x, y = self._taken(batch)
            self._count(*self._loss(x, y), y)
        progress.step += 1
        progress.seconds += time.monotonic() - started

    def _taken(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        """The inputs and labels at some positions, checked, on the method's device."""
        x, y = (like_model(value, self.method) for value in take(self.train, batch))
        check_inputs(x, self.method, numbers=batch)
        check_labels(y, self.classes)
        self.labels_met.update(y.tolist())
        return x, y

    def _count(self, loss: Tensor, logits: Tensor, y: Tensor) -> None:
        progress = self.progress
        progress.loss_sum += loss.item() * len(y)
        progress.correct += int(
            (classes(logits.detach().reshape(-1, *logits.shape[-2:])) == y).sum()
        )
        progress.seen += len(y)

    def _loss(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        try:
            loss, logits = self.method.loss(x, y)
        except NescioError:
            raise
        except (RuntimeError, ValueError, IndexError) as error:
            raise NescioError(
                f"there is no loss for a batch of shape {tuple(x.shape)}: {error}"
            ) from error
        if not loss.isfinite():
            raise DivergedError(f"the loss became {loss.item()} {self._where(1)}")
        if not logits.isfinite().all():
            raise DivergedError(f"the logits became NaN or infinite {self._where(1)}")
        return loss, logits

    def _end_epoch(self, epoch: int) -> None:
        self._check_state()
        loss, accuracy = (None, None) if self.held is None else self._validate(self.held, epoch)
        progress, rate = self.progress, 0.0 if self.solved else self.optimizer.param_groups[0]["lr"]
        done = Epoch(
            epoch + 1,
            progress.loss_sum / progress.seen,
            progress.correct / progress.seen,
            loss,
            accuracy,
            rate,
            progress.seconds,
        )
        progress.epochs += (done,)
        progress.loss_sum, progress.correct, progress.seen, progress.seconds = 0.0, 0, 0, 0.0

    def _validate(self, held: Dataset[Any], epoch: int) -> tuple[float, float]:
        logits, labels = predict_labelled(self.method, held, progress=False)
        if labels is None:
            raise NescioError("the validation data have no labels; expected pairs (input, label)")
        if not logits.isfinite().all():
            raise DivergedError(
                f"the logits of the validation data became NaN or infinite {self._where(0)}"
            )
        labels = as_int64(labels).to(logits.device)
        check_labels(labels, self.classes)
        loss = float(self.method.validation_loss(logits, labels))
        progress, patience = self.progress, self.settings.patience
        if progress.best_loss is None or loss < progress.best_loss:
            progress.best_loss, progress.best_epoch = loss, epoch + 1
            if patience is not None:
                self.best = {
                    name: value.clone() for name, value in self.method.state_dict().items()
                }
        elif patience is not None:
            progress.stopped_early = epoch + 1 - (progress.best_epoch or 0) >= patience
        return loss, float((classes(logits) == labels).double().mean())

    def _save(self) -> None:
        if self.checkpoint is not None:
            self._check_state()
            self.checkpoint.save(self.progress, self.method, self.optimizer, self.best)

    def _check_state(self) -> None:
        """An error if weights, or buffers that a step may write such as centroids, have run away."""
        buffers = [
            (name, buffer) for name, buffer in self.method.named_buffers() if name in self.finite
        ]
        for kind, values in (("weights", self.method.named_parameters()), ("buffer", buffers)):
            for name, value in values:
                if not value.isfinite().all():
                    raise DivergedError(
                        f"the {kind} {name!r} became NaN or infinite {self._where(0)}"
                    )

    def _where(self, ahead: int) -> str:
        """When and with what left, in words; `ahead` is 1 before a step is counted."""
        epoch, index = divmod(self.progress.step + ahead - 1, self.per_epoch)
        if self.checkpoint is None:
            left = "there is no checkpoint to go back to (a checkpoint path keeps one)"
        elif self.checkpoint.path.exists():
            left = f"the last good checkpoint is {str(self.checkpoint.path)!r}"
        else:
            left = "no checkpoint had been written yet"
        return f"in epoch {epoch + 1}, step {index + 1}; {left}. Try a smaller learning rate"

    def _facts(self, epoch: int) -> str:
        running, last = self.progress, self.progress.epochs[-1:]
        loss = running.loss_sum / running.seen if running.seen else last[0].loss
        accuracy = running.correct / running.seen if running.seen else last[0].accuracy
        return f"epoch {epoch + 1}/{self.settings.epochs}  loss {loss:.4f}  accuracy {percent(accuracy)}"

    def history(self) -> History:
        """The record of the run so far."""
        seconds = sum(epoch.seconds for epoch in self.progress.epochs)
        settings = {**self.identity, "threads": torch.get_num_threads()}
        return History(
            self.method.name,
            self.progress.epochs,
            self.progress.step,
            self.progress.best_epoch,
            self.progress.stopped_early,
            Provenance.now(self.settings.seed, settings, seconds),
        )


def _check_task(data: Dataset[Any] | None, classes: int) -> None:
    """Look at all labels of data in memory, and at the first one of other data."""
    if isinstance(data, Samples):
        check_labels(data.labels, classes)
    elif data is not None:
        check_labels(take(data, torch.arange(1))[1], classes)


def _model_mark(method: Method) -> str:
    """What a checkpoint knows its model by: the number of weights, and a checksum of layers and of what is trained."""
    trained = [name for name, weight in method.named_parameters() if weight.requires_grad]
    count = sum(weight.numel() for weight in method.parameters())
    return f"{count} weights, crc {zlib.crc32(stable_repr((method, trained)).encode()):08x}"
