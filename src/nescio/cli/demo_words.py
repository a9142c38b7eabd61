"""What `nescio demo` prints of its findings; all words follow the records."""

import shlex
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from nescio.errors import NescioError
from nescio.files import REPORT as REPORT_KIND
from nescio.files import atomic_write, check_replaceable
from nescio.metrics.percent import percent
from nescio.records import Audit, Decision, Evaluation, Examples, FeatureAudit, History, Map, Record
from nescio.report.table import Cell, Percent, Styled, Table, auroc_style

ACCEPT = 0.95  # fraction of known inputs that the thresholds accept
CLEAR_DIFFERENCE = 0.1  # of fractions or confidences, that is worth a "but"
MAX_LINE = 100  # characters of a line of text
OPENERS = {"darwin": "open", "win32": "start"}  # elsewhere xdg-open
REPORT, NEW_IMAGES = "report.html", "new"
METHODS = {
    "softmax": "one network with standard training",
    "ensemble": "five networks, uncertain where they disagree",
    "mc_dropout": "one network, 50 stochastic forward passes",
    "acet": "also trained on adversarial noise",
    "duq": "confidence falls with distance to known classes",
}
COLUMNS = {
    "unseen": "unseen digits",
    "noise": "noise",
    "adversarial_noise": "advers. noise",
    "far": "far away",
}
NOTES = """\
From unseen digits to far away: AUROC, the probability that such an input gets a
higher score than a known one. 1 is perfect, 0.5 is random, and 0 is reversed:
more confident on unknown inputs than on known ones. Certain at ∞: fraction of
directions along which the confidence provably tends to 1."""
MAP_ROWS, MAP_COLUMNS = 7, 14  # a character is about twice as high as wide
SHADES = ((0.95, "█"), (0.8, "▓"), (0.6, "▒"), (0.3, "░"))
LEGEND = "  ".join(f"{mark} over {percent(least, 0)}" for least, mark in SHADES)

MARK = "demo.txt"
ABOUT = """Written by `nescio demo`, which overwrites its own files when run again on this folder.

report.html            all results, for a browser
digits/, two_moons/    one folder for each method, a run such as `nescio train` writes:
  model.safetensors      the trained model
  history.json           how it was trained
  evaluation.json        results on known and unknown data
  audit.json             confidence far from the data
  features.json          the same along each feature of the plane
  decision.json          what a threshold guaranteed, and what it accepted
  examples.json          most and least confident inputs
  map.json               confidence in the plane
  detector/              a fitted detector, for `nescio score`
*/calibration.npz      the half of the test data that set the thresholds
digits/attack.json     noise under attack, with images
digits/new/            images to try a detector on
two_moons/maps.svg     the confidence of each method in the plane
"""


def claim(folder: Path) -> None:
    """Make a folder the demo's, without an old report; raise an error if it holds other things."""
    if folder.exists() and not folder.is_dir():
        raise NescioError(f"{str(folder)!r} is a file; expected a folder to write")
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    if names and MARK not in names:
        others = f"{', '.join(names[:3])}{', …' * (len(names) > 3)}"
        problem = f"the folder {str(folder)!r} contains other things ({others}) and no {MARK}"
        raise NescioError(f"{problem}; choose another with --output")
    check_replaceable(folder / REPORT, REPORT_KIND)
    with atomic_write(folder / MARK, "w") as file:
        file.write(ABOUT)
    (folder / REPORT).unlink(missing_ok=True)  # it is never beside records it was not made from


@dataclass(frozen=True)
class Findings:
    """The records of one trained model."""

    method: str
    history: History
    evaluation: Evaluation
    decision: Decision
    examples: Examples
    audit: Audit
    features: FeatureAudit | None = None  # of deterministic methods in the plane
    map: Map | None = None  # of data in the plane

    def records(self) -> dict[str, Record]:
        """Return the records by name, in the order of the report."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Record)}

    def save(self, run: Path) -> None:
        """Save all records in the folder of a run."""
        for name, record in self.records().items():
            record.save(run / f"{name}.json")

    def auroc(self, name: str) -> float | None:
        """Return the AUROC on an unknown set by the method's own score; None without such a set."""
        for side in self.evaluation.unknown:
            if side.name == name:
                score = self.evaluation.score
                return next(result.auroc for result in side.separation if result.score == score)
        return None

    def rejected(self, name: str) -> str:
        """Return the fraction of an unknown set that the threshold rejects."""
        return percent(next(side.refused for side in self.decision.unknown if side.name == name))

    def confidence(self, name: str) -> float:
        """Return the mean confidence on an unknown set."""
        return next(side.mmc for side in self.evaluation.unknown if side.name == name)


def findings_tables(problems: Mapping[str, Sequence[Findings]]) -> list[Table]:
    """Return a table for each problem, with a row for each method; the best AUROC is bold."""
    columns = ("method", "accuracy", *COLUMNS.values(), "certain at ∞", "train, seconds")
    tables = []
    for problem, models in problems.items():
        best = {name: max(model.auroc(name) or 0.0 for model in models) for name in COLUMNS}
        rows: list[list[Cell]] = []
        for model in models:
            aurocs = (_auroc_cell(model.auroc(name), best[name]) for name in COLUMNS)
            seconds, known = model.history.provenance.seconds, model.evaluation.known
            far = Percent(model.audit.ends_certain, 0), Styled(f"{seconds:.1f}", seconds)
            rows.append([model.method, Percent(known.accuracy), *aurocs, *far])
        tables.append(Table(problem.replace("_", " "), columns, rows))
    return tables


def _auroc_cell(value: float | None, best: float) -> Cell:
    if value is None:
        return None
    text = "1.000" if value == 1 else f"{min(value, 0.999):.3f}"  # 1.000 only if it is perfect
    return Styled(text, value, f"{auroc_style(value)}{' bold' * (value == best)}")


def lessons(digits: Mapping[str, Findings]) -> list[str]:
    """Return three sentences: far from the data, under attack, and what a threshold does."""
    softmax, acet, duq = digits["softmax"], digits["acet"], digits["duq"]
    return [_far_away(softmax, duq), _attacked(softmax, acet), _decisions(softmax, duq)]


def _far_away(softmax: Findings, duq: Findings) -> str:
    certain, unknown = softmax.audit.ends_certain or 0.0, duq.audit.ends_unknown or 0.0
    link = "but" if min(certain, unknown) > CLEAR_DIFFERENCE else "and"
    return (
        f"Far away: along {percent(certain)} of {softmax.audit.trials} random directions the "
        f"confidence of softmax provably tends to 1, whatever lies there, {link} that of DUQ "
        f"provably tends to 0 along {percent(unknown)}."
    )


def _attacked(softmax: Findings, acet: Findings) -> str:
    fooled, trained = (tried.confidence("adversarial_noise") for tried in (softmax, acet))
    start = (
        f"Under attack: on adversarial noise the mean confidence of softmax is {percent(fooled)}, "
        f"and that of ACET, which was trained on such noise, {percent(trained)}"
    )
    if fooled - trained < CLEAR_DIFFERENCE:
        return f"{start}: here that training did not help."
    accuracy, plain = (percent(tried.evaluation.known.accuracy) for tried in (acet, softmax))
    return f"{start}; its accuracy on known digits is {accuracy}, that of softmax {plain}."


def _decisions(softmax: Findings, duq: Findings) -> str:
    decision = duq.decision
    least = ACCEPT if decision.usual is None else decision.usual[0]
    expected = decision.accepted >= least
    verdict = "within the expected variation" if expected else "less than guaranteed"
    verdict = "as guaranteed" if decision.accepted >= ACCEPT else verdict
    return (
        f"Decisions: a {decision.detector} detector over DUQ, set to accept {percent(ACCEPT)} of "
        f"known digits, accepts {percent(decision.accepted)} of {decision.inputs} new ones, "
        f"{verdict}, and rejects {duq.rejected('unseen')} of the 7s, 8s and 9s and "
        f"{duq.rejected('far')} of the digits far away; one over softmax rejects "
        f"{softmax.rejected('unseen')} and {softmax.rejected('far')}."
    )


def maps_in_characters(maps: Sequence[Map]) -> RichTable:
    """Return the confidence of each map under its method's name, the fuller the higher."""
    table = RichTable.grid(padding=(0, 1), pad_edge=False)
    table.add_column(width=1)  # indents like the text
    for _ in maps:
        table.add_column(width=MAP_COLUMNS, no_wrap=True)
    table.add_row("", *(Text(chart.method, style="bold") for chart in maps))
    table.add_row("", *(Text("\n".join(map_lines(chart))) for chart in maps))
    return table


def map_lines(record: Map) -> list[str]:
    """Return a map as lines of characters, the top first."""
    values = record.confidence.values
    rows = reversed(_cells(MAP_ROWS, len(values)))  # y grows upwards
    columns = _cells(MAP_COLUMNS, len(values[0]))
    return ["".join(_shade(values[i][j]) for j in columns) for i in rows]


def _cells(count: int, points: int) -> list[int]:
    """Return the grid point nearest to the middle of each cell."""
    return [min(points - 1, int((number + 0.5) / count * points)) for number in range(count)]


def _shade(confidence: float) -> str:
    return next((mark for least, mark in SHADES if confidence > least), " ")


def confident_fraction(record: Map, least: float = 0.95) -> float:
    """Return the fraction of a map on which the confidence exceeds a bound."""
    cells = [value > least for row in record.confidence.values for value in row]
    return sum(cells) / len(cells)


def say(out: Console, text: str, mark: str = "") -> None:
    """Print an indented paragraph without spaces at line ends; no line begins with a lone %."""
    before, width = f"  {mark}", min(out.width, MAX_LINE)
    text = text.replace(" %", "\xa0%")
    text = textwrap.fill(text, width, initial_indent=before, subsequent_indent=" " * len(before))
    out.print(Text(text.replace("\xa0", " ")), soft_wrap=True)


def print_summary(folder: Path, problems: Mapping[str, Sequence[Findings]], out: Console) -> None:
    """Print the table, the lessons, and commands to try next; the first problem is the digits."""
    name, digits = next(iter(problems.items()))
    out.print(*findings_tables(problems), sep="\n")
    out.print(Text(NOTES, style="dim"))
    out.print("\n[bold]What this shows[/]")
    for number, sentence in enumerate(lessons({tried.method: tried for tried in digits}), 1):
        say(out, sentence, f"{number}. ")
    out.print("\n[bold]Try next[/]")
    for command, why in try_next(folder, name):
        out.print(f"  [dim]# {why}[/]\n  [cyan]{escape(command)}[/]", soft_wrap=True)
    command = f"{OPENERS.get(sys.platform, 'xdg-open')} {shlex.quote(str(folder / REPORT))}"
    text = f"\n[bold]The report[/], with all figures: [cyan]{escape(command)}[/]"
    out.print(text, soft_wrap=True)


def try_next(folder: Path, problem: str = "digits") -> list[tuple[str, str]]:
    """Return commands that work on what the demo wrote, and what each shows."""
    digits = f"{shlex.quote(str(folder))}/{problem}"
    return [
        (f"nescio score {digits}/duq/detector {digits}/{NEW_IMAGES}", "a class, or “unknown”"),
        (f"nescio attack {digits}/softmax {digits}/acet -o attack.svg", "see what fools them"),
        (f"nescio compare {digits}/softmax {digits}/duq", "side by side, with curves"),
        (f"nescio audit {digits}/softmax --trials 200 -o audit", "confidence far away, ray by ray"),
        ("nescio fit --help", "the same for your own network"),
    ]
