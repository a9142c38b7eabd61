"""Moments of each single input's weight gradient, layer by layer, for a whole batch."""

from nescio.core.weight_gradients.batch import BatchGradients, batch_gradients
from nescio.core.weight_gradients.moments import STATISTICS, Moments

__all__ = ["STATISTICS", "BatchGradients", "Moments", "batch_gradients"]
