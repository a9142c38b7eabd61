"""Thresholds: how a detector was fitted, what it guarantees, and what it did on test data."""

import math
from collections.abc import Iterator, Sequence

from markupsafe import Markup
from matplotlib.figure import Figure
from rich.console import RenderableType
from rich.markup import escape

from nescio.metrics.percent import percent
from nescio.records import Decision, Fitted, Recommendation
from nescio.report.figures import COLOURS, Style, annotate, despine, plot_text
from nescio.report.html import figure, heading, model_part, paragraphs
from nescio.report.ranking import recommendation_words
from nescio.report.records import ReportContext
from nescio.report.table import Cell, Percent, Styled, Table, join

ACCEPTS_ALL = 1e300  # a threshold that no score exceeds
MAX_CLASSES = 12  # listed
UNUSUAL = (  # that so few known inputs are accepted
    "That is fewer than chance explains: these test inputs differ from those that set the "
    "threshold, and the guarantee does not hold for them."
)
NO_TEST = "These known inputs are the calibration inputs: no test of the guarantee."


def detector_name(record: Fitted) -> str:
    """Return a detector's name or, of a threshold, its score's."""
    score = record.settings.get("score")
    return score if record.detector == "threshold" and isinstance(score, str) else record.detector


def fitted_words(record: Fitted, recommended: str | None = None) -> list[str]:
    """Return which threshold was set, by what, and its guarantee."""
    threshold = "thresholds, one for each class, were"
    if len(record.thresholds) == 1:
        threshold = f"threshold, {record.thresholds[0]:.6g}, was"
    lead = "Use the detector" if recommended is None else f"Instead of {recommended} there is one"
    data = f"{record.inputs} inputs of {record.data}"
    words = f"{lead} fitted on {detector_name(record)}: its {threshold} set by {data}."
    return [words, f"Guarantee: {record.promise}."]


def fitted_lines(facts: Fitted, counts: Sequence[int], folder: str) -> Iterator[RenderableType]:
    """Yield what `nescio fit` prints; `counts` are inputs of each class that set its threshold."""
    chosen = {name: value for name, value in facts.settings.items() if value is not None}
    settings = ", ".join(f"{name}: {_short(value)}" for name, value in chosen.items())
    name = f"{facts.detector} ({settings})" if settings else facts.detector
    over = f" over {facts.factory}" if facts.factory else ""
    yield escape(f"{name}{over}, {len(facts.classes)} classes")
    if facts.factory is not None:
        yield escape(f"Outputs: {_outputs(facts.classes)}")
    if facts.learned_from is not None:
        yield escape(f"Learned from: {facts.learned_from}")
    part = (facts.learned_from or "").startswith("a part of")
    if part and "meta" not in str([facts.detector, facts.settings]):
        yield "With the network's training data, --train, it would learn from more data"
    threshold = ""
    if len(facts.thresholds) == 1:
        value = facts.thresholds[0]
        threshold = "; everything is accepted" if value > ACCEPTS_ALL else f"; threshold {value:g}"
    yield escape(f"Calibrated on {facts.inputs} inputs of {facts.data}{threshold}")
    yield escape(f"Guarantee: {facts.promise}")
    data = "" if facts.run is not None else " --data known_test.npz"
    model = f" --model {facts.factory}" if facts.network == "weights" else ""
    command = f"nescio evaluate {folder}{data} --unknown PATH{model}"
    yield f"{escape(facts.uncovered)}. Measure it: [cyan]{escape(command)}[/]"
    if counts:
        cells = [Styled(f"{value:g}", value) for value in facts.thresholds]
        rows = list(zip(facts.classes, counts, cells, strict=True))
        yield Table("", ("class", "inputs", "threshold"), rows)
    if facts.network == "graph":
        yield "The network was exported; outputs verified: scoring needs none of its code"
    if facts.network == "weights":
        yield escape(f"The network could not be exported: {facts.why}. Scoring needs its code")
    yield f"Next: [cyan]{escape(f'nescio score {folder} new_inputs -o answers.csv{model}')}[/]"


def _outputs(names: Sequence[str]) -> str:
    """Return which output is which class; of many also the last, where a wrong order shows."""
    outputs = [f"{i} → {name}" for i, name in enumerate(names)]
    few = len(outputs) <= MAX_CLASSES
    return ", ".join(outputs if few else [*outputs[: MAX_CLASSES - 2], "…", outputs[-1]])


def _short(value: object) -> str:
    """Return a setting; of a combined detector its members' names."""
    if not isinstance(value, list | tuple):
        return str(value)
    if not value or not all(isinstance(item, list | tuple) and len(item) == 2 for item in value):
        return f"{len(value)} of them" if len(value) > 4 else str(value)
    members = []
    for name, settings in value:
        score = settings.get("score") if isinstance(settings, dict) else None
        members.append(str(score if name == "threshold" and score else name))
    return " and ".join(members)


def decision_words(record: Decision) -> list[str]:
    """Return the threshold, its guarantee, and what it did on known and unknown test data.

    >>> detector = nescio.Threshold(net).fit(known.train)
    >>> record = nescio.decide(detector, known.test)
    >>> print(decision_words(record)[1])
    Guarantee: at least 95 % of known inputs are accepted.
    """
    calibrated = f"{record.calibrated:,} known inputs"
    words = [threshold_words(record.detector, record.thresholds, calibrated), *_guarantee(record)]
    if record.accuracy is not None and record.accepted_accuracy is not None:
        accuracy = f"Selective accuracy {percent(record.accepted_accuracy)}, against"
        accuracy += f" {percent(record.accuracy)} if every input is answered."
        if record.risk is not None:
            negation = "" if 1 - record.accepted_accuracy <= record.risk else " not"
            accuracy += f" The allowed error rate of {percent(record.risk)} was{negation} kept."
        words.append(accuracy)
    if record.unknown:
        rejected = ", ".join(f"{side.name} {percent(side.refused)}" for side in record.unknown)
        words.append(f"Unknown inputs rejected (measured, not guaranteed): {rejected}.")
    return words


def threshold_words(detector: str, thresholds: tuple[float, ...], calibration: str) -> str:
    """Return when a detector answers "I do not know", and which inputs set the threshold."""
    if len(thresholds) > 1:
        when = f"has a threshold for each of {len(thresholds)} classes"
    elif not thresholds:
        when = "has no threshold in this record"
    elif thresholds[0] > ACCEPTS_ALL:
        when = "accepts everything"
    else:
        when = f"answers “I do not know” if its score is above {thresholds[0]:.6g}"
        if detector == "max_prob":  # stored as log(1 − max p)
            when += f", i.e. its largest probability below {percent(-math.expm1(thresholds[0]))}"
    return f"{detector} {when}, as set by {calibration}."


def _guarantee(record: Decision) -> list[str]:
    inputs = "calibration inputs" if record.on_calibration_inputs else "known test inputs"
    accepted = f"{percent(record.accepted)} of {record.inputs:,} {inputs} were accepted"
    words = ["Its guarantee is not in this record."]
    if record.promise is not None:
        words = [f"Guarantee: {record.promise}."]
    if record.on_calibration_inputs:
        return [*words, f"Measured: {accepted}.", NO_TEST]
    if record.promise is None or record.usual is None:
        return [*words, f"Measured: {accepted}."]
    low, high = record.usual
    expected = f"{percent(low)} to {percent(high)} are expected"
    words.append(f"Measured: {accepted}; {expected} with that many inputs.")
    return [*words, UNUSUAL] if record.accepted < low else words


def decision_figure(record: Decision) -> Figure:
    """Draw the fraction of each set that is accepted, with what is guaranteed for known inputs."""
    sets = [(record.known, record.accepted)]
    sets += [(side.name, 1 - side.refused) for side in record.unknown]
    figure = Figure(figsize=(7.0, 1.1 + 0.36 * len(sets)), layout="constrained")
    axes = figure.subplots()
    for y, (name, fraction) in enumerate(sets):
        unknown: Style = {"color": COLOURS[1], "hatch": "//"}
        style = unknown if y else {"color": COLOURS[0]}
        axes.barh(y, fraction, height=0.62, edgecolor="white", linewidth=0, **style)
        end = fraction if y else max(fraction, record.bound or 0.0)
        annotate(axes, percent(fraction), (end, y), (4, 0), va="center", fontsize=9)
        annotate(axes, plot_text(name), (0, y), (-6, 0), va="center", ha="right", fontsize=9.5)
    if record.bound is not None:
        axes.plot([record.bound] * 2, [-0.45, 0.45], color="black", linewidth=2)
        annotate(axes, "guaranteed", (record.bound, -0.45), (0, 2), ha="center", fontsize=8)
    axes.set(xlim=(0, 1.14), ylim=(len(sets) - 0.4, -0.9), yticks=[])
    axes.set_xlabel("fraction accepted: known blue, unknown orange and hatched")
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0 %", "25 %", "50 %", "75 %", "100 %"])
    despine(axes, left=True)
    return figure


def decisions_table(decisions: Sequence[tuple[str, Decision]]) -> Table:
    """Return detectors side by side on test data."""
    sets = list(dict.fromkeys(side.name for _, record in decisions for side in record.unknown))
    columns = ["model", "detector", "asked for", "guaranteed", "known accepted"]
    rows: list[list[Cell]] = []
    for name, decision in decisions:
        rejected = {each.name: each.refused for each in decision.unknown}
        fractions = [decision.accept, decision.bound, decision.accepted, decision.accepted_accuracy]
        fractions += map(rejected.get, sets)
        rows.append([name, decision.detector, *map(Percent, fractions)])
    columns += ["selective accuracy", *(f"{name} rejected" for name in sets)]
    return Table("Detectors on test data", columns, rows, digits=1)


def threshold_html(context: ReportContext) -> Markup:
    """Return recommendations, fitted detectors, and what detectors did on test data."""
    parts = []
    for name, best in context.unique(Recommendation):
        parts += [heading(f"{name}: recommended detector"), paragraphs(recommendation_words(best))]
    decisions = context.unique(Decision)
    names = {name for name, _ in decisions}  # whose words say the guarantee
    parts += [_fitted_html(name, f, name not in names) for name, f in context.unique(Fitted)]
    if len(decisions) > 1:
        parts.append(decisions_table(decisions).html())
    for name, record in decisions:
        unknown = (f", of {side.name} {percent(1 - side.refused)}" for side in record.unknown)
        accepted = f"{record.known} {percent(record.accepted)}{''.join(unknown)}"
        alt = f"Bars: fraction accepted of {accepted}"
        inside = paragraphs(decision_words(record)) + figure(decision_figure(record), alt)
        data = "calibration" if record.on_calibration_inputs else "test"
        title, count = f"{name}: measured on {data} data", len(decisions)
        parts.append(model_part(title, inside, count) if count > 1 else heading(title) + inside)
    return join(parts)


def _fitted_html(name: str, record: Fitted, guarantee: bool) -> Markup:
    inputs = f"{record.inputs:,} inputs of {record.data}"
    words = [threshold_words(detector_name(record), record.thresholds, inputs)]
    if record.learned_from is not None:
        words.append(f"It learned from {record.learned_from}.")
    if guarantee:
        words += [f"Guarantee: {record.promise}."] if record.promise else []
        words.append(f"{record.uncovered}.")
    parts = heading(f"{name}: fitted detector") + paragraphs(words)
    if len(record.thresholds) > 1:
        rows = list(zip(record.classes, record.thresholds, strict=False))
        title = "Inputs of a class are rejected above its threshold."
        parts += Table(title, ("class", "threshold"), rows, digits=4).html()
    return parts
