"""Unknown data that an attack makes for one model: noise it is surest of, and test inputs it now gets wrong."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core.attacks import Attack, attack, named
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
    """What an attack made: inputs with label −1 and those it started from, out of how many tried, and how."""

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
    """Adversarial inputs for a model by name, as section 5 of paper 2 has them.

    `adversarial_noise` starts from the paper's noise and raises the confidence, in 200 steps. `adversarial_samples`
    starts from known inputs and raises the loss, in 80 steps; only those that end in a wrong class are kept. Of
    images, ε is 0.3 (of colour ones 0.1 for samples) within [0, 1]; of tables, in standard deviations of each feature.

    Args:
        name: `adversarial_noise` or `adversarial_samples`.
        model: a method, or a bare network.
        known: labelled data of the kinds the model knows.
        n: how many inputs to try it on, drawn from the known ones.
        how: another attack than the paper's.
        batch_size, seed, progress: as in `predict`.
    """
    if name not in ADVERSARIAL:
        raise unknown_name("adversarial set", name, ADVERSARIAL)
    known = in_memory(known)
    method, some = as_method(model), _some(known, check_int("n", n), seed)
    x, y = some.take(slice(None))
    images = len(some.shape) == 3
    if name == "adversarial_noise":
        x = noise.samples("mixed", some, seed=seed).inputs
    elif int(y.min()) < 0:
        raise NescioError(
            "adversarial samples are made from known data, which must come with their classes"
        )
    colour = images and some.shape[0] > 1
    how = named(how or (f"{name}_in_colour" if colour and name == "adversarial_samples" else name))
    box, scale = ((0.0, 1.0), None) if images else (None, _spread(known))
    data = (x, y) if how.objective == "loss" else x
    found = attack(
        method, data, how, box=box, scale=scale, batch_size=batch_size, seed=seed, progress=progress
    )
    fooled = torch.ones(len(x), dtype=torch.bool)
    if name == "adversarial_samples":
        fooled = (
            classes(
                predict(method, found.inputs, batch_size=batch_size, seed=seed, progress=False)
            ).cpu()
            != y
        )
        if not fooled.any():
            raise AttackFailedError(
                f"no attack of {how.steps} steps within {how.eps:g} made the model err on any of "
                f"{len(x)} inputs, so there are no adversarial samples to judge it by"
            )
    made = Samples(
        found.inputs[fooled], torch.full((int(fooled.sum()),), -1), name=name.replace("_", " ")
    )
    return AdversarialSet(made, x[fooled], len(x), how)


def in_memory(known: Any) -> Samples:
    """Known data of any make as samples, with label −1 where none came."""
    if isinstance(known, Samples):
        return known
    parts = list(batches(known, 1024))
    labels = [torch.full((len(x),), -1) if y is None else y for x, y in parts]
    return Samples(
        torch.cat([x for x, _ in parts]), torch.cat(labels), name=getattr(known, "name", "")
    )


def _some(known: Samples, n: int, seed: int) -> Samples:
    if n >= len(known):
        return known
    generator = torch.Generator().manual_seed(derived_seed(seed, "attacked", 0))
    return known.select(torch.randperm(len(known), generator=generator)[:n].sort().values)


def _spread(known: Samples) -> Tensor:
    """The standard deviation of each feature; 1 where it never varies."""
    spread = known.inputs.std(0, correction=0)
    return spread.where(spread > 0, 1.0)
