"""What the tour found, as a table and in three sentences; every word of them is decided by the records."""

from collections.abc import Mapping, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from nescio.cli.tour.judged import Judged
from nescio.cli.tour.plan import ACCEPT
from nescio.metrics.percent import percent
from nescio.records import Decision
from nescio.report.table import auroc_style

SETS = {
    "unseen": "held-out\ndigits",
    "noise": "\nnoise",
    "adversarial_noise": "advers.\nnoise",
    "far": "far\naway",
}
CLEARLY = 0.1  # a difference of shares or confidences that is worth a "but"
NOTES = (
    "Against held-out digits to far away: AUROC, the chance that such an input looks\n"
    "less known than a known one. 1 is perfect, 0.5 is a coin, and 0 the wrong way\n"
    "round: surer of what it never saw than of what it learned. Certain at ∞: share\n"
    "of directions along which the confidence is proved to end at 100 %."
)


def table(found: Mapping[str, Sequence[Judged]]) -> Table:
    """A row for each method on each problem; the best figures of a problem are bold."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    made.add_column("\nmethod", no_wrap=True)
    for name in ("\naccuracy", *SETS.values(), "certain\nat ∞", "train,\nseconds"):
        made.add_column(name, justify="right", no_wrap=True)
    for number, (problem, models) in enumerate(found.items()):
        if number:
            made.add_section()
        made.add_row(Text(problem.replace("_", " "), style="italic"))
        best = {name: max((one.auroc(name) or 0.0 for one in models), default=0.0) for name in SETS}
        for one in models:
            made.add_row(
                f"  {one.method}",
                percent(one.evaluation.known.accuracy).replace(" ", ""),
                *(_auroc(one.auroc(name), best[name]) for name in SETS),
                _share(one.audit.ends_certain),
                f"{one.history.provenance.seconds:.1f}",
            )
    return made


def _auroc(value: float | None, best: float) -> Text:
    if value is None:
        return Text("–", style="dim")
    told = (
        "1.000" if value == 1 else f"{min(value, 0.999):.3f}"
    )  # only what is perfect is said to be
    return Text(told, style=f"{auroc_style(value)}{' bold' * (value == best)}")


def _share(value: float | None) -> str:
    return percent(value, 0).replace(" ", "")


def lessons(digits: Mapping[str, Judged]) -> list[str]:
    """Three sentences: what happens far away, under attack, and what a threshold is worth."""
    plain, duq = digits["softmax"], digits["duq"]
    return [_far_away(plain, duq), _attacked(plain, digits["acet"]), _promise(plain, duq)]


def _far_away(plain: Judged, duq: Judged) -> str:
    certain, unknown = plain.audit.ends_certain or 0.0, duq.audit.ends_unknown or 0.0
    link = "but DUQ" if certain > CLEARLY and unknown > CLEARLY else "and DUQ"
    return (
        f"Far away: along {percent(certain)} of {plain.audit.trials} directions drawn by chance softmax is proved to "
        f"end certain of a digit, whatever lies there; {link} is proved to end not knowing along {percent(unknown)}."
    )


def _attacked(plain: Judged, acet: Judged) -> str:
    fooled, wary = plain.confidence("adversarial_noise"), acet.confidence("adversarial_noise")
    start = (
        f"Under attack: noise made to look like something leaves softmax {percent(fooled)} sure on average, and ACET, "
        f"which was trained on such noise, {percent(wary)}"
    )
    if fooled - wary < CLEARLY:
        return f"{start}: here that training did not help."
    right, others = (one.evaluation.known.accuracy for one in (acet, plain))
    return f"{start}; of known digits it gets {percent(right)} right, softmax {percent(others)}."


def _promise(plain: Judged, duq: Judged) -> str:
    found = duq.decision
    return (
        f"Deciding: asked to accept {percent(ACCEPT)} of known digits, a threshold on DUQ accepts "
        f"{percent(found.accepted)} of {found.inputs} new ones, {_kept(found)}, and refuses "
        f"{percent(duq.refused('unseen'))} of the 7s, 8s and 9s and {percent(duq.refused('far'))} of the digits far "
        f"away; one on softmax refuses {percent(plain.refused('unseen'))} and {percent(plain.refused('far'))}."
    )


def _kept(found: Decision) -> str:
    """Whether the promise was kept, given that it is of chances and the inputs are few."""
    if found.accepted >= ACCEPT:
        return "as promised"
    least = ACCEPT if found.usual is None else found.usual[0]
    return "as promised but for chance" if found.accepted >= least else "fewer than promised"
