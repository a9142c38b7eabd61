"""Adversarial noise and adversarial samples: pictures of them, and how the model takes them."""

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from nescio.metrics.percent import percent
from nescio.records import Evaluation, Gallery, GalleryRow, UnknownSide
from nescio.report.folded import resisted
from nescio.report.markup import Cell, percentage, table
from nescio.report.own import own
from nescio.report.pictures import picture, row_of
from nescio.report.section import ReportContext, Section, paragraphs
from nescio.report.tables import attack_in_words

TOLD = 4  # attacked sets that are told of in words; of more the table is enough


def section(given: ReportContext) -> Section | None:
    """Galleries, and the attacked sets of evaluations."""
    attacked = [
        (name, record, side)
        for name, record in given.told_apart(Evaluation)
        for side in record.unknown
        if side.attack is not None
    ]
    held = list(_resisted(given.told_apart(Evaluation)))
    galleries = [
        (name, record)
        for name, record in given.told_apart(Gallery)
        if record.rows and record.images
    ]
    parts = [_gallery(name, record) for name, record in galleries]
    if attacked:
        parts.append(_judged(attacked, list(_otherwise(galleries, attacked))))
    if held:
        parts.append(paragraphs(held))
    return Section("attacks", "Under attack", Markup("").join(parts)) if parts else None


def _gallery(name: str, record: Gallery) -> Markup:
    noise = record.start == "noise"
    title = (
        "noise that is made to look certain" if noise else "test images that are made to look wrong"
    )
    parts = [
        Markup("<h3>{}: {}</h3>").format(name, title),
        paragraphs([_how(record), *_outcomes(record)]),
    ]
    start = [
        picture(image, f"{kind}, before any attack", [kind])
        for image, kind in zip(record.images, record.kinds, strict=True)
    ]
    parts += [Markup("<h4>{}</h4>").format("Noise" if noise else "Test images"), row_of(start)]
    for row in record.rows:
        parts += [
            Markup("<h4>After an attack on {}</h4>").format(row.name),
            row_of(list(_pictures(record, row))),
        ]
    return Markup("").join(parts)


def _how(record: Gallery) -> str:
    found = record.provenance.settings.get("attack")
    how = found if isinstance(found, dict) else {}
    told = isinstance(how.get("eps"), int | float) and isinstance(how.get("steps"), int)
    strength = (
        f" No pixel was moved by more than {how['eps']:g}, in {how['steps']} steps." if told else ""
    )
    if record.start == "noise":
        return (
            "An attack changes noise a little, uphill in the model's own confidence. The same noise was given to "
            f"each model; under each picture stands its confidence before → after.{strength}"
        )
    return (
        "An attack changes test images a little, uphill in the model's loss. Under each picture stands the class "
        f"that the model now gives and its confidence, and whether that is wrong.{strength}"
    )


def _outcomes(record: Gallery) -> Iterator[str]:
    for row in record.rows:
        before, after = (
            sum(values) / len(values) for values in (row.confidence_before, row.confidence)
        )
        if record.start == "noise":
            yield f"{row.name}: the mean confidence goes from {percent(before)} to {percent(after)}."
        else:
            wrong = sum(
                answer != kind for answer, kind in zip(row.answers, record.kinds, strict=True)
            )
            yield (
                f"{row.name}: {wrong} of {len(row.answers)} end in a wrong class; the mean confidence is "
                f"{percent(after)}."
            )


def _pictures(record: Gallery, row: GalleryRow) -> Iterator[Markup]:
    """Each image of a model, with what it says of it."""
    columns = (row.images, record.kinds, row.answers, row.confidence_before, row.confidence)
    for image, kind, answer, before, after in zip(*columns, strict=True):
        if record.start == "noise":
            change = f"{percent(before)} → {percent(after)}"
            yield picture(
                image,
                f"{kind} after an attack on {row.name}: taken for {answer}, confidence {change}",
                [change, f"“{answer}”"],
            )
        else:
            wrong = answer != kind
            told = "wrong" if wrong else "still right"
            alt = f"{kind} after an attack on {row.name}: taken for {answer}, {told}, confidence {percent(after)}"
            yield picture(image, alt, [f"“{answer}” {percent(after)}", told], wrong)


def _otherwise(
    galleries: Sequence[tuple[str, Gallery]],
    attacked: Sequence[tuple[str, Evaluation, UnknownSide]],
) -> Iterator[str]:
    """That pictures come from another attack than the sets of their kind, where the numbers of steps differ."""
    for name, record in galleries:
        made = record.provenance.settings.get("attack")
        found = made.get("steps") if isinstance(made, dict) else None
        steps = found if isinstance(found, int) else None
        others = sorted(
            {
                side.attack.steps
                for _, _, side in attacked
                if side.attack is not None
                and (side.attack.objective == "loss") == (record.start == "samples")
            }
            - {steps}
        )
        if others and steps is not None:
            yield (
                f"The pictures of {name} come from another attack than these sets: it had {steps} steps, not "
                f"{' or '.join(map(str, others))}, so that its figures are others."
            )


def _judged(
    attacked: Sequence[tuple[str, Evaluation, UnknownSide]], otherwise: Sequence[str]
) -> Markup:
    columns = [
        "model",
        "set",
        "attack",
        "tried on",
        "judged",
        "mean confidence, %",
        "on known inputs, %",
        "AUROC",
        "FPR95, %",
    ]
    rows: list[list[Cell]] = []
    for name, record, side in attacked:
        found = own(side.separation, record.score)
        auroc, fpr95 = (None, None) if found is None else (found.auroc, found.fpr95)
        how, tried = (
            ("", 0) if side.attack is None else (attack_in_words(side.attack), side.attack.tried)
        )
        confidence = percentage(side.mmc), percentage(record.known.mmc)
        rows.append(
            [name, side.name, how, tried, side.inputs, *confidence, auroc, percentage(fpr95)]
        )
    words = (
        "Each set was made for the very model it is judged by. Mean confidence: what the model says of the "
        "attacked inputs. AUROC: the chance that one of them scores above a known input. FPR95: the share of them "
        "accepted when 95 % of known inputs are. Of samples only those are judged that ended in a wrong "
        "class."
    )
    return Markup("<h3>Attacked sets</h3>{}{}").format(
        paragraphs([words, *otherwise, *(_told(attacked) if len(attacked) <= TOLD else ())]),
        table(columns, rows),
    )


def _told(attacked: Sequence[tuple[str, Evaluation, UnknownSide]]) -> Iterator[str]:
    """What became of each attack, in words."""
    for name, record, side in attacked:
        if side.attack is None:
            continue
        if side.attack.objective != "loss":
            yield (
                f"{name}, {side.name}: after the attack the mean confidence is {percent(side.mmc)}, against "
                f"{percent(record.known.mmc)} on known inputs."
            )
        else:
            share = percent(side.inputs / side.attack.tried)
            yield (
                f"{name}, {side.name}: {share} of {side.attack.tried:,} attacked inputs end in a wrong class, with "
                f"a mean confidence of {percent(side.mmc)}."
            )


def _resisted(evaluations: Sequence[tuple[str, Evaluation]]) -> Iterator[str]:
    for name, record in evaluations:
        for called, tried in resisted(record).items():
            yield f"{name}, {called}: none of {tried} attacks made the model err."
