"""Records made by hand, of good and of bad models, for reports."""

from dataclasses import replace

from nescio.records import (
    Against,
    Audit,
    AuditedFeature,
    Cell,
    Contest,
    Contestant,
    CounterExample,
    Course,
    Decision,
    Direction,
    Epoch,
    Evaluation,
    Example,
    Examples,
    ExampleSet,
    FeatureAudit,
    FeatureSide,
    Fitted,
    Gallery,
    GalleryRow,
    Gauge,
    Histogram,
    History,
    KnownSide,
    Map,
    MetaWeights,
    Monotonicity,
    Points,
    Provenance,
    Ranked,
    Ray,
    Reach,
    Recommendation,
    RefusedSet,
    Regions,
    Rejection,
    Reliability,
    Roc,
    Scaling,
    Selection,
    Separation,
    Surface,
    Temperature,
    Trial,
    UnknownSide,
)

ORIGIN = Provenance(3, {"batch_size": 256}, 1.5, {"nescio": "0.1.0", "torch": "2.13.0"})


def an_evaluation(
    aurocs, accuracy=0.95, mmc=0.96, ece=0.01, right_wrong=0.93, known="digits", method="softmax"
):
    """What a model whose AUROC on each unknown set is given makes of 1000 known inputs."""

    def side(name, auroc):
        return UnknownSide(
            name,
            500,
            0.4,
            (Separation("entropy", auroc, 0.8, 0.7, 1 - auroc),),
            (Rejection("entropy", (0.0, 0.5), (0.6, 0.9), (0.65, 1.0), 0.75, 0.9),),
            (Roc("entropy", (0.0, 0.2, 1.0), (0.0, auroc, 1.0)),),
        )

    counts = {"known": (5, 1), **dict.fromkeys(aurocs, (1, 5))}
    return Evaluation(
        method,
        "entropy",
        10,
        1,
        KnownSide(
            known,
            1000,
            accuracy,
            mmc,
            0.2,
            0.1,
            ece,
            (Separation("entropy", right_wrong, 0.9, 0.5, 0.3),),
            (Rejection("entropy", (0.0, 0.5), (accuracy, 0.99), (1.0, 1.0), 0.97, 1.0),),
        ),
        tuple(side(name, auroc) for name, auroc in aurocs.items()),
        (Histogram("entropy", (0.0, 1.0, 2.0), counts),),
        ORIGIN,
        Histogram("confidence", (0.0, 0.5, 1.0), counts),
    )


def an_audit(law="affine", share=1.0):
    """A network that ends certain (affine) or uncertain (kernels) along so many directions."""
    ray = Ray((1.0, 10.0), (0.6, 0.999), None, None, None, 9.0, None, 1.0)
    kernels = law == "kernels"
    return Audit(
        "duq" if kernels else "softmax",
        law,
        100,
        10,
        1,
        True,
        (0.0,),
        (1.0,),
        0.999,
        0.95,
        0.01,
        share if law == "affine" else None,
        None,
        None,
        0.9,
        0.0,
        4.0,
        (1.0, 4.0, None),
        1.0,
        0.3,
        share if kernels else None,
        7.0 if kernels else None,
        (1.0, 7.0) if kernels else None,
        1.0 if kernels else None,
        (ray,),
        ORIGIN,
        confidence_kind="kernel" if kernels else "softmax",
    )


def a_scaling(noticed, names=("height", "width")):
    course = Course(
        "entropy", (0.1, 0.2), (0.1, 0.0), (0.1, 0.0), (0.05, 1.0 if noticed else 0.0), noticed
    )
    ways = tuple(
        Direction(name, i, 90, 5.0, (0.9, 1.0), (0.9, 1.0), (course,))
        for i, name in enumerate(names)
    )
    ray = Direction("ray", None, 100, 5.0, (0.9, 1.0), (0.9, 1.0), (course,))
    return Scaling(
        "softmax",
        100,
        3,
        1,
        (1.0, 1000.0),
        (Gauge("entropy", "entropy", 0.3),),
        (*ways, ray),
        ORIGIN,
    )


def a_feature_audit(median, name="height"):
    """A table of one feature that, raised so far, makes the median row certain; None: never."""
    never = FeatureSide((5, 5), 0.9, Reach(0.0, 1.0, None, None, None, None), (0, 0), None)
    spreads = None if median is None else median / 2
    reached = FeatureSide(
        (10, 0), 1.0, Reach(1.0, 1.0, median, median, median, spreads), (10, 0), None
    )
    feature = AuditedFeature(
        name, 0, 0.0, 4.0, 2.0, None, never, never if median is None else reached
    )
    return FeatureAudit("softmax", 10, ("a", "b"), 1, 0.999, None, 0.1, (feature,), ORIGIN)


def a_recommendation(name="knn"):
    ranking = (
        Ranked(name, {"noise": 0.99, "patches": 0.91}, 0.95, 0.91, 1.0),
        Ranked("energy", {"noise": 0.8, "patches": 0.6}, 0.7, 0.6, 0.1),
    )
    origin = replace(ORIGIN, settings={"accept": 0.9})
    return Recommendation(
        name,
        "mean AUROC over the kinds of outliers",
        ranking,
        {"vim": "no features"},
        200,
        500,
        10,
        1,
        origin,
    )


def a_contest(name="knn", against="noise"):
    found = (
        Contestant(name, {against: 0.97}, {against: 0.1}, 0.97, 1.0, 0.5),
        Contestant("energy", {against: 0.7}, {against: 0.8}, 0.7, 0.5, 0.2),
    )
    return Contest("softmax", found, {"vim": "no features"}, 500, 500, {against: 300}, 0.1, ORIGIN)


def a_fitted(data="my data", detector="knn"):
    return Fitted(
        detector,
        {},
        None,
        "graph",
        None,
        (2,),
        None,
        ("a", "b"),
        None,
        data,
        400,
        None,
        "a new known input, drawn as these were, is accepted with a probability of at least 0.95",
        (1.25,),
        ORIGIN,
    )


def a_decision(against="far", accepted=0.96):
    return Decision(
        "softmax",
        "energy",
        {},
        "a new known input is accepted with a probability of at least 0.95",
        0.95,
        0.95,
        None,
        None,
        (1.25,),
        400,
        "digits",
        500,
        accepted,
        (0.93, 0.97),
        0.9,
        0.92,
        (RefusedSet(against, 100, 0.8),),
        ORIGIN,
    )


def a_history(method="softmax", validation=True):
    def epoch(i):
        return Epoch(
            i,
            1 / i,
            1 - 0.5 / i,
            1.1 / i if validation else None,
            1 - 0.6 / i if validation else None,
            1e-3,
            0.5,
        )

    return History(
        method, tuple(map(epoch, range(1, 6))), 50, 4 if validation else None, validation, ORIGIN
    )


def a_selection(setting="length_scale"):
    trials = tuple(
        Trial(value, share, None, (share,), (None,), None, 1.0)
        for value, share in ((0.1, 0.8), (0.2, 0.9))
    )
    return Selection(
        "duq", setting, 0.2, "accuracy on validation data", "accuracy", 100, trials, ORIGIN
    )


def a_temperature():
    return Temperature(1.7, 0.9, 0.4, 0.3, 0.08, 0.02, 500, 1, ORIGIN)


def a_meta(feature="all/l1", weights=(0.0, -0.5, 2.0)):
    return MetaWeights(
        "lasso", (feature, f"{feature}2", "entropy"), weights, 0.1, 90, 8, {feature: 20}, ORIGIN
    )


def an_image(value=0.5):
    return (((value, 0.0, 1.0), (0.0, value, 1.0)),)


def a_gallery(start="noise", name="softmax"):
    row = GalleryRow(name, (an_image(0.1), an_image(0.2)), (name, "b"), (0.999, 0.7), (0.2, 0.3))
    origin = replace(ORIGIN, settings={"attack": {"eps": 0.3, "steps": 40}})
    return Gallery(name, start, (an_image(), an_image(0.6)), (name, "b"), (row,), origin)


def an_examples(name="digits", pictures=True):
    """Two inputs of a known and of an unknown set, as images, or as rows of a table."""

    def example(number, confidence):
        seen = (an_image(), (-1.0, 2.0), None) if pictures else (None, None, (1.5, -2.0))
        return Example(number, name, name, confidence, 0.1, *seen)

    def side(called):
        return ExampleSet(called, 50, (example(3, 0.99),), (example(4, 0.4),))

    return Examples(
        name, "entropy", () if pictures else (name, "width"), 0, side(name), (side("far"),), ORIGIN
    )


def a_map(name="two_moons"):
    def surface(called):
        return Surface(
            called, called, ((0.5, 0.6, 0.9), (0.7, 0.8, 1.0)), ((0.0, 0.1, 0.2), (0.3, 0.1, 0.0))
        )

    points = Points((0.1, 0.9), (0.2, 0.8), (0, 1))
    return Map(
        "softmax",
        name,
        1,
        (name, "width"),
        (name, "b"),
        (0.0, 0.5, 1.0),
        (0.0, 1.0),
        (surface("entropy"),),
        surface("confidence"),
        points,
        ORIGIN,
    )


def a_regions(name="two_moons"):
    low, high = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0)), ((1.0, 0.0), (1.0, 1.0), (0.0, 1.0))
    cells = Cell(low, False, 0, 0.7), Cell(high, True, 1, 0.8)
    return Regions(
        "softmax",
        name,
        (name, "width"),
        (name, "b"),
        ((0.0, 1.0), (0.0, 1.0)),
        2,
        1,
        1.0,
        cells,
        (((0.5, 0.0), (0.5, 1.0)),),
        Points((0.1, 0.9), (0.2, 0.8), (0, 1)),
        ORIGIN,
    )


def a_monotonicity():
    found = CounterExample(1, 0, ((0.1, 0.2), (0.3, 0.2)), (0.5, -0.5))
    return Monotonicity(
        "softmax",
        2,
        1,
        (0.0, None),
        (1.0, None),
        True,
        100,
        (0, 1),
        ((1, -1), (0, 0)),
        (0,),
        False,
        found,
        ORIGIN,
    )


def an_affine_audit():
    """With all that an audit of a network with several draws tells."""
    ray = Ray((1.0, 10.0), (0.6, 0.9), (0.5, 0.9), (2.0, 3.0), 3.0, None, None, 0.9)
    return replace(
        an_audit("affine", 0.7),
        ends_in=(60, 10, *([0] * 8)),
        end_confidence=(0.1, 0.2, 0.5, 0.9, 1.0),
        draws=5,
        rays=(ray,),
    )


def an_attacked_evaluation(name="digits"):
    """One whose unknown set an attack made, with a reliability diagram."""
    record = an_evaluation({name: 0.8}, known=name)
    attack = Against(600, "loss", 0.3, 40, 0.02, "linf", True, 1, False)
    diagram = Reliability((0.0, 0.5, 1.0), (0, 1000), (None, 0.96), (None, 0.95))
    return replace(
        record,
        unknown=(replace(record.unknown[0], attack=attack),),
        known=replace(record.known, reliability=diagram),
    )


def of_all_kinds(name):
    """A record of each kind that a report shows, some several times, with all they can hold."""
    return [
        *of_every_kind(name),
        *(
            (name, record)
            for record in (
                an_affine_audit(),
                an_attacked_evaluation(name),
                a_gallery("noise", name),
                a_gallery("samples", name),
                an_examples(name),
                an_examples(name, pictures=False),
                a_map(name),
                a_regions(name),
                a_monotonicity(),
                a_decision(name),
            )
        ),
    ]


def of_every_kind(name):
    """A record of each kind, in which everything that has a name is called so."""
    return [
        (name, record)
        for record in (
            an_evaluation({name: 0.9, f"{name}2": 0.6}, known=name, method=name),
            an_audit(),
            an_audit("kernels"),
            a_scaling(False, (name, f"{name}2")),
            a_feature_audit(1.0, name),
            a_recommendation(name),
            a_contest(name, name),
            a_fitted(name, name),
            a_history(name),
            a_selection(name),
            a_temperature(),
            a_meta(name),
        )
    ]
