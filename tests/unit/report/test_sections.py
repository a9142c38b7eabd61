"""Sections from records of small models: they say what the records say, and escape names."""

import base64
import dataclasses
import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from markupsafe import Markup
from PIL import Image

import nescio
from nescio.audit import monotone, overconfidence, per_feature, regions_in, scaling
from nescio.audit.inputs import box_of
from nescio.core.attacks import ATTACKS
from nescio.data.batches import halves
from nescio.errors import NescioError
from nescio.evaluation.gallery import attack_gallery
from nescio.evaluation.maps import uncertainty_map
from nescio.methods import DUQ, Softmax
from nescio.metrics.percent import percent
from nescio.models import mlp
from nescio.records import (
    Against,
    Audit,
    Evaluation,
    Example,
    Examples,
    FeatureAudit,
    Fitted,
    Gallery,
    Map,
    Monotonicity,
    Provenance,
    Record,
    Regions,
    Scaling,
)
from nescio.report.decision import decision_figure, decision_words, threshold_words
from nescio.report.html import picture, with_palette
from nescio.report.page import SECTIONS
from nescio.report.records import ReportContext
from nescio.report.table import join
from report_records import a_fitted, a_recommendation, an_evaluation, an_examples

EVIL = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'
NAMES = {
    "name",
    "method",
    "data",
    "features",
    "classes",
    "answers",
    "kinds",
    "answer",
    "truth",
    "detector",
    "promise",
    "known",
    "learned_from",
    "why",
}


def body(anchor):
    """A function from the records of a report to one section of its page."""
    [section] = (one for one in SECTIONS if one.anchor == anchor)
    return lambda context: join(part(context) for part in section.parts)


attacks, examples, infinity, maps = map(body, ("attacks", "examples", "infinity", "maps"))
threshold, unknown, verdict = map(body, ("threshold", "unknown", "verdict"))
ALL = [infinity, attacks, maps, examples, threshold]


class Page(HTMLParser):
    """All tags with their attributes, and all text."""

    def __init__(self, body):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(str(body))

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def of(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def trained(known, make=Softmax, epochs=4, outputs=None):
    torch.manual_seed(0)
    model = make(
        mlp(int(np.prod(known.shape)), outputs or len(known.classes), hidden=(16,)),
        normalise=known.normalise,
    )
    nescio.train(model, known.train, epochs=epochs, progress=False)
    return model


@pytest.fixture(scope="module")
def of_images():
    """Records of a model of digits: examples, evaluation, decision, gallery, audit."""
    known = nescio.data.load("digits", unseen=[8, 9])
    model = trained(known)
    held, test = halves(known.test)
    sets = {"held out": known.unseen, "far": known.test.inputs * 100}
    detector = nescio.Threshold(model).fit(held)
    return [
        nescio.examples(model, known.test, sets, classes=known.classes, each=3),
        nescio.evaluate(
            model, known.test, ["adversarial_noise", "adversarial_samples"], attacked=12
        ),
        nescio.decide(detector, test, sets),
        attack_gallery({"softmax": model}, known, "noise", images=2, steps=3),
        attack_gallery({"softmax": model}, known, "samples", images=2, steps=3),
        overconfidence(model, box=box_of(known), trials=20, progress=False),
        nescio.recommend(
            model, known.test, known.train, candidates=["energy", "max_prob"], inputs=50
        ).record,
        Fitted(
            "threshold",
            {"score": "max_prob"},
            None,
            "graph",
            None,
            (1, 8, 8),
            "images",
            known.classes,
            None,
            "digits, test part",
            100,
            None,
            "a promise",
            (-1.5,),
            Provenance.now(0, {}, 0.0),
        ),
    ]


@pytest.fixture(scope="module")
def of_rows():
    """Records of a model of two features: audits, map, regions, examples."""
    known = nescio.data.load("two_moons")
    model = trained(known)
    x, _ = known.test.take(slice(0, 20))
    return [
        per_feature(model, x, names=["width", "height"], classes=known.classes, progress=False),
        scaling(model, x, names=["width", "height"], progress=False),
        monotone(model, [-1, -1], [1, 1], points=50),
        uncertainty_map(model, known, ["entropy"], resolution=12),
        regions_in(model, [(-1, 2), (-1, 1.5)], known),
        nescio.examples(
            model, known.test, ["far"], classes=known.classes, features=["width", "height"], each=2
        ),
    ]


def given(*records, name="run"):
    return ReportContext(tuple((name, record) for record in records))


def one(records, kind):
    return next(record for record in records if isinstance(record, kind))


@pytest.mark.parametrize("module", ALL)
def test_without_records_there_is_no_section(module):
    assert module(ReportContext(())) == ""


@pytest.mark.parametrize("module", ALL)
def test_every_picture_has_words(module, of_images, of_rows):
    page = Page(module(given(*of_images, *of_rows)))
    assert all(len(image["alt"]) > 10 for image in page.of("img"))
    assert all(len(drawn["aria-label"]) > 20 for drawn in page.of("svg"))
    assert len(page.of("svg")) + len(page.of("img")) > 0


def spoiled(value, evil=False):
    """The same with hostile names wherever a user may give one."""
    if isinstance(value, str):
        return f"{EVIL}{value}" if evil else value
    if isinstance(value, tuple):
        return tuple(spoiled(item, evil) for item in value)
    if isinstance(value, dict):
        return {spoiled(key, evil): spoiled(item, evil) for key, item in value.items()}
    if dataclasses.is_dataclass(value):
        fields = {
            field.name: spoiled(getattr(value, field.name), field.name in NAMES)
            for field in dataclasses.fields(value)
        }
        return dataclasses.replace(value, **fields)
    return value


@pytest.mark.parametrize("module", ALL)
def test_no_name_becomes_a_tag(module, of_images, of_rows):
    records = [spoiled(record) for record in (*of_images, *of_rows)]
    evaluation = one(records, Evaluation)
    resisted = Provenance.now(0, {"resisted": {EVIL: EVIL}}, 0.0)
    body = module(given(*records, dataclasses.replace(evaluation, provenance=resisted), name=EVIL))
    page = Page(body)
    assert EVIL in page.text  # it is shown, as text
    assert "script" not in {tag for tag, _ in page.tags}
    assert all(image["src"].startswith("data:image/png;base64,") for image in page.of("img"))
    assert not [
        attributes
        for _, attributes in page.tags
        if any(name.startswith("on") for name in attributes)
    ]


@pytest.mark.usefixtures("undrawn")
def test_rays_are_described_in_words(of_images):
    audit = one(of_images, Audit)
    page = Page(infinity(given(audit)))
    assert (
        f"Along {100 * audit.ends_certain:.1f} % of 20 directions, through random points in the box"
        in page.text
    )
    assert "Right: the fraction of all points that are certain by then." in page.text
    assert "The limits are proved, not measured" in page.text
    ended = next(label for label, count in enumerate(audit.ends_in) if count)
    assert f"class {ended}" in page.text
    fitted = dataclasses.replace(
        one(of_images, Fitted), classes=tuple(f"kind {label}" for label in range(8))
    )
    called = Page(infinity(given(audit, fitted))).text  # by another record of the same model
    assert f"kind {ended}" in called
    assert f"class {ended}" not in called
    ray = dataclasses.replace(
        audit.rays[0], factors=(1.0, 1000.0), confidence=(0.5, 0.999), asymptote=None
    )
    words = infinity(given(dataclasses.replace(audit, rays=(ray,) * 8)))
    assert "8 points as they are scaled by 1 to 1,000; they end between 0.999 and 0.999." in words
    low = dataclasses.replace(ray, confidence=(0.5, 0.4))
    words = infinity(given(dataclasses.replace(audit, rays=(ray, low))))
    assert "they end between 0.4 and 0.999" in words


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"law": "unknown"}, "All of this is measured"),
        ({"law": "kernels", "ends_unknown": 1.0}, "That it ends uncertain is proved"),
        ({"proved": 0.0}, "the factors were measured"),
        ({"proved": 0.5}, "50.0 % of the factors are exact, the others measured"),
        ({"draws": 3}, "one affine map of each sample holds"),
    ],
)
def test_what_is_proved_and_what_is_measured(of_images, change, said):
    record = dataclasses.replace(one(of_images, Audit), **change)
    assert said in Page(infinity(given(record))).text


@pytest.mark.usefixtures("undrawn")
def test_several_audits_stand_side_by_side(of_images):
    audit = one(of_images, Audit)
    page = Page(infinity(given(*[audit] * 9)))
    assert "run (9)" in page.text
    assert len(page.of("svg")) == 6
    assert "3 more models are in the tables only" in page.text


def test_features_by_themselves(of_rows):
    page = Page(infinity(given(of_rows[0])))
    assert re.search(r"“(width|height)” (lower|higher) by", page.text)
    assert (
        page.text.count("the median row not yet certain") == 3
    )  # in the words, below the figure, and below the table
    sorted_by = [float(cell["data-value"]) for cell in page.of("td") if "data-value" in cell]
    assert len(sorted_by) >= 2 * 4  # seen from, to, and at least two distances of each feature
    assert of_rows[0].features[0].low in sorted_by


@pytest.mark.usefixtures("undrawn")
def test_scaling_and_monotonicity_in_words(of_rows):
    text = Page(infinity(given(of_rows[1]))).text
    missed = [
        direction
        for direction in one(of_rows, Scaling).directions
        if direction.feature is not None and not any(one.notices for one in direction.scores or ())
    ]
    assert (f", {len(missed)} are flagged by no score: " in text) == bool(missed)
    found = one(of_rows, Monotonicity)
    text = Page(infinity(given(found))).text
    assert f"along {len(found.monotone_features)} of 2 features" in text
    assert "not a proof" in text


def test_many_grey_lines_are_one_picture(of_rows):
    record = one(of_rows, Scaling)
    many = dataclasses.replace(
        record,
        directions=tuple(
            dataclasses.replace(record.directions[0], name=f"f{i}", feature=i) for i in range(60)
        ),
    )
    assert len(infinity(given(many))) < 250_000


def test_a_gallery_shows_before_and_after(of_images):
    noise, samples = (record for record in of_images if isinstance(record, Gallery))
    page = Page(attacks(given(noise)))
    assert len(page.of("img")) == 4  # two before, two after
    row = noise.rows[0]
    change = f"{percent(row.confidence_before[0])} → {percent(row.confidence[0])}"
    assert change in page.text
    assert any(
        change in image["alt"] and row.answers[0] in image["alt"] for image in page.of("img")
    )
    page = Page(attacks(given(samples)))
    wrong = [
        answer != kind for answer, kind in zip(samples.rows[0].answers, samples.kinds, strict=True)
    ]
    assert f"{sum(wrong)} of 2 are misclassified" in page.text
    assert sum("wrong" in figure.get("class", "") for figure in page.of("figure")) == sum(wrong)


@pytest.mark.usefixtures("undrawn")
def test_attacked_sets_in_words(of_images):
    record = one(of_images, Evaluation)
    text = Page(attacks(given(record))).text
    side = record.unknown[0]
    assert (
        f"run, adversarial_noise: mean confidence after the attack {100 * side.mmc:.1f} %" in text
    )
    how = ATTACKS["adversarial_noise"]
    fooled = dataclasses.replace(
        side,
        name="s",
        inputs=9,
        attack=Against(12, "loss", how.eps, 5, 0.1, "linf", True, 1, False),
    )
    text = Page(attacks(given(dataclasses.replace(record, unknown=(fooled,))))).text
    assert "75.0 % of 12 attacked inputs are misclassified" in text
    calm = dataclasses.replace(
        record, unknown=(), provenance=Provenance.now(0, {"resisted": {"a": 7}}, 0.0)
    )
    assert "run, a: none of 7 attacks succeeded." in Page(attacks(given(calm))).text
    assert attacks(given(dataclasses.replace(record, unknown=()))) == ""
    bare = dataclasses.replace(record, unknown=(dataclasses.replace(side, separation=()),))
    assert "–" in Page(attacks(given(bare))).text


@pytest.mark.usefixtures("undrawn")
def test_an_attack_on_many_models_is_reported_once(of_images):
    record = one(of_images, Evaluation)
    record = dataclasses.replace(record, unknown=record.unknown[:1])
    named = ReportContext(tuple((name, record) for name in "abc"))
    assert unknown(named).count("was generated for each of a, b and c separately") == 1
    assert "mean confidence after the attack" in attacks(named)
    many = ReportContext(tuple((f"m{i}", record) for i in range(7)))
    assert unknown(many).count("was generated for each of 7 models separately") == 1
    assert "mean confidence after the attack" not in attacks(many)  # the table has it
    assert attacks(many).count("<tr>") == 8


def test_pictures_of_another_attack_are_reported(of_images):
    record, noise = one(of_images, Evaluation), one(of_images, Gallery)
    steps = noise.provenance.settings["attack"]["steps"]
    for count in (steps, steps + 1):
        attack = dataclasses.replace(record.unknown[0].attack, steps=count)
        side = dataclasses.replace(record.unknown[0], attack=attack)
        text = Page(attacks(given(dataclasses.replace(record, unknown=(side,)), noise))).text
        assert (f"of {steps} steps rather than {steps + 1}" in text) == (count != steps)


def test_maps_side_by_side(of_rows):
    record = one(of_rows, Map)
    other = dataclasses.replace(record, method="other", data="elsewhere")
    page = Page(maps(given(record, dataclasses.replace(record, method="duq"), other)))
    assert len(page.of("svg")) == 4  # confidence and score, of two data sets
    sure = (np.array(record.confidence.values) > 0.99).mean()
    assert f"softmax is more than 99.0 % certain over {percent(sure)} of the map" in page.text
    same = Page(maps(given(record, record)))
    assert "run (2) is more than" in same.text  # two of one method go by their names


def test_each_model_has_a_map_of_its_own_score(of_rows):
    record = one(of_rows, Map)
    surfaces = [
        dataclasses.replace(record.scores[0], name=name, label=name) for name in ("first", "second")
    ]
    both = dataclasses.replace(record, scores=tuple(surfaces))
    other = dataclasses.replace(record, method="duq", scores=(surfaces[0],))
    evaluation = an_evaluation({"far": 0.9}, method=both.method)
    page = Page(maps(given(both, other, dataclasses.replace(evaluation, score="second"))))
    assert f"The score of {both.method}: second." in page.text
    assert "The score of duq: first." in page.text
    assert "not in this map" not in page.text


def test_a_map_without_points_is_reported(of_rows):
    with pytest.raises(NescioError, match=r"the map of run on .* cannot be drawn"):
        maps(given(dataclasses.replace(one(of_rows, Map), x=(), y=())))


def test_a_table_without_features_is_left_out(of_rows):
    assert infinity(given(dataclasses.replace(one(of_rows, FeatureAudit), features=()))) == ""


def test_regions_are_drawn_small(of_rows):
    record = one(of_rows, Regions)
    page = Page(maps(given(record)))
    assert f"{record.count:,} linear regions" in page.text
    many = dataclasses.replace(record, count=5000, cells=record.cells * (5000 // record.count + 1))
    assert len(maps(given(many))) < 400_000


def test_a_palette_saves_bytes_and_is_not_seen(seed):
    rng = np.random.default_rng(seed)
    pixels = np.repeat(rng.integers(0, 3, (300, 300, 1)) * 100, 4, axis=2).astype(np.uint8)
    noisy = np.clip(pixels + rng.integers(0, 9, pixels.shape), 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(noisy).save(file, format="PNG")
    full = (
        f'<image xlink:href="data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"/>'
    )
    small = with_palette(Markup(full))
    assert len(small) < len(full) / 2
    found = re.search(r'base64,([^"]*)', small)[1]
    again = np.asarray(Image.open(io.BytesIO(base64.b64decode(found))).convert("RGBA"), int)
    assert np.abs(again - noisy).mean() < 16
    assert with_palette(Markup("<p>2 < 3</p>")) == "<p>2 < 3</p>"


def pixels_of(markup):
    """The first picture in HTML as an array."""
    png = base64.b64decode(re.search(r'base64,([^"]*)', markup)[1])
    return np.asarray(Image.open(io.BytesIO(png)))


def test_pictures_are_those_of_the_record(of_images):
    image = one(of_images, Examples).known.surest[0].image
    again = pixels_of(picture(image, "", []))
    np.testing.assert_array_equal(again, np.rint(np.array(image[0]) * 255))
    colour = (image[0], image[0], tuple(tuple(0.0 for _ in row) for row in image[0]))
    again = pixels_of(picture(colour, "", []))
    assert again.shape == (8, 8, 3)
    assert again[..., 2].max() == 0


def test_examples_as_pictures_and_as_rows(of_images, of_rows):
    record = one(of_images, Examples)
    page = Page(examples(given(record)))
    assert len(page.of("img")) == 3 * 2 * 3
    first = record.known.surest[0]
    assert any(
        f"input {first.number}, among the most certain: classified as {first.answer}"
        in image["alt"]
        for image in page.of("img")
    )
    assert "shown stretched" in " ".join(image["alt"] for image in page.of("img"))  # far away
    table = one(of_rows, Examples)
    page = Page(examples(given(table)))
    assert not page.of("img")
    assert len(page.of("tr")) == 2 * (1 + 4)
    assert f"{table.known.surest[0].values[0]:.6g}" in page.text


def test_examples_of_many_models_are_folded_and_few(of_rows):
    record = one(of_rows, Examples)
    alone = Page(examples(given(record)))
    assert "Of each set the most, then the least certain inputs by max_prob." in alone.text
    assert not alone.of("details")
    page = Page(examples(given(*[record] * 8)))
    assert len(page.of("details")) == 6
    assert "run (6)" in page.text
    assert "run (7)" not in page.text
    assert "Inputs of 2 more models are not shown." in page.text


def test_wrong_examples_stand_out(of_images):
    record = one(of_images, Examples)
    wrong = dataclasses.replace(record.known.surest[0], answer="a", truth="b")
    side = dataclasses.replace(record.known, surest=(wrong,), unsure=())
    page = Page(examples(given(dataclasses.replace(record, known=side, unknown=()))))
    assert "Of the 1 most certain input, 1 are misclassified." in page.text
    assert page.of("figure")[0]["class"] == "picture wrong"
    assert "wrong: it is b" in page.of("img")[0]["alt"]


def test_inputs_that_are_neither_are_reported(of_images):
    record = one(of_images, Examples)
    bare = Example(3, "a", None, 0.5, 1.0, None, None, None)
    side = dataclasses.replace(record.known, surest=(bare,), unsure=())
    page = Page(examples(given(dataclasses.replace(record, known=side, unknown=()))))
    assert len(page.of("tr")) == 2


def test_a_row_whose_values_were_not_kept_has_dashes():
    record = an_examples(pictures=False)
    bare = dataclasses.replace(record.known.surest[0], values=None)
    side = dataclasses.replace(record.known, surest=(bare,))
    body = examples(given(dataclasses.replace(record, known=side)))
    assert body.count("<td class=number>–</td>") == 2


def test_thresholds_and_their_promises(of_images):
    page = Page(threshold(given(*of_images)))
    decision = of_images[2]
    assert decision.promise in page.text
    assert (
        f"Measured: {100 * decision.accepted:.1f} % of {decision.inputs} known test inputs were "
        "accepted" in page.text
    )
    assert "inputs of digits, test part." in page.text
    assert "a promise" not in page.text  # of the fitted detector: the decision tells it
    fitted = [one for one in of_images if isinstance(one, Fitted)]
    assert "Guarantee: a promise." in Page(threshold(given(*fitted))).text
    side = Page(threshold(given(decision, decision)))
    assert "run (2)" in side.text
    assert "far rejected, %" in side.text
    exact = dataclasses.replace(decision, accept=0.9, bound=0.9032)
    rows = threshold(given(exact, exact))
    assert re.search(r"asked for, %</th><th[^>]*>guaranteed, %</th>", rows)
    assert re.search(r">90\.0</td><td[^>]*>90\.3</td>", rows)


def test_what_a_broken_promise_looks_like(of_images):
    decision = of_images[2]
    broken = dataclasses.replace(decision, accepted=0.5)
    assert any("the guarantee does not hold for them" in words for words in decision_words(broken))
    assert not any(
        "does not hold" in words
        for words in decision_words(dataclasses.replace(decision, accepted=0.95))
    )
    forgotten = dataclasses.replace(decision, promise=None, usual=None, bound=None, accuracy=None)
    assert "Its guarantee is not in this record." in decision_words(forgotten)
    risk = dataclasses.replace(decision, risk=0.01, accepted_accuracy=0.98)
    assert any("was not kept" in words for words in decision_words(risk))
    decision_figure(forgotten).draw_without_rendering()


def test_thresholds_in_words():
    assert threshold_words("energy", (2.5,), "9 inputs") == (
        "energy answers “I do not know” if its score is above 2.5, as set by 9 inputs."
    )
    assert "largest probability below 90.0 %" in threshold_words(
        "max_prob", (float(np.log(0.1)),), "9 inputs"
    )
    assert "accepts everything" in threshold_words("energy", (1.7e308,), "9 inputs")
    assert threshold_words("energy", (), "9 inputs").startswith(
        "energy has no threshold in this record"
    )
    assert "a threshold for each of 3 classes" in threshold_words(
        "energy", (1.0, 2.0, 3.0), "9 inputs"
    )


def test_a_model_of_kernels():
    known = nescio.data.load("two_moons")
    model = trained(known, lambda net, normalise: DUQ(net, 2, 16, normalise=normalise), outputs=16)
    x, _ = known.test.take(slice(0, 10))
    records: list[Record] = [
        per_feature(model, x, names=known.features, classes=known.classes, progress=False),
        overconfidence(model, box=box_of(known), trials=10, progress=False),
    ]
    text = Page(infinity(given(*records))).text
    assert "That it ends uncertain is proved" in text
    assert "certain after" in text
    assert "How far the median row must be moved" in text


def test_a_recommended_detector_comes_first_and_is_reported_once():
    """It is on record twice: by its ranking, and as it was fitted."""
    suited = a_recommendation("vim")
    own = dataclasses.replace(a_fitted(detector="vim"), inputs=suited.calibrated)
    found = verdict(
        ReportContext((("run", own), ("run", a_fitted(detector="knn")), ("run", suited)))
    )
    assert re.findall(r"(Recommended: \w+|Instead of vim there is one fitted on \w+)", found) == [
        "Recommended: vim",
        "Instead of vim there is one fitted on knn",
    ]
