"""How far from its centres a network of kernels knows nothing, promised and measured."""

from collections.abc import Sequence

from markupsafe import Markup

from nescio.records import Promise, Radius
from nescio.report.markup import figure, percentage, table
from nescio.report.radius import radius_figure
from nescio.report.section import DRAWN, ReportContext, Section, left_out, paragraphs

COLUMNS = (
    "model",
    "data",
    "centres",
    "accuracy, %",
    "ε",
    "radius",
    "inputs beyond",
    "largest |p − 1/K|",
    "kept",
)
WORDS = (
    "Beyond a radius from all its centres every probability of an RBF network is within ε of 1/K, one over the "
    "number of classes: that is proved (theorem 3.2 of paper 2). The table holds it against inputs beyond the "
    "radius, which is in units of normalised inputs."
)


def section(given: ReportContext) -> Section | None:
    """All promises in one table, and a figure of the first record on each data set."""
    found = given.told_apart(Radius)
    if not found:
        return None
    rows = [
        (
            name,
            record.data,
            record.centres,
            percentage(record.accuracy),
            one.eps,
            one.radius,
            one.beyond,
            one.worst,
            _kept(one),
        )
        for name, record in found
        for one in record.promises
    ]
    parts = [
        paragraphs([WORDS]),
        table(COLUMNS, rows, "What is promised of RBF networks, and what was seen"),
    ]
    firsts = {record.data: (name, record) for name, record in reversed(found) if record.distance}
    drawn = [pair for pair in found if pair in firsts.values()]
    parts += [_drawn(drawn[:DRAWN]), left_out(len(drawn), "data sets are")]
    return Section("radius", "How far is far enough", Markup("").join(parts))


def _kept(one: Promise) -> str | None:
    """None where no input was looked at."""
    return ("yes" if one.worst <= one.eps else "no") if one.beyond else None


def _drawn(found: Sequence[tuple[str, Radius]]) -> Markup:
    return Markup("").join(
        figure(radius_figure([record]), _alt(name, record)) for name, record in found
    )


def _alt(name: str, record: Radius) -> str:
    far, rbf, relu = max(zip(record.distance, record.departs, record.other, strict=True))
    return (
        f"{name}: how far probabilities are from 1/K by the distance to the nearest centre. At a distance of "
        f"{far:.3g} that is {rbf:.2g} of an RBF network and {relu:.2g} of a ReLU network."
    )
