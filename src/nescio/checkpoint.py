"""A training run at rest: everything needed to go on as if nothing had happened."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from nescio.errors import NescioError
from nescio.records import Epoch, from_plain, to_plain
from nescio.tensorfile import read_tensors, restore, state_of, write_tensors

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

    def save(self, progress: Progress, method: nn.Module, optimizer: Optimizer, best: dict[str, Tensor]) -> None:
        """Write the run; weights that are not finite are refused, so the last checkpoint written is a good one."""
        model = state_of(method, "model")
        for name, value in model.items():
            if value.is_floating_point() and not value.isfinite().all():
                raise NescioError(f"after step {progress.step} the weights {name.removeprefix('model.')!r} are NaN or "
                                  f"infinite; {last_good(self.path)}")  # fmt: skip
        state = {
            f"optimizer.{index}.{name}": value
            for index, entries in optimizer.state_dict()["state"].items()
            for name, value in entries.items()
            if isinstance(value, Tensor)
        }
        kept = {f"best.{name}": value for name, value in best.items()}
        about = {"settings": to_plain(self.settings), "progress": to_plain(progress)}
        write_tensors(self.path, KIND, model | state | kept, about)

    def load(self, method: nn.Module, optimizer: Optimizer) -> tuple[Progress, dict[str, Tensor]]:
        """Put a run back where it stood: its progress and the weights of its best epoch so far."""
        tensors, about = read_tensors(self.path, KIND)
        before, now = about.get("settings", {}), to_plain(self.settings)
        for name in now:
            if before.get(name) != now[name]:
                raise NescioError(f"checkpoint {str(self.path)!r} was made with {name}={before.get(name)!r}, not "
                                  f"{now[name]!r}; use the same settings, or another path")  # fmt: skip
        progress = from_plain(Progress, about.get("progress"), "progress")
        restore(method, tensors, "model", self.path)
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            if key.startswith("optimizer."):
                _, index, name = key.split(".", 2)
                state.setdefault(int(index), {})[name] = value
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        return progress, {key.removeprefix("best."): value for key, value in tensors.items() if key.startswith("best.")}

    def clear_partial(self) -> None:
        """Remove what a killed run left half-written beside the checkpoint."""
        for partial in self.path.parent.glob(f".{self.path.name}.*.partial"):
            partial.unlink(missing_ok=True)


def last_good(path: Path | None) -> str:
    """Where the last good weights are, in words."""
    if path is None:
        return "there is no checkpoint to go back to (checkpoint=… keeps one)"
    return f"the last good checkpoint is {str(path)!r}" if path.exists() else "no checkpoint had been written yet"
