"""Confidence at a high temperature, after a small step towards more of it (Liang et al. 2018)."""

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
CHUNK_NUMBERS, MIN_CHUNK = 2**16, 16  # numbers of inputs, and inputs, that are run at once


class ODIN(Detector):
    """Unknown if a small step leaves it unsure at a high temperature (Liang et al. 2018).

    `x̃ = x − ε sign(∇ₓ L)`, L the cross-entropy of the predicted class at temperature T: known
    inputs gain more by it. The score is `log(1 − max_c p̄_c)` at x̃ and T, in the order of `−max p̄`
    without its ties. It takes one forward and one backward pass more than a plain score.

    Args:
        model: any classifier, differentiable in its input.
        temperature: what logits are divided by.
        eps: step of each value of the input, in units of what the model takes (images in [0, 1]).

    >>> ODIN(net, eps=0.1).fit(known.test).predict(x)
    tensor([0, 2])
    """

    name = "odin"
    requires_grad = False

    def __init__(self, model: nn.Module, temperature: float = 1000.0, eps: float = 0.0014) -> None:
        super().__init__(model)
        self.temperature = check_float("temperature", temperature, least=1e-3, most=1e9)
        self.eps = check_float("eps", eps)

    def forward_with_features(self, model: nn.Module, x: Tensor) -> ForwardPass:
        """Return logits and, in place of features, those of the moved inputs."""
        if not x.is_floating_point():
            raise NescioError(
                f"ODIN moves inputs by small steps; they must be floats, not {x.dtype}"
            )
        if torch.is_inference_mode_enabled():
            raise NescioError("ODIN needs gradients, which torch.inference_mode() forbids")
        # on a CPU as many at once as its caches hold: new memory for more takes longer than work
        on_cpu = x.device.type == "cpu"
        size = max(MIN_CHUNK, CHUNK_NUMBERS // max(1, x[0].numel())) if on_cpu else len(x)
        pairs = [self._step(model, chunk) for chunk in torch.split(x, size)]
        logits, moved = (torch.cat(part, 1) for part in zip(*pairs, strict=True))
        return ForwardPass(logits, {MOVED: moved.transpose(0, 1)})  # inputs come first there

    def _step(self, model: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits `(S, B, C)`, and those after a step."""
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            logits = _logits(model, x.clone())  # for a first layer that works in place
            signs = self._gradient(logits, x).sign_()
        with torch.no_grad():
            return logits.detach(), _logits(model, torch.sub(x, signs, alpha=self.eps))

    def score_batch(self, x: Tensor, forward_pass: ForwardPass) -> Tensor:
        if MOVED not in forward_pass.features:  # a pass for several detectors
            with running(self.model, requires_grad=self.requires_grad) as runner:
                forward_pass = runner(self.forward_with_features, like_model(x, self.model))
        moved = forward_pass.features[MOVED].transpose(0, 1)
        # an input without such a step, or whose step leaves what the model can answer, stays
        finite = moved.isfinite().all(2).all(0)
        logits = torch.where(finite[:, None], moved, forward_pass.logits.to(moved))
        return max_prob(logits / self.temperature)

    def _gradient(self, logits: Tensor, x: Tensor) -> Tensor:
        """Return a positive multiple of the gradient, `∇ₓ log(1 − p̄)`, which does not vanish."""
        finite = (logits.abs() < LARGEST).all(2).all(0)  # others have no score
        scores = max_prob(torch.where(finite[:, None], logits, 0.0).double() / self.temperature)
        return input_gradient(scores, x, "ODIN")


def _logits(model: nn.Module, x: Tensor) -> Tensor:
    """Return `(S, B, C)`, with the same draws each time."""
    with preserve_generators():
        return draws_of(run(model, x), len(x))
