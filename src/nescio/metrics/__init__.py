"""Metrics: pure functions of arrays, or of anything numpy can read."""

from nescio.metrics.curves import RejectionCurve, RocCurve, rejection_curve, roc_curve
from nescio.metrics.predictions import Reliability, accuracy, brier, ece, mmc, nll, reliability
from nescio.metrics.ranking import (
    Separation,
    aupr_in,
    aupr_out,
    auroc,
    balanced_threshold,
    fpr_at_tpr,
    separation,
)

__all__ = ["accuracy", "aupr_in", "aupr_out", "auroc", "balanced_threshold", "brier", "ece"]
__all__ += ["fpr_at_tpr", "mmc", "nll", "rejection_curve", "reliability", "roc_curve"]
__all__ += ["RejectionCurve", "Reliability", "RocCurve", "Separation", "separation"]
