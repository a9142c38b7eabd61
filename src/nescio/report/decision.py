"""What a threshold promised and what it kept, in words and as a figure."""

import math

from matplotlib.figure import Figure

from nescio.metrics.percent import percent
from nescio.records import Decision
from nescio.report.figures import COLOURS, shown
from nescio.report.fitted import EVERYTHING

KNOWN, UNKNOWN = COLOURS[0], COLOURS[1]


def decision_words(record: Decision) -> list[str]:
    """Sentences: the threshold, its promise, what became of it on test data, and what was refused."""
    return [_threshold(record), *_promise(record), *_answers(record), *_refused(record)]


def threshold_words(detector: str, thresholds: tuple[float, ...], inputs: str) -> str:
    """When a detector, or a threshold on a score, says that it does not know, and which inputs settled that."""
    if len(thresholds) > 1:
        when = f"has a threshold for each of {len(thresholds)} classes"
    elif not thresholds:
        when = "has no threshold in this record"
    elif thresholds[0] > EVERYTHING:
        when = "accepts everything"
    else:
        when = f"says “I do not know” where its score is above {thresholds[0]:.6g}"
        if detector == "max_prob":  # kept as log(1 − max p)
            when += f", that is, where its largest probability is below {percent(-math.expm1(thresholds[0]))}"
    return f"{detector} {when}; {inputs} settled that."


def _threshold(record: Decision) -> str:
    return threshold_words(
        record.detector, record.thresholds, f"{record.calibrated:,} known inputs"
    )


def _promise(record: Decision) -> list[str]:
    measured = (
        f"Measured: {percent(record.accepted)} of {record.inputs:,} known test inputs were accepted"
    )
    if record.promise is None:
        return ["What it promised is not in this record.", f"{measured}."]
    words = [f"Promised: {record.promise}."]
    if record.usual is None:
        return [*words, f"{measured}."]
    low, high = record.usual
    words.append(
        f"{measured}; with that many inputs chance alone gives anything between {percent(low)} and "
        f"{percent(high)}."
    )
    if record.accepted < low:
        words.append(
            "That is less than chance explains: these test inputs are unlike those that settled the "
            "threshold, and the promise does not hold for them."
        )
    return words


def _answers(record: Decision) -> list[str]:
    if record.accuracy is None or record.accepted_accuracy is None:
        return []
    words = f"Of the answers it gives {percent(record.accepted_accuracy)} are right, against {percent(record.accuracy)}"
    words += " if the model answers everything."
    if record.risk is not None:
        kept = 1 - record.accepted_accuracy <= record.risk
        words += f" At most {percent(record.risk)} wrong were allowed; this {'was kept' if kept else 'was not kept'}."
    return [words]


def _refused(record: Decision) -> list[str]:
    if not record.unknown:
        return []
    shares = ", ".join(f"{one.name} {percent(one.refused)}" for one in record.unknown)
    return [f"Refused of unknown inputs, about which nothing can be promised: {shares}."]


def decision_figure(record: Decision) -> Figure:
    """A bar for each set, as long as the share of it that is accepted, with what is guaranteed of the known."""
    sets = [
        (record.known, record.accepted),
        *((one.name, 1 - one.refused) for one in record.unknown),
    ]
    figure = Figure(figsize=(7.0, 1.1 + 0.36 * len(sets)), layout="constrained")
    axes = figure.subplots()
    for row, (name, share) in enumerate(sets):
        axes.barh(
            row,
            share,
            height=0.62,
            color=UNKNOWN if row else KNOWN,
            hatch="//" if row else None,
            edgecolor="white",
            linewidth=0,
        )
        end = max(share, record.bound or 0.0) if row == 0 else share
        axes.annotate(
            percent(share), (end, row), (4, 0), textcoords="offset points", va="center", fontsize=9
        )
        axes.annotate(
            shown(name),
            (0, row),
            (-6, 0),
            textcoords="offset points",
            va="center",
            ha="right",
            fontsize=9.5,
        )
    if record.bound is not None:
        axes.plot([record.bound] * 2, [-0.45, 0.45], color="black", linewidth=2)
        axes.annotate(
            "guaranteed",
            (record.bound, -0.45),
            (0, 2),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    axes.set(
        xlim=(0, 1.14),
        ylim=(len(sets) - 0.4, -0.9),
        yticks=[],
        xlabel="share accepted: known blue, unknown orange and hatched",
    )
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0 %", "25 %", "50 %", "75 %", "100 %"])
    axes.spines[["top", "right", "left"]].set_visible(False)
    return figure
