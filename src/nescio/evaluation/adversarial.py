"""Unknown data that an attack makes for one model: confident noise, and misclassified inputs."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core.attacks import Attack, attack, attack_named
from nescio.core.logits import classes
from nescio.core.predict import predict
from nescio.data import noise
from nescio.data.batches import batches
from nescio.data.samples import Samples
from nescio.errors import NescioError, check_int, unknown_name
from nescio.methods import as_method
from nescio.seeds import derived_seed

ADVERSARIAL = ("adversarial_noise", "adversarial_samples")


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
    """Make adversarial inputs for a model, as section 5 of paper 2 does.

    `adversarial_noise` starts from the paper's noise and raises the confidence, in 200 steps.
    `adversarial_samples` starts from known inputs and raises the loss, in 80 steps; only those that
    end in a wrong class are kept. For images, ε is 0.3 (0.1 for samples in colour) within [0, 1];
    for tables it is in standard deviations of each feature.

    Args:
        name: `adversarial_noise` or `adversarial_samples`.
        model: a method, or a bare network.
        known: labelled data of the known classes.
        n: number of inputs to attack, drawn from the known ones.
        how: another attack than the paper's.
        batch_size, seed, progress: as in `predict`.

    Raises:
        AttackFailedError: if no input ends in a wrong class.
    """
    if name not in ADVERSARIAL:
        raise unknown_name("adversarial set", name, ADVERSARIAL)
    known, method = in_memory(known), as_method(model)
    starts = _random_inputs(known, check_int("n", n), seed)
    x, y = starts.take(slice(None))
    images = len(starts.shape) == 3
    if name == "adversarial_noise":
        x = noise.samples("mixed", starts, seed=seed).inputs
    elif int(y.min()) < 0:
        raise NescioError("adversarial samples are made from known data, which must have labels")
    colour = images and starts.shape[0] > 1 and name == "adversarial_samples"
    how = attack_named(how or (f"{name}_in_colour" if colour else name))
    data = (x, y) if how.objective == "loss" else x
    run: dict[str, Any] = {"batch_size": batch_size, "seed": seed}
    box, scale = ((0.0, 1.0), None) if images else (None, _spread(known))
    inputs = attack(method, data, how, box=box, scale=scale, progress=progress, **run).inputs
    kept = torch.ones(len(x), dtype=torch.bool)
    if name == "adversarial_samples":
        kept = classes(predict(method, inputs, progress=False, **run)).cpu() != y
        if not kept.any():
            raise AttackFailedError(
                f"no attack of {how.steps} steps within {how.eps:g} made the model err on any of "
                f"{len(x)} inputs, so there are no adversarial samples"
            )
    labels = torch.full((int(kept.sum()),), -1)
    samples = Samples(inputs[kept], labels, name=name.replace("_", " "))
    return AdversarialSet(samples, x[kept], len(x), how)


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
