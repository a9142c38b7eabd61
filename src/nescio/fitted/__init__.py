"""Detectors in folders of their own: fitted into one, and read back to score new inputs."""

from nescio.fitted.fitting import fit_own, fit_run
from nescio.fitted.folder import is_fitted, open_fitted, plain_attention, stream_for
from nescio.fitted.wanted import Best, Choice, Wanted, settings_in

__all__ = [
    "Best",
    "Choice",
    "Wanted",
    "fit_own",
    "fit_run",
    "is_fitted",
    "open_fitted",
    "plain_attention",
    "settings_in",
    "stream_for",
]
