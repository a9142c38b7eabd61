"""Run numbered cases within a budget, and tally what went wrong in them."""

import os
import random
import resource
import signal
import tempfile
import time
import traceback
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from nescio.errors import NescioError

TRACEBACK, WRONG, CHANGED, HANG, MEMORY = (
    "traceback",
    "wrong answer",
    "silent change",
    "hang",
    "memory",
)
MOST_MEMORY = 2**30  # bytes by which the peak may grow in one case
SAVED = 100  # findings of a run that are saved


class Fault(Exception):  # noqa: N818 - it is what is looked for, no error of ours
    """A promise that was broken otherwise than by a traceback."""

    def __init__(self, what: str, message: str) -> None:
        super().__init__(message)
        self.what = what


PATIENCE = 10  # times as long by the clock as a case may work


class Hang(BaseException):
    """Raised in a case that takes too long; no `except Exception` holds it up."""


class Fuzzer(ABC):
    """Cases of one kind, over a corpus made once in a folder, always the same.

    Attributes:
        limit: seconds that a case may take.
        doing: what the running case does, in a few words.
    """

    name: ClassVar[str]
    limit: ClassVar[float] = 20.0

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.doing = ""

    @abstractmethod
    def case(self, rng: random.Random) -> None:
        """Do one case; a `NescioError` is a refusal, a `Fault` or any other exception a finding."""

    def mend(self) -> None:  # noqa: B027 - most have nothing to mend
        """Put right what a case that went wrong may have left, so that the next one is not blamed
        for it.
        """

    def evidence(self) -> dict[str, bytes]:
        """Files that the last case made, by name, to be saved if it went wrong."""
        return {}


@contextmanager
def folder() -> Iterator[Path]:
    """A folder for a corpus, in memory where Linux has one: a case may take less than a
    millisecond.
    """
    memory = "/dev/shm"  # noqa: S108 - a folder of our own is made in it
    with tempfile.TemporaryDirectory(
        prefix="nescio-fuzz-", dir=memory if os.path.isdir(memory) else None
    ) as made:
        yield Path(made)


@dataclass(frozen=True)
class Finding:
    """A case that broke a promise."""

    number: int
    what: str
    doing: str
    where: str  # the same of all cases that meet the same fault, most likely
    text: str


@dataclass
class Tally:
    """What became of the cases of one kind."""

    name: str
    seed: int
    cases: int = 0
    refused: int = 0
    seconds: float = 0.0
    found: list[Finding] = field(default_factory=list)
    saved: Path | None = None

    def count(self, what: str) -> int:
        """How many findings are of that sort."""
        return sum(finding.what == what for finding in self.found)

    def alike(self) -> list[tuple[Finding, int]]:
        """One finding of each sort and place, with how many there are."""
        counts = Counter((one.what, one.where) for one in self.found)
        first = {(one.what, one.where): one for one in reversed(self.found)}
        return [(first[key], count) for key, count in counts.most_common()]


def run(
    fuzzer: Fuzzer,
    seed: int,
    *,
    seconds: float | None = None,
    cases: int | None = None,
    first: int = 0,
) -> Tally:
    """Run cases from number `first` on, until seconds are over, or there were so many."""
    tally, started = Tally(fuzzer.name, seed), time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning is no fault
        while (cases is None or tally.cases < cases) and (
            seconds is None or time.monotonic() - started < seconds
        ):
            _one(fuzzer, seed, first + tally.cases, tally)
            tally.cases += 1
    tally.seconds = time.monotonic() - started
    return tally


def _one(fuzzer: Fuzzer, seed: int, number: int, tally: Tally) -> None:
    fuzzer.doing = ""
    before = _peak()
    try:
        with _within(fuzzer.limit):
            fuzzer.case(random.Random(f"{fuzzer.name} {seed} {number}"))
    except NescioError:
        tally.refused += 1
    except (Exception, Hang) as error:  # noqa: BLE001 - any is what is looked for
        what = (
            error.what
            if isinstance(error, Fault)
            else HANG
            if isinstance(error, Hang)
            else TRACEBACK
        )
        where = (
            f"{type(error).__name__} in {_place(error)}"
            if what in (TRACEBACK, HANG)
            else str(error)
        )
        _keep(Finding(number, what, fuzzer.doing, where, traceback.format_exc()), fuzzer, tally)
    if (grown := _peak() - before) > MOST_MEMORY:
        message = f"peak memory grew by {grown / 2**20:.0f} MiB"
        _keep(
            Finding(number, MEMORY, fuzzer.doing, f"memory: {fuzzer.doing}", message), fuzzer, tally
        )


def _keep(finding: Finding, fuzzer: Fuzzer, tally: Tally) -> None:
    """Note a finding; the first of them are saved with what their cases made."""
    tally.found.append(finding)
    if len(tally.found) <= SAVED:
        if tally.saved is None:
            tally.saved = Path(tempfile.mkdtemp(prefix=f"nescio-fuzz-{tally.name}-{tally.seed}-"))
        place = tally.saved / str(finding.number)
        place.mkdir(exist_ok=True)
        (place / "finding.txt").write_text(
            f"{finding.what}: {finding.doing}\n{finding.text}", encoding="utf-8"
        )
        for name, data in fuzzer.evidence().items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(data)
    fuzzer.mend()


def _place(error: BaseException) -> str:
    """The last line of nescio that an error came through, or of us."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/nescio/" in frame.filename] or frames
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno} {ours[-1].name}"


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """A block that ends with `Hang` after so many seconds of work, or many times as many of
    waiting.

    On a busy machine a case that works may take long by the clock.
    """
    started, begun = time.monotonic(), time.process_time()

    def over(*_: Any) -> None:
        if (
            time.process_time() - begun < seconds
            and time.monotonic() - started < PATIENCE * seconds
        ):
            signal.setitimer(signal.ITIMER_REAL, seconds)
            return
        raise Hang(f"not done after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
