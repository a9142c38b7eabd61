"""Figures 2 and 3: noise, and what an attack makes of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean

import torch

from nescio.data import Known
from nescio.evaluation import attack_gallery
from nescio.methods import Method
from nescio.records import Gallery, Image
from nescio.report import gallery_figure
from papers.experiment import Experiment, Outcome
from papers.over_seeds import in_words, over_seeds
from papers.relu_overconfidence.networks import (
    AUTHORS,
    KINDS,
    PAPER,
    SHOWN,
    TrainingPlan,
    deviations,
    networks,
    plan_of,
    train_accuracy,
    training_of,
)
from papers.reproduction import Claim, Comparison
from papers.workspace import Workspace

MIN_ACCURACY = 0.3  # below it a network has not learned ten classes
Values = Mapping[str, list[float]]  # by the name of the network: a number for each seed
NEAREST = (
    "least distance of these images to a training one, in that of test images (95th percentile)"
)


def figure2(work: Workspace, data: str = "mnist") -> Outcome:
    """Noise, and what an attack on the plain network makes of it; the paper omits the others."""
    return _noise_figure(work, plan_of(work, data), grey=True)


def figure3(work: Workspace) -> Outcome:
    """Noise in colour, and what attacks on the authors' three networks make of it."""
    return _noise_figure(work, AUTHORS["cifar10"], grey=False)


def _noise_figure(work: Workspace, plan: TrainingPlan, grey: bool) -> Outcome:
    known, models = work.known(plan.source), networks(work, plan)
    # in colour a file holds three times as much
    images, steps = work.count(6 if grey else 3, 2), work.count(40, 1)
    galleries: list[Gallery] = []
    for seed in range(work.seeds):
        own = {SHOWN[kind]: models[kind, seed] for kind in KINDS}
        make = partial(_gallery, own, known, images, steps, seed)
        training = {kind: training_of(plan, kind) for kind in KINDS}
        how = {"seed": seed, "training": training, "images": images, "steps": steps}
        galleries.append(work.stage(f"noise-{seed}", Gallery, make, **how))
    work.picture("noise.svg", gallery_figure(galleries[0]))
    before, after = _confidences(galleries, after=False), _confidences(galleries)
    near = nearest(known, galleries, work.count(200, 8))
    trained = {} if plan.by_authors else KINDS
    accuracy = {SHOWN[kind]: train_accuracy(work, plan, kind) for kind in trained}
    compared = (
        *_rows(accuracy, "accuracy in training", "%"),
        *_rows(before, "mean confidence in noise"),
        *_rows(after, f"mean confidence in what {steps} steps make of it"),
        over_seeds(NEAREST, near),
    )
    means = {name: fmean(values) for name, values in after.items()}
    claims = _claims(means, near, 1 / len(known.classes), grey)
    largest = {
        row.name: max(max(one.rows[i].confidence) for one in galleries)
        for i, row in enumerate(galleries[0].rows)
    }
    right = {name: fmean(values) for name, values in accuracy.items()}
    poor = {name: value for name, value in right.items() if value < MIN_ACCURACY}
    keys = {
        "images": True,
        "largest": True,
        "pixels": min(near) <= 1,
        "not_learned": bool(poor),
        "ceda_holds": not poor and not grey and means["CEDA"] <= 0.5,
        "papers_attack": means["ACET"] <= 0.5,
        "acet_hides": means["ACET"] > 0.5 and plan.steps < steps,
    }
    values = {"images": images, "largest": in_words(largest, "{:.3f}"), "steps": steps}
    values |= {"trained": plan.steps, "poor": in_words(poor, "{:.1%}")}
    remarks = [PAPER.remark(key, **values) for key, applies in keys.items() if applies]
    differ = deviations(plan, known, work)
    differ += PAPER.deviates("low_pass") if plan.by_authors else ()
    return Outcome(compared, claims, tuple(differ), tuple(remarks))


def _claims(
    means: Mapping[str, float], near: Sequence[float], guess: float, grey: bool
) -> tuple[Claim, ...]:
    seen = f"mean confidence: {in_words(means, '{:.3f}')}"
    times = f"{min(near):.2f} times"
    far = f"all are at least {times} as far from the training images as 95 % of test images are"
    # a distance in pixels cannot show that images are alike
    unlike = True if min(near) > 1 else None
    difficult = max(means["CEDA"], means["ACET"]) < guess + 0.1
    fails = means["CEDA"] > 0.5 > means["ACET"]
    image = "a MNIST" if grey else "a CIFAR-10"
    last = ("attack_is_difficult", difficult) if grey else ("ceda_fails_acet_not", fails)
    return (
        PAPER.claim("no_structure", unlike, far, image=image),
        PAPER.claim("attack_works", means["plain"] > 0.9, seen),
        PAPER.claim(*last, seen),
    )


def _rows(values: Values, what: str, unit: str = "") -> list[Comparison]:
    return [over_seeds(f"{name}: {what}", runs, unit=unit) for name, runs in values.items()]


def _gallery(
    models: Mapping[str, Callable[[], Method]], known: Known, images: int, steps: int, seed: int
) -> Gallery:
    networks = {name: model() for name, model in models.items()}
    gallery = attack_gallery(networks, known, images=images, steps=steps, seed=seed)
    rows = tuple(replace(row, images=_two_digits(row.images)) for row in gallery.rows)
    return replace(gallery, images=_two_digits(gallery.images), rows=rows)


def _two_digits(images: Sequence[Image]) -> tuple[Image, ...]:
    """Enough for the eye, and a smaller file."""

    def short(row: Sequence[float]) -> tuple[float, ...]:
        return tuple(round(pixel, 2) for pixel in row)

    return tuple(tuple(tuple(map(short, channel)) for channel in image) for image in images)


def _confidences(galleries: Sequence[Gallery], after: bool = True) -> dict[str, list[float]]:
    """The mean of each model in each gallery."""
    field = "confidence" if after else "confidence_before"
    return {
        row.name: [fmean(getattr(one.rows[i], field)) for one in galleries]
        for i, row in enumerate(galleries[0].rows)
    }


def nearest(known: Known, galleries: Sequence[Gallery], count: int) -> list[float]:
    """Return how far attacked images are from training ones, relative to 95 % of test images."""
    assert known.train is not None  # noqa: S101 - as embedded sets have
    train = known.train.take(slice(None))[0].flatten(1)
    test = known.test.take(slice(0, count))[0].flatten(1)
    usual = torch.cdist(test, train).amin(1).quantile(0.95)
    distances = []
    for one in galleries:
        images = torch.tensor([one.images, *(row.images for row in one.rows)])
        far = torch.cdist(images.flatten(0, 1).flatten(1), train).amin()
        distances.append(float(far / usual))
    return distances


_TITLE = "Noise, and what an attack makes of it: "
EXPERIMENTS = (
    Experiment("relu-figure2", 2, "Figure 2", f"{_TITLE}MNIST", figure2, ("mnist",)),
    Experiment("relu-figure3", 2, "Figure 3", f"{_TITLE}CIFAR-10", figure3, ("cifar10",)),
)
