"""What `nescio fit` did, in words."""

from collections.abc import Iterator, Sequence

from rich.markup import escape
from rich.table import Table

from nescio.records import Fitted

EVERYTHING = 1e300  # no score is so high
FEW = 12  # classes that are listed


def fitted_words(facts: Fitted, counts: Sequence[int], folder: str) -> Iterator[str | Table]:
    """Lines to print and, if thresholds are per class, a table with the number of inputs each was settled by."""
    settings = ", ".join(
        f"{name}: {_short(value)}" for name, value in facts.settings.items() if value is not None
    )
    over = f" over {facts.factory}" if facts.factory else ""
    yield escape(
        f"{facts.detector}{f' ({settings})' if settings else ''}{over}, {len(facts.classes)} classes"
    )
    if facts.factory is not None:
        yield escape(f"Outputs: {_outputs(facts.classes)}")
    if facts.taught is not None:
        yield escape(f"Learned from: {facts.taught}")
    if _may_learn_more(facts):
        yield "With the network's training data, --train, it would learn more, and need set nothing aside to learn from"
    threshold = ""
    if len(facts.thresholds) == 1:
        far = facts.thresholds[0] > EVERYTHING
        threshold = "; everything is accepted" if far else f"; threshold {facts.thresholds[0]:g}"
    yield escape(f"Calibrated on {facts.inputs} inputs of {facts.data}{threshold}")
    yield escape(f"Promised: {facts.promise}")
    data = "" if facts.run is not None else " --data known_test.npz"
    make = f" --model {facts.factory}" if facts.network == "weights" else ""
    command = f"nescio evaluate {folder}{data} --unknown PATH{make}"
    yield f"{escape(facts.uncovered)}. Measure it: [cyan]{escape(command)}[/]"
    if counts:
        yield _table(facts, counts)
    if facts.network == "graph":
        yield "The network is kept as plain operations, and verified: scoring needs none of its code"
    if facts.network == "weights":
        yield escape(
            f"The network could not be kept without its code: {facts.why}. So scoring must name it"
        )
    yield f"Next: [cyan]{escape(f'nescio score {folder} new_inputs -o answers.csv{make}')}[/]"


def _may_learn_more(facts: Fitted) -> bool:
    """Whether it learned from a part of the known inputs what training data would teach it better; not so `meta`."""
    return (facts.taught or "").startswith("a part of") and "meta" not in str(
        [facts.detector, facts.settings]
    )


def _outputs(names: Sequence[str]) -> str:
    """Which output is called what; the last ones, where a wrong order shows, are told of many, too."""
    told = [f"{at} → {name}" for at, name in enumerate(names)]
    return ", ".join(told if len(told) <= FEW else [*told[: FEW - 2], "…", told[-1]])


def _short(value: object) -> str:
    if (
        isinstance(value, list | tuple)
        and value
        and all(isinstance(one, list | tuple) and len(one) == 2 for one in value)
    ):
        return " and ".join(_member(*one) for one in value)
    return (
        f"{len(value)} of them"
        if isinstance(value, list | tuple) and len(value) > 4
        else str(value)
    )


def _member(name: object, settings: object) -> str:
    """What a member of a combined detector goes by: its name or, of a threshold, that of its score."""
    score = settings.get("score") if isinstance(settings, dict) else None
    return str(score if name == "threshold" and score else name)


def _table(facts: Fitted, counts: Sequence[int]) -> Table:
    table = Table("class", "inputs", "threshold", box=None)
    for name, count, threshold in zip(facts.classes, counts, facts.thresholds, strict=True):
        table.add_row(escape(name), str(count), f"{threshold:g}")
    return table
