"""Maps of the plane: what methods say around their training data and far beyond, side by side; and linear regions."""

from collections.abc import Iterable, Sequence

import numpy as np
from markupsafe import Markup

from nescio.metrics.percent import percent
from nescio.records import Evaluation, Map, Regions, Surface
from nescio.report.maps import CONFIDENCE, check_grid, map_figure
from nescio.report.markup import Cell, figure, percentage, table
from nescio.report.pictures import lighter
from nescio.report.regions import regions_figure
from nescio.report.section import DRAWN, ReportContext, Section, paragraphs

SURE = 0.99
FEW = 300  # regions that stay outlines; more become a picture within the figure


def section(given: ReportContext) -> Section | None:
    """Maps of each data set, and linear regions."""
    judged = [record for _, record in given.of(Evaluation)]
    parts = [_maps(group, judged) for group in _groups(given.told_apart(Map))]
    parts += [_regions(name, record) for name, record in given.told_apart(Regions)[:DRAWN]]
    return Section("maps", "Maps of the plane", Markup("").join(parts)) if parts else None


def _groups(maps: Iterable[tuple[str, Map]]) -> list[list[tuple[str, Map]]]:
    """Those of one data set together."""
    found: dict[tuple[str, tuple[str, ...]], list[tuple[str, Map]]] = {}
    for name, one in maps:
        found.setdefault((one.data, one.classes), []).append((name, one))
    return list(found.values())


def _maps(group: list[tuple[str, Map]], judged: Sequence[Evaluation]) -> Markup:
    for name, one in group:
        check_grid(one, name, CONFIDENCE)
    maps = [one for _, one in group]
    methods = [one.method.replace("_", " ") for one in maps]
    called = methods if len(set(methods)) == len(methods) else [name for name, _ in group]
    data = maps[0].data
    found = [(name, *_shares(one)) for name, one in zip(called, maps, strict=True)]
    rows: list[list[Cell]] = [
        [name, percentage(sure), percentage(edge)] for name, sure, edge in found
    ]
    told = [
        f"{name} is more than {percent(SURE)} sure over {percent(sure)} of the map."
        for name, sure, _ in found
    ]
    seen = f"Maps of the plane around {data}, a panel for each of {', '.join(called)}"
    parts = [
        Markup("<h3>{}</h3>").format(data),
        paragraphs(
            [
                "A good map is certain (white) where training points are, and uncertain (dark) elsewhere.",
                *told,
            ]
        ),
        figure(
            map_figure(maps, [CONFIDENCE], titles=called),
            f"{seen}: confidence. {' '.join(told)}",
            "Confidence; the points are training data.",
        ),
        table(
            [
                "model",
                f"share of the map above {percent(SURE)}, %",
                "mean confidence at the edge, %",
            ],
            rows,
            "How sure the models are over the whole map, and at its edge, far from all training points.",
            1,
        ),
    ]
    for surface, those in _by_score(list(zip(called, maps, strict=True)), judged):
        names = [name for name, _ in those]
        parts.append(
            figure(
                map_figure([one for _, one in those], [surface.name], titles=names),
                f"Maps of the plane around {data}, a panel for each of {', '.join(names)}: "
                f"{surface.label}.",
                f"The score of {', '.join(names)}: {surface.label}.",
            )
        )
    return Markup("").join(parts)


def _by_score(
    maps: Sequence[tuple[str, Map]], judged: Sequence[Evaluation]
) -> list[tuple[Surface, list[tuple[str, Map]]]]:
    """Maps by their own score: the one that the method was judged by or, if the map has no such, its first."""
    found: dict[str, tuple[Surface, list[tuple[str, Map]]]] = {}
    for name, one in maps:
        paired = {record.score for record in judged if record.method == one.method}
        if one.scores:
            surface = next((score for score in one.scores if score.name in paired), one.scores[0])
            found.setdefault(surface.name, (surface, []))[1].append((name, one))
    return list(found.values())


def _shares(one: Map) -> tuple[float, float]:
    """How much of a map is sure, and the mean confidence at its edge."""
    values = np.array(one.confidence.values)
    edge = np.concatenate([values[0], values[-1], values[1:-1, 0], values[1:-1, -1]])
    return float((values > SURE).mean()), float(edge.mean())


def _regions(name: str, record: Regions) -> Markup:
    made = regions_figure(record)
    if record.count > FEW:
        for axes in made.axes:
            for drawn in axes.collections:
                drawn.set_rasterized(True)
    on = f" on {record.data}" if record.data else ""
    ends = "all of them end somewhere; those that decide what it says far away lie outside"
    if record.unbounded:
        ends = f"{record.unbounded:,} of them never end (orange), and decide what it says far away"
    words = (
        f"{name}{on}: {record.count:,} linear regions in this window, on each of which the network is one affine "
        f"function; {ends}."
    )
    alt = f"Polygons, with the decision boundary across them. {words}"
    return Markup("<h3>{}: linear regions</h3>{}{}").format(
        name, paragraphs([words]), lighter(figure(made, alt))
    )
