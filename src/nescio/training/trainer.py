"""A training run in progress: its steps, its epochs, and where it stands."""

import math
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer
from torch.utils.data import Dataset

from nescio.core.forward import check_inputs, like_model
from nescio.core.logits import classes, two_classes
from nescio.core.predict import predict, predict_labelled
from nescio.data.batches import as_int64, check_labels, fingerprint, take
from nescio.data.samples import Samples
from nescio.errors import DivergedError, NescioError
from nescio.methods.method import Method, TrainingStep, stable_repr
from nescio.metrics.percent import percent
from nescio.progress import Bar
from nescio.records import Epoch, History, Provenance
from nescio.seeds import derived_seed, seed_generators
from nescio.training.checkpoint import Checkpoint, Progress, TrainingSettings
from nescio.training.schedule import Schedule


class Trainer:
    """One run of `train`; modules in `frozen` stay in eval mode."""

    def __init__(
        self,
        method: Method,
        train: Dataset[Any],
        validation: Dataset[Any] | None,
        settings: TrainingSettings,
        schedule: Schedule,
        augmentations: list[Callable[[Tensor], Tensor]],
        frozen: list[nn.Module],
    ) -> None:
        self.method, self.train, self.validation = method, train, validation
        self.settings, self.schedule = settings, schedule
        self.augmentations, self.frozen = augmentations, frozen
        started = time.monotonic()
        # before there is an optimizer, since it may replace weights
        self.solved = method.prepare(train, validation, settings.seed)
        if self.solved and augmentations:
            solved = f"this {method.name} was solved for all inputs at once"
            advice = "leave it out, or train it by steps"
            raise NescioError(f"augment changes the batches of steps, but {solved}; {advice}")
        self.progress = Progress(seconds=time.monotonic() - started)
        self.optimizer = _make_optimizer(method, settings)
        self.inputs = len(train)  # type: ignore[arg-type]
        first = take(train, torch.arange(min(2, self.inputs)))[0]
        self.classes = predict(method, first, progress=False).shape[2]
        for data in (train, validation):  # all labels of data in memory, the first of others
            if isinstance(data, Samples):
                check_labels(data.labels, self.classes)
            elif data is not None:
                check_labels(take(data, torch.arange(1))[1], self.classes)
        if isinstance(train, Samples):
            self._check_two_classes(set(train.labels.tolist()))
        least = 1 if settings.batch_size == 1 else 2  # BatchNorm cannot train on a batch of one
        batches = min(math.ceil(self.inputs / settings.batch_size), self.inputs // least)
        self.per_epoch = max(1, batches)
        self.total = self.per_epoch * settings.epochs
        if self.solved:  # a run of one step, which has been made
            self.per_epoch = self.total = 1
        self.best: dict[str, Tensor] = {}  # the weights of the best epoch so far
        self.labels_seen: set[int] = set()
        # a buffer that is infinite from the start, as a mask may be, is meant to be
        self.finite = {name for name, value in method.named_buffers() if value.isfinite().all()}
        self.checkpoint: Checkpoint | None = None
        self.identity = {
            "method": method.name,
            "method_settings": method.settings(),
            "model": _model_mark(method),
            "data": fingerprint(train),
            "validation_data": fingerprint(validation),
            **asdict(settings),
        }
        del self.identity["checkpoint_every"]  # it does not affect the weights

    def resume(self, path: Path) -> None:
        """Write checkpoints to a file, and resume from it if it exists."""
        self.checkpoint = Checkpoint(path, self.identity)
        self.checkpoint.prepare_folder()
        if not path.exists():
            return
        self.progress, self.best = self.checkpoint.load(self.method, self.optimizer)
        step, done = self.progress.step, len(self.progress.epochs)
        if not 0 <= step <= self.total or done != step // self.per_epoch or self.progress.seen < 0:
            state = f"checkpoint {str(path)!r} is at step {step} after {done} epochs"
            run = f"a run of {self.total} steps with {self.per_epoch} an epoch"
            raise NescioError(f"{state}, impossible in {run}")

    def resumed(self) -> str | None:
        """Return where a resumed run stands, in words, or None if it starts from the beginning."""
        if self.progress.step >= self.total or self.progress.stopped_early:
            return "already trained"
        epochs, steps = divmod(self.progress.step, self.per_epoch)
        within = f", step {steps} of {self.per_epoch}" if steps else ""
        where = f"resuming from epoch {epochs} of {self.settings.epochs}{within}"
        return where if self.progress.step else None

    def run(self, shown: Bar) -> None:
        """Run to the end, and leave the best weights in the model."""
        batches: tuple[Tensor, ...] = ()
        every, fresh = self.settings.checkpoint_every, self.progress.step == 0
        while self.progress.step < self.total and not self.progress.stopped_early:
            epoch, index = divmod(self.progress.step, self.per_epoch)
            started, ends = time.monotonic(), index == self.per_epoch - 1
            if self.solved:
                self._evaluate()
            else:
                if not batches or index == 0:
                    # (inputs,) or (members, inputs)
                    order = self.method.epoch_order(self.inputs, self.settings.seed, epoch)
                    batches = order.tensor_split(self.per_epoch, dim=-1)
                self._step(batches[index].flatten())
            self.progress.step += 1
            self.progress.seconds += time.monotonic() - started
            if ends:
                self._end_epoch(epoch)
                if fresh and epoch == 0:  # a resumed run has not seen all labels
                    self._check_two_classes(self.labels_seen)
            if self.checkpoint and (ends or (every and self.progress.step % every == 0)):
                self._check_finite()
                self.checkpoint.save(self.progress, self.method, self.optimizer, self.best)
            shown.advance(1, self._facts(epoch), ends=ends)
        if self.best:
            self.method.load_state_dict(self.best)

    def _check_two_classes(self, labels: set[int]) -> None:
        if len(labels) < 2:
            inputs = f"all {self.inputs} training inputs"
            raise NescioError(f"{inputs} are of one class; at least two are needed")

    def _step(self, batch: Tensor) -> None:
        step = self.progress.step
        seed_generators(derived_seed(self.settings.seed, "step", step))
        x, y = self._take(batch)
        for augmentation in self.augmentations:
            x = augmentation(x)
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.learning_rate * self.schedule(step / self.total)
        self.method.train()
        for module in self.frozen:
            module.training = False
        self.optimizer.zero_grad()
        self.method.training_step = TrainingStep(step, self.per_epoch, self.total, self.inputs)
        loss, logits = self._loss(x, y)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.method.after_step(x, y)
        self._count(loss, logits, y)

    @torch.no_grad()
    def _evaluate(self) -> None:
        """Instead of steps, measure loss and accuracy of a solved method on its training data."""
        self.method.eval()
        for batch in torch.split(torch.arange(self.inputs), self.settings.batch_size):
            x, y = self._take(batch)
            self._count(*self._loss(x, y), y)

    def _take(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        """Return the inputs and labels at some positions, checked, on the method's device."""
        x, y = (like_model(value, self.method) for value in take(self.train, batch))
        check_inputs(x, self.method, numbers=batch)
        check_labels(y, self.classes)
        self.labels_seen.update(y.tolist())
        return x, y

    def _count(self, loss: Tensor, logits: Tensor, y: Tensor) -> None:
        predicted = classes(logits.detach().reshape(-1, *logits.shape[-2:]))
        self.progress.loss_sum += loss.item() * len(y)
        self.progress.correct += int((predicted == y).sum())
        self.progress.seen += len(y)

    def _loss(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        try:
            loss, logits = self.method.loss(x, y)
        except NescioError:
            raise
        except (RuntimeError, ValueError, IndexError) as error:
            raise NescioError(f"no loss for a batch of shape {tuple(x.shape)}: {error}") from error
        if not loss.isfinite():
            raise DivergedError(f"the loss became {loss.item()} {self._where(1)}")
        if not logits.isfinite().all():
            raise DivergedError(f"the logits became NaN or infinite {self._where(1)}")
        return loss, two_classes(logits)

    def _end_epoch(self, epoch: int) -> None:
        self._check_finite()
        progress = self.progress
        known = progress.loss_sum / progress.seen, progress.correct / progress.seen
        loss, accuracy = (None, None) if self.validation is None else self._validate(epoch)
        rate = 0.0 if self.solved else self.optimizer.param_groups[0]["lr"]
        done = Epoch(epoch + 1, *known, loss, accuracy, rate, progress.seconds)
        progress.epochs += (done,)
        progress.loss_sum, progress.correct, progress.seen, progress.seconds = 0.0, 0, 0, 0.0

    def _validate(self, epoch: int) -> tuple[float, float]:
        """Return loss and accuracy on validation data; keep the best weights, or stop early."""
        logits, labels = predict_labelled(self.method, self.validation, progress=False)
        if labels is None:
            raise NescioError("validation data must be pairs (input, label), got no labels")
        if not logits.isfinite().all():
            raise DivergedError(f"the validation logits became NaN or infinite {self._where(0)}")
        labels = as_int64(labels).to(logits.device)
        check_labels(labels, self.classes)
        loss = float(self.method.validation_loss(logits, labels))
        progress, patience = self.progress, self.settings.patience
        if progress.best_loss is None or loss < progress.best_loss:
            progress.best_loss, progress.best_epoch = loss, epoch + 1
            if patience is not None:
                self.best = {name: v.clone() for name, v in self.method.state_dict().items()}
        elif patience is not None:
            progress.stopped_early = epoch + 1 - (progress.best_epoch or 0) >= patience
        return loss, float((classes(logits) == labels).double().mean())

    def _check_finite(self) -> None:
        """Raise an error if weights, or buffers such as centroids, became NaN or infinite."""
        buffers = [(name, b) for name, b in self.method.named_buffers() if name in self.finite]
        for kind, values in (("weights", self.method.named_parameters()), ("buffer", buffers)):
            for name, value in values:
                if not value.isfinite().all():
                    where = self._where(0)
                    raise DivergedError(f"the {kind} {name!r} became NaN or infinite {where}")

    def _where(self, ahead: int) -> str:
        """Return when, and which checkpoint is left, in words; `ahead` is 1 within a step."""
        epoch, index = divmod(self.progress.step + ahead - 1, self.per_epoch)
        if self.checkpoint is None:
            advice = "there is no checkpoint to go back to (checkpoint=… keeps one)"
        elif self.checkpoint.path.exists():
            advice = f"the last good checkpoint is {str(self.checkpoint.path)!r}"
        else:
            advice = "no checkpoint had been written yet"
        return f"in epoch {epoch + 1}, step {index + 1}; {advice}. Try a smaller learning rate"

    def _facts(self, epoch: int) -> str:
        now, epochs = self.progress, self.settings.epochs
        if now.seen:
            loss, accuracy = now.loss_sum / now.seen, now.correct / now.seen
        else:
            loss, accuracy = now.epochs[-1].loss, now.epochs[-1].accuracy
        return f"epoch {epoch + 1}/{epochs}  loss {loss:.4f}  accuracy {percent(accuracy)}"

    def history(self) -> History:
        """Return the record of the run so far."""
        now = self.progress
        seconds = sum(epoch.seconds for epoch in now.epochs)
        settings = {**self.identity, "threads": torch.get_num_threads()}
        origin = Provenance.now(self.settings.seed, settings, seconds)
        ended = now.step, now.best_epoch, now.stopped_early
        return History(self.method.name, now.epochs, *ended, origin)


def _make_optimizer(model: nn.Module, settings: TrainingSettings) -> Optimizer:
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    if not weights:
        raise NescioError("the model has no weights to train: none has requires_grad=True")
    rate, decay = settings.learning_rate, settings.weight_decay
    if settings.optimizer == "sgd":
        return SGD(weights, rate, settings.momentum, weight_decay=decay, fused=True)
    return Adam(weights, rate, weight_decay=decay, fused=True)


def _model_mark(method: Method) -> str:
    """Return what a checkpoint knows its model by: its size and a checksum of its layers."""
    trained = [name for name, weight in method.named_parameters() if weight.requires_grad]
    count = sum(weight.numel() for weight in method.parameters())
    return f"{count} weights, crc {zlib.crc32(stable_repr((method, trained)).encode()):08x}"
