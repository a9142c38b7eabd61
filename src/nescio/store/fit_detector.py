"""Fit a detector into a folder: over a network of the user's, or over the model of a run."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nescio.data import Encoding, Samples
from nescio.detectors import Combined, Detector
from nescio.evaluation.class_names import class_names, doubt
from nescio.files import atomic_folder
from nescio.progress import bar
from nescio.records import Fitted, Stopwatch, to_plain
from nescio.store.detector_choice import DetectorChoice, learners
from nescio.store.detector_folder import (
    DETECTOR,
    FILES,
    FLOATS,
    TOKEN_IDS,
    digests,
    plain_attention,
    write_detector,
)
from nescio.store.model_file import write_model
from nescio.store.run import FITTED, move_to, open_run
from nescio.store.user_data import UserData, of_run, with_labels
from nescio.store.user_network import load_weights, make_network

KIND = "Fitted record"  # by which a folder is known as a detector's
MAX_CHECKED_INPUTS = 64  # that a graph must answer as its network does


def fit_own(
    folder: Path,
    factory: str,
    weights: Path | None,
    data: Path,
    train: Path | None,
    label: str | None,
    names: Sequence[str],
    choice: DetectorChoice,
    device: str = "cpu",
) -> tuple[Detector, Fitted, str | None]:
    """Fit a detector over a network of the user's into a folder.

    Args:
        folder: to write, whole or not at all.
        factory: `package.module:name` of what makes the network.
        weights: safetensors; by default the network keeps those it was made with.
        data: calibration data, which the network was not trained on: npz, CSV or a folder of
            images; `inputs` of npz are taken as they are.
        train: data for a detector that learns more than a threshold; by default half of `data`.
        label: the label column, if a CSV file has one.
        names: of the classes, in the order of the network's outputs; by default those of the data,
            if they are as many, or numbers.
        choice: which detector.
        device: where to run the network; what is stored is for any.

    Returns:
        The detector, its record, and a warning if labels speak against the names of the classes.
    """
    stopwatch, net = Stopwatch(), make_network(factory)
    if weights is not None:
        load_weights(net, weights)
    user = UserData.read(data, train, label)
    user.check_same_kind()
    with plain_attention(), atomic_folder(folder, FITTED, KIND, FILES) as place:
        outputs, samples = user.as_taken_by(net)
        classes = class_names(names, user.classes["test"], outputs, str(data))
        sets = user.numbered(samples, classes)
        x = samples["test"].take(slice(MAX_CHECKED_INPUTS))[0]
        move_to(net, device)
        detector = choice.fitted(net, with_labels(sets["test"]), with_labels(sets.get("train")))
        detector.to("cpu")
        with bar(None, "export the network"):
            network, why = write_detector(detector, x, place)
        learned_from = f"a part of {data}" if train is None else str(train)
        dtype = FLOATS if x.is_floating_point() else TOKEN_IDS
        on = user.encoding, str(data), learned_from
        net_facts: dict[str, Any] = {"factory": factory, "network": network, "why": why}
        net_facts |= {"shape": samples["test"].shape, "kind": user.kinds["test"], "dtype": dtype}
        facts = _write_facts(place, choice, detector, stopwatch, *on, classes=classes, **net_facts)
        labelled = isinstance(with_labels(sets["test"]), Samples)
        warning = doubt(net, sets["test"], classes) if labelled else None
    return detector, facts, warning


def fit_run(
    folder: Path,
    run: Path,
    data: Path | None,
    train: Path | None,
    label: str | None,
    choice: DetectorChoice,
    root: str | None = None,
    device: str = "cpu",
) -> tuple[Detector, Fitted]:
    """Fit a detector over the model of a run into a folder: on its known test data, or on others.

    What learns more than a threshold learns from the run's training data, or from `train`.
    """
    stopwatch, (model, about) = Stopwatch(), open_run(run)
    from_run = train is None and choice.learns(model)
    known = about.load(root) if from_run or data is None else None
    calibration = of_run(about, data, label, "test") if data else known.test if known else None
    name = str(data) if data else about.test_name
    teacher, learned_from = None, f"a part of {name}"
    if train is not None:
        teacher, learned_from = of_run(about, train, label, "train"), str(train)
    elif from_run and known is not None and known.train is not None:
        teacher, learned_from = known.train, f"{about.source.name}, training part"
    on, facts_of_run = (about.encoder(), name, learned_from), to_plain(asdict(about))
    net_facts: dict[str, Any] = {"factory": None, "network": "detector", "why": None, "kind": None}
    net_facts |= {"shape": about.shape, "classes": about.classes, "run": facts_of_run}
    with atomic_folder(folder, FITTED, KIND, FILES) as place:
        move_to(model, device)
        detector = choice.fitted(model, with_labels(calibration), with_labels(teacher)).to("cpu")
        write_model(detector, place / DETECTOR)
        facts = _write_facts(place, choice, detector, stopwatch, *on, **net_facts)
    return detector, facts


def _write_facts(
    place: Path,
    choice: DetectorChoice,
    detector: Detector,
    stopwatch: Stopwatch,
    encoding: Encoding | None,
    data: str,
    learned_from: str,
    **others: Any,
) -> Fitted:
    """Write how a detector was fitted into its folder; `others` are fields of the record."""
    sources = [learned_from] if learners(detector) else []
    if isinstance(detector, Combined):
        members = " and ".join(detector.member_names)
        sources.append(f"p-values of {members} from a part of {data}")
    facts = Fitted(
        detector=detector.name,
        settings=detector.settings(),
        encoding=None if encoding is None else encoding.to_dict(),
        data=data,
        inputs=len(detector.calibration_),
        learned_from="; ".join(sources) or None,
        promise="" if detector.rule is None else detector.rule.promise(detector.controlled),
        thresholds=tuple(detector.threshold_.reshape(-1).tolist()),
        provenance=stopwatch.provenance(choice.options.get("seed", 0), choice.options),
        refused=choice.refused,
        **others,
    ).sealed(digests(place))
    facts.save(place / FITTED)
    return facts
