"""What several runs give: a number beside the paper's, a verdict on a claim, words."""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev

from papers.paper import Published
from papers.reproduction import Comparison

CLEAR = 2.0  # standard errors that a difference must exceed to count as one


def over_seeds(
    what: str, values: Sequence[float], paper: Published | float | None = None, unit: str = ""
) -> Comparison:
    """Return mean and standard deviation over runs; fractions become per cent if that is the unit.

    >>> over_seeds("test error", [0.01, 0.02], paper=0.5, unit="%").ours
    1.5
    """
    published = paper if isinstance(paper, Published | None) else Published(paper)
    theirs = (published.value, published.spread) if published else (None, None)
    ours = [100 * fraction for fraction in values] if unit == "%" else values
    spread = _six_digits(stdev(ours)) if len(ours) > 1 else None
    return Comparison(what, theirs[0], _six_digits(fmean(ours)), theirs[1], spread, unit)


def above(ours: Sequence[float], theirs: Sequence[float]) -> bool | None:
    """Return whether independent runs are higher in the mean than others; None if too near to tell.

    A single run is taken to spread as the others do; of two single ones the numbers decide.

    >>> above([0.95, 0.97], [0.5, 0.6]), above([0.5, 0.6], [0.95, 0.97])
    (True, False)
    >>> above([0.5, 0.7], [0.55, 0.7]) is None
    True
    """
    known = [stdev(group) for group in (ours, theirs) if len(group) > 1]
    errors = (
        (stdev(group) if len(group) > 1 else max(known, default=0.0)) / math.sqrt(len(group))
        for group in (ours, theirs)
    )
    return _clear(fmean(ours) - fmean(theirs), math.hypot(*errors))


def above_in_pairs(ours: Sequence[float], theirs: Sequence[float]) -> bool | None:
    """Return the same of two scores in the same runs, where the difference in each counts.

    >>> above_in_pairs([0.9, 0.7], [0.8, 0.6])
    True
    """
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    error = stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else 0.0
    return _clear(fmean(differences), error)


def all_of(verdicts: Iterable[bool | None]) -> bool | None:
    """Return False if one is; else None if one is not clear.

    >>> all_of([True, True]), all_of([True, None]), all_of([None, False])
    (True, None, False)
    """
    every = list(verdicts)
    return False if False in every else None if None in every else True


def nearly_equal(errors: Mapping[str, float], bar: float, inputs: int) -> bool | None:
    """Return whether error rates differ by less than a bar; None if so few inputs cannot tell.

    >>> nearly_equal({"a": 0.035, "b": 0.039}, 0.005, 5000)
    True
    >>> nearly_equal({"a": 0.03, "b": 0.05}, 0.005, 5000)
    False
    >>> nearly_equal({"a": 0.033, "b": 0.039}, 0.005, 5000) is None
    True
    """
    least, most = min(errors.values()), max(errors.values())
    deviation = math.sqrt((least * (1 - least) + most * (1 - most)) / inputs)
    return most - least < bar or _clear(bar - (most - least), deviation)


def in_words(values: Mapping[str, float], form: str = "{:.3g}") -> str:
    """Return numbers with their names, as a claim says what was seen.

    >>> in_words({"plain": 0.5, "ACET": 1.0}, "{:.0%}")
    'plain 50%, ACET 100%'
    """
    return ", ".join(f"{name} {form.format(value)}" for name, value in values.items())


def _clear(difference: float, error: float) -> bool | None:
    return None if error > 0 and abs(difference) <= CLEAR * error else difference > 0


def _six_digits(value: float) -> float:
    return float(f"{value:.6g}")
