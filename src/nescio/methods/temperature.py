"""Calibrated confidence on known data: one number that divides the logits (Guo et al. 2017)."""

import math
from contextlib import AbstractContextManager
from typing import Any, Self

import torch
from torch import Tensor, nn

from nescio import metrics
from nescio.core.forward import fixed_draws
from nescio.core.logits import check_logits, classes, mean_log_probs
from nescio.core.model_state import check_model
from nescio.core.predict import predict_labelled
from nescio.data.batches import as_int64, check_labels
from nescio.errors import NescioError, check_float
from nescio.methods.method import Method
from nescio.records import Stopwatch, Temperature

MIN_TEMPERATURE, MAX_TEMPERATURE = 1e-6, 1e6
GRID_SIZE = 37  # temperatures in between, three to a decade, to search around the best of


class TemperatureScaled(nn.Module):
    """A model whose logits are divided by a temperature, so that its confidence is calibrated.

    Classes stay the same. No temperature helps far away: a ReLU network's logits grow along almost
    every ray, and so do those divided by a constant, so that the confidence still tends to 1 there,
    only from farther out (Hein et al. 2019, theorem 3.1). It is for known inputs; for unknown ones
    use a detector.

    Args:
        model: any classifier with a softmax, stochastic ones included; it is not changed.
        temperature: above 0; `fit` finds it.

    Attributes:
        record: of the last fit, if there was one.

    >>> scaled = TemperatureScaled(net).fit(known.test)
    >>> scaled.record.ece_after < scaled.record.ece_before
    True
    """

    def __init__(self, model: nn.Module, temperature: float = 1.0) -> None:
        super().__init__()
        check_model(model)
        if isinstance(model, TemperatureScaled):
            raise NescioError("the model already has a temperature; scale model.model instead")
        if isinstance(model, Method) and model.confidence_kind == "kernel":
            kind = f"{type(model).__name__} is a kernel, not a softmax"
            raise NescioError(f"the confidence of {kind}, so that no temperature can scale it")
        self.model = model
        self.temperature = check_float("temperature", temperature, MIN_TEMPERATURE, MAX_TEMPERATURE)
        self.record: Temperature | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Return the model's logits divided by the temperature."""
        logits: Tensor = self.model(x) / self.temperature
        return logits

    def fit(
        self, known: Any, *, batch_size: int = 256, seed: int = 0, progress: bool | None = None
    ) -> Self:
        """Find the temperature that maximises the likelihood of the labels of calibration data.

        Args:
            known: labelled data which the model was not trained on.
            batch_size, seed, progress: as in `predict`.
        """
        stopwatch = Stopwatch()
        how = {"batch_size": batch_size, "seed": seed}
        logits, labels = predict_labelled(self.model, known, progress=progress, **how)
        if labels is None:
            needed = "a dataset of (input, label), or batches"
            raise NescioError(f"a temperature is fitted to labels: give {needed}")
        logits, labels = check_logits(logits).cpu(), as_int64(labels).cpu()
        check_labels(labels, logits.shape[2])
        self.temperature = best_temperature(logits, labels)
        correct = classes(logits) == labels
        before, after = (_nll_and_ece(logits / t, labels, correct) for t in (1.0, self.temperature))
        accuracy, sizes = float(correct.double().mean()), (len(labels), len(logits))
        figures = before[0], after[0], before[1], after[1]  # NLL, then ECE
        origin = stopwatch.provenance(seed, {"batch_size": batch_size})
        self.record = Temperature(self.temperature, accuracy, *figures, *sizes, origin)
        return self

    def fix_draws(self) -> AbstractContextManager[None]:
        """Fix the draws of the model within; see `predict`."""
        return fixed_draws(self.model)

    def extra_repr(self) -> str:
        return f"temperature={self.temperature:g}"


def split_temperature(model: nn.Module) -> tuple[nn.Module, float | None]:
    """Return the model without its temperature, and that temperature, or None if it has none."""
    if isinstance(model, TemperatureScaled):
        return model.model, model.temperature
    return model, None


def temperatures_within(model: nn.Module) -> list[float]:
    """Return the temperatures of all scaled models inside of one."""
    return [part.temperature for part in model.modules() if isinstance(part, TemperatureScaled)]


def best_temperature(logits: Tensor, labels: Tensor) -> float:
    """Return the temperature that makes labels `(N,)` likeliest, of float64 logits `(S, N, C)`.

    For one draw the likelihood is concave in 1/T, so that its slope has at most one root; for
    several, whose probabilities are averaged, the negative log-likelihood is minimised.
    """
    from scipy.optimize import brentq, minimize_scalar  # half a second of start-up, rarely needed

    def negative_log_likelihood(log: float) -> float:
        return nll(logits / math.exp(log), labels)

    low, high = math.log(MIN_TEMPERATURE), math.log(MAX_TEMPERATURE)
    if len(logits) > 1:
        grid = torch.linspace(low, high, GRID_SIZE, dtype=torch.float64).tolist()
        losses = [*map(negative_log_likelihood, grid)]
        best = losses.index(min(losses))
        if best in (0, GRID_SIZE - 1):
            raise _no_temperature(logits, labels, cold=best == 0)
        how: dict[str, Any] = {"method": "bounded", "options": {"xatol": 1e-10}}
        bounds = (grid[best - 1], grid[best + 1])
        return math.exp(float(minimize_scalar(negative_log_likelihood, bounds=bounds, **how).x))
    z = logits[0] - logits[0].amax(1, keepdim=True)
    label_logits = z.gather(1, labels[:, None])[:, 0]

    def slope(log: float) -> float:
        """Return the derivative in 1/T: the expected logit less that of the label; falls with T."""
        p = (z / math.exp(log)).softmax(1)
        return float(((p * z).sum(1) - label_logits).mean())

    if slope(low) <= 0 or slope(high) >= 0:
        raise _no_temperature(logits, labels, cold=slope(low) <= 0)
    return math.exp(float(brentq(slope, low, high, xtol=1e-14, rtol=1e-14)))


def nll(logits: Tensor, labels: Tensor) -> float:
    """Return the mean negative log-likelihood of labels `(N,)`, in nats, of logits `(S, N, C)`."""
    return float(-mean_log_probs(logits)[0].gather(1, labels[:, None]).mean())


def _nll_and_ece(logits: Tensor, labels: Tensor, correct: Tensor) -> tuple[float, float]:
    confidence = mean_log_probs(logits)[0].amax(1).exp()
    return nll(logits, labels), metrics.ece(confidence.numpy(), correct.numpy())


def _no_temperature(logits: Tensor, labels: Tensor, cold: bool) -> NescioError:
    """Return why there is no best temperature within bounds; `cold` if it is below them."""
    spread = float((logits - logits.mean(2, keepdim=True)).abs().max())
    if spread == 0:
        return NescioError("all classes have the same logits, so that no temperature changes them")
    size = f"the logits of a class are up to {spread:.2g} from the mean of all"
    label_logits = logits.gather(2, labels[None, :, None].expand(len(logits), -1, 1))
    if cold and not (label_logits == logits.amax(2, True)).all():
        bound = f"no temperature ≥ {MIN_TEMPERATURE:g} is best"
        return NescioError(f"{bound}, as {size}; scale them up in the model")
    if cold:
        reason = "every label has the largest logit, so that the colder the likelier"
        advice = "Give more calibration data, with some wrong predictions among them"
        return NescioError(f"{reason}: there is no best temperature. {advice}")
    if spread > MAX_TEMPERATURE:
        bound = f"no temperature ≤ {MAX_TEMPERATURE:g} is best"
        return NescioError(f"{bound}, as {size}; scale them down in the model")
    reason = "the labels are no likelier than at random, so that the warmer the likelier"
    return NescioError(f"{reason}: there is no best temperature. Are these the model's classes?")
