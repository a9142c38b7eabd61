"""What several runs give: a number beside the paper's, a verdict on a claim, or words for what was seen."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from papers.reproduction import Compared

CLEAR = 2.0  # standard errors that a difference must exceed to count as one


@dataclass(frozen=True)
class Published:
    """A figure of a paper, with the standard deviation over its runs where it gives one."""

    value: float
    spread: float | None = None


def over_seeds(
    what: str, values: Sequence[float], paper: Published | float | None = None, unit: str = ""
) -> Compared:
    """The mean over runs and, of several, their standard deviation; shares become per cent if that is the unit.

    >>> over_seeds("test error", [0.01, 0.02], paper=0.5, unit="%").ours
    1.5
    """
    value, off = (paper.value, paper.spread) if isinstance(paper, Published) else (paper, None)
    ours = [100 * share for share in values] if unit == "%" else values
    return Compared(
        what, value, _short(fmean(ours)), off, _short(stdev(ours)) if len(ours) > 1 else None, unit
    )


def above(ours: Sequence[float], theirs: Sequence[float]) -> bool | None:
    """Whether independent runs are higher in the mean than others; None if they are too near to tell.

    Of a single run the spread is taken to be that of the others; of two single ones it is not known, and the numbers
    decide.

    >>> above([0.95, 0.97], [0.5, 0.6]), above([0.5, 0.6], [0.95, 0.97]), above([0.5, 0.7], [0.55, 0.7])
    (True, False, None)
    """
    spreads = [stdev(group) for group in (ours, theirs) if len(group) > 1]
    error = math.hypot(
        *(
            (stdev(group) if len(group) > 1 else max(spreads, default=0.0)) / math.sqrt(len(group))
            for group in (ours, theirs)
        )
    )
    return _clear(fmean(ours) - fmean(theirs), error)


def above_in_pairs(ours: Sequence[float], theirs: Sequence[float]) -> bool | None:
    """The same of two scores in the same runs, where the difference in each counts.

    >>> above_in_pairs([0.9, 0.7], [0.8, 0.6])
    True
    """
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    error = stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else 0.0
    return _clear(fmean(differences), error)


def all_of(verdicts: Iterable[bool | None]) -> bool | None:
    """No if one is no; else not clear if one is not.

    >>> all_of([True, True]), all_of([True, None]), all_of([None, False])
    (True, None, False)
    """
    found = list(verdicts)
    return False if False in found else None if None in found else True


def in_words(values: Mapping[str, float], form: str = "{:.3g}") -> str:
    """Numbers with their names, as a claim tells what was seen.

    >>> in_words({"plain": 0.5, "ACET": 1.0}, "{:.0%}")
    'plain 50%, ACET 100%'
    """
    return ", ".join(f"{name} {form.format(value)}" for name, value in values.items())


def _clear(difference: float, error: float) -> bool | None:
    return None if error > 0 and abs(difference) <= CLEAR * error else difference > 0


def _short(value: float) -> float:
    return float(f"{value:.6g}")
