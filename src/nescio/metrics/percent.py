"""How a fraction is printed, everywhere: in tables, in a report and in words."""

import math


def percent(value: float | None, digits: int = 1) -> str:
    """Format a fraction as a percentage; only 0 and 1 read as such, and a dash is undefined.

    >>> percent(0.8451), percent(1.0), percent(0.99996), percent(0.0), percent(1e-5), percent(None)
    ('84.5 %', '100.0 %', '>99.9 %', '0.0 %', '<0.1 %', '–')
    >>> percent(0.845, digits=0), percent(0.996, digits=0)
    ('84 %', '>99 %')
    """
    return "–" if value is None or math.isnan(value) else f"{per_cent(value, digits)} %"


def per_cent(value: float, digits: int = 1) -> str:
    """Format the number alone, for a column whose heading says per cent.

    >>> per_cent(0.8451), per_cent(0.99996), per_cent(1e-5)
    ('84.5', '>99.9', '<0.1')
    """
    step = 10**-digits
    text = f"{100 * value:.{digits}f}"
    if value < 1 and float(text) >= 100:
        return f">{100 - step:.{digits}f}"
    if value > 0 and float(text) <= 0:
        return f"<{step:.{digits}f}"
    return text
