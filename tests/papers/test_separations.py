from nescio.records import Provenance
from nescio.report.figures import save_figure
from papers.gradient_uncertainty.separations import (
    ScoreRow,
    ScoreValues,
    Separations,
    SplitMetrics,
    separation_page,
    violin_figure,
)


def record(splits=2):
    def row(name, group, value):
        against = {
            other: SplitMetrics(*[tuple(value + 0.01 * split for split in range(splits))] * 5)
            for other in ("wrong", "uni|form")
        }
        return ScoreRow(name, group, against)

    spread = ScoreValues(
        "entropy",
        {"right": (-3.0, -2.0, -2.5), "wrong": (0.5,), "flat": (1.0, 1.0), "x, wrong": (0.0, 1.0)},
    )
    return Separations(
        data="digits",
        network="lenet",
        accuracy=(0.97, 0.98)[:splits],
        sets={"right": (90,), "wrong": (10,)},
        rows=(
            row("entropy", "single", 0.9),
            row("lasso", "regression", 0.95),
            row("none", "network", 0.5),
        ),
        spreads=(spread, spread),
        provenance=Provenance.now(0, {}, 1.0),
    )


def test_tables_give_mean_and_deviation_and_mark_the_best():
    said = separation_page(record(), {}, ["auroc"])
    assert "97.50 % right on average" in said
    assert "90.50 ± 0.71" in said
    assert "**95.50 ± 0.71**" in said
    assert "**90.50" not in said
    assert "AUPR" not in said


def test_one_split_has_no_deviation():
    said = separation_page(record(1), {})
    assert "90.00" in said
    assert "90.00 ±" not in said
    assert said.count("AUPR-") == 4


def test_the_page_has_the_paper_beside():
    page = separation_page(
        record(), {("entropy", "wrong"): {"auroc": 97.74}}, ["auroc", "aupr_out"]
    )
    assert "| entropy | 90.50 ± 0.71 (97.74) | 90.50 ± 0.71 |" in page
    assert "| lasso | **95.50 ± 0.71** | **95.50 ± 0.71** |" in page
    lines = page.splitlines()
    assert sum(line.startswith("| ---") for line in lines) == 2
    widths = {line.replace(r"\|", "").count("|") for line in lines if line.startswith("|")}
    assert widths == {4}


def test_a_record_survives_saving(tmp_path):
    record().save(tmp_path / "r.json")
    assert Separations.load(tmp_path / "r.json") == record()


def test_violins_are_drawn_for_every_score_and_set(tmp_path):
    figure = violin_figure(record())
    assert len(figure.axes) == 2
    assert [label.get_text() for label in figure.axes[1].get_xticklabels()] == [
        "right",
        "wrong",
        "flat",
        "x, wrong",
    ]
    assert len(figure.axes[0].collections) == 2  # one value, or equal ones, have no width
    save_figure(figure, tmp_path / "v.svg")
    assert (tmp_path / "v.svg").stat().st_size > 1000
