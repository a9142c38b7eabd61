"""The work of `nescio demo`: two small problems, five methods, from data to a report."""

import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from nescio.audit import overconfidence, per_feature
from nescio.audit.inputs import box_of
from nescio.cli.demo_words import (
    ACCEPT,
    LEGEND,
    METHODS,
    NEW_IMAGES,
    REPORT,
    Findings,
    claim,
    confident_fraction,
    maps_in_characters,
    print_summary,
    say,
)
from nescio.data import Known, Samples
from nescio.evaluation.decide import decide
from nescio.evaluation.evaluate import evaluate
from nescio.evaluation.extremes import examples
from nescio.evaluation.gallery import attack_gallery
from nescio.evaluation.maps import uncertainty_map
from nescio.evaluation.unknown_sets import unknown_sets
from nescio.files import ARCHIVE, MADE_BY, atomic_write
from nescio.methods.method import Method
from nescio.metrics.percent import percent
from nescio.records import Gallery, History
from nescio.report.figures import save_figure
from nescio.report.maps import map_figure
from nescio.report.page import report_page
from nescio.seeds import derived_seed
from nescio.store.detector_choice import NamedDetector
from nescio.store.fit_detector import fit_run
from nescio.store.run import Source, train_run

EXAMPLES_PER_END = 6  # most and least confident inputs of each set
IMAGES_PER_KIND = 4  # to try a detector on


@dataclass(frozen=True)
class Problem:
    """Built-in data, the unknown sets to test on, and settings that suit each method there."""

    name: str
    unknown: tuple[str, ...]
    unseen: tuple[str, ...] = ()
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    epochs: int = 30

    def source(self, seed: int) -> Source:
        """Return the data as a run folder names them."""
        return Source(self.name, self.unseen, seed)


DIGITS = Problem(
    "digits",
    ("unseen", "noise", "adversarial_noise", "far"),
    ("7", "8", "9"),
    {"acet": {"steps": 5, "known_starts": 3}, "duq": {"momentum": 0.99}},
)
# of DUQ's paper, appendix A.1; in the plane a few steps of ACET's search reach the edge of its ball
MOONS_DUQ = {"length_scale": 0.3, "gradient_penalty": 1.0, "momentum": 0.99}
MOONS_DUQ |= {"centroid_size": 10, "weight_spread": 1.0}
MOONS = Problem(
    "two_moons",
    ("noise", "adversarial_noise", "far"),
    settings={"acet": {"eps": 0.5, "steps": 3}, "duq": MOONS_DUQ},
)


@dataclass(frozen=True)
class Size:
    """How much work the demo does; `SMALL` is for tests, and its results mean nothing."""

    epochs: float = 1.0  # as a multiple of the problem's
    trials: int = 200  # directions to audit
    limit: int | None = None  # breakpoints to follow along each; None for the default
    rows: int = 50  # points in the plane to move along each feature
    attacked: int = 50  # inputs to make adversarial noise from
    images: int = 8  # in the gallery of attacks
    resolution: int = 81  # of maps


SMALL = Size(epochs=0.1, trials=10, limit=0, rows=2, attacked=4, images=2, resolution=15)


def tour(folder: Path, seed: int, out: Console, size: Size | None = None) -> None:
    """Train, evaluate and audit five methods on two problems; write and print the results."""
    started = time.monotonic()
    claim(folder)
    title = "neural classifiers that say [italic]I do not know[/]"
    out.print(f"\n[bold]nescio[/]: {title}. One to two minutes.\n")
    with _one_thread(), _stages(out, 4 * len(METHODS) + 2) as next_stage:
        work = _Tour(folder, seed, out, size or Size(), next_stage)
        digits, gallery = work.digits()
        problems = {DIGITS.name: digits, MOONS.name: work.moons()}
        next_stage("the report")
        every = [(f"{name}/{tried.method}", tried) for name in problems for tried in problems[name]]
        records = [(name, record) for name, tried in every for record in tried.records().values()]
        with atomic_write(folder / REPORT, "w") as file:
            file.write(report_page([*records, (DIGITS.name, gallery)]))
    print_summary(folder, problems, out)
    out.print(f"[dim]{time.monotonic() - started:.0f} seconds in all.[/]\n")


@contextmanager
def _one_thread() -> Iterator[None]:
    """Give torch one thread: on networks this small more threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _stages(out: Console, total: int) -> Iterator[Callable[[str], None]]:
    """Yield a function that names the next stage, shown below the text on a terminal only."""
    # words come last, so that nothing else moves; all fits in 80 columns
    columns = (SpinnerColumn(), BarColumn(bar_width=10), TimeElapsedColumn())
    text = TextColumn("{task.description}")
    hidden = not out.is_terminal
    with Progress(*columns, text, console=out, transient=True, disable=hidden) as progress:
        task = progress.add_task("", total=total, completed=-1)
        yield lambda stage: progress.update(task, description=stage, advance=1)


@dataclass(frozen=True)
class _Tour:
    folder: Path
    seed: int
    out: Console
    size: Size
    next_stage: Callable[[str], None]

    def digits(self) -> tuple[list[Findings], Gallery]:
        """Train and test on digits without 7, 8 and 9."""
        known = DIGITS.source(self.seed).load()
        assert known.train is not None  # noqa: S101 - as built-in data have
        assert known.unseen is not None  # noqa: S101
        self.out.print("[bold]1. Digits[/]")
        say(
            self.out,
            f"The networks learn the digits 0 to 6 from {len(known.train)} small images, and never "
            "see a 7, 8 or 9. Then they get inputs they cannot know: these three digits, noise, "
            "noise made to fool each network, and digits scaled far out of range.",
        )
        self.out.print()
        _, test = split_test(self.folder, DIGITS, known, self.seed)
        _write_images(self.folder / DIGITS.name / NEW_IMAGES, test, known.unseen)
        results, models = [], {}
        for method, words in METHODS.items():
            models[method], findings = self.train(DIGITS, known, method)
            accuracy = percent(findings.evaluation.known.accuracy)
            line = f"  [green]✓[/] [bold]{method:10}[/]  {words:47}  {accuracy} correct"
            self.out.print(line, soft_wrap=True)
            results.append(findings)
        self.next_stage("images of noise under attack")
        images = self.size.images
        gallery = attack_gallery(models, known, images=images, seed=self.seed, progress=False)
        gallery.save(self.folder / DIGITS.name / "attack.json")
        return results, gallery

    def moons(self) -> list[Findings]:
        """Train and test on two moons, and draw the confidence in the plane."""
        known = MOONS.source(self.seed).load()
        self.out.print("\n[bold]2. Two moons[/]")
        say(
            self.out,
            "The same methods on two features, where one can see it: the data are two half circles "
            "in the middle, and all around them nothing is known.",
        )
        self.out.print()
        results = [self.train(MOONS, known, method)[1] for method in METHODS]
        maps = [findings.map for findings in results if findings.map is not None]
        save_figure(map_figure(maps, "confidence"), self.folder / MOONS.name / "maps.svg")
        self.out.print(maps_in_characters(maps))
        self.out.print(f"\n  [dim]Confidence: {LEGEND}[/]", soft_wrap=True)
        fractions = {chart.method: percent(confident_fraction(chart), 0) for chart in maps}
        each = ", ".join(f"{method} {fraction}" for method, fraction in fractions.items())
        say(self.out, f"Fraction of the square with a confidence over 95 %: {each}.")
        self.out.print()
        return results

    def train(self, problem: Problem, known: Known, method: str) -> tuple[Method, Findings]:
        """Train and test one method, into a run folder."""
        run = self.folder / problem.name / method
        self.next_stage(f"[bold]{method}[/]: {METHODS[method]}")
        how = method, "mlp", "cpu", self.seed, problem.settings.get(method, {}), None
        epochs = max(1, round(self.size.epochs * problem.epochs))
        training: dict[str, Any] = {"epochs": epochs, "batch_size": 64, "progress": False}
        source = problem.source(self.seed)
        model, history = train_run(run, source, known, *how, resumable=False, **training)
        self.next_stage(f"[bold]{method}[/]: tested on data, by an attack, and at infinity")
        return model, self.test(run, problem, model, history, known)

    def test(
        self, run: Path, problem: Problem, model: Method, history: History, known: Known
    ) -> Findings:
        """Evaluate, set a threshold, audit, and draw maps of the plane; save every record."""
        quiet: dict[str, Any] = {"seed": self.seed, "progress": False}
        sets = unknown_sets(problem.unknown, known, seed=self.seed)
        evaluation = evaluate(model, known.test, sets, attacked=self.size.attacked, **quiet)
        data = {name: x for name, x in sets.items() if not isinstance(x, str)}  # no attacks
        calibration, test = split_test(self.folder, problem, known, self.seed)
        choice = NamedDetector(accept=ACCEPT)
        detector, _ = fit_run(run / "detector", run, calibration, None, None, choice)
        decision = decide(detector, test, data)
        classes, columns = known.classes, known.features
        how = {"each": EXAMPLES_PER_END, "classes": classes, "features": columns, **quiet}
        shown = examples(model, known.test, data, **how)
        trials, limit = self.size.trials, self.size.limit
        audit = overconfidence(model, box=box_of(known), trials=trials, limit=limit, **quiet)
        plane, features = None, None
        if known.shape == (2,):
            grid = self.size.resolution
            plane = uncertainty_map(model, known, [model.score], resolution=grid, **quiet)
        if known.shape == (2,) and audit.draws == 1:  # of 50 samples it would take a minute
            x, _ = known.test.take(slice(0, self.size.rows))
            features = per_feature(model, x, names=columns, classes=classes, limit=limit, **quiet)
        records = history, evaluation, decision, shown, audit, features, plane
        findings = Findings(model.name, *records)
        findings.save(run)
        return findings


def split_test(folder: Path, problem: Problem, known: Known, seed: int) -> tuple[Path, Samples]:
    """Split the test data at random: calibration data as a file, and the rest to test on."""
    generator = torch.Generator().manual_seed(derived_seed(seed, "halves", 0))
    first, second = torch.randperm(len(known.test), generator=generator).tensor_split(2)
    path = folder / problem.name / "calibration.npz"
    with atomic_write(path, "w+b") as file:
        kind = "images" if known.kind == "image" else "inputs"
        arrays: dict[str, Any] = {kind: known.test.inputs[first].numpy()}
        np.savez_compressed(file, **arrays)
        with zipfile.ZipFile(file, "a") as archive:
            archive.comment = ARCHIVE
    return path, known.test.select(second)


def _write_images(folder: Path, test: Samples, unseen: Samples) -> None:
    """Write images to try a detector on, of digits in the training data and of others."""
    about = PngInfo()
    about.add_text("Software", MADE_BY)
    for kind, samples in (("seen", test), ("never_seen", unseen)):
        for number in range(IMAGES_PER_KIND):
            pixels = samples[number][0][0].mul(255).round().byte().numpy()
            with atomic_write(folder / kind / f"{number}.png") as file:
                Image.fromarray(pixels).save(file, "png", pnginfo=about)
