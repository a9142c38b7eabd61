"""Settings that a run tunes before training, as by `nescio train duq --length-scale auto`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nescio.cli.output import out
from nescio.data import Known
from nescio.errors import NescioError
from nescio.evaluation.unknown_sets import unknown_set
from nescio.files import FIGURE, check_replaceable
from nescio.methods.method import Method
from nescio.records import Selection
from nescio.report.figures import save_figure
from nescio.report.training import selection_figure, selection_table, selection_words
from nescio.store.run import LENGTH_SCALE, PENALTY, check_run, training_part
from nescio.training.tuning import doubts, select_length_scale, select_penalty

AUTO = "auto"
ABOUT = """\
`--length-scale` and `--penalty` may be `auto`: they are then tuned first, by trials of a third of
`--epochs` (at least 10, or all) that are validated on the fraction `--validation` of the training
data, by default 0.1. `--select-on SET` tunes the penalty on unknown data, as those of
`nescio evaluate --unknown`; by default it is tuned on correct against wrong answers."""
TUNABLE = ("length_scale", "penalty", "gradient_penalty")  # the last two mean the same
TRIAL_FRACTION = 3  # a trial has the run's epochs divided by this: enough to rank values
MIN_TRIAL_EPOCHS = 10  # or all of a shorter run's: in fewer even good values may learn nothing
VALIDATION = 0.1  # fraction of the training data to validate trials on, if the run itself has none


def tune_settings(
    folder: Path,
    known: Known,
    make: Callable[[Mapping[str, Any]], Callable[..., Method]],
    chosen: Mapping[str, Any],
    select_on: str | None,
    root: str | None,
    seed: int,
    **training: Any,
) -> dict[str, Any]:
    """Return a method's settings with a value for each `auto`; the sweeps' records go into the run.

    First comes the length scale, then at that scale the penalty, by the unknown data `select_on` if
    given. `make` turns settings into a factory of the method. A sweep on record is not repeated.
    """
    scale = chosen.get("length_scale") == AUTO
    penalty = AUTO in (chosen.get("penalty"), chosen.get("gradient_penalty"))
    _check(chosen, penalty, select_on, training)
    settings = {k: v for k, v in chosen.items() if k not in TUNABLE or v != AUTO}
    unknown = None if select_on is None else unknown_set(select_on, known, root, seed)
    data = training_part(known)
    how = {name: value for name, value in training.items() if name != "checkpoint_every"} | {
        "seed": seed,
        "epochs": trial_epochs(training["epochs"]),
        "validation": VALIDATION if training["validation"] is None else training["validation"],
    }
    for name in (LENGTH_SCALE,) * scale + (PENALTY,) * penalty:
        check_replaceable((folder / name).with_suffix(".svg"), FIGURE)
    check_run(folder)
    if scale:
        path = folder / LENGTH_SCALE
        selection = select_length_scale(make(settings), data, record=path, **how)
        settings["length_scale"] = _show(selection, path)
    if penalty:
        path = folder / PENALTY
        selection = select_penalty(make(settings), data, unknown=unknown, record=path, **how)
        settings["gradient_penalty"] = _show(selection, path)
    return settings


def trial_epochs(epochs: int) -> int:
    """Return the epochs of a trial for a run of so many.

    >>> [trial_epochs(epochs) for epochs in (2, 10, 30, 75)]
    [2, 10, 10, 25]
    """
    return max(min(epochs, MIN_TRIAL_EPOCHS), epochs // TRIAL_FRACTION)


def _check(
    chosen: Mapping[str, Any], penalty: bool, select_on: str | None, training: Mapping[str, Any]
) -> None:
    """Raise an error before the sweeps, not after them."""
    if select_on is not None and not penalty:
        raise NescioError(f"--select-on {select_on} needs --penalty auto, which it selects")
    if chosen.get("penalty") == AUTO and chosen.get("gradient_penalty", AUTO) != AUTO:
        sets = f"--gradient-penalty {chosen['gradient_penalty']} sets it; leave one of them out"
        raise NescioError(f"--penalty auto tunes the weight of the gradient penalty, but {sets}")
    if training["patience"] is not None and training["validation"] is None:
        raise NescioError("--patience needs validation data, such as --validation 0.1")


def _show(selection: Selection, path: Path) -> float:
    """Print and draw the outcome of a sweep, and what speaks against it; return the value."""
    out.print(selection_table(selection))
    figure = path.with_suffix(".svg")
    save_figure(selection_figure(selection), figure)
    lines = [f"{selection_words(selection)}. Saved: {path}, {figure}"]
    for line in lines + [f"Note: {doubt}" for doubt in doubts(selection)]:
        out.print(line, soft_wrap=True, markup=False)
    return selection.value
