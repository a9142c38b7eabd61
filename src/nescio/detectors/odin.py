"""The confidence at a high temperature, after a small step towards more of it (Liang et al. 2018)."""

from typing import Any

import torch
from torch import Tensor, nn

from nescio.core.features import ForwardPass
from nescio.core.forward import draws_of, like_model, run
from nescio.core.input_gradients import input_gradient
from nescio.core.logits import LARGEST
from nescio.core.predict import running
from nescio.core.random_streams import preserve_generators
from nescio.detectors.detector import Detector
from nescio.errors import NescioError, check_float
from nescio.scores import max_prob

MOVED = "(logits of the moved inputs)"
ROOM, FEWEST = 2**16, 16  # numbers of inputs, and inputs, that are run at once


class ODIN(Detector):
    """Known as long as a small step makes the model confident at a high temperature (Liang et al. 2018).

    `x̃ = x − ε sign(∇ₓ L)`, L the cross-entropy of the predicted class at temperature T: known inputs gain more by it.
    The score is `log(1 − max_c p̄_c)` at x̃ and T, in the order of `−max p̄` without its ties; several draws count
    through their mean probability. It takes one forward pass and one backward pass more than a plain score.

    Args:
        model: any classifier, differentiable in its input.
        temperature: what logits are divided by.
        eps: how far each value of the input is moved, in units of what the model takes (images in [0, 1]).
    """

    name = "odin"
    requires_grad = False

    def __init__(self, model: nn.Module, temperature: float = 1000.0, eps: float = 0.0014) -> None:
        super().__init__(model)
        self.temperature = check_float("temperature", temperature, least=1e-3, most=1e9)
        self.eps = check_float("eps", eps)

    def forward_with_features(self, model: nn.Module, x: Tensor) -> ForwardPass:
        """Logits, and in place of features those of the inputs moved, from two passes forward and one back."""
        if not x.is_floating_point():
            raise NescioError(
                f"ODIN moves inputs by small steps, so they must be floats, not {x.dtype}"
            )
        if torch.is_inference_mode_enabled():
            raise NescioError(
                "ODIN needs gradients, which there are none of within torch.inference_mode()"
            )
        logits, moved = zip(*(self._step(model, some) for some in _pieces(x)), strict=True)
        return ForwardPass(
            torch.cat(logits, 1), {MOVED: torch.cat(moved, 1).transpose(0, 1)}
        )  # inputs come first there

    def _step(self, model: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits `(S, B, C)`, and those after a step."""
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            logits = _logits(model, x.clone())  # for a first layer that works in place
            signs = self._gradient(logits, x).sign_()
        with torch.no_grad():
            return logits.detach(), _logits(model, torch.sub(x, signs, alpha=self.eps))

    def score_batch(self, x: Tensor, seen: ForwardPass) -> Tensor:
        if MOVED not in seen.features:  # as of a pass for several detectors
            with running(self.model, requires_grad=self.requires_grad) as runner:
                seen = runner(self.forward_with_features, like_model(x, self.model))
        logits = seen.features[MOVED].transpose(0, 1)
        # an input that has no such step, or not within what the model gives numbers for, stays where it is
        fine = logits.isfinite().all(2).all(0)
        return max_prob(
            torch.where(fine[:, None], logits, seen.logits.to(logits)) / self.temperature
        )

    def _gradient(self, logits: Tensor, x: Tensor) -> Tensor:
        """A positive multiple of that of the cross-entropy, `∇ₓ log(1 − p̄)`: nothing is lost where p̄ is next to 1."""
        fine = (logits.abs() < LARGEST).all(2).all(0)  # of others there is no score
        scores = max_prob(torch.where(fine[:, None], logits, 0.0).double() / self.temperature)
        return input_gradient(scores, x, "ODIN")

    def settings(self) -> dict[str, Any]:
        return {"temperature": self.temperature, "eps": self.eps}


def _logits(model: nn.Module, x: Tensor) -> Tensor:
    """Draws `(S, B, C)`, the same ones each time."""
    with preserve_generators():
        return draws_of(run(model, x), len(x))


def _pieces(x: Tensor) -> tuple[Tensor, ...]:
    """A batch in pieces which, on a CPU, are as many as its caches like: new memory for more takes longer than work."""
    size = len(x) if x.device.type != "cpu" else max(FEWEST, ROOM // max(1, x[0].numel()))
    return torch.split(x, size)
