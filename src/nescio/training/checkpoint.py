"""A training run at rest: everything needed to go on as if nothing had happened."""

import glob
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from nescio.core.tensorfile import read_tensors, restore, state_of, write_tensors
from nescio.errors import NescioError
from nescio.records import Epoch, from_plain, to_plain
from nescio.training.settings import check_same

KIND = "checkpoint"


@dataclass
class Progress:
    """How far a run has come. All randomness of a step follows from seed and step, so no generator state is kept."""

    step: int = 0
    stopped_early: bool = False
    loss_sum: float = 0.0  # of the running epoch, as are the next three
    correct: int = 0
    seen: int = 0
    seconds: float = 0.0
    epochs: tuple[Epoch, ...] = ()
    best_epoch: int | None = None
    best_loss: float | None = None


@dataclass(frozen=True)
class Checkpoint:
    """One file, rewritten as a run goes on; `settings` must be the same for it to be taken up again."""

    path: Path
    settings: dict[str, Any]

    def prepare(self) -> None:
        """Make the folder, and remove what a killed run left half-written beside the file."""
        if self.path.is_dir():
            raise NescioError(
                f"{str(self.path)!r} is a folder; expected the path of a checkpoint file"
            )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        for partial in self.path.parent.glob(f".{glob.escape(self.path.name)}.{'?' * 8}.partial"):
            partial.unlink(missing_ok=True)

    def save(
        self, progress: Progress, method: nn.Module, optimizer: Optimizer, best: dict[str, Tensor]
    ) -> None:
        """Write the run."""
        state = {
            f"optimizer.{index}.{name}": value
            for index, entries in optimizer.state_dict()["state"].items()
            for name, value in entries.items()
            if isinstance(value, Tensor)
        }
        kept = {f"best.{name}": value for name, value in best.items()}
        loose = {f"buffer.{name}": value for name, value in _loose(method)}
        about = {
            "settings": to_plain(self.settings),
            "progress": to_plain(progress),
            "state": len(state),
        }
        write_tensors(self.path, KIND, state_of(method, "model") | loose | state | kept, about)

    def load(self, method: nn.Module, optimizer: Optimizer) -> tuple[Progress, dict[str, Tensor]]:
        """Put a run back where it stood: its progress and the weights of its best epoch so far."""
        tensors, about = read_tensors(self.path, KIND, ("settings", "progress", "state"))
        where = f"checkpoint {str(self.path)!r}"
        check_same(
            from_plain(dict[str, Any], about.get("settings"), where), to_plain(self.settings), where
        )
        progress = from_plain(Progress, about.get("progress"), where)
        state = _state(tensors, optimizer, where)
        if about.get("state") != sum(map(len, state.values())):
            raise NescioError(f"{where} lacks a part of the optimizer's state")
        best = {
            key.removeprefix("best."): value
            for key, value in tensors.items()
            if key.startswith("best.")
        }
        wanted = self.settings.get("patience") is not None and progress.best_epoch is not None
        if _shapes(best) != (_shapes(method.state_dict()) if wanted else {}):
            raise NescioError(f"{where} lacks the weights of its best epoch, or holds others")
        restore(method, tensors, "model", self.path)
        for name, buffer in _loose(method):
            if f"buffer.{name}" in tensors:
                buffer.copy_(tensors[f"buffer.{name}"])
        optimizer.load_state_dict(
            {"state": state, "param_groups": optimizer.state_dict()["param_groups"]}
        )
        return progress, best


def _shapes(state: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in state.items()}


def _loose(method: nn.Module) -> list[tuple[str, Tensor]]:
    """Buffers that are in no state_dict, but may change in training all the same."""
    held = method.state_dict()
    return [(name, buffer) for name, buffer in method.named_buffers() if name not in held]


def _state(
    tensors: dict[str, Tensor], optimizer: Optimizer, where: str
) -> dict[int, dict[str, Tensor]]:
    """The optimizer's tensors by the position of their weight, each held against that weight."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    names = {"momentum_buffer"} if isinstance(optimizer, SGD) else {"step", "exp_avg", "exp_avg_sq"}
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if not key.startswith("optimizer."):
            continue
        _, index, name = (*key.split("."), "")[:3]
        weight = (
            weights[int(index)]
            if index.isdecimal() and len(index) < 9 and int(index) < len(weights)
            else None
        )
        shape = () if weight is None or name == "step" else weight.shape
        if (
            weight is None
            or name not in names
            or value.shape != shape
            or not value.is_floating_point()
        ):
            raise NescioError(f"{where} holds a state {key!r} that fits none of the weights")
        state.setdefault(int(index), {})[name] = value
    return state
