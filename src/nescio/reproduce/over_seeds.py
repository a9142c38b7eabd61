"""What several runs give: a number beside the paper's, or words for what was seen."""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from nescio.records import Compared


def over_seeds(what: str, values: Sequence[float], paper: float | None = None, unit: str = "") -> Compared:
    """The mean over runs and, of several, their standard deviation.

    >>> over_seeds("test error", [1.0, 2.0], paper=0.5, unit="%").ours
    1.5
    """
    spread = float(f"{stdev(values):.6g}") if len(values) > 1 else None
    return Compared(what, paper, float(f"{fmean(values):.6g}"), None, spread, unit)


def in_words(values: Mapping[str, float], form: str = "{:.3g}") -> str:
    """Numbers with their names, as a claim tells what was seen.

    >>> in_words({"plain": 0.5, "ACET": 1.0}, "{:.0%}")
    'plain 50%, ACET 100%'
    """
    return ", ".join(f"{name} {form.format(value)}" for name, value in values.items())
