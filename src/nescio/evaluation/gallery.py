"""Images that the same attack makes for several models → a `Gallery` record (paper 2, figs 2–3)."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core.attacks import ATTACKS, Attack, attack
from nescio.core.logits import classes
from nescio.core.predict import predict
from nescio.data import Known, noise
from nescio.errors import NescioError, check_float, check_int, check_name
from nescio.evaluation.extremes import pixels
from nescio.methods import as_method
from nescio.records import Gallery, GalleryRow, Stopwatch
from nescio.seeds import check_seed, derived_seed

STARTS = ("noise", "samples")
MAX_IMAGES = 100  # in a row; more can neither be seen nor kept in a small file


def attack_gallery(
    models: Mapping[str, nn.Module],
    known: Known,
    start: str = "noise",
    *,
    images: int = 8,
    steps: int = 40,
    eps: float | None = None,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool | None = None,
) -> Gallery:
    """Attack the same images on each model, and keep what each model says of the result.

    Every image is kept, also one that the attack could not move to a wrong class.

    Args:
        models: methods or bare networks on the classes of `known`, by the names to show.
        known: their data, which must be images.
        start: "noise", the paper's, half permuted test images and half uniform, whose confidence is
            raised; or "samples", test images, whose loss is raised.
        images: number of images.
        steps: of the attack, as long as in the paper, or longer if so few would not reach the
            ball's edge.
        eps: radius of the ball, by default the paper's: 0.3, and 0.1 for samples in colour.
        batch_size, seed, progress: as in `predict`; the seed also chooses the images.

    >>> digits = nescio.data.load("digits")
    >>> models = {"untrained": nescio.models.mlp(64, 10)}
    >>> attack_gallery(models, digits, images=2, steps=2).rows[0].name
    'untrained'
    """
    stopwatch = Stopwatch()
    if not models:
        raise NescioError("a gallery needs at least one model, got none")
    if known.kind != "image" or known.shape[0] not in (1, 3):
        raise NescioError(
            f"a gallery shows images, grey or in colour; {known.name} has inputs of shape "
            f"{known.shape}"
        )
    how = _attack(start, known.shape[0] == 3, steps, eps)
    x, y = _random_images(known, check_int("images", images, below=MAX_IMAGES + 1), seed)
    kinds = [known.classes[label] for label in y.tolist()]
    if start == "noise":
        x = noise.mixed(x, generator=torch.Generator().manual_seed(derived_seed(seed, "noise", 0)))
        kinds = ["permuted"] * (len(x) - len(x) // 2) + ["uniform"] * (len(x) // 2)
    run: dict[str, Any] = {"batch_size": batch_size, "seed": seed, "progress": progress}
    return Gallery(
        data=known.name,
        start=start,
        images=tuple(map(pixels, x)),
        kinds=tuple(kinds),
        rows=tuple(_row(name, model, known, x, y, how, run) for name, model in models.items()),
        provenance=stopwatch.provenance(seed, {"attack": asdict(how), "images": images}),
    )


def _attack(start: str, colour: bool, steps: int, eps: float | None) -> Attack:
    check_name("start of an attack", start, STARTS)
    how = ATTACKS[f"adversarial_{start}{'_in_colour' if start == 'samples' and colour else ''}"]
    steps, eps = check_int("steps", steps), how.eps if eps is None else check_float("eps", eps)
    return replace(how, steps=steps, eps=eps, step_size=max(how.step_size, eps / steps))


def _random_images(known: Known, count: int, seed: int) -> tuple[Tensor, Tensor]:
    total = len(known.test)
    if count > total:
        raise NescioError(f"images={count}, but {known.name} has only {total} test images")
    generator = torch.Generator().manual_seed(derived_seed(check_seed(seed), "images", 0))
    return known.test.take(torch.randperm(total, generator=generator)[:count])


def _row(
    name: str,
    model: nn.Module,
    known: Known,
    x: Tensor,
    y: Tensor,
    how: Attack,
    run: dict[str, Any],
) -> GalleryRow:
    method = as_method(model)
    quiet = run | {"progress": False}
    before = predict(method, x, **quiet)
    if before.shape[2] != len(known.classes):
        raise NescioError(
            f"{name} has {before.shape[2]} classes, but {known.name} has {len(known.classes)}"
        )
    images = attack(method, (x, y) if how.objective == "loss" else x, how, **run).inputs
    after = predict(method, images, **quiet)
    confidence, confidence_before = (
        tuple(round(value, 6) for value in method.confidence(logits).tolist())
        for logits in (after, before)
    )
    answers = tuple(known.classes[answer] for answer in classes(after).tolist())
    return GalleryRow(name, tuple(map(pixels, images)), answers, confidence, confidence_before)
