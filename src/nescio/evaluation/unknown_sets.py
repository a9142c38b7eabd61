"""Unknown data by name: `unseen` classes, kinds of noise, `far`, attacks, any data set or file."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core.attacks import ATTACKS, Attack, attack, attack_named
from nescio.core.logits import classes
from nescio.core.predict import predict
from nescio.data import Known, Samples, adapt, batches, load, noise, read
from nescio.data.catalogue import NAMES
from nescio.data.noise import NOISES, SYNTHETIC, synthetic
from nescio.data.table import ZEROS
from nescio.errors import NescioError, check_int, check_name, unknown_name
from nescio.methods import Method, as_method
from nescio.records import Against
from nescio.seeds import derived_seed

KNOWN = "known"  # what the known data are called beside them
UNSEEN = "unseen"
# made by an attack, for one model: the strongest we have, or the paper's
ADVERSARIAL = (
    "adversarial_noise",
    "adversarial_samples",
    "adversarial_noise_paper",
    "adversarial_samples_paper",
)
ATTACK_STARTS = 1000  # known inputs that an attack may start from
Reader = Callable[[str], Samples]


def named_sets(unknown: Mapping[str, Any] | Sequence[str] | None) -> Mapping[str, Any]:
    """Return unknown data by name; a name alone stands for what it names."""
    if isinstance(unknown, list | tuple) and all(isinstance(name, str) for name in unknown):
        unknown = {name: name for name in unknown}
    sets = {} if unknown is None else unknown
    if not isinstance(sets, Mapping) or not all(isinstance(name, str) for name in sets):
        expected = "come with names, {'noise': data, …}, or be names of what can be made"
        raise NescioError(f"unknown data must {expected}")
    if KNOWN in sets:
        raise NescioError("unknown data may not be called 'known': the name is taken")
    return sets


def check_rereadable(sets: Mapping[str, Any]) -> None:
    """Raise an error if one of these sets can be read only once."""
    for name, data in sets.items():
        if isinstance(data, Iterator):
            problem = f"{name!r} can be read only once, but every detector reads it"
            raise NescioError(f"{problem}; give a dataset or a loader")


def made_set(
    name: str, method: Method, known: Any, attacked: int, **how: Any
) -> tuple[Any, Against | None]:
    """Make the set of that name from known data, and say how an attack, on so many inputs, went.

    Further arguments are `batch_size`, `seed` and `progress`, as in `predict`.
    """
    check_name("name of unknown data", name, (*SYNTHETIC, *ADVERSARIAL))
    if name not in ADVERSARIAL:
        return synthetic(name, in_memory(known), how["seed"]), None
    adversarial = adversarial_set(name, method, known, attacked, **how)
    return adversarial.samples, Against(adversarial.tried, **asdict(adversarial.how))


def unknown_sets(
    names: Iterable[str],
    known: Known,
    root: str | None = None,
    seed: int = 0,
    reader: Reader | None = None,
) -> dict[str, Any]:
    """Return what `evaluate` takes as unknown data, by name; what an attack makes stays a name."""
    return {
        name: word if word in ADVERSARIAL else unknown_set(word, known, root, seed, reader)
        for name, word in set_names(names).items()
    }


def set_names(words: Iterable[str]) -> dict[str, str]:
    """Return what to call each set of unknown data: the word itself or, for a path, its stem.

    Where that is the name of another set, as much of the path is added as makes them distinct.

    >>> set_names(["noise", "data/notmnist.npz", "data/far.csv.gz"])
    {'noise': 'noise', 'notmnist': 'data/notmnist.npz', 'far.csv.gz': 'data/far.csv.gz'}
    """
    special = {KNOWN, UNSEEN, *SYNTHETIC, *ADVERSARIAL}
    ours = {*special, *NAMES}
    words = {word if word in ours else os.path.abspath(word): word for word in words}  # each once
    options = {where: [where] if where in ours else _path_names(Path(where)) for where in words}
    while True:
        names = {where: choices[0] for where, choices in options.items()}
        taken = Counter([*special, *names.values()])
        clashes = [where for where in words if where not in ours and taken[names[where]] > 1]
        if not clashes:
            return {names[where]: word for where, word in words.items()}
        for where in clashes:
            options[where].pop(0)


def _path_names(path: Path) -> list[str]:
    """Names for a file or folder, from its stem to the whole of its path."""
    plain = path.name.removesuffix(".gz").removesuffix(".bz2")
    stem = path.name if path.is_dir() else Path(plain).stem
    longer = (str(Path(*path.parts[-parts:])) for parts in range(1, len(path.parts) + 1))
    return [stem or str(path), *longer]


def outliers(name: str, known: Known, root: str | None = None) -> Samples:
    """Return inputs to train against: the training part of a data set, or a file, adapted."""
    if name in NAMES:
        other = load(name, root=root, impute=True)
        return adapt(other.test if other.train is None else other.train, known.shape)
    return _from_file(name, known, "noise", [*NOISES, *NAMES])


def unknown_set(
    name: str, known: Known, root: str | None = None, seed: int = 0, reader: Reader | None = None
) -> Samples:
    """Return the inputs that a name stands for, in the shape of the known data.

    `reader` reads files, if the known data were not read by `nescio.data`.

    >>> unknown_set("far", known)
    Samples('three_blobs test × 100', 500 × (2,), torch.float32)
    """
    if name == UNSEEN:
        if known.unseen is None:
            advice = "train with --unseen, or load with unseen=[…]"
            raise NescioError(f"{known.name} has no unseen classes; {advice}")
        return known.unseen
    if name in SYNTHETIC:
        return synthetic(name, known.test, seed)
    if name in NAMES:
        if known.kind == "inputs":
            problem = (
                f"{name} has its own range of values, but the network takes `inputs` as they are"
            )
            raise NescioError(f"{problem}; give the unknown data as a file of such inputs")
        return adapt(load(name, root=root, impute=True).test, known.shape)
    others = [UNSEEN, *SYNTHETIC, *ADVERSARIAL, *NAMES]
    return _from_file(name, known, "name of unknown data", others, reader)


def _from_file(
    name: str, known: Known, kind: str, others: list[str], reader: Reader | None = None
) -> Samples:
    """Read a file's inputs, or raise an error that lists the names there are."""
    if not Path(name).exists() and not any(mark in name for mark in "/.\\"):
        raise unknown_name(kind, name, others, os.listdir())
    if reader is not None:
        return reader(name)
    return adapt(read(name, encoding=known.encoding, unseen_category=ZEROS), known.shape)


class AttackFailedError(NescioError):
    """No attack made the model err, so there are no adversarial samples."""


@dataclass(frozen=True)
class AdversarialSet:
    """What an attack made, with label −1, what it started from, how many were tried, and how."""

    samples: Samples
    started_from: Tensor
    tried: int
    how: Attack


def adversarial_set(
    name: str,
    model: nn.Module,
    known: Any,
    n: int = 1000,
    *,
    how: Attack | str | None = None,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool | None = None,
) -> AdversarialSet:
    """Make adversarial inputs for a model, around those of section 5 of paper 2.

    `adversarial_noise` starts from the paper's noise and raises the confidence;
    `adversarial_samples` starts from known inputs and raises the loss, and only those that end in a
    wrong class are kept. For images, ε is 0.3 (0.1 for samples in colour) within [0, 1]; for tables
    it is in standard deviations of each feature. The attack is the strongest we have, see
    `Attack.strengthened`, also from known inputs moved into the ball. `adversarial_noise_paper` and
    `adversarial_samples_paper` are by the paper's attack: 200 and 80 steps from a random start.

    Args:
        name: one of these four.
        model: a method, or a bare network.
        known: labelled data of the known classes.
        n: number of inputs to attack, drawn from the known ones.
        how: another attack.
        batch_size, seed, progress: as in `predict`.

    Raises:
        AttackFailedError: if no input ends in a wrong class.
    """
    check_name("adversarial set", name, ADVERSARIAL)
    known, method = in_memory(known), as_method(model)
    starts = _random_inputs(known, check_int("n", n), seed)
    x, y = starts.take(slice(None))
    images = len(starts.shape) == 3
    kind, papers = name.removesuffix("_paper"), name.endswith("_paper")
    if kind == "adversarial_noise":
        x = noise.samples("mixed", starts, seed=seed).inputs
    elif int(y.min()) < 0:
        raise NescioError("adversarial samples are made from known data, which must have labels")
    colour = images and starts.shape[0] > 1 and kind == "adversarial_samples"
    usual = ATTACKS[f"{kind}_in_colour" if colour else kind]
    how = attack_named(how or (usual if papers else usual.strengthened()))
    data = (x, y) if how.objective == "loss" else x
    run: dict[str, Any] = {"batch_size": batch_size, "seed": seed}
    box, scale = ((0.0, 1.0), None) if images else (None, _spread(known))
    near = _random_inputs(known, ATTACK_STARTS, seed).take(slice(None))[0]
    where: dict[str, Any] = {"box": box, "scale": scale, "known": near}
    inputs = attack(method, data, how, progress=progress, **where, **run).inputs
    chosen = torch.ones(len(x), dtype=torch.bool)
    if kind == "adversarial_samples":
        chosen = classes(predict(method, inputs, progress=False, **run)).cpu() != y
        if not chosen.any():
            tried = f"no attack of {how.steps} steps within {how.eps:g}"
            failed = f"made the model err on any of {len(x)} inputs"
            raise AttackFailedError(f"{tried} {failed}, so there are no adversarial samples")
    labels = torch.full((int(chosen.sum()),), -1)
    samples = Samples(inputs[chosen], labels, name=name.replace("_", " "))
    return AdversarialSet(samples, x[chosen], len(x), how)


def in_memory(known: Any) -> Samples:
    """Return known data of any kind as samples, with label −1 where there is none."""
    if isinstance(known, Samples):
        return known
    parts = list(batches(known, 1024))
    labels = [torch.full((len(x),), -1) if y is None else y for x, y in parts]
    inputs, name = torch.cat([x for x, _ in parts]), getattr(known, "name", "")
    return Samples(inputs, torch.cat(labels), name=name)


def _random_inputs(known: Samples, n: int, seed: int) -> Samples:
    if n >= len(known):
        return known
    generator = torch.Generator().manual_seed(derived_seed(seed, "attacked", 0))
    return known.select(torch.randperm(len(known), generator=generator)[:n].sort().values)


def _spread(known: Samples) -> Tensor:
    """The standard deviation of each feature; 1 where it never varies."""
    spread = known.inputs.std(0, correction=0)
    return spread.where(spread > 0, 1.0)
