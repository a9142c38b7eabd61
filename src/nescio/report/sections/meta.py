"""What meta-classifiers look at."""

from markupsafe import Markup

from nescio.records import MetaWeights
from nescio.report.markup import figure, heading, table
from nescio.report.meta import NOTE, kept_weights, learned_from, weights_figure
from nescio.report.section import DRAWN, ReportContext, Section, left_out, paragraphs


def section(given: ReportContext) -> Section | None:
    """The features that count, the weightiest first, of each."""
    found = given.told_apart(MetaWeights)
    if not found:
        return None
    parts = []
    for i, (name, record) in enumerate(found):
        parts += [heading(name)] if len(found) > 1 else []
        parts.append(_one(name, record, i < DRAWN))
    parts.append(left_out(len(found), "meta-classifiers are"))
    return Section("meta", "What a meta-classifier looks at", Markup("").join(parts))


def _one(name: str, record: MetaWeights, draw: bool) -> Markup:
    learned = f"learned from {learned_from(record)}"
    if record.weights is None:
        return paragraphs(
            [f"{record.kind}, {learned}: a network, which has no single weight for a feature."]
        )
    kept = kept_weights(record)
    told = paragraphs(
        [f"{record.kind}: {len(kept)} of {len(record.features)} features count; {learned}."]
    )
    if not kept:
        return told
    first = next(iter(kept))
    drawn = figure(
        weights_figure(record),
        f"{name}: the weightiest feature is {first}, with {kept[first]:+.3f}.",
    )
    rows = [(feature, weight) for feature, weight in kept.items()]
    return told + (drawn if draw else Markup("")) + table(("feature", "weight"), rows, NOTE)
