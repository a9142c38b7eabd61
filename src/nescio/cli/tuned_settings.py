"""Settings that a run finds for itself before it is trained: `nescio train duq --length-scale auto --penalty auto`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from nescio.data import Known
from nescio.errors import NescioError
from nescio.evaluation.unknown_sets import unknown_set
from nescio.files import FIGURE, check_replaceable
from nescio.records import Selection
from nescio.report.figures import save_figure
from nescio.report.training import selection_figure, selection_table, selection_words
from nescio.store.run import LENGTH_SCALE, PENALTY, check_run, maker, training_part
from nescio.training.tuning import doubts, select_length_scale, select_penalty

AUTO = "auto"
FOUND = (
    "length_scale",
    "penalty",
    "gradient_penalty",
)  # settings that may be AUTO; the last two mean the same
SHARE = (
    3  # a trial has the epochs of the run divided by this: enough to tell good values from bad ones
)
LEAST = 10  # epochs of a trial, unless the run itself is shorter: in fewer even good values may learn nothing
VALIDATION = 0.1  # share of the training data to judge trials by, if the run itself sets none aside


def settle(
    folder: Path,
    known: Known,
    method: str,
    network: str,
    device: str,
    seed: int,
    own: Mapping[str, Any],
    dropout: float | None,
    select_on: str | None,
    root: str | None,
    out: Console,
    **settings: Any,
) -> dict[str, Any]:
    """The settings of a method with numbers for what was to be found, by sweeps whose records go into the run's folder.

    The length scale comes first, then the penalty at that length scale, by the unknown data `select_on` if given. The
    other arguments are those of `train_run`. A sweep on record is not repeated.
    """
    scale, penalty = (
        own.get("length_scale") == AUTO,
        AUTO in (own.get("penalty"), own.get("gradient_penalty")),
    )
    _check(own, penalty, select_on, settings)
    found = {name: value for name, value in own.items() if name not in FOUND or value != AUTO}
    unknown = None if select_on is None else unknown_set(select_on, known, root, seed)
    data = training_part(known)
    how = {name: value for name, value in settings.items() if name != "checkpoint_every"} | {
        "seed": seed,
        "epochs": trial_epochs(settings["epochs"]),
        "validation": VALIDATION if settings["validation"] is None else settings["validation"],
    }
    for name in (LENGTH_SCALE,) * scale + (PENALTY,) * penalty:
        check_replaceable(
            (folder / name).with_suffix(".svg"), FIGURE
        )  # the record is read before the work
    check_run(folder)
    if scale:
        make = maker(known, method, network, device, found, dropout)
        chosen = select_length_scale(make, data, record=folder / LENGTH_SCALE, **how)
        found["length_scale"] = _shown(chosen, folder / LENGTH_SCALE, out)
    if penalty:
        make = maker(known, method, network, device, found, dropout)
        chosen = select_penalty(make, data, unknown=unknown, record=folder / PENALTY, **how)
        found["gradient_penalty"] = _shown(chosen, folder / PENALTY, out)
    return found


def trial_epochs(epochs: int) -> int:
    """How long a trial is for a run of so many epochs.

    >>> [trial_epochs(epochs) for epochs in (2, 10, 30, 75)]
    [2, 10, 10, 25]
    """
    return max(min(epochs, LEAST), epochs // SHARE)


def _check(
    own: Mapping[str, Any], penalty: bool, select_on: str | None, settings: Mapping[str, Any]
) -> None:
    """What cannot be is told before the sweeps, not after them."""
    if select_on is not None and not penalty:
        raise NescioError(
            f"--select-on {select_on} is data to choose a penalty by; it needs --penalty auto"
        )
    if own.get("penalty") == AUTO and own.get("gradient_penalty", AUTO) != AUTO:
        raise NescioError(
            "--penalty auto finds the weight of the gradient penalty, but --gradient-penalty "
            f"{own['gradient_penalty']} gives it; leave one of them out"
        )
    if settings["patience"] is not None and settings["validation"] is None:
        raise NescioError("patience needs validation data: a share such as 0.1")


def _shown(chosen: Selection, path: Path, out: Console) -> float:
    """Print and draw what a sweep has found, and what speaks against it."""
    out.print(selection_table(chosen))
    figure = path.with_suffix(".svg")
    save_figure(selection_figure(chosen), figure)
    out.print(
        f"{selection_words(chosen)}. Saved: {path}, {figure}",
        soft_wrap=True,
        markup=False,
        highlight=False,
    )
    for doubt in doubts(chosen):
        out.print(f"Note: {doubt}", soft_wrap=True, markup=False, highlight=False)
    return chosen.value
