"""The trained network or detector that a command works on: a run, a folder, or the user's own."""

import csv
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nescio.cli.output import out, warn
from nescio.errors import NescioError

if TYPE_CHECKING:
    from nescio.detectors import Detector
    from nescio.records import Fitted
    from nescio.store.detector_choice import DetectorChoice
    from nescio.store.subject import Subject


@dataclass(frozen=True)
class Network:
    """A trained network, and data for a detector over it, as given on the command line."""

    folder: Path | None
    model: str | None
    weights: Path | None
    data: str | None
    train: Path | None
    label: str | None
    class_names: str
    root: str | None
    device: str

    def fit(self, choice: "DetectorChoice", output: Path) -> "tuple[Detector, Fitted, str | None]":
        """Fit a detector into a folder; return it, what it is, and a warning or None."""
        from nescio.store.fit_detector import fit_own, fit_run
        from nescio.store.run import check_device

        check_device(self.device)  # before a folder is made
        known, device = self._known(), self.device
        if (self.folder is None) == (self.model is None):
            raise NescioError("expected either a run or --model MODULE:NAME")
        names = self._names()
        if self.folder is not None:
            return *fit_run(output, self.folder, *known, choice, self.root, device), None
        if self.model is None or self.data is None:
            raise NescioError("missing known inputs not used in training: --data calibration.npz")
        arguments = self.model, self.weights, Path(self.data), self.train, self.label
        return fit_own(output, *arguments, names, choice, device)

    def subject(self, command: str) -> "Subject":
        """Return the model or detector to evaluate, and its data."""
        from nescio.store.run import move_to

        subject = self._subject(command)
        move_to(subject.model, self.device)
        return subject

    def _known(self) -> tuple[Path | None, Path | None, str | None]:
        return None if self.data is None else Path(self.data), self.train, self.label

    def _subject(self, command: str) -> "Subject":
        from nescio.store import subject
        from nescio.store.detector_folder import is_fitted

        names, known = self._names(), self._known()
        if self.folder is not None and is_fitted(self.folder):
            again = [command, str(self.folder)]
            return subject.subject_of_detector(self.folder, self.model, *known, self.root, again)
        if self.folder is not None and self.model is None:
            return subject.subject_of_run(self.folder, *known, self.root)
        if self.folder is not None or self.model is None:
            raise NescioError("expected either a run, a detector's folder, or --model MODULE:NAME")
        return subject.subject_of_network(self.model, self.weights, *known, names)

    def _names(self) -> list[str]:
        """Return the names of `--class-names`; one in double quotes may contain commas."""
        try:
            words = next(csv.reader([self.class_names], skipinitialspace=True, strict=True), [])
        except csv.Error as error:
            expected = "names separated by commas, in double quotes where they contain one"
            got = f"got {self.class_names!r}: {error}"
            raise NescioError(f"--class-names must be {expected}; {got}") from error
        names = [name.strip() for name in words if name.strip()]
        if self.folder is not None and (self.weights is not None or names):
            reason = "a run or detector has its own weights and class names"
            raise NescioError(f"{reason}; leave out --weights and --class-names")
        return names


def print_fitted(fitted: "tuple[Detector, Fitted, str | None]", folder: Path) -> None:
    """Print what was fitted, what it guarantees, and how to use it."""
    from nescio.report.decision import fitted_lines

    detector, facts, warning = fitted
    counts = []
    if detector.threshold_.dim():
        counts = detector.calibration_class_.bincount(minlength=len(facts.classes)).tolist()
    for part in fitted_lines(facts, counts, shlex.quote(str(folder))):
        out.print(part, soft_wrap=isinstance(part, str))
    if warning:
        warn(warning)
