"""Records of the papers' experiments, made by hand."""

from nescio.report import report_page
from papers.duq.timings import Timings
from papers.gradient_uncertainty.separations import ScoreRow, Separations, SplitMetrics
from papers.relu_overconfidence.radius import Radius, RadiusCheck
from papers.report import ALL_SECTIONS
from papers.reproduction import Claim, Comparison, Deviation, Reproduction
from report_records import ORIGIN


def papers_page(records):
    """The page that `python -m papers report` writes."""
    return report_page(records, ALL_SECTIONS)


def a_reproduction(what="DUQ: AUROC", ours=0.93):
    return Reproduction(
        "duq-table2",
        4,
        "Table 2",
        "known against unknown",
        "quick",
        3,
        "python -m papers duq-table2 --seeds 3",
        (
            Comparison(what, 0.955, ours, 0.007, 0.002),
            Comparison("not in the paper", None, 12.0, unit="s"),
        ),
        (Claim("DUQ is ahead", ours > 0.9, "0.93 to 0.85"),),
        (Deviation("epochs", "30", "12", "time"),),
        ("Too few epochs.",),
        (),
        ORIGIN,
    )


def a_separations(score="max_prob", against="omniglot"):
    row = ScoreRow(score, "outputs", {against: SplitMetrics((0.9, 0.92), *[(0.8, 0.82)] * 4)})
    return Separations("mnist", "cnn16", (0.99, 0.98), {against: (100, 100)}, (row,), (), ORIGIN)


def a_timings(work="step: softmax"):
    return Timings("conv3", 128, 1, {work: (0.5, 0.25, 0.3), "step: DUQ": (2.5, 1.25, 1.5)}, ORIGIN)


def a_radius(data="digits", worst=0.004):
    """An RBF network that keeps a promise of ε = 0.1, or not."""
    promises = (RadiusCheck(0.1, 10.5, 14783, worst), RadiusCheck(0.01, 12.0, 0, 0.0))
    return Radius(
        data,
        10,
        1258,
        0.06,
        478.0,
        0.98,
        promises,
        (0.1, 9.0, 30.0),
        (0.9, 0.1, 1e-9),
        (0.9, 0.8, 0.7),
        ORIGIN,
    )


def of_every_paper_kind(name):
    """A record of each kind, in which everything that has a name is called so."""
    kinds = (a_separations(name, name), a_reproduction(name), a_timings(name), a_radius(name))
    return [(name, record) for record in kinds]
