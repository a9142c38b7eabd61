"""What detectors cost, against those of pytorch-ood on the same features.

    pip install -c constraints.txt -e '.[bench]'
    python benchmarks/detectors.py

Each is fitted on 60 000 rows of 256 features of ten classes and scores 10 000. Ours gets them as a
model's inputs, one that hands them to its last layer as they are, and also sets a threshold on
1000 more; theirs gets the features themselves, whole. Ours goes through them in batches of 4096;
its default of 256, meant for networks that take longer than what is measured here, costs it more
calls than work, and ViM is then the slower one. KNN keeps 20 000 of the 60 000, as it does by
default, and is measured once more keeping all; k is 50 on both sides. Energy and max-logit, which
learn nothing, are functions of logits, and both sides get the same ones: the layer that made them
is neither's work, and takes ten times as long. So are max_prob and entropy, which are here to be
seen: ours are in float64, and tell inputs apart whose probability is 1.0 to theirs. ODIN, which
needs a network to go back through, scores 512 images with a `conv3` on both sides.
`--record results/peers.json` keeps what was measured; `make tables` writes it into the README.

What is compared is timed in turns, each side in a process of its own, as it would be used: what the
C library does with freed memory is decided by whoever is first in a process, and may double the
time of the other. Several such pairs of processes follow each other, since where one happens to
lie, in memory and on cores, may cost it a third of its speed; the ratio is the median of theirs,
judged before it is rounded. Memory is the growth of a fresh process's peak, as Linux tells it. It
takes some twenty-five minutes.
"""

import json
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import nescio
import peers
from nescio.data import Samples
from nescio.detectors import DETECTORS
from nescio.models import conv3
from nescio.scores import energy, entropy, max_logit, max_prob
from timing import seconds, sizes

FEATURES, CLASSES, SCORED, HELD, K, BATCH = 256, 10, 10_000, 1000, 50, 4096
IMAGES = 512
TOY = 1000  # rows, enough for the features to have a covariance
MIB = 2**20
Work = Callable[["Data"], object]


@dataclass(frozen=True)
class Data:
    """Features and labels to learn from, features to set a threshold by and to score, and logits
    of the latter.
    """

    train: Tensor
    labels: Tensor
    calibration: Tensor
    x: Tensor
    head: nn.Linear
    logits: Tensor

    @classmethod
    def of(cls, rows: int, scored: int = SCORED) -> "Data":
        """Made in place, for a peak of memory beforehand would hide what comes after."""
        torch.manual_seed(0)
        centres, labels = torch.randn(CLASSES, FEATURES), torch.arange(rows) % CLASSES
        train, calibration, x = (torch.empty(count, FEATURES) for count in (rows, HELD, scored))
        for rows_of in (train, calibration, x):
            for some in rows_of.split(CLASSES * 100):
                some.normal_().add_(centres[torch.arange(len(some)) % CLASSES]).relu_()
        head = nn.Linear(FEATURES, CLASSES).requires_grad_(False)
        return cls(train, labels, calibration, x, head, head(x))


@dataclass(frozen=True)
class Pair:
    """The same detector twice, and how much faster and smaller ours is to be, if there is a
    wish.
    """

    ours: Work
    theirs: Work
    faster: float | None = 1.0
    memory: float | None = None


def detector(name: str, **how: object) -> Work:
    def work(data: Data) -> Tensor:
        net = nn.Sequential(nn.Identity(), data.head)
        found = DETECTORS[name](net, **how).fit(
            data.calibration, train=Samples(data.train, data.labels), batch_size=BATCH
        )
        return found.score(data.x, BATCH)

    return work


def on_features(name: str, **how: object) -> Work:
    def work(data: Data) -> Tensor:
        given = {"w": data.head.weight, "b": data.head.bias} if name == "ViM" else {}
        found = getattr(peers.pytorch_ood(), name)(None, **how, **given).fit_features(
            data.train, data.labels
        )
        return found.predict_features(data.x)

    return work


def their_react(data: Data) -> Tensor:
    found = peers.pytorch_ood().ReAct(None, data.head).fit_feature_maps(data.train, data.labels)
    return found.predict_feature_maps(data.x)


@cache
def images() -> tuple[nn.Module, Tensor]:
    """A network with weights as it was made, and what it is to score."""
    torch.manual_seed(0)
    return conv3(CLASSES).eval(), torch.rand(IMAGES, 1, 28, 28)


def our_odin(_: Data) -> Tensor:
    net, x = images()
    return DETECTORS["odin"](net).score(x)


def their_odin(_: Data) -> Tensor:
    net, x = images()
    found = peers.pytorch_ood().ODIN(net)
    return torch.cat([found.predict(some) for some in x.split(256)])


def their_score(name: str) -> Work:
    return lambda data: getattr(peers.pytorch_ood(), name)(None).predict_logits(data.logits)


PAIRS = {
    "mahalanobis": Pair(detector("mahalanobis"), on_features("Mahalanobis"), 2.0, 0.5),
    "relative_mahalanobis": Pair(detector("relative_mahalanobis"), on_features("RMD")),
    "knn": Pair(detector("knn", k=K), on_features("KNN", k=K), 2.0, 0.5),
    "knn, all kept": Pair(detector("knn", k=K, size=10**6), on_features("KNN", k=K), None),
    "vim": Pair(detector("vim"), on_features("ViM", d=FEATURES // 2)),
    "gaussian_density": Pair(detector("gaussian_density"), on_features("GMM")),
    "react": Pair(detector("react"), their_react),
    "odin": Pair(our_odin, their_odin),
    "energy": Pair(lambda data: energy(data.logits[None]), their_score("EnergyBased")),
    "max_logit": Pair(lambda data: max_logit(data.logits[None]), their_score("MaxLogit")),
    "max_prob": Pair(lambda data: max_prob(data.logits[None]), their_score("MaxSoftmax"), None),
    "entropy": Pair(lambda data: entropy(data.logits[None]), their_score("Entropy"), None),
}
SCORES = ("energy", "max_logit", "max_prob", "entropy")
MORE = 50  # times as many repeats of these, which take less than a thousandth of a second


def growth(work: Work, rows: int) -> int:
    """Bytes by which the peak memory of this process grows in one call."""
    work(Data.of(TOY, 500))  # what is loaded once, and stays
    data = Data.of(rows)
    before = peak()
    work(data)
    return max(0, peak() - before)  # the kernel's count is off by some pages


def peak() -> int:
    """Bytes this process has had in memory at most; `getrusage` would count what the one that
    started it had too.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def grown(name: str, side: str, rows: int) -> float:
    """MiB by which a process of its own grows."""
    return int(_alone("--growth", name, side, "--rows", str(rows))) / MIB


def answer(name: str, side: str, rows: int) -> None:
    """Time one side of a pair whenever a line comes in, and print the seconds."""
    data, work = Data.of(rows), getattr(PAIRS[name], side)
    count = MORE if name in SCORES else 1
    work(data)  # the first one makes what later ones reuse
    print("ready", flush=True)
    for _ in sys.stdin:
        print(seconds(lambda: [work(data) for _ in range(count)]) / count, flush=True)


@contextmanager
def asked(name: str, side: str, rows: int) -> Iterator[Callable[[], float]]:
    """What times one side in a process of its own, each time that it is called."""
    command = [sys.executable, __file__, "--answer", name, side, "--rows", str(rows)]
    with subprocess.Popen(  # noqa: S603
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:

        def ask() -> float:
            print(file=other.stdin, flush=True)
            return float(other.stdout.readline())

        if not other.stdout.readline():
            raise SystemExit(f"{name} of {side} failed")
        yield ask


def timed(name: str, rows: int, repeats: int) -> list[float]:
    """Seconds of ours and of theirs, medians of some in turns."""
    with asked(name, "ours", rows) as ours, asked(name, "theirs", rows) as theirs:
        rounds = [(ours(), theirs()) for _ in range(repeats)]
    return [statistics.median(side) for side in zip(*rounds, strict=True)]


def _alone(*arguments: str) -> str:
    """What this file prints in a process of its own."""
    command = [sys.executable, __file__, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603


def main() -> int:
    others = {
        "--only": {"nargs": "*", "default": list(PAIRS), "choices": list(PAIRS)},
        "--record": {"type": Path, "help": "a JSON file to write what was measured to"},
        "--growth": {"nargs": 2, "help": "only print how many bytes the peak memory grows"},
        "--answer": {
            "nargs": 2,
            "help": "only print the seconds of one side, for each line that comes in",
        },
    }
    # processes of each side, one after the other, and repeats in each of them
    given = sizes(__doc__, others, rows=(60_000, TOY), processes=(3, 1), repeats=(7, 1))
    if given.answer:
        answer(*given.answer, given.rows)
        return 0
    if given.growth:
        name, side = given.growth
        print(growth(getattr(PAIRS[name], side), given.rows))
        return 0
    if peers.pytorch_ood() is None:
        print("pytorch-ood is not installed; it is in the extra bench")
        return 1
    missed, measured = False, {}
    table = Table(
        "",
        "ours, s",
        "theirs, s",
        "faster",
        "wanted",
        "ours, MiB",
        "theirs, MiB",
        "share",
        "wanted",
    )
    for name in given.only:
        pair, own = PAIRS[name], name.partition(",")[0]
        if own not in DETECTORS and own not in SCORES:
            table.add_row(name, "missing: not in DETECTORS")
            missed = True
            continue
        found = [timed(name, given.rows, given.repeats) for _ in range(given.processes)]
        fast, slow = (statistics.median(side) for side in zip(*found, strict=True))
        ratio = statistics.median(theirs / ours for ours, theirs in found)
        print(f"{name}: {ratio:.2f}× as fast", file=sys.stderr, flush=True)
        small, large = (grown(name, side, given.rows) for side in ("ours", "theirs"))
        share = small / max(large, 1.0)
        measured[name] = {"ours": fast, "theirs": slow, "faster": ratio}
        measured[name] |= {"our_mib": small, "their_mib": large}
        missed |= (pair.faster is not None and ratio < pair.faster) or (
            pair.memory is not None and share > pair.memory
        )
        quick = "" if pair.faster is None else f"≥ {pair.faster:g}×"
        wanted = "" if pair.memory is None else f"≤ {pair.memory:g}"
        table.add_row(
            name,
            f"{fast:.4f}",
            f"{slow:.4f}",
            f"{ratio:.2f}×",
            quick,
            f"{small:.0f}",
            f"{large:.0f}",
            f"{share:.2f}",
            wanted,
        )
    Console(width=120).print(
        table,
        f"medians of {given.processes} processes, in each of "
        f"{given.repeats} interleaved, {torch.get_num_threads()} threads",
    )
    if given.record is not None:
        write(given.record, measured, given.rows)
    return int(missed and not given.toy)


def write(path: Path, measured: dict[str, dict[str, float]], rows: int) -> None:
    versions = {"nescio": nescio.__version__}
    versions |= {name: version(name) for name in ("pytorch-ood", "torch")}
    facts = {"versions": versions, "processor": processor(), "threads": torch.get_num_threads()}
    facts |= {"rows": rows, "features": FEATURES, "scored": SCORED, "measured": measured}
    path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def processor() -> str:
    """Return the processor's name and the widest vectors that torch uses on it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {torch.backends.cpu.get_cpu_capability()}"


if __name__ == "__main__":
    sys.exit(main())
