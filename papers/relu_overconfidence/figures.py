"""Figures 1 to 4 of paper 2: linear regions, noise under attack, and confidence in adversarial samples."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from statistics import fmean

import torch

from nescio.audit import overconfidence, regions_in
from nescio.data import Known
from nescio.evaluation.evaluate import evaluate
from nescio.evaluation.gallery import attack_gallery
from nescio.methods import Softmax
from nescio.methods.method import Method
from nescio.models import mlp
from nescio.records import Audit, Evaluation, Gallery, Image, Regions
from nescio.report.comparison_figures import attacked_figure
from nescio.report.gallery import gallery_figure
from nescio.report.regions import regions_figure
from nescio.seeds import derived_seed
from nescio.store.run import Source
from nescio.training.train import train as train_model
from papers.experiment import Experiment, Found, Work
from papers.over_seeds import in_words, over_seeds
from papers.relu_overconfidence.networks import (
    KINDS,
    SHOWN,
    Plan,
    learned,
    networks,
    plan_of,
    training_of,
    unlike,
)
from papers.relu_overconfidence.published import TABLE1
from papers.reproduction import Claim, Compared, Differs

SAMPLES = "adversarial_samples"
LOW = 0.5  # confidence that counts as low in figure 4
HARDLY = 0.3  # accuracy below which a network has not learned ten classes


def figure1(work: Work) -> Found:
    """The plane cut into the linear regions of a network with two hidden layers."""
    width, epochs = 12, work.count(60, 1)
    regions: list[Regions] = []
    ends: list[Audit] = []
    for seed in range(work.seeds):
        known = work.known(Source("two_moons", seed=seed))
        model = cache(
            partial(_two_layers, known, width, epochs, seed)
        )  # trained by the first stage that needs it
        how = {"seed": seed, "width": width, "epochs": epochs}
        regions.append(
            work.stage(f"regions-{seed}", Regions, partial(_regions, model, known), **how)
        )
        ends.append(
            work.stage(
                f"far-{seed}", Audit, partial(_directions, model, work.count(1000, 8), seed), **how
            )
        )
    work.picture("regions.svg", regions_figure(regions[0]))
    compared = (
        over_seeds("linear regions in the window", [one.count for one in regions]),
        over_seeds("of them unbounded", [one.unbounded for one in regions]),
        over_seeds(
            "share of the window that they fill", [one.covered for one in regions], unit="%"
        ),
        over_seeds(
            "directions proved to end at confidence 1",
            [one.ends_certain or 0.0 for one in ends],
            unit="%",
        ),
    )
    certain = [one.ends_certain or 0.0 for one in ends]
    claims = (
        Claim(
            "A two-hidden layer ReLU network decomposes the plane into a finite set of polytopes.",
            all(abs(one.covered - 1) < 1e-6 for one in regions),
            f"{', '.join(str(one.count) for one in regions)} polygons fill "
            f"{min(one.covered for one in regions):.4%} of the window",
        ),
        Claim(
            "The outer polytopes extend to infinity.",
            all(one.unbounded > 0 for one in regions),
            f"{', '.join(str(one.unbounded) for one in regions)} of them are unbounded",
        ),
        Claim(
            "This is where ReLU networks realize arbitrarily high confidence predictions (theorem 3.1: for almost "
            "all directions).",
            min(certain) > 0.99,
            f"proved of {min(certain):.1%} of {ends[0].trials} directions at least",
        ),
    )
    differs = (
        Differs(
            "network",
            "two hidden layers, trained on what is not told",
            f"two layers of {width}, two moons",
            "the paper does not tell",
        ),
        Differs(
            "regions",
            "found by the code of Jordan et al. (2019)",
            "by our own, which crosses every edge",
            "",
        ),
    )
    less = [seed for seed, share in enumerate(certain) if share < 1]
    remarks = ("The paper's figure has no numbers.",) + (
        (
            "In some directions two classes' slopes tie, or all units die: there the theorem's condition is not met.",
        )
        if less
        else ()
    )
    return Found(compared, claims, differs, remarks)


def _two_layers(known: Known, width: int, epochs: int, seed: int) -> Softmax:
    with torch.random.fork_rng():
        torch.manual_seed(derived_seed(seed, "weights", 0))
        model = Softmax(
            mlp(2, len(known.classes), hidden=(width, width)), normalise=known.normalise
        )
    assert known.train is not None  # noqa: S101 - as embedded sets have
    train_model(model, known.train, epochs=epochs, batch_size=64, learning_rate=5e-3, seed=seed)
    return model.eval()


def _regions(model: Callable[[], Softmax], known: Known) -> Regions:
    assert known.train is not None  # noqa: S101 - as embedded sets have
    x, _ = known.train.take(slice(None))
    middle, half = (x.amin(0) + x.amax(0)) / 2, 1.25 * float((x.amax(0) - x.amin(0)).max())
    return regions_in(model(), [(at - half, at + half) for at in middle.tolist()], known)


def _directions(model: Callable[[], Softmax], count: int, seed: int) -> Audit:
    angles = torch.linspace(0, 2 * torch.pi, count + 1, dtype=torch.float64)[:-1]
    circle = torch.stack([angles.cos(), angles.sin()], 1)
    return overconfidence(model(), circle, trials=count, rays=0, seed=seed)


def figure2(work: Work, data: str = "mnist") -> Found:
    """Noise, and what an attack makes of it for the plain network; of the others the paper omits it."""
    return _noise_figure(work, plan_of(work, data), grey=True)


def figure3(work: Work, data: str = "cifar10") -> Found:
    """Noise in colour, and what attacks on all three networks make of it."""
    return _noise_figure(work, plan_of(work, data), grey=False)


def _noise_figure(work: Work, plan: Plan, grey: bool) -> Found:
    known, models = work.known(Source(plan.data)), networks(work, plan)
    images, steps = (
        work.count(6 if grey else 3, 2),
        work.count(40, 1),
    )  # in colour a file holds three times as much
    found: list[Gallery] = []
    for seed in range(work.seeds):
        own = {SHOWN[kind]: models[kind, seed] for kind in KINDS}
        make = partial(_gallery, own, known, images, steps, seed)
        how = {"seed": seed, "training": {kind: training_of(plan, kind) for kind in KINDS}}
        found.append(work.stage(f"noise-{seed}", Gallery, make, **how, images=images, steps=steps))
    work.picture("noise.svg", gallery_figure(found[0]))
    before, after = _confidences(found, after=False), _confidences(found)
    near = nearest(known, found, work.count(200, 8))
    names = list(after)
    right = {SHOWN[kind]: learned(work, plan, kind) for kind in KINDS}
    compared = [
        *(over_seeds(f"{name}: accuracy in training", right[name], unit="%") for name in names),
        *(over_seeds(f"{name}: mean confidence in noise", before[name]) for name in names),
        *(
            over_seeds(f"{name}: mean confidence in what {steps} steps make of it", after[name])
            for name in names
        ),
        over_seeds(
            "least distance of these images to a training one, in that of test images (95th percentile)",
            near,
        ),
    ]
    means = {name: fmean(values) for name, values in after.items()}
    told = f"mean confidence: {in_words(means, '{:.3f}')}"
    least = 1 / len(known.classes)
    claims = [
        Claim(
            "Neither in the noise images nor in the adversarially modified ones there is structure similar to "
            f"{'a MNIST' if grey else 'a CIFAR-10'} image.",
            True
            if min(near) > 1
            else None,  # a distance in pixels cannot show that images are alike
            f"all are at least {min(near):.2f} times as far from the training images as 95 % of test images are",
        ),
        Claim("The attack makes the plain model confident of noise.", means["plain"] > 0.9, told),
    ]
    if grey:
        claims.append(
            Claim(
                "For ACET and CEDA it is very difficult to generate adversarial noise images.",
                max(means["CEDA"], means["ACET"]) < least + 0.1,
                told,
            )
        )
    else:
        claims.append(
            Claim(
                "Table 1: CEDA mostly fails on adversarial noise, ACET does not.",
                means["CEDA"] > 0.5 > means["ACET"],
                told,
            )
        )
    remarks = [
        f"{images} images of each seed. How similar images are we measure by their distance in pixels."
    ]
    largest = {
        row.name: max(max(one.rows[i].confidence) for one in found)
        for i, row in enumerate(found[0].rows)
    }
    remarks.append(f"Largest confidence that the attack reached: {in_words(largest, '{:.3f}')}.")
    if min(near) <= 1:
        remarks.append(
            "Smooth noise is nearer to these images, in pixels, than they are to each other: this distance "
            "does not tell what is similar."
        )
    if poor := {name: fmean(values) for name, values in right.items() if fmean(values) < HARDLY}:
        remarks.append(
            f"Hardly learned their task in so short a training: {in_words(poor, '{:.1%}')} right. Such a "
            "network is "
            "sure of nothing, and that it is not sure of noise either says little."
        )
    elif not grey and means["CEDA"] <= 0.5:
        remarks.append(
            "Our CEDA holds out against this attack better than the paper's; network and training differ."
        )
    if means["ACET"] > 0.5 and plan.steps < steps:
        remarks.append(
            f"ACET was trained against a search of at most {plan.steps} steps, and gives in to one of "
            f"{steps}: it has learned to hide from short searches, not to be unsure of noise."
        )
    return Found(tuple(compared), tuple(claims), tuple(unlike(plan, known, work)), tuple(remarks))


def _gallery(
    models: Mapping[str, Callable[[], Method]], known: Known, images: int, steps: int, seed: int
) -> Gallery:
    made = {name: model() for name, model in models.items()}
    found = attack_gallery(made, known, images=images, steps=steps, seed=seed)
    rows = tuple(replace(row, images=_two_digits(row.images)) for row in found.rows)
    return replace(found, images=_two_digits(found.images), rows=rows)


def _two_digits(images: Sequence[Image]) -> tuple[Image, ...]:
    """Enough for the eye, and a smaller file."""
    return tuple(
        tuple(
            tuple(tuple(round(pixel, 2) for pixel in row) for row in channel) for channel in image
        )
        for image in images
    )


def _confidences(found: Sequence[Gallery], after: bool = True) -> dict[str, list[float]]:
    """The mean of each model in each gallery."""
    return {
        row.name: [
            fmean(one.rows[i].confidence if after else one.rows[i].confidence_before)
            for one in found
        ]
        for i, row in enumerate(found[0].rows)
    }


def nearest(known: Known, found: Sequence[Gallery], count: int) -> list[float]:
    """How far attacked images are from all training images, the nearest one, in what 95 % of some test images are."""
    assert known.train is not None  # noqa: S101 - as embedded sets have
    train = known.train.take(slice(None))[0].flatten(1)
    usual = (
        torch.cdist(known.test.take(slice(0, count))[0].flatten(1), train).amin(1).quantile(0.95)
    )
    distances = []
    for one in found:
        made = (
            torch.tensor([one.images, *(row.images for row in one.rows)]).flatten(0, 1).flatten(1)
        )
        distances.append(float(torch.cdist(made, train).amin() / usual))
    return distances


def figure4(work: Work, data: str = "mnist") -> Found:
    """How confident each network is of adversarial samples."""
    plan = plan_of(work, data)
    known, models = work.known(Source(plan.data)), networks(work, plan)
    attacked = work.count(work.pick(500, 10_000), 4)
    found: dict[str, list[Evaluation]] = {}
    for (kind, seed), model in models.items():
        judge = partial(_attacked, model, known, attacked, seed)
        how = {"seed": seed, "training": training_of(plan, kind), "attacked": attacked}
        found.setdefault(kind, []).append(
            work.stage(f"{plan.data}-{kind}-{seed}", Evaluation, judge, **how)
        )
    met = {
        kind: runs for kind, runs in found.items() if all(one.unknown for one in runs)
    }  # else none was led astray
    if met:
        work.picture(
            "adversarial-samples.svg",
            attacked_figure({SHOWN[kind]: runs for kind, runs in met.items()}),
        )
    low = {SHOWN[kind]: [below(one, LOW) for one in runs] for kind, runs in met.items()}
    compared: list[Compared] = []
    for kind, runs in met.items():
        name = SHOWN[kind]
        compared.append(
            over_seeds(
                f"{name}: mean confidence in adversarial samples",
                [one.unknown[0].mmc for one in runs],
                TABLE1.get((plan.data, kind, SAMPLES, "mmc")),
            )
        )
        compared.append(
            over_seeds(
                f"{name}: adversarial samples below a confidence of {LOW:.0%}".replace("%", " %"),
                low[name],
                unit="%",
            )
        )
        fooled = [one.unknown[0].inputs / min(attacked, one.known.inputs) for one in runs]
        compared.append(
            over_seeds(f"{name}: inputs that the attack brings to a wrong class", fooled, unit="%")
        )
    means = {name: fmean(values) for name, values in low.items()}
    others = [value for name, value in means.items() if name != SHOWN["acet"]]
    claims = (
        Claim(
            "ACET is the only model where most adversarial samples have very low confidence.",
            None
            if SHOWN["acet"] not in means
            else means[SHOWN["acet"]] > 0.5 >= max(others, default=0.0),
            f"below {LOW:.0%}: {in_words(means, '{:.1%}')}",
        ),
    )
    differs = unlike(plan, known, work)
    if work.quick:
        differs.append(
            Differs(
                "attacks",
                "on all 10 000 test images",
                f"on {attacked} of them",
                "80 steps each take long",
            )
        )
    resisted = [SHOWN[kind] for kind in found if kind not in met]
    remarks = [
        "“Very low” is not told; we count what is below one half. The means are compared with table 1's."
    ]
    if (mean := TABLE1.get((plan.data, "acet", SAMPLES, "mmc"))) is not None and 1 - mean < LOW / 2:
        remarks.append(
            f"A mean of {mean:g}, as the paper's table 1 has it for ACET, leaves room for at most "
            f"{(1 - mean) / LOW:.0%} below one half: by this bar figure and table disagree."
        )
    if resisted:
        remarks.append(f"No attack made {', '.join(resisted)} err.")
    return Found(tuple(compared), claims, tuple(differs), tuple(remarks))


def _attacked(model: Callable[[], Method], known: Known, attacked: int, seed: int) -> Evaluation:
    return evaluate(
        model(), known.test, [SAMPLES], scores=["max_prob"], attacked=attacked, seed=seed
    )


def below(record: Evaluation, confidence: float) -> float:
    """The share of adversarial samples of which the model is less sure than that, to a bin of the histogram."""
    found = record.confidence
    assert found is not None  # noqa: S101 - every record made here has it
    counts: Mapping[str, Sequence[int]] = found.counts
    low = sum(
        count
        for count, edge in zip(counts[SAMPLES], found.edges[1:], strict=True)
        if edge <= confidence + 1e-9
    )
    return low / max(1, sum(counts[SAMPLES]))


EXPERIMENTS = (
    Experiment(
        "relu-figure1",
        2,
        "Figure 1",
        "The plane cut into linear regions, the outer ones without end",
        figure1,
    ),
    Experiment(
        "relu-figure2",
        2,
        "Figure 2",
        "Noise, and what an attack makes of it: MNIST",
        figure2,
        needs=("mnist",),
    ),
    Experiment(
        "relu-figure3",
        2,
        "Figure 3",
        "Noise, and what an attack makes of it: CIFAR-10",
        figure3,
        needs=("cifar10",),
    ),
    Experiment(
        "relu-figure4",
        2,
        "Figure 4",
        "Confidence in adversarial samples of MNIST",
        figure4,
        needs=("mnist",),
    ),
)
