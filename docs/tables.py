"""Write the tables of the pages: `python -m docs.tables`.

A table stands between `<!-- table: methods -->` and `<!-- end of table -->`. A row of methods,
detectors or scores is a name and the first sentence of its docstring; `api_…` is the reference of
each; all other tables are made from the records in `results/`.
"""

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import nescio
from nescio.detectors import DETECTORS
from nescio.methods import METHODS
from nescio.records import Contest
from nescio.scores import GRADIENT, OF_LOGITS, SCORES
from papers.pages import VERDICTS, escaped, numbers_table
from papers.reproduction import Reproduction
from papers.results import read_results

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PLACE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def named(columns: Sequence[str], entries: Mapping[str, Any]) -> str:
    """Return what each name stands for, in Markdown."""
    return _markdown(columns, ((f"`{name}`", _first(thing)) for name, thing in entries.items()))


def reference(room: str, entries: Mapping[str, Any]) -> str:
    """Return where mkdocstrings is to show each, by the shortest of its public names."""
    names = [_documented(thing).__name__ for thing in entries.values()]
    places = (name if name in nescio.__all__ else f"{room}.{name}" for name in names)
    return "\n" + "".join(f"::: nescio.{place}\n\n" for place in places)


def measured() -> str:
    """Return how well each detector did on FashionMNIST, and its time."""
    record = Contest.load(RESULTS / "detectors-fashion" / "contest.json")
    rows = (
        (
            *(f"`{one.name}`", f"**{one.mean:.3f}**"),
            *(f"{one.auroc[name]:.3f}" for name in record.unknown),
            *(f"{one.fit_seconds:.0f}", f"{one.seconds_per_1000:.2f}"),
        )
        for one in record.contestants
    )
    columns = ("detector", "mean", *record.unknown, "fit, s", "s per 1000")
    return _markdown(columns, rows, "|---" + "|--:" * (len(columns) - 1) + "|")


def cost() -> str:
    """Return how long each detector took for 1000 images, the fastest first."""
    record = Contest.load(RESULTS / "detectors-fashion" / "contest.json")
    fastest_first = sorted(record.contestants, key=lambda one: one.seconds_per_1000)
    rows = ((f"`{one.name}`", f"{one.seconds_per_1000:.2f}") for one in fastest_first)
    return _markdown(("detector", "s per 1000"), rows, "|---|--:|")


def peers() -> str:
    """Return what detectors cost, in time and memory, beside those of pytorch-ood."""
    record = json.loads((RESULTS / "peers.json").read_text(encoding="utf-8"))
    timed, theirs = record["measured"], f"pytorch-ood {record['versions']['pytorch-ood']}"
    rows = (
        (
            f"`{name}`",
            *(f"{one[side]:.2f} s" for side in ("ours", "theirs")),
            f"**{one['faster']:.1f}×**",
            *(f"{one[side]:.0f} MiB" for side in ("our_mib", "their_mib")),
        )
        for name, one in timed.items()
        if name.partition(",")[0] in DETECTORS
    )
    of_logits = [one["faster"] for name, one in timed.items() if name in SCORES]
    columns = ("", "nescio", theirs, "faster", "memory", theirs)
    table = _markdown(columns, rows, "|---" + "|--:" * (len(columns) - 1) + "|")
    setting = (
        f"Fitted on {record['rows']:,} rows of {record['features']} features, with "
        f"{record['scored']:,} scored; `odin` scores 512 images. {record['processor']}, "
        f"{record['threads']} threads. Scores of logits alone take under "
        f"{1000 * max(timed[name]['ours'] for name in timed if name in SCORES):.0f} ms, "
        f"{min(of_logits):.1f} to {max(of_logits):.1f}× as fast."
    )
    return f"\n{table}\n{setting}\n"


def claims(paper: int) -> str:
    """Return what a paper claims, where, how to run it, and whether it holds."""
    verdicts = {holds: str(word) for holds, word in VERDICTS.items()} | {False: "**no**"}
    rows = (
        (escaped(claim.says), record.item, run, verdicts[claim.holds], escaped(claim.seen))
        for run, record in _experiments(paper)
        for claim in record.claims
    )
    return _markdown(("the paper says", "where", "run it", "holds", "what we saw"), rows)


def numbers(name: str, only: str = "") -> str:
    """Return the numbers of an experiment, or those whose name has a word, beside the paper's."""
    record = read_results(RESULTS)[name]
    rows = (
        (escaped(str(what)), *("–" if cell is None else str(cell) for cell in (paper, ours)))
        for what, paper, ours, _ in numbers_table(record).rows
        if only in str(what)
    )
    return _markdown(("", "paper", "ours"), rows, "|---|--:|--:|")


TABLES: dict[str, Callable[[], str]] = {
    "methods": partial(named, ("method", ""), METHODS),
    "detectors": partial(named, ("detector", ""), DETECTORS),
    "scores": partial(named, ("score", "higher = more likely unknown"), SCORES),
    "api_methods": partial(reference, "methods", METHODS),
    "api_detectors": partial(reference, "detectors", DETECTORS),
    "api_scores_of_logits": partial(reference, "scores", OF_LOGITS),
    "api_scores_of_gradients": partial(reference, "scores", GRADIENT),
    "measured_detectors": measured,
    "measured_cost": cost,
    "peers": peers,
    **{f"claims_{paper}": partial(claims, paper) for paper in (1, 2, 3, 4)},
    "duq_cost": partial(numbers, "duq-runtime"),
    "duq_fashion": partial(numbers, "duq-table2"),
    "attacks": partial(numbers, "relu-attacks-digits", "AUROC"),
}


def filled(page: str) -> str:
    """Return a page with its tables as they are now."""
    return PLACE.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}{found[3]}", page)


def _experiments(paper: int) -> list[tuple[str, Reproduction]]:
    """How to run the experiments of a paper, and their records: theorems first, then figures."""
    records = [pair for pair in read_results(RESULTS).items() if pair[1].paper == paper]
    records.sort(key=lambda pair: ("Theorem" not in pair[1].item, pair[1].item))
    return [(_run(folder, record), record) for folder, record in records]


def _run(folder: str, record: Reproduction) -> str:
    scale = "" if record.scale == "quick" else f", scale {record.scale}"
    return f"[`{record.name}`](../../results/{folder}/README.md){scale}"


def _documented(thing: Any) -> Any:
    """The class, or the function of a score's spec."""
    return getattr(thing, "function", thing)


def _first(thing: Any) -> str:
    """The first sentence of what documents a name."""
    first = inspect.cleandoc(_documented(thing).__doc__ or "").split("\n\n")[0]
    return " ".join(first.split())


def _markdown(columns: Sequence[str], rows: Iterable[Sequence[str]], rule: str = "") -> str:
    lines = [
        "".join(f"| {cell} " if cell else "| " for cell in row) + "|" for row in (columns, *rows)
    ]
    return "\n".join([lines[0], rule or "|---" * len(columns) + "|", *lines[1:], ""])


if __name__ == "__main__":
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        if filled(text) != text:
            path.write_text(filled(text), encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
