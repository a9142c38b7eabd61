"""The settings and the progress of a run, and the checkpoint file it can be resumed from."""

import glob
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from nescio.core.tensorfile import load_prefixed_state, prefixed_state, read_tensors, write_tensors
from nescio.errors import NescioError, check_float, check_int, check_name
from nescio.methods.method import Method, with_newer_settings
from nescio.records import Epoch, from_plain, to_plain

KIND = "checkpoint"
OPTIMIZERS = ("adam", "sgd")


@dataclass(frozen=True)
class TrainingSettings:
    """What determines a run; a checkpoint is resumed only under the same settings."""

    epochs: int
    batch_size: int
    optimizer: str
    learning_rate: float
    momentum: float
    weight_decay: float
    schedule: str
    augment: tuple[str, ...]
    validation: float
    patience: int | None
    checkpoint_every: int | None
    seed: int

    def __post_init__(self) -> None:
        check_name("optimizer", self.optimizer, OPTIMIZERS)
        for name in ("epochs", "batch_size", "patience", "checkpoint_every"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name))
        for name in ("learning_rate", "momentum", "weight_decay"):
            check_float(name, getattr(self, name))
        if self.learning_rate == 0 or self.momentum >= 1:
            got = f"{self.learning_rate} and {self.momentum}"
            raise NescioError(f"learning_rate must be > 0 and momentum < 1, got {got}")


@dataclass
class Progress:
    """How far a run has come; no generator state, since randomness follows from seed and step."""

    step: int = 0
    stopped_early: bool = False
    loss_sum: float = 0.0  # of the current epoch, as are the next three
    correct: int = 0
    seen: int = 0
    seconds: float = 0.0
    epochs: tuple[Epoch, ...] = ()
    best_epoch: int | None = None
    best_loss: float | None = None


@dataclass(frozen=True)
class Checkpoint:
    """One file, rewritten as a run proceeds, which only a run of the same settings may resume."""

    path: Path
    settings: dict[str, Any]

    def prepare_folder(self) -> None:
        """Make the folder, and remove what a killed run left half-written beside the file."""
        if self.path.is_dir():
            raise NescioError(f"{str(self.path)!r} is a folder; expected a checkpoint file")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        for partial in self.path.parent.glob(f".{glob.escape(self.path.name)}.{'?' * 8}.partial"):
            partial.unlink(missing_ok=True)

    def save(
        self, progress: Progress, method: nn.Module, optimizer: Optimizer, best: dict[str, Tensor]
    ) -> None:
        """Write the state of a run, with the weights of its best epoch so far."""
        state = {
            f"optimizer.{index}.{name}": value
            for index, entries in optimizer.state_dict()["state"].items()
            for name, value in entries.items()
            if isinstance(value, Tensor)
        }
        tensors = prefixed_state(method, "model") | state
        tensors |= {f"buffer.{name}": value for name, value in _non_persistent_buffers(method)}
        tensors |= {f"best.{name}": value for name, value in best.items()}
        header = {"settings": to_plain(self.settings), "progress": to_plain(progress)}
        write_tensors(self.path, KIND, tensors, {**header, "state": len(state)})

    def load(self, method: nn.Module, optimizer: Optimizer) -> tuple[Progress, dict[str, Tensor]]:
        """Restore method and optimizer; return the progress and the weights of the best epoch."""
        tensors, header = read_tensors(self.path, KIND, ("settings", "progress", "state"))
        where = f"checkpoint {str(self.path)!r}"
        before = from_plain(dict[str, Any], header.get("settings"), where)
        if isinstance(own := before.get("method_settings"), Mapping) and isinstance(method, Method):
            before["method_settings"] = to_plain(with_newer_settings(own, method))
        check_same_settings(before, to_plain(self.settings), where)
        progress = from_plain(Progress, header.get("progress"), where)
        state = _optimizer_state(tensors, optimizer, where)
        if header.get("state") != sum(map(len, state.values())):
            raise NescioError(f"{where} lacks a part of the optimizer's state")
        best = {key[5:]: value for key, value in tensors.items() if key.startswith("best.")}
        has_best = self.settings.get("patience") is not None and progress.best_epoch is not None
        if _shapes(best) != (_shapes(method.state_dict()) if has_best else {}):
            raise NescioError(f"{where} lacks the weights of its best epoch, or holds others")
        load_prefixed_state(method, tensors, "model", self.path)
        for name, buffer in _non_persistent_buffers(method):
            if f"buffer.{name}" in tensors:
                buffer.copy_(tensors[f"buffer.{name}"])
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": state, "param_groups": groups})
        return progress, best


def _shapes(state: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in state.items()}


def _non_persistent_buffers(method: nn.Module) -> list[tuple[str, Tensor]]:
    """Return buffers that are in no state_dict, but may change in training all the same."""
    persistent = method.state_dict()
    return [(name, buffer) for name, buffer in method.named_buffers() if name not in persistent]


def _optimizer_state(
    tensors: dict[str, Tensor], optimizer: Optimizer, where: str
) -> dict[int, dict[str, Tensor]]:
    """Return the optimizer's tensors by the position of their weight, each checked against it."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    names = {"momentum_buffer"} if isinstance(optimizer, SGD) else {"step", "exp_avg", "exp_avg_sq"}
    positions = {str(position): weight for position, weight in enumerate(weights)}
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if not key.startswith("optimizer."):
            continue
        _, index, name = (*key.split("."), "")[:3]
        weight = positions.get(index)
        shape = () if weight is None or name == "step" else weight.shape
        fits = weight is not None and name in names and value.is_floating_point()
        if not fits or value.shape != shape:
            raise NescioError(f"{where} holds a state {key!r} that fits none of the weights")
        state.setdefault(int(index), {})[name] = value
    return state


def check_same_settings(before: Mapping[str, Any], now: Mapping[str, Any], where: str) -> None:
    """Raise an error that lists the settings which differ from those in a file.

    >>> before, now = {"seed": 0, "own": {"a": 1, "b": 2}}, {"seed": 0, "own": {"a": 1, "b": 3}}
    >>> check_same_settings(before, now, "it")
    Traceback (most recent call last):
    nescio.errors.NescioError: it was made with b=2, not 3; use the same settings, or another path
    """
    if listed := " and ".join(_differences(before, now)):
        raise NescioError(f"{where} was made with {listed}; use the same settings, or another path")


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    differences = []
    for name in {**now, **before}:
        old, new = before.get(name), now.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            differences += _differences(old, new)
        elif old != new:
            differences.append(f"{name}={old!r}, not {new!r}")
    return differences
