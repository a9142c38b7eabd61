"""A run folder: what `nescio train` writes and the other commands read.

model.safetensors       weights, and how to make the model again
history.json            the record of the training
checkpoint.safetensors  where the training stands, or stood when it ended
evaluation.json         written by `nescio evaluate`, with
examples.json           the inputs the model was most and least certain of
audit.json              written by `nescio audit`, with a figure, as are
features.json           of a table: how far each feature is from certainty
regions.json            of two features: the linear regions
scaling.json            what each score notices far away
contest.json            written by `nescio contest`, with contest.md
recommendation.json     written by `nescio recommend`, with
recommended/            the detector it chose, as `nescio fit` leaves one
length_scale.json       how `--length-scale auto` was chosen, with length_scale.svg
penalty.json            how `--penalty auto` was chosen, with penalty.svg
"""

import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core.predict import predict
from nescio.data import Encoding, Known, Samples, load
from nescio.data.batches import fingerprint
from nescio.data.noise import NOISES
from nescio.errors import NescioError
from nescio.evaluation.unknown_sets import outliers
from nescio.files import check_replaceable, kind_of
from nescio.methods import Method, method_class, method_for
from nescio.models import NETWORKS, network_for
from nescio.records import Evaluation, History, from_plain
from nescio.seeds import derived_seed
from nescio.store.model_file import load_about, save
from nescio.training.train import train as train_model

MODEL, HISTORY, CHECKPOINT = "model.safetensors", "history.json", "checkpoint.safetensors"
EVALUATION, EXAMPLES = "evaluation.json", "examples.json"
AUDIT, FEATURES, REGIONS, SCALING = "audit.json", "features.json", "regions.json", "scaling.json"
CONTEST, DECISION = "contest.json", "decision.json"
RECOMMENDATION, RECOMMENDED = "recommendation.json", "recommended"
FITTED = "fitted.json"  # in the folder of a detector, which is no run
LENGTH_SCALE, PENALTY = "length_scale.json", "penalty.json"


@dataclass(frozen=True)
class Source:
    """Which data a run was trained on, so that it can be loaded again.

    >>> Source("digits", unseen=("7", "8", "9"))
    Source(name='digits', unseen=('7', '8', '9'), seed=0, impute=False, label=None)
    """

    name: str
    unseen: tuple[str, ...] = ()
    seed: int = 0
    impute: bool = False
    label: str | None = None

    def load(self, root: str | None = None) -> Known:
        """Load the data."""
        how: dict[str, Any] = {"impute": self.impute, "label": self.label}
        return load(self.name, root=root, unseen=self.unseen, seed=self.seed, **how)


@dataclass(frozen=True)
class Facts:
    """What must be known of the training data to score new inputs without it."""

    source: Source
    kind: str
    shape: tuple[int, ...]
    classes: tuple[str, ...]
    features: tuple[str, ...]
    encoding: dict[str, Any] | None  # of a table's columns
    train: str  # fingerprints of the two parts
    test: str

    @classmethod
    def of(cls, source: Source, known: Known) -> "Facts":
        """Facts of loaded data."""
        encoding = None if known.encoding is None else known.encoding.to_dict()
        parts = fingerprint(known.train), fingerprint(known.test)
        return cls(source, known.kind, known.shape, known.classes, known.features, encoding, *parts)

    def load(self, root: str | None = None) -> Known:
        """Load the data again, or raise an error if they have changed since the training."""
        known = self.source.load(root)
        now = Facts.of(self.source, known)
        # a file may change, a named set does not
        parts = ("train", "test") if os.path.isabs(self.source.name) else ()
        for name in ("kind", "shape", "classes", "features", "encoding", *parts):
            if getattr(now, name) != getattr(self, name):
                change = f"its {name} were {getattr(self, name)}, and now are {getattr(now, name)}"
                what = f"{self.source.name} has changed since the model was trained on it"
                raise NescioError(f"{what}: {change}")
        return known

    @property
    def test_name(self) -> str:
        """What the run's test data are called as calibration data."""
        return f"{self.source.name}, test part"

    def encoder(self) -> Encoding | None:
        """How a table's columns become features, or None for images and plain numbers."""
        return None if self.encoding is None else Encoding.from_dict(self.encoding)


def default_network(known: Known) -> str:
    """Return a network that suits the data: an MLP for tables, else one by size and colour."""
    if known.kind != "image":
        return "mlp"
    if known.shape[0] != 1:
        return "resnet20"
    return "conv3" if known.shape[1] >= 16 else "lenet"


def train_run(
    folder: Path,
    source: Source,
    known: Known,
    method: str,
    network: str,
    device: str,
    seed: int,
    chosen: Mapping[str, Any],
    dropout: float | None,
    root: str | None = None,
    resumable: bool = True,
    **settings: Any,
) -> tuple[Method, History]:
    """Train a method on known data into a folder; `resumable`: it resumes if interrupted.

    `chosen` are settings of the method, `dropout` that of its networks; the rest goes to `train`.

    >>> folder, source = Path("run"), Source("three_blobs")
    >>> how = {"method": "softmax", "network": "mlp", "device": "cpu", "seed": 0}
    >>> model, _ = train_run(folder, source, known, **how, chosen={}, dropout=None, epochs=1)
    >>> sorted(path.name for path in folder.iterdir())
    ['checkpoint.safetensors', 'history.json', 'model.safetensors']
    """
    check_run(folder)
    chosen = with_outliers(chosen, known, root)
    data, make = training_part(known), maker(known, method, network, device, chosen, dropout)
    with torch.random.fork_rng():
        torch.manual_seed(derived_seed(seed, "weights", 0))
        model = make()
    checkpoint = folder / CHECKPOINT if resumable else None
    history = train_model(model, data, seed=seed, checkpoint=checkpoint, **settings)
    model.to("cpu").eval()
    save(model, folder / MODEL, asdict(Facts.of(source, known)))
    history.save(folder / HISTORY)
    return model, history


def check_run(folder: Path) -> None:
    """Raise an error, before the work, if a run would replace files that are none of a run."""
    check_replaceable(folder / MODEL, "model file")
    check_replaceable(folder / HISTORY, "History record")
    checkpoint = folder / CHECKPOINT
    check_replaceable(checkpoint, "checkpoint file")
    if checkpoint.is_file() and kind_of(checkpoint) is None:  # it is empty, or may be replaced
        checkpoint.unlink()


def with_outliers(chosen: Mapping[str, Any], known: Known, root: str | None) -> Mapping[str, Any]:
    """Return the settings of a method, with data in place of a `noise` that names a set or file."""
    noise = chosen.get("noise")
    if not isinstance(noise, str) or noise in NOISES:
        return chosen
    # "noise" is what evaluations call the mixed kind
    return {**chosen, "noise": "mixed" if noise == "noise" else outliers(noise, known, root)}


def training_part(known: Known) -> Samples:
    """Return the training part, or raise an error if there is none.

    >>> len(training_part(known))
    1000
    """
    if known.train is None:
        raise NescioError(f"{known.name} has only a test part: it can only be unknown data")
    return known.train


def maker(
    known: Known,
    method: str,
    network: str,
    device: str,
    chosen: Mapping[str, Any],
    dropout: float | None,
) -> Callable[..., Method]:
    """Return a maker of a method with fresh weights; its arguments go before `chosen`."""
    check_device(device)
    if dropout is None and (needed := method_class(method).default_dropout):
        dropout = inspect.signature(NETWORKS[network]).parameters["dropout"].default or needed
    options: dict[str, Any] = {} if dropout is None else {"dropout": dropout}
    make_net = partial(network_for, network, known.shape, **options)
    arguments = (method, make_net, len(known.classes), known.normalise)
    return lambda **more: method_for(*arguments, **{**chosen, **more}).to(device)


def open_run(folder: Path) -> tuple[Method, Facts]:
    """Return the trained model of a run folder, and the facts of its data.

    >>> source, how = Source("three_blobs"), ("softmax", "mlp", "cpu", 0, {}, None)
    >>> _ = train_run(Path("run"), source, known, *how, epochs=1)
    >>> model, facts = open_run(Path("run"))
    >>> facts.classes
    ('left', 'right', 'top')
    """
    path, where = folder / MODEL, repr(str(folder / MODEL))
    if not path.exists():
        hint = ""
        if any(folder.glob(f"{Path(CHECKPOINT).stem}*")):
            hint = " (its training is not finished: run the same `nescio train` again)"
        elif (folder / FITTED).exists():
            hint = " (it holds a detector of `nescio fit`: for `nescio score` or `evaluate`)"
        what = f"{str(folder)!r} is not a run of `nescio train`"
        raise NescioError(f"{what}: it has no {MODEL}{hint}")
    model, about = load_about(path)
    if not isinstance(model, Method):
        raise NescioError(f"{where} holds a {type(model).__name__}, not a trained method")
    facts = from_plain(Facts, about, MODEL)
    facts.encoder()
    sides = facts.shape if len(facts.shape) in (1, 3) else (0,)
    if not all(0 < side < 2**16 for side in sides) or math.prod(sides) > 2**26:
        raise NescioError(f"{where} takes inputs of shape {facts.shape}: no table or image")
    check_outputs(model, torch.zeros(1, *facts.shape), facts.classes, where)
    return model, facts


def check_outputs(model: nn.Module, x: Tensor, classes: Sequence[str], where: str) -> None:
    """Raise an error if a model's outputs are not as many as the classes that a file names."""
    if (outputs := predict(model, x, progress=False).shape[2]) != len(classes):
        raise NescioError(f"{where} names {len(classes)} classes, but its network has {outputs}")


def open_runs(folders: Sequence[Path]) -> tuple[dict[str, Method], Facts]:
    """Return the models of runs on the same data, by method or by folder, and the data's facts."""
    runs = [(folder, *open_run(folder)) for folder in folders]
    first, _, facts = runs[0]
    for folder, _, other in runs:
        for name in ("kind", "shape", "classes", "train", "test"):
            if getattr(other, name) != getattr(facts, name):
                values = f"{getattr(facts, name)} and {getattr(other, name)}"
                what = f"other {name} inputs" if name in ("train", "test") else f"{name} {values}"
                on = f"{first} was on {facts.source.name} and {folder} on {other.source.name}"
                raise NescioError(f"runs must have been trained on the same data, but {on}: {what}")
    methods, models = [model.name for _, model, _ in runs], dict[str, Method]()
    for folder, model, _ in runs:
        name = model.name if methods.count(model.name) == 1 else folder.resolve().name
        if name in models:
            raise NescioError(f"runs of one method go by folder, and several are called {name!r}")
        models[name] = model
    return models, facts


def evaluations(words: Sequence[str]) -> dict[str, list[Evaluation]]:
    """Return evaluations by the names to show, from run folders or records, perhaps as `NAME=…`.

    Those without a name go by their method. Runs of one name, such as seeds, stand together.
    """
    by_name: dict[str, list[Evaluation]] = {}
    for word in words:
        name, mark, place = word.partition("=")
        if not mark or os.path.exists(word):
            name, place = "", word
        path = Path(place) / EVALUATION if os.path.isdir(place) else Path(place)
        if not path.exists():
            remedy = f": run `nescio evaluate {place} --unknown …` first"
            hint = remedy if path.name == EVALUATION else ""
            raise NescioError(f"there is no record {str(path)!r}{hint}")
        record = Evaluation.load(path)
        by_name.setdefault(name or record.method, []).append(record)
    return by_name


def move_to(model: nn.Module, device: str) -> None:
    """Move a model or detector to a device, or raise an error if there is no such device."""
    check_device(device)
    model.to(device)


def check_device(device: str) -> None:
    """Raise an error if a device cannot be used."""
    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:  # no such device, or torch was built without it
        reason = str(error).splitlines()[0]
        raise NescioError(f"device {device!r} cannot be used here: {reason}") from error
