"""A detector's folder: what `nescio fit` writes and `nescio score` reads.

detector.safetensors  what was fitted and, of a network of ours, the network
graph.safetensors     of a network of the user's: its exported graph
weights.safetensors   or, if it cannot be exported, its weights
fitted.json           how it was fitted, and what it takes
"""

import copy
import hashlib
import math
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
from nescio.evaluation.class_names import check_names
from nescio.files import atomic_write
from nescio.records import Fitted, to_plain
from nescio.store.graph import exported, read_graph, write_graph
from nescio.store.model_file import holds_model, load, write_model
from nescio.store.run import FITTED, check_outputs
from nescio.store.user_network import load_weights, make_network

DETECTOR, GRAPH, WEIGHTS = "detector.safetensors", "graph.safetensors", "weights.safetensors"
FILES = (DETECTOR, GRAPH, WEIGHTS, FITTED)  # all that a folder may hold
FLOATS, TOKEN_IDS = "float32", "int64"  # what a network is given


def is_fitted(folder: Path) -> bool:
    """Return whether this is a folder that `nescio fit` wrote."""
    return (folder / FITTED).is_file()


def open_fitted(
    folder: Path, factory: str | None, command: Sequence[str]
) -> tuple[Detector, Fitted]:
    """Return the detector of a folder, and how it was fitted.

    Code of the user's runs only if `factory` names it. `command` is what the user typed, for an
    error that says how to name it.
    """
    facts = Fitted.load(folder / FITTED)
    _check(facts, folder)
    if facts.network == "weights" and factory is None:
        again = shlex.join(["nescio", *command, "--model", str(facts.factory)])
        held = f"{str(folder)!r} holds the weights of its network, but not the network"
        raise NescioError(f"{held} ({facts.why}); name what makes it: {again}")
    if facts.network != "weights" and factory is not None:
        raise NescioError(f"{str(folder)!r} holds its network; leave out --model")
    model: nn.Module | None = None
    if factory is not None:
        model = make_network(factory)
        load_weights(model, folder / WEIGHTS)
    elif facts.network == "graph":
        model = read_graph(folder / GRAPH)
    detector = _load_detector(folder / DETECTOR, model)
    _check_agrees(detector, facts, repr(str(folder / DETECTOR)))
    x = torch.zeros(1, *facts.shape, dtype=getattr(torch, facts.dtype))
    check_outputs(detector.model, x, facts.classes, repr(str(folder)))
    return detector, facts


def _check_agrees(detector: Detector, facts: Fitted, where: str) -> None:
    """Raise an error if a detector is not the one that the folder's record is of."""
    if (name := detector.name) != facts.detector:
        raise NescioError(f"{where} holds a {name}, where {FITTED} says {facts.detector!r}")
    held, said = detector.settings(), facts.settings
    if to_plain(held) != said:
        raise NescioError(f"{where} has other settings than {FITTED} says: {held}, not {said}")
    rule = detector.rule
    if rule is not None and (promise := rule.promise(detector.controlled)) != facts.promise:
        raise NescioError(f"{where} guarantees {promise!r}, where {FITTED} says {facts.promise!r}")
    thresholds = tuple(detector.threshold_.reshape(-1).tolist())
    if (len(detector.calibration_), thresholds) != (facts.inputs, facts.thresholds):
        raise NescioError(f"{where} has other thresholds than {FITTED} says, or of other data")


def stream_for(facts: Fitted, inputs: Path, batch_size: int) -> Stream:
    """Stream new inputs in the shape the network takes; missing values are NaN, and so unknown."""
    encoding, how = encoding_of(facts), {"allow_missing": True, "tokens": facts.dtype == TOKEN_IDS}
    return Stream(inputs, facts.shape, encoding, batch_size, facts.kind, **how)


def encoding_of(facts: Fitted) -> Encoding | None:
    """Return how a table's columns become features, or None for other inputs."""
    return None if facts.encoding is None else Encoding.from_dict(facts.encoding)


@contextmanager
def plain_attention() -> Iterator[None]:
    """Run transformers operation by operation, as graphs do: the fused way rounds otherwise."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def write_detector(detector: Detector, x: Tensor, place: Path) -> tuple[str, str | None]:
    """Write a detector and its network: one of ours, a bit-identical graph, or weights.

    Return which file has the network, "detector", "graph" or "weights", and why not a graph.
    """
    if holds_model(detector):
        write_model(detector, place / DETECTOR)
        return "detector", None
    net = detector.model
    parts = (part for part in detector.modules() if isinstance(part, Detector))
    layers = {name for part in parts for name in part.layers} - {HEAD}
    example = like_model(torch.cat([x, x])[: max(2, min(len(x), 4))], net)
    try:
        write_graph(place / GRAPH, *exported(net, example, [*layers]))
        graph = read_graph(place / GRAPH)
        # a copy has the graph wherever the original has the network
        write_model(copy.deepcopy(detector, {id(net): graph}), place / DETECTOR)
        _check_same(detector, _load_detector(place / DETECTOR, graph), x)
    except NescioError as error:
        (place / GRAPH).unlink(missing_ok=True)
        write_model(detector, place / DETECTOR)
        state = {k: v for k, v in net.state_dict().items() if isinstance(v, Tensor)}
        with atomic_write(place / WEIGHTS) as file:
            file.write(save({name: value.contiguous().clone() for name, value in state.items()}))
        return "weights", str(error)
    return "graph", None


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a detector's folder but the one that lists them."""
    found = {}
    for name in FILES:
        if name != FITTED and (folder / name).is_file():
            with (folder / name).open("rb") as file:
                found[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _check_same(detector: Detector, loaded: Detector, x: Tensor) -> None:
    """Raise an error if two detectors, or their networks, differ in a single bit."""
    for size in sorted({1, min(3, len(x)), len(x)}):
        batch = x[:size]
        logits = (predict(each.model, batch, progress=False) for each in (detector, loaded))
        if not torch.equal(*logits):
            raise NescioError(f"its exported graph gives other logits for a batch of {size}")
        try:
            scores = loaded.score(batch)
        except NescioError as error:  # such as one about a layer that it does not find
            reason = "needs the network's own layers, not an exported graph"
            raise NescioError(f"{detector.name} {reason}") from error
        if not torch.equal(detector.score(batch), scores):
            raise NescioError(f"{detector.name} gives other scores over the exported graph")


def _load_detector(path: Path, model: nn.Module | None) -> Detector:
    detector = load(path, model)
    if not isinstance(detector, Detector):
        raise NescioError(f"{str(path)!r} holds a {type(detector).__name__}, not a detector")
    return detector


def _check(facts: Fitted, folder: Path) -> None:
    """Raise an error if a folder is not as a fit left it, or says things that no fit would."""
    where = repr(str(folder / FITTED))
    if facts.own_digest() != facts.digest:
        change = f"its contents do not have the digest {facts.digest[:12]!r}…"
        raise NescioError(f"{where} was changed since it was fitted: {change}; fit it again")
    files = digests(folder)
    for name in sorted(facts.files.keys() | files.keys()):
        if files.get(name) != facts.files.get(name):
            changed = "was changed" if name in facts.files else "was added"
            what = f"{str(folder / name)!r} {changed if name in files else 'is missing'}"
            raise NescioError(f"{what}; a detector's folder must stay whole, as fitted")
    check_names(facts.classes)
    allowed = {
        "network": ("detector", "graph", "weights"),
        "dtype": (FLOATS, TOKEN_IDS),
        "kind": (None, "images", "inputs"),
    }
    for name, values in allowed.items():
        if (value := getattr(facts, name)) not in values:
            expected = ", ".join(str(value) for value in values if value)
            raise NescioError(f"{where} has the {name} {value!r}; expected one of {expected}")
    if not all(0 < side < 2**20 for side in facts.shape or (0,)) or math.prod(facts.shape) > 2**26:
        expected = f"some numbers, at most {2**26}"
        raise NescioError(f"{where} has inputs of shape {facts.shape}; expected {expected}")
