"""The tour itself: digits without 7, 8, 9 and two moons, learned in five ways, judged, and told."""

import shlex
import sys
import textwrap
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from nescio.cli.tour.folder import REPORT, claim
from nescio.cli.tour.judged import Halves, Judged, judge
from nescio.cli.tour.lessons import NOTES, lessons, table
from nescio.cli.tour.picture import LEGEND, picture, sure_of
from nescio.cli.tour.plan import DIGITS, METHODS, MOONS, NETWORK, Problem, Size
from nescio.cli.tour.stages import Stages
from nescio.data import Known, Samples
from nescio.evaluation.gallery import attack_gallery
from nescio.files import ARCHIVE, MADE_BY, atomic_write
from nescio.methods.method import Method
from nescio.metrics.percent import percent
from nescio.records import Gallery, Record
from nescio.report.figures import save_figure
from nescio.report.maps import map_figure
from nescio.report.page import report_page
from nescio.seeds import derived_seed
from nescio.store.run import train_run

ATTACK, CALIBRATION, MAPS, NEW = "attack.json", "calibration.npz", "maps.svg", "new"
SHOWN = 4  # new images of each kind, to try a detector on
WIDEST = 100  # characters of a line of text
OPENERS = {"darwin": "open", "win32": "start"}  # elsewhere xdg-open


def tour(folder: Path, seed: int, out: Console, size: Size | None = None) -> None:
    """Train, judge and audit five methods on two problems; write records and a report into a folder, and tell."""
    started, size = time.monotonic(), size or Size()
    claim(folder)
    out.print(
        "\n[bold]nescio[/]: neural classifiers that say [italic]I do not know[/]. One to two minutes.\n"
    )
    with _one_thread(), Stages(out, 4 * len(METHODS) + 2) as stages:
        digits, gallery = _digits(folder, seed, out, size, stages)
        moons = _moons(folder, seed, out, size, stages)
        stages.next("the report")
        records = [
            (f"{DIGITS.name}/{one.method}", record) for one in digits for record in one.records()
        ]
        records += [
            (f"{MOONS.name}/{one.method}", record) for one in moons for record in one.records()
        ]
        _write_report(folder, [*records, (DIGITS.name, gallery)])
    _tell(folder, digits, moons, out)
    out.print(f"[dim]{time.monotonic() - started:.0f} seconds in all.[/]\n", highlight=False)


@contextmanager
def _one_thread() -> Iterator[None]:
    """A block in which torch has one thread: on networks as small as these others only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _digits(
    folder: Path, seed: int, out: Console, size: Size, stages: Stages
) -> tuple[list[Judged], Gallery]:
    known = DIGITS.source(seed).load()
    assert known.train is not None  # noqa: S101 - as embedded sets have
    assert known.unseen is not None  # noqa: S101
    out.print("[bold]1. Digits[/]", highlight=False)
    _say(
        out,
        f"{len(known.train)} small images teach what 0 to 6 look like; no 7, 8 or 9 is ever shown. Then comes "
        "what nobody taught: these three, noise, noise made to fool the very network, and digits a hundred "
        "times too far out.",
    )
    out.print()
    _write_new(
        folder / DIGITS.name / NEW, _halves(folder, DIGITS, known, seed).judging, known.unseen
    )
    found, models = [], {}
    for method in METHODS:
        models[method], one = _learned(folder, DIGITS, known, method, seed, size, stages)
        _line(out, method, f"{percent(one.evaluation.known.accuracy)} right")
        found.append(one)
    stages.next("pictures of noise under attack")
    gallery = attack_gallery(models, known, images=size.images, seed=seed, progress=False)
    gallery.save(folder / DIGITS.name / ATTACK)
    return found, gallery


def _moons(folder: Path, seed: int, out: Console, size: Size, stages: Stages) -> list[Judged]:
    known = MOONS.source(seed).load()
    out.print("\n[bold]2. Two moons[/]", highlight=False)
    _say(
        out,
        "The same five in the plane, where one can see it: the data are two half circles in the middle, and all "
        "around them there is nothing to know.",
    )
    out.print()
    found = [_learned(folder, MOONS, known, method, seed, size, stages)[1] for method in METHODS]
    maps = [one.map for one in found if one.map is not None]
    save_figure(map_figure(maps, "confidence"), folder / MOONS.name / MAPS)
    out.print(picture(maps))
    shares = ", ".join(f"{one.method} {percent(sure_of(one), 0)}" for one in maps)
    out.print(f"\n  [dim]{LEGEND}[/]", highlight=False, soft_wrap=True)
    _say(out, f"Share of the square that each is over 95 % sure of: {shares}.")
    out.print()
    return found


def _learned(
    folder: Path, problem: Problem, known: Known, method: str, seed: int, size: Size, stages: Stages
) -> tuple[Method, Judged]:
    """One method trained and judged, into a run folder of its own."""
    run = folder / problem.name / method
    stages.next(f"[bold]{method}[/]: {METHODS[method]}")
    model, history = train_run(
        run,
        problem.source(seed),
        known,
        method,
        NETWORK,
        "cpu",
        seed,
        problem.own.get(method, {}),
        None,
        resumable=False,
        epochs=max(1, round(size.epochs * problem.epochs)),
        batch_size=64,
        progress=False,
    )
    stages.next(f"[bold]{method}[/], judged by data, by an attack, at infinity")
    return model, judge(
        run, problem, model, history, known, _halves(folder, problem, known, seed), size, seed
    )


def _halves(folder: Path, problem: Problem, known: Known, seed: int) -> Halves:
    """The test data in two by chance, the first half as a file."""
    generator = torch.Generator().manual_seed(derived_seed(seed, "halves", 0))
    first, second = torch.randperm(len(known.test), generator=generator).tensor_split(2)
    path = folder / problem.name / CALIBRATION
    with atomic_write(path, "w+b") as file:
        kind = "images" if known.kind == "image" else "inputs"
        arrays: dict[str, Any] = {kind: known.test.inputs[first].numpy()}
        np.savez_compressed(file, **arrays)
        with zipfile.ZipFile(file, "a") as archive:
            archive.comment = ARCHIVE
    return Halves(path, known.test.select(second))


def _write_new(folder: Path, judging: Samples, unseen: Samples) -> None:
    """Images to try a detector on: some of digits that were learned, some of those that were not."""
    about = PngInfo()
    about.add_text("Software", MADE_BY)
    for kind, samples in (("seen", judging), ("never_seen", unseen)):
        for number in range(SHOWN):
            pixels = samples[number][0][0].mul(255).round().byte().numpy()
            with atomic_write(folder / kind / f"{number}.png") as file:
                Image.fromarray(pixels).save(file, "png", pnginfo=about)


def _write_report(folder: Path, records: Sequence[tuple[str, Record]]) -> None:
    with atomic_write(folder / REPORT, "w") as file:
        file.write(report_page(records))


def _line(out: Console, method: str, told: str) -> None:
    out.print(
        f"  [green]✓[/] [bold]{method:10}[/]  {METHODS[method]:50}  {told}",
        highlight=False,
        soft_wrap=True,
    )


def _say(out: Console, text: str, mark: str = "") -> None:
    """A paragraph set in a little, with a mark before it; no line ends in a space, as it would if it were rich's."""
    before, width = f"  {mark}", min(out.width, WIDEST)
    whole = text.replace(" %", "\xa0%")  # no line begins with a % of its own
    told = textwrap.fill(whole, width, initial_indent=before, subsequent_indent=" " * len(before))
    out.print(Text(told.replace("\xa0", " ")), soft_wrap=True)


def _tell(folder: Path, digits: Sequence[Judged], moons: Sequence[Judged], out: Console) -> None:
    """The table, what was learned, and where to go from here."""
    out.print(table({DIGITS.name: digits, MOONS.name: moons}))
    out.print(Text(NOTES, style="dim"))
    out.print("\n[bold]What was learned[/]")
    for number, sentence in enumerate(lessons({one.method: one for one in digits}), 1):
        _say(out, sentence, f"{number}. ")
    out.print("\n[bold]Try next[/]")
    for command, why in try_next(folder):
        out.print(
            f"  [dim]# {why}[/]\n  [cyan]{escape(command)}[/]", highlight=False, soft_wrap=True
        )
    report = shlex.quote(str(folder / REPORT))
    out.print(
        f"\n[bold]The report[/], with all figures: [cyan]{OPENERS.get(sys.platform, 'xdg-open')} "
        f"{escape(report)}[/]",
        highlight=False,
        soft_wrap=True,
    )


def try_next(folder: Path) -> list[tuple[str, str]]:
    """Commands that work on what the tour wrote, and what each shows."""
    place = shlex.quote(str(folder))
    digits = f"{place}/{DIGITS.name}"
    return [
        (f"nescio score {digits}/duq/detector {digits}/{NEW}", "a class, or “unknown”"),
        (f"nescio attack {digits}/softmax {digits}/acet -o attack.svg", "see what fools them"),
        (f"nescio compare {digits}/softmax {digits}/duq", "side by side, with curves"),
        (
            f"nescio audit {digits}/softmax --trials 200 -o audit",
            "what it does far away, ray by ray",
        ),
        ("nescio fit --help", "the same for a network of your own"),
    ]
