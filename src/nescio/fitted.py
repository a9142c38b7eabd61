"""A detector folder: what `nescio fit` writes and `nescio score` reads.

detector.safetensors  what was fitted and, of a network of ours, the network
graph.safetensors     of a network of the user's: it, as plain operations
weights.safetensors   or, if it could not be kept like that, its weights
fitted.json           how it was fitted, and what it takes
"""

import copy
import hashlib
import inspect
import json
import math
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from nescio import naming
from nescio.atomic import replacing_folder
from nescio.data import Encoding, Samples, Stream, adapt
from nescio.data.csv_file import read_csv
from nescio.data.formats import is_table
from nescio.data.read import read_parts, relabelled
from nescio.detectors import DETECTORS, Detector
from nescio.detectors.features import HEAD
from nescio.detectors.on_features import FeatureDetector
from nescio.errors import NescioError
from nescio.factory import load_weights, made_by
from nescio.graph import exported, read_graph, write_graph
from nescio.predict import like_model, predict
from nescio.records import Fitted, Provenance, to_plain
from nescio.runs import open_run
from nescio.saving import holds_model, load, save

DETECTOR, GRAPH, WEIGHTS, FACTS = "detector.safetensors", "graph.safetensors", "weights.safetensors", "fitted.json"
FILES = (DETECTOR, GRAPH, WEIGHTS, FACTS)  # all that a folder may hold
FLOATS, WORDS = "float32", "int64"  # what a network is given
TRIED = 64  # inputs that a graph must answer as its network does


@dataclass(frozen=True)
class Wanted:
    """Which detector to fit, and how; None is what is usual."""

    detector: str = "threshold"
    score: str | None = None
    layer: str | None = None
    accept: float | None = None
    risk: float | None = None
    confidence: float | None = None
    per_class: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)  # others of the detector's

    def over(self, model: nn.Module) -> Detector:
        """The detector, not yet fitted."""
        kind = DETECTORS[self.detector]
        given = {name: value for name in ("score", "layer") if (value := getattr(self, name)) is not None}
        if twice := given.keys() & self.settings.keys():
            raise NescioError(f"{min(twice)} was given twice")
        given |= self.settings
        known = [name for name in inspect.signature(kind).parameters if name != "model"]
        for name in given:
            if name not in known:
                raise NescioError(f"{self.detector} has no setting {name!r}; it has {', '.join(known) or 'none'}")
        return kind(model, **given)

    def fit(self, detector: Detector, known: Any, train: Any) -> None:
        """Fit it."""
        bound: dict[str, Any] = {"risk": self.risk, "confidence": self.confidence}
        detector.fit(known, self.accept, train=train, per_class=self.per_class, **bound)


def settings_in(words: Sequence[str]) -> dict[str, Any]:
    """Settings of a detector given as words, with values in JSON; what is not JSON is text.

    >>> settings_in(["k=10", "floor=0.2", "kind=lasso", 'members=["energy", "knn"]'])
    {'k': 10, 'floor': 0.2, 'kind': 'lasso', 'members': ['energy', 'knn']}
    """
    found: dict[str, Any] = {}
    for word in words:
        name, mark, text = word.partition("=")
        if not mark or not name:
            raise NescioError(f"{word!r} is no setting; expected name=value, such as k=10")
        if name in found:
            raise NescioError(f"{name} was given twice")
        try:
            found[name] = json.loads(text)
        except (ValueError, RecursionError):
            found[name] = text
    return found


@dataclass(frozen=True)
class Known:
    """What a network takes and knows, and the data that a detector over it was fitted on."""

    shape: tuple[int, ...]
    kind: str | None
    classes: tuple[str, ...]
    encoding: Encoding | None
    data: str
    taught: str
    words: bool = False  # whether inputs are whole numbers

    def facts(self, wanted: Wanted, detector: Detector, factory: str | None, seconds: float, kept: "Kept") -> Fitted:
        """How a detector was fitted, for its folder."""
        return Fitted(
            detector=detector.name,
            settings=detector.settings(),
            factory=factory,
            network=kept.network,
            why=kept.why,
            shape=self.shape,
            kind=self.kind,
            classes=self.classes,
            encoding=None if self.encoding is None else self.encoding.to_dict(),
            data=self.data,
            inputs=len(detector.calibration_),
            taught=self.taught if detector.learns else None,
            promise="" if detector.level is None else detector.level.promise(detector.controlled),
            thresholds=tuple(detector.threshold_.reshape(-1).tolist()),
            provenance=Provenance.now(0, vars(wanted), seconds),
            dtype=WORDS if self.words else FLOATS,
        )


@dataclass(frozen=True)
class Kept:
    """Which file of a folder has the network, "detector", "graph" or "weights"; and why it is not in a better one."""

    network: str
    why: str | None = None


def fit_own(
    folder: Path,
    factory: str,
    weights: Path | None,
    data: Path,
    train: Path | None,
    label: str | None,
    class_names: Sequence[str],
    wanted: Wanted,
) -> tuple[Detector, Fitted, str | None]:
    """Fit a detector over a network of the user's into a folder, on data it was not trained on.

    With what was fitted comes a warning, if labels speak against the names of the classes.

    Args:
        folder: to write, whole or not at all.
        factory: `package.module:name` of what makes the network.
        weights: safetensors; without them the network keeps those it was made with.
        data: npz, CSV or a folder of images; of npz `inputs` are taken as they are.
        train: what a detector learns from that learns more than a threshold; else half of the data.
        label: the label column, if a CSV file has one.
        class_names: in the order of the network's outputs; else those of the data, if they are as many, or numbers.
        wanted: which detector.
    """
    started = time.monotonic()
    net = made_by(factory).to("cpu").eval()
    if weights is not None:
        load_weights(net, weights)
    encoding = _columns(data, label)
    parts = {name: _read(path, label, encoding, name) for name, path in (("test", data), ("train", train)) if path}
    _, named, kind = parts["test"]
    if "train" in parts and parts["train"][2] != kind:
        raise NescioError(f"{data} has {kind}, {train} has {parts['train'][2]}; give both in one way, as the values of "
                          "images are brought to [0, 1], and those of `inputs` are left as they are")  # fmt: skip
    with plain_attention(), replacing_folder(folder, FACTS, FILES) as place:
        outputs, held = _taken(net, {part: one for part, (one, *_) in parts.items()})
        samples = held["test"]
        some = samples.take(slice(TRIED))[0]
        classes = naming.class_names(class_names, named, outputs, str(data))
        sets = {part: _labelled(held[part], own, classes) for part, (_, own, _) in parts.items()}
        detector = wanted.over(net)
        wanted.fit(detector, sets["test"], sets.get("train"))
        kept = _keep(detector, some, place)
        taught = f"half of {data}" if train is None else str(train)
        words = not some.is_floating_point()
        known = Known(samples.shape, kind, classes, encoding, str(data), taught, words)
        facts = known.facts(wanted, detector, factory, time.monotonic() - started, kept).sealed(_digests(place))
        facts.save(place / FACTS)
        doubt = naming.doubt(net, sets["test"], classes) if isinstance(sets["test"], Samples) else None
    return detector, facts, doubt


def fit_run(
    folder: Path,
    run: Path,
    data: Path | None,
    train: Path | None,
    label: str | None,
    wanted: Wanted,
    root: str | None = None,
) -> tuple[Detector, Fitted]:
    """Fit a detector over the model of a run into a folder: on its known test data, or on others.

    What looks at features learns them from the run's training data, unless others are given to learn from.
    """
    started = time.monotonic()
    model, about = open_run(run)
    encoder = about.encoder()

    def read(path: Path, part: str) -> Any:
        parts = read_parts(path, label, encoder)
        samples = parts.samples.get(part) or next(iter(parts.samples.values()))
        return _labelled(adapt(samples, about.shape), parts.classes, about.classes)

    detector = wanted.over(model)
    own = isinstance(detector, FeatureDetector) and train is None
    loaded = about.load(root) if own or data is None else None
    held = read(data, "test") if data is not None else loaded.test if loaded is not None else None
    teacher = read(train, "train") if train is not None else loaded.train if own and loaded is not None else None
    name = f"{about.source.name}, test part" if data is None else str(data)
    taught = f"half of {name}" if teacher is None else f"{about.source.name}, training part" if own else str(train)
    known = Known(about.shape, None, about.classes, encoder, name, taught)
    with replacing_folder(folder, FACTS, FILES) as place:
        wanted.fit(detector, held, teacher)
        save(detector, place / DETECTOR)
        facts = known.facts(wanted, detector, None, time.monotonic() - started, Kept("detector"))
        facts = facts.sealed(_digests(place))
        facts.save(place / FACTS)
    return detector, facts


def _taken(net: nn.Module, parts: Mapping[str, Samples]) -> tuple[int, Mapping[str, Samples]]:
    """How many classes a network answers, and the parts as it takes them: whole numbers as such, or else as floats."""
    floats = {part: samples.floats() for part, samples in parts.items()}
    words = [part for part, samples in parts.items() if samples is not floats[part]]
    if "test" not in words:
        return _outputs(net, floats["test"].take(slice(2))[0]), floats
    try:
        outputs = _outputs(net, parts["test"].take(slice(2))[0])
    except NescioError:
        if any(isinstance(module, nn.Embedding) for module in net.modules()):
            raise
        return _outputs(net, floats["test"].take(slice(2))[0]), floats
    if len(words) < len(parts):
        raise NescioError("the data hold whole numbers, but the data to learn from do not; give both in one way")
    return outputs, parts


def _outputs(net: nn.Module, x: Tensor) -> int:
    """How many classes a network answers; an error if it cannot be run, or not on one input, as scoring must."""
    made = predict(net, x, progress=False).shape[2]
    try:
        predict(net, x[:1], progress=False)
    except NescioError as error:
        raise NescioError(f"the network answers two inputs, but not one alone: {error}. New inputs may come one by "
                          "one; a batch norm needs its running statistics for that (track_running_stats)"
                          ) from error  # fmt: skip
    return made


def _keep(detector: Detector, x: Tensor, place: Path) -> Kept:
    """Write a detector with its network: as one of ours, as a graph that answers bit by bit alike, or as weights."""
    if holds_model(detector):
        save(detector, place / DETECTOR)
        return Kept("detector")
    net = detector.model
    layers = {name for one in detector.modules() if isinstance(one, Detector) for name in one.layers} - {HEAD}
    try:
        write_graph(
            place / GRAPH, *exported(net, like_model(torch.cat([x, x])[: max(2, min(len(x), 4))], net), [*layers])
        )
        graph = read_graph(place / GRAPH)
        # the same detector over the graph: what is a copy has the graph wherever the original has the network
        save(copy.deepcopy(detector, {id(net): graph}), place / DETECTOR)
        _check_same(detector, _loaded(place / DETECTOR, graph), x)
    except NescioError as error:
        (place / GRAPH).unlink(missing_ok=True)
        save(detector, place / DETECTOR)
        held = {
            name: value.contiguous().clone() for name, value in net.state_dict().items() if isinstance(value, Tensor)
        }
        save_file(held, place / WEIGHTS)
        return Kept("weights", str(error))
    return Kept("graph")


def _digests(folder: Path) -> dict[str, str]:
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
        if not torch.equal(predict(one.model, some, progress=False), predict(other.model, some, progress=False)):
            raise NescioError(f"its plain operations give other logits for a batch of {size}")
        try:
            scores = other.score(some)
        except NescioError as error:  # such as one about a layer that it does not find
            raise NescioError(f"{one.name} looks at the network's own layers, not at plain operations") from error
        if not torch.equal(one.score(some), scores):
            raise NescioError(f"{one.name} gives other scores over its plain operations")


def _loaded(path: Path, model: nn.Module | None) -> Detector:
    detector = load(path, model)
    if not isinstance(detector, Detector):
        raise NescioError(f"{str(path)!r} holds a {type(detector).__name__}, not a detector")
    return detector


def is_fitted(folder: Path) -> bool:
    """Whether this is a folder that `nescio fit` wrote."""
    return (folder / FACTS).is_file()


def open_fitted(folder: Path, factory: str | None, inputs: Path) -> tuple[Detector, Fitted]:
    """The detector of a folder, and how it was fitted; code of the user's runs only if `factory` names it."""
    facts = Fitted.load(folder / FACTS)
    _check(facts, folder)
    if facts.network == "weights" and factory is None:
        again = shlex.join(["nescio", "score", str(folder), str(inputs), "--model", str(facts.factory)])
        raise NescioError(f"{str(folder)!r} holds the weights of its network, but not the network ({facts.why}); name "
                          f"what makes it: {again}")  # fmt: skip
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
        raise NescioError(f"{str(folder / DETECTOR)!r} holds a {detector.name}, where {FACTS} says {facts.detector!r}")
    if to_plain(detector.settings()) != facts.settings:
        raise NescioError(f"{str(folder / DETECTOR)!r} has other settings than {FACTS} says: {detector.settings()}, "
                          f"not {facts.settings}")  # fmt: skip
    none = torch.zeros(1, *facts.shape, dtype=getattr(torch, facts.dtype))
    made = predict(detector.model, none, progress=False).shape[2]
    if made != len(facts.classes):
        raise NescioError(f"{str(folder)!r} names {len(facts.classes)} classes, but its network knows {made}")
    return detector, facts


def stream_for(facts: Fitted, inputs: Path, batch_size: int) -> Stream:
    """New inputs in the shape the network takes; what is missing in them is NaN, and so unknown."""
    encoding = None if facts.encoding is None else Encoding.from_dict(facts.encoding)
    return Stream(inputs, facts.shape, encoding, batch_size, facts.kind, gaps=True, words=facts.dtype == WORDS)


@contextmanager
def plain_attention() -> Iterator[None]:
    """A block in which transformers are run operation by operation, as graphs do: the fused way rounds otherwise."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _columns(path: Path, label: str | None) -> Encoding | None:
    """The columns of a CSV file that go to the network, as numbers; None of other files."""
    if not is_table(path):
        return None
    return Encoding.numeric(name for name in read_csv(path) if name != label)


def _read(path: Path, label: str | None, encoding: Encoding | None, part: str) -> tuple[Samples, tuple[str, ...], str]:
    """The part of that name, or what there is, the names of its classes, and whether it is "images" or "inputs"."""
    parts = read_parts(path, label, encoding, any_shape=True)
    part = part if part in parts.samples else next(iter(parts.samples))
    samples = parts.samples[part]
    images = len(samples.shape) == 3 and part not in parts.as_given
    return samples, parts.classes, "images" if images else "inputs"


def _labelled(samples: Samples, own: tuple[str, ...], classes: tuple[str, ...]) -> Any:
    """Samples with labels as the network numbers them, or the inputs alone if they have none."""
    if bool((samples.labels < 0).all()):
        return samples.take(slice(None))[0]
    found = relabelled(samples, own, classes, samples.name)
    if bool((found.labels < 0).any()):
        first = int(samples.labels[found.labels < 0][0])
        raise NescioError(f"an input to fit on has the label {own[first] if own else first!r}, which is none of the "
                          f"classes {', '.join(classes)}; --class-names names them in the outputs' order")  # fmt: skip
    return found


def _check(facts: Fitted, folder: Path) -> None:
    """An error if a folder is not as a fit left it, or says things that no fit would."""
    where = repr(str(folder / FACTS))
    if facts.own_digest() != facts.digest:
        raise NescioError(f"{where} was changed since it was fitted: its contents do not have the digest "
                          f"{facts.digest[:12]!r}…; fit it anew")  # fmt: skip
    found = _digests(folder)
    for name in sorted(facts.files.keys() | found.keys()):
        if found.get(name) != facts.files.get(name):
            what = "is missing" if name not in found else "was changed since" if name in facts.files else "was added"
            raise NescioError(f"{str(folder / name)!r} {what}; a detector's folder goes as it was fitted, whole")
    naming.check_names(facts.classes)
    if facts.network not in ("detector", "graph", "weights"):
        raise NescioError(f"{where} says that its network is in {facts.network!r}, which this version does not know")
    if facts.dtype not in (FLOATS, WORDS):
        raise NescioError(f"{where} says that inputs are {facts.dtype!r}; expected {FLOATS} or {WORDS}")
    if facts.kind not in (None, "images", "inputs"):
        raise NescioError(f"{where} says that it was fitted on {facts.kind!r}; expected images or inputs")
    if not all(0 < side < 2**20 for side in facts.shape or (0,)) or math.prod(facts.shape) > 2**26:
        raise NescioError(f"{where} has inputs of shape {facts.shape}; expected some numbers, at most {2**26}")
