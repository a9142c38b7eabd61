"""Confidences that mean what they say on known data: one number that divides the logits (Guo et al. 2017)."""

import math
import time
from contextlib import AbstractContextManager
from typing import Any, Self

import torch
from torch import Tensor, nn

from nescio import metrics
from nescio.core.forward import fixed_draws
from nescio.core.logits import check_logits, classes, mean_log_probs
from nescio.core.model_state import check_model
from nescio.core.predict import predict_labelled
from nescio.data.labelled import as_int64, check_labels
from nescio.errors import NescioError, check_float
from nescio.methods import Method
from nescio.records import Provenance, Temperature

LOWEST, HIGHEST = 1e-6, 1e6  # beyond these a temperature is taken for none
TRIED = 37  # temperatures in between, three to a decade, to search around the best of


class TemperatureScaled(nn.Module):
    """A model whose logits are divided by a temperature, so that its confidence is right as often as it says.

    Classes stay as they are. No temperature helps far away: a ReLU network's logits grow along almost every ray, and so
    do those divided by a constant, so that the confidence still tends to 1 there, only from farther out (Hein et al.
    2019, theorem 3.1). It is for known inputs; for unknown ones take a detector.

    Args:
        model: any classifier with a softmax, also one with draws; it is not changed.
        temperature: above 0; `fit` finds it.

    Attributes:
        record: of the last fit, if it was made here.
    """

    def __init__(self, model: nn.Module, temperature: float = 1.0) -> None:
        super().__init__()
        check_model(model)
        if isinstance(model, TemperatureScaled):
            raise NescioError(
                "the model has a temperature already; scale what is within, model.model"
            )
        if isinstance(model, Method) and model.confidence_kind == "kernel":
            raise NescioError(
                f"the confidence of {type(model).__name__} is a kernel, not a softmax, so that no temperature can scale it"
            )
        self.model = model
        self.temperature = check_float("temperature", temperature, LOWEST, HIGHEST)
        self.record: Temperature | None = None

    def forward(self, x: Tensor) -> Tensor:
        """The model's logits divided by the temperature."""
        logits: Tensor = self.model(x) / self.temperature
        return logits

    def fit(
        self, known: Any, *, batch_size: int = 256, seed: int = 0, progress: bool | None = None
    ) -> Self:
        """Find the temperature under which the labels of held-out data are likeliest, to the last digits.

        Args:
            known: labelled data which the model was not trained on.
            batch_size, seed, progress: as in `predict`.
        """
        started = time.monotonic()
        logits, labels = predict_labelled(
            self.model, known, batch_size=batch_size, seed=seed, progress=progress
        )
        if labels is None:
            raise NescioError(
                "a temperature is found by labels: give a dataset of (input, label), or such batches"
            )
        logits, labels = check_logits(logits).cpu(), as_int64(labels).cpu()
        check_labels(labels, logits.shape[2])
        self.temperature = best_temperature(logits, labels)
        right = classes(logits) == labels
        before, after = (_judged(logits / t, labels, right) for t in (1.0, self.temperature))
        self.record = Temperature(
            temperature=self.temperature,
            accuracy=float(right.double().mean()),
            nll_before=before[0],
            nll_after=after[0],
            ece_before=before[1],
            ece_after=after[1],
            inputs=len(labels),
            draws=len(logits),
            provenance=Provenance.now(seed, {"batch_size": batch_size}, time.monotonic() - started),
        )
        return self

    def fix_draws(self) -> AbstractContextManager[None]:
        """As of the model within, if it draws; see `predict`."""
        return fixed_draws(self.model)

    def extra_repr(self) -> str:
        return f"temperature={self.temperature:g}"


def best_temperature(logits: Tensor, labels: Tensor) -> float:
    """The temperature that makes labels `(N,)` likeliest, given logits `(S, N, C)` in float64.

    For one draw the likelihood is concave in 1/T, so that its slope has at most one root; for several, whose
    probabilities are averaged, the least of the negative log-likelihood is sought.
    """
    from scipy.optimize import (  # half a second of start-up for those who never ask
        brentq,
        minimize_scalar,
    )

    low, high = math.log(LOWEST), math.log(HIGHEST)
    if len(logits) > 1:
        grid = torch.linspace(low, high, TRIED, dtype=torch.float64).tolist()
        losses = [loss(logits / math.exp(log), labels) for log in grid]
        best = losses.index(min(losses))
        if best in (0, TRIED - 1):
            raise _no_temperature(logits, labels, cold=best == 0)
        found = minimize_scalar(
            lambda log: loss(logits / math.exp(log), labels),
            method="bounded",
            bounds=(grid[best - 1], grid[best + 1]),
            options={"xatol": 1e-10},
        )
        return math.exp(float(found.x))
    z = logits[0] - logits[0].amax(1, keepdim=True)
    told = z.gather(1, labels[:, None])[:, 0]

    def slope(log: float) -> float:
        """Of the negative log-likelihood in 1/T: how much larger the expected logit is than that of the label."""
        p = (z / math.exp(log)).softmax(1)
        return float(((p * z).sum(1) - told).mean())

    if (
        slope(low) <= 0 or slope(high) >= 0
    ):  # falls as T grows, from how far labels are from the largest logit
        raise _no_temperature(logits, labels, cold=slope(low) <= 0)
    return math.exp(float(brentq(slope, low, high, xtol=1e-14, rtol=1e-14)))


def loss(logits: Tensor, labels: Tensor) -> float:
    """The negative log-likelihood of labels `(N,)`, in nats, the mean over inputs, of logits `(S, N, C)`."""
    return float(-mean_log_probs(logits)[0].gather(1, labels[:, None]).mean())


def _judged(logits: Tensor, labels: Tensor, right: Tensor) -> tuple[float, float]:
    """Negative log-likelihood and expected calibration error."""
    log_p = mean_log_probs(logits)[0]
    return loss(logits, labels), metrics.ece(log_p.amax(1).exp().numpy(), right.numpy())


def _no_temperature(logits: Tensor, labels: Tensor, cold: bool) -> NescioError:
    """Why labels `(N,)` of logits `(S, N, C)` have no best temperature within bounds; `cold` if it is below them."""
    spread = float((logits - logits.mean(2, keepdim=True)).abs().max())
    if spread == 0:
        return NescioError(
            "all classes have the same logit, for every input, so that no temperature changes anything"
        )
    size = f"the logits of a class are up to {spread:.2g} from the mean of all"
    if (
        cold
        and not (
            logits.gather(2, labels[None, :, None].expand(len(logits), -1, 1))
            == logits.amax(2, True)
        ).all()
    ):
        return NescioError(
            f"the best temperature is below {LOWEST:g}, as {size}; multiply them in the model first"
        )
    if cold:
        return NescioError(
            "every label has the largest logit, so that the colder the likelier: there is no best "
            "temperature. Give more held-out data, with some wrong answers among them"
        )
    if spread > HIGHEST:
        return NescioError(
            f"the best temperature is above {HIGHEST:g}, or there is none, as {size}; divide them in "
            "the model first"
        )
    return NescioError(
        "the labels are no likelier than chance, so that the warmer the likelier: there is no best "
        "temperature. Are these the model's classes?"
    )
