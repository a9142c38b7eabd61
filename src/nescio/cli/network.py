"""Options that name a trained network, the user's own or that of a run, and what is fitted over either."""

import csv
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from nescio.cli.arguments import err, out
from nescio.errors import NescioError

if TYPE_CHECKING:
    from nescio.detectors import Detector
    from nescio.records import Fitted
    from nescio.store.detector_choice import DetectorChoice
    from nescio.store.subject import Subject

OrRun = Annotated[
    Path | None,
    typer.Argument(
        metavar="[RUN]",
        show_default=False,
        help="A folder written by `nescio train`, in place of a network of your own.",
    ),
]
OrFitted = Annotated[
    Path | None,
    typer.Argument(
        metavar="[FOLDER]",
        show_default=False,
        help="Written by `nescio train`, `fit` or `recommend`, in place of a network of your own.",
    ),
]
Judged = Annotated[
    Path | None,
    typer.Option(
        help="Known inputs with labels that neither network nor detector has seen: npz, CSV, a folder of "
        "images; of a run, and of a detector over one, by default its test data.",
        show_default=False,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:NAME",
        show_default=False,
        help="What makes your network, such as `my_nets:make_net`: a function or class that is called "
        "without arguments, or a network; modules in the current folder count. This code is run.",
    ),
]
Weights = Annotated[
    Path | None,
    typer.Option(
        help="Its weights, in safetensors; by default those it is made with.", show_default=False
    ),
]
Held = Annotated[
    Path | None,
    typer.Option(
        help="Known inputs that the network was not trained on: npz, CSV, a folder of images; of a run, by "
        "default its test data.",
        show_default=False,
    ),
]
Train = Annotated[
    Path | None,
    typer.Option(
        help="Data for a detector that learns more than a threshold, such as the network's training data; "
        "else a part of the known inputs, or the run's training data.",
        show_default=False,
    ),
]
Label = Annotated[
    str | None,
    typer.Option(
        help="The label column of a CSV file; without it all columns are features.",
        show_default=False,
    ),
]
ClassNames = Annotated[
    str,
    typer.Option(
        metavar="A,B,…",
        help="Names of the network's outputs, in order; by default those of the data.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class Network:
    """A trained network, and data for a detector over it, as they were named."""

    run: Path | None
    model: str | None
    weights: Path | None
    data: Path | None
    train: Path | None
    label: str | None
    class_names: str
    root: str | None

    def fit(self, wanted: "DetectorChoice", folder: Path) -> "tuple[Detector, Fitted, str | None]":
        """Fit a detector into a folder; with it comes what it is, and a warning if there is one."""
        from nescio.store.fit_detector import fit_own, fit_run

        names = _names(self.class_names)
        if self.run is not None and self.model is None:
            if self.weights is not None or names:
                raise NescioError(
                    "a run has its own weights and class names; leave out --weights and --class-names"
                )
            return *fit_run(
                folder, self.run, self.data, self.train, self.label, wanted, self.root
            ), None
        if self.run is not None or self.model is None:
            raise NescioError("give either a run or --model package.module:factory")
        if self.data is None:
            raise NescioError(
                "give known inputs that the network was not trained on: --data calibration.npz"
            )
        return fit_own(
            folder, self.model, self.weights, self.data, self.train, self.label, names, wanted
        )

    def subject(self, command: str) -> "Subject":
        """What is to be judged, and by which data."""
        from nescio.store.detector_folder import is_fitted
        from nescio.store.subject import subject_of_detector, subject_of_network, subject_of_run

        names = _names(self.class_names)
        if self.run is not None and (self.weights is not None or names):
            raise NescioError(
                "a run or detector has its own weights and class names; leave out --weights and "
                "--class-names"
            )
        if self.run is not None and is_fitted(self.run):
            return subject_of_detector(
                self.run,
                self.model,
                self.data,
                self.train,
                self.label,
                self.root,
                [command, str(self.run)],
            )
        if (self.run is None) == (self.model is None):
            raise NescioError(
                "give either a run, or the folder of a detector, or --model package.module:factory"
            )
        if self.run is not None:
            return subject_of_run(self.run, self.data, self.train, self.label, self.root)
        return subject_of_network(
            str(self.model), self.weights, self.data, self.train, self.label, names
        )


def warn(words: str) -> None:
    """Print a warning."""
    err.print(f"[bold yellow]warning:[/] {escape(words)}", soft_wrap=True, highlight=False)


def warn_if_stale(subject: "Subject") -> None:
    """Say so if a detector is judged by what settled its threshold."""
    if subject.stale is not None:
        warn(
            f"{subject.stale} settled the threshold of this detector, so what is said of known inputs is better than "
            "it would be of new ones; give others with --data"
        )


def _names(given: str) -> list[str]:
    """Names between commas; one in quotes may hold commas itself."""
    try:
        words = next(csv.reader([given], skipinitialspace=True, strict=True), [])
    except csv.Error as error:
        raise NescioError(
            f"--class-names {given!r} cannot be divided: {error}; expected names between commas, in "
            "double quotes where they hold one"
        ) from error
    return [name.strip() for name in words if name.strip()]


def told(fitted: "tuple[Detector, Fitted, str | None]", folder: Path) -> None:
    """Print what was fitted, and how to go on."""
    from nescio.report.decision import fitted_lines

    made, facts, doubt = fitted
    each = (
        made.calibration_class_.bincount(minlength=len(facts.classes)).tolist()
        if made.threshold_.dim()
        else []
    )
    for shown in fitted_lines(facts, each, shlex.quote(str(folder))):
        out.print(shown, soft_wrap=isinstance(shown, str), highlight=False)
    if doubt:
        warn(doubt)
