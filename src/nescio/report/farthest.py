"""Which of our figures is farthest from a paper's."""

from collections.abc import Sequence

from nescio.records import Compared
from nescio.report.reproductions import number


def farthest(compared: Sequence[Compared]) -> str:
    """In words, for each unit, since a per cent and a share have no common measure; nothing without a paper's figure.

    >>> farthest([Compared("error", 1.0, 1.5, unit="%"), Compared("accuracy", 99.0, 98.9, unit="%")])
    'the farthest apart, by 0.50 percentage points, is “error”'
    """
    apart: dict[str, list[tuple[float, str]]] = {}
    for one in compared:
        if one.paper is not None:
            apart.setdefault(one.unit, []).append((abs(one.ours - one.paper), one.what))
    told = []
    for unit, found in apart.items():
        far, what = max(found, key=lambda pair: pair[0])
        those = f"of those {f'in {unit}' if unit else 'without a unit'}, " if len(apart) > 1 else ""
        shown = f"{number(far, unit)} {'percentage points' if unit == '%' else unit}".rstrip()
        told.append(f"{those}the farthest apart, by {shown}, is “{what}”")
    return "; ".join(told)
