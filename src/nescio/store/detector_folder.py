"""A detector's folder: what `nescio fit` writes and `nescio score` reads.

detector.safetensors  what was fitted and, of a network of ours, the network
graph.safetensors     of a network of the user's: it, as plain operations
weights.safetensors   or, if it could not be kept like that, its weights
fitted.json           how it was fitted, and what it takes
"""

import copy
import hashlib
import math
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor, nn

from nescio.core.features import HEAD
from nescio.core.forward import like_model
from nescio.core.predict import predict
from nescio.data import Encoding, Stream
from nescio.detectors import Detector
from nescio.errors import NescioError
from nescio.evaluation import class_names as naming
from nescio.files import atomic_write
from nescio.records import Fitted, to_plain
from nescio.store.graph import exported, read_graph, write_graph
from nescio.store.model_file import holds_model, load, write_model
from nescio.store.run import FITTED
from nescio.store.user_network import load_weights, made_by

DETECTOR, GRAPH, WEIGHTS, FACTS = (
    "detector.safetensors",
    "graph.safetensors",
    "weights.safetensors",
    FITTED,
)
FILES = (DETECTOR, GRAPH, WEIGHTS, FACTS)  # all that a folder may hold
FLOATS, WORDS = "float32", "int64"  # what a network is given


@dataclass(frozen=True)
class Kept:
    """Which file of a folder has the network, "detector", "graph" or "weights"; and why it is not in a better one."""

    network: str
    why: str | None = None


def is_fitted(folder: Path) -> bool:
    """Whether this is a folder that `nescio fit` wrote."""
    return (folder / FACTS).is_file()


def open_fitted(
    folder: Path, factory: str | None, command: Sequence[str]
) -> tuple[Detector, Fitted]:
    """The detector of a folder, and how it was fitted; code of the user's runs only if `factory` names it.

    `command` is what was asked of it, for an error that says how to ask.
    """
    facts = Fitted.load(folder / FACTS)
    _check(facts, folder)
    if facts.network == "weights" and factory is None:
        again = shlex.join(["nescio", *command, "--model", str(facts.factory)])
        raise NescioError(
            f"{str(folder)!r} holds the weights of its network, but not the network ({facts.why}); name "
            f"what makes it: {again}"
        )
    if facts.network != "weights" and factory is not None:
        raise NescioError(f"{str(folder)!r} holds its network; leave out --model")
    model: nn.Module | None = None
    if factory is not None:
        model = made_by(factory).to("cpu").eval()
        load_weights(model, folder / WEIGHTS)
    elif facts.network == "graph":
        model = read_graph(folder / GRAPH)
    detector = _loaded(folder / DETECTOR, model)
    if detector.name != facts.detector:
        raise NescioError(
            f"{str(folder / DETECTOR)!r} holds a {detector.name}, where {FACTS} says {facts.detector!r}"
        )
    if to_plain(detector.settings()) != facts.settings:
        raise NescioError(
            f"{str(folder / DETECTOR)!r} has other settings than {FACTS} says: {detector.settings()}, "
            f"not {facts.settings}"
        )
    if (len(detector.calibration_), tuple(detector.threshold_.reshape(-1).tolist())) != (
        facts.inputs,
        facts.thresholds,
    ):
        raise NescioError(
            f"{str(folder / DETECTOR)!r} has other thresholds than {FACTS} says, or of other data"
        )
    none = torch.zeros(1, *facts.shape, dtype=getattr(torch, facts.dtype))
    made = predict(detector.model, none, progress=False).shape[2]
    if made != len(facts.classes):
        raise NescioError(
            f"{str(folder)!r} names {len(facts.classes)} classes, but its network knows {made}"
        )
    return detector, facts


def stream_for(facts: Fitted, inputs: Path, batch_size: int) -> Stream:
    """New inputs in the shape the network takes; what is missing in them is NaN, and so unknown."""
    encoding = None if facts.encoding is None else Encoding.from_dict(facts.encoding)
    return Stream(
        inputs,
        facts.shape,
        encoding,
        batch_size,
        facts.kind,
        allow_missing=True,
        tokens=facts.dtype == WORDS,
    )


@contextmanager
def plain_attention() -> Iterator[None]:
    """A block in which transformers are run operation by operation, as graphs do: the fused way rounds otherwise."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def keep(detector: Detector, x: Tensor, place: Path) -> Kept:
    """Write a detector with its network: as one of ours, as a graph that answers bit by bit alike, or as weights."""
    if holds_model(detector):
        write_model(detector, place / DETECTOR)
        return Kept("detector")
    net = detector.model
    layers = {
        name for one in detector.modules() if isinstance(one, Detector) for name in one.layers
    } - {HEAD}
    try:
        write_graph(
            place / GRAPH,
            *exported(net, like_model(torch.cat([x, x])[: max(2, min(len(x), 4))], net), [*layers]),
        )
        graph = read_graph(place / GRAPH)
        # the same detector over the graph: what is a copy has the graph wherever the original has the network
        write_model(copy.deepcopy(detector, {id(net): graph}), place / DETECTOR)
        _check_same(detector, _loaded(place / DETECTOR, graph), x)
    except NescioError as error:
        (place / GRAPH).unlink(missing_ok=True)
        write_model(detector, place / DETECTOR)
        held = {
            name: value.contiguous().clone()
            for name, value in net.state_dict().items()
            if isinstance(value, Tensor)
        }
        with atomic_write(place / WEIGHTS) as file:
            file.write(save(held))
        return Kept("weights", str(error))
    return Kept("graph")


def digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file in a folder that says how a detector answers, but of the one that lists them."""
    found = {}
    for name in FILES:
        if name != FACTS and (folder / name).is_file():
            with (folder / name).open("rb") as file:
                found[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _check_same(one: Detector, other: Detector, x: Tensor) -> None:
    """An error if two detectors, or their networks, differ in a single bit on batches of some sizes."""
    for size in sorted({1, min(3, len(x)), len(x)}):
        some = x[:size]
        if not torch.equal(
            predict(one.model, some, progress=False), predict(other.model, some, progress=False)
        ):
            raise NescioError(f"its plain operations give other logits for a batch of {size}")
        try:
            scores = other.score(some)
        except NescioError as error:  # such as one about a layer that it does not find
            raise NescioError(
                f"{one.name} looks at the network's own layers, not at plain operations"
            ) from error
        if not torch.equal(one.score(some), scores):
            raise NescioError(f"{one.name} gives other scores over its plain operations")


def _loaded(path: Path, model: nn.Module | None) -> Detector:
    detector = load(path, model)
    if not isinstance(detector, Detector):
        raise NescioError(f"{str(path)!r} holds a {type(detector).__name__}, not a detector")
    return detector


def _check(facts: Fitted, folder: Path) -> None:
    """An error if a folder is not as a fit left it, or says things that no fit would."""
    where = repr(str(folder / FACTS))
    if facts.own_digest() != facts.digest:
        raise NescioError(
            f"{where} was changed since it was fitted: its contents do not have the digest "
            f"{facts.digest[:12]!r}…; fit it anew"
        )
    found = digests(folder)
    for name in sorted(facts.files.keys() | found.keys()):
        if found.get(name) != facts.files.get(name):
            what = (
                "is missing"
                if name not in found
                else "was changed since"
                if name in facts.files
                else "was added"
            )
            raise NescioError(
                f"{str(folder / name)!r} {what}; a detector's folder goes as it was fitted, whole"
            )
    naming.check_names(facts.classes)
    if facts.network not in ("detector", "graph", "weights"):
        raise NescioError(
            f"{where} says that its network is in {facts.network!r}, which this version does not know"
        )
    if facts.dtype not in (FLOATS, WORDS):
        raise NescioError(
            f"{where} says that inputs are {facts.dtype!r}; expected {FLOATS} or {WORDS}"
        )
    if facts.kind not in (None, "images", "inputs"):
        raise NescioError(
            f"{where} says that it was fitted on {facts.kind!r}; expected images or inputs"
        )
    if not all(0 < side < 2**20 for side in facts.shape or (0,)) or math.prod(facts.shape) > 2**26:
        raise NescioError(
            f"{where} has inputs of shape {facts.shape}; expected some numbers, at most {2**26}"
        )
