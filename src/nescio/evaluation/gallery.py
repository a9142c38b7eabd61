"""Images that the same attack makes for several models → a `Gallery` record (figures 2 and 3 of paper 2)."""

from collections.abc import Mapping
from dataclasses import asdict, replace

import torch
from torch import Tensor, nn

from nescio.core.attacks import ATTACKS, Attack, attack
from nescio.core.logits import classes
from nescio.core.predict import predict
from nescio.data import Known, noise
from nescio.errors import NescioError, check_float, check_int, unknown_name
from nescio.methods import as_method
from nescio.records import Gallery, GalleryRow, Stopwatch
from nescio.records.images import Image
from nescio.seeds import check_seed, derived_seed

STARTS = ("noise", "samples")
MOST = 100  # images in a row; more can neither be seen nor kept in a small file


def attack_gallery(
    models: Mapping[str, nn.Module],
    known: Known,
    start: str = "noise",
    *,
    images: int = 8,
    steps: int = 40,
    eps: float | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Gallery:
    """The same images under the same attack on each model, with what each model says of the result.

    Every image is kept, also one of a sample that the attack could not change to a wrong class.

    Args:
        models: methods or bare networks that know the classes of `known`, by the names to show.
        known: their data, which must be images.
        start: "noise", the paper's, half permuted test images and half uniform, whose confidence is raised; or
            "samples", test images, whose loss is raised.
        images: how many.
        steps: of the attack. They are as long as in the paper, or longer if so few would not reach the ball's edge.
        eps: radius of the ball, by default the paper's: 0.3, and 0.1 for samples in colour.
        seed, progress: as in `predict`; the seed also chooses the images.
    """
    stopwatch = Stopwatch()
    if not models:
        raise NescioError("a gallery takes one or more models; given: none")
    if known.kind != "image" or known.shape[0] not in (1, 3):
        raise NescioError(
            f"a gallery shows images, grey or in colour; {known.name} has inputs of shape {known.shape}"
        )
    how = _attack(start, known.shape[0] == 3, steps, eps)
    x, y = _chosen(known, check_int("images", images, below=MOST + 1), seed)
    kinds = [known.classes[label] for label in y.tolist()]
    if start == "noise":
        x = noise.mixed(x, generator=torch.Generator().manual_seed(derived_seed(seed, "noise", 0)))
        kinds = ["permuted"] * (len(x) - len(x) // 2) + ["uniform"] * (len(x) // 2)
    rows = [_row(name, model, known, x, y, how, seed, progress) for name, model in models.items()]
    settings = {"attack": asdict(how), "images": images}
    return Gallery(
        data=known.name,
        start=start,
        images=_pixels(x),
        kinds=tuple(kinds),
        rows=tuple(rows),
        provenance=stopwatch.provenance(seed, settings),
    )


def _attack(start: str, colour: bool, steps: int, eps: float | None) -> Attack:
    if start not in STARTS:
        raise unknown_name("start of an attack", start, STARTS)
    name = f"adversarial_{start}{'_in_colour' if start == 'samples' and colour else ''}"
    how = ATTACKS[name]
    steps, eps = check_int("steps", steps), how.eps if eps is None else check_float("eps", eps)
    return replace(how, steps=steps, eps=eps, step_size=max(how.step_size, eps / steps))


def _chosen(known: Known, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Test images at random, with their labels."""
    if count > len(known.test):
        raise NescioError(
            f"images={count}, but {known.name} has only {len(known.test)} test images"
        )
    generator = torch.Generator().manual_seed(derived_seed(check_seed(seed), "images", 0))
    return known.test.take(torch.randperm(len(known.test), generator=generator)[:count])


def _row(
    name: str,
    model: nn.Module,
    known: Known,
    x: Tensor,
    y: Tensor,
    how: Attack,
    seed: int,
    progress: bool | None,
) -> GalleryRow:
    method = as_method(model)
    before = predict(method, x, seed=seed, progress=False)
    if before.shape[2] != len(known.classes):
        raise NescioError(
            f"{name} knows {before.shape[2]} classes, but {known.name} has {len(known.classes)}"
        )
    found = attack(
        method, (x, y) if how.objective == "loss" else x, how, seed=seed, progress=progress
    ).inputs
    after = predict(method, found, seed=seed, progress=False)
    return GalleryRow(
        name=name,
        images=_pixels(found),
        answers=tuple(known.classes[answer] for answer in classes(after).tolist()),
        confidence=_rounded(method.confidence(after)),
        confidence_before=_rounded(method.confidence(before)),
    )


def _pixels(images: Tensor) -> tuple[Image, ...]:
    return tuple(
        tuple(
            tuple(tuple(round(pixel, 3) for pixel in row) for row in channel) for channel in image
        )
        for image in images.tolist()
    )


def _rounded(values: Tensor) -> tuple[float, ...]:
    return tuple(round(value, 6) for value in values.tolist())
