"""Detectors in folders of their own: fitted into one, and read back to score new inputs."""

from nescio.fitted.fitting import fit_own, fit_run
from nescio.fitted.folder import is_fitted, open_fitted, plain_attention, stream_for
from nescio.fitted.subject import Subject, subject_of_detector, subject_of_network, subject_of_run
from nescio.fitted.wanted import Best, Choice, Wanted, settings_in

__all__ = [
    "Best",
    "Choice",
    "Subject",
    "Wanted",
    "fit_own",
    "fit_run",
    "is_fitted",
    "open_fitted",
    "plain_attention",
    "settings_in",
    "stream_for",
    "subject_of_detector",
    "subject_of_network",
    "subject_of_run",
]
