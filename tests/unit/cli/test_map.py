"""`nescio map`: figures and records of methods in the plane."""

import pytest

from nescio.records import (
    Map,
)


def test_map_draws_methods_and_keeps_their_records(command, tmp_path):
    words = f"map two_moons --epochs 2 --resolution 5 -o {tmp_path / 'maps.svg'}".split()
    more = "--methods softmax ensemble --scores entropy variance"
    code, out, err = command(*words, *more.split())
    assert code == 0, err
    assert {path.name for path in tmp_path.iterdir()} == {
        "maps.svg",
        "maps-softmax.json",
        "maps-ensemble.json",
    }
    assert "Saved:" in out
    assert "maps-ensemble.json" in out
    one, several = (Map.load(tmp_path / f"maps-{name}.json") for name in ("softmax", "ensemble"))
    assert [surface.name for surface in one.scores] == ["entropy"]
    assert [surface.name for surface in several.scores] == ["entropy", "variance"]
    assert len(one.x) == 5
    values = (tmp_path / "maps.svg").read_bytes()
    command(*words, "--method", "softmax", "--saturation")
    assert (tmp_path / "maps.svg").read_bytes() != values


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["two_moons", "-o", "maps.jpg"], "a figure's name must end in one of .svg, .png, .pdf"),
        (["digits", "-o", "maps.svg"], "two features"),
        (["two_moon", "-o", "maps.svg"], "did you mean 'two_moons'"),
        (["two_moons", "--methods", "ensembel", "-o", "maps.svg"], "did you mean 'ensemble'"),
        (["two_moons", "--scores", "entropi", "-o", "maps.svg"], "did you mean 'entropy'"),
        (["two_moons", "--width", "0", "-o", "maps.svg"], "width must be a number from"),
        (["two_moons", "--width", "1e-20", "-o", "maps.svg"], "gives no 2 distinct numbers"),
        (["two_moons", "--resolution", "1000000", "-o", "maps.svg"], "resolution"),
        (["two_moons", "-o", "folder"], "'folder' is a folder; expected the path of a figure"),
        (
            ["two_moons", "-o", "folder.svg"],
            "'folder.svg' is a folder; expected the path of a figure",
        ),
        (
            ["two_moons", "--methods", "softmax", "--scores", "variance", "-o", "maps.svg"],
            "variance compares draws",
        ),
        (["gap.csv", "--label", "kind", "-o", "maps.svg"], "--impute"),
        (["gap.csv", "--label", "kin", "-o", "maps.svg"], "kin"),
    ],
)
def test_map_says_what_is_wrong_before_any_training(command, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "nescio.evaluation.maps.train_model", lambda *_, **__: pytest.fail("trained")
    )
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder.svg").mkdir()
    with_a_gap(tmp_path / "gap.csv")
    code, _, err = command("map", "--resolution", 2, *words)
    assert code == 2
    assert message in " ".join(err.replace("│", " ").split())
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "folder.svg", "gap.csv"}


def with_a_gap(path):
    """Write a table of two features, one value of which is missing, and the class between them."""
    rows = [f"{i % 7},{'no' if i % 7 > 3 else 'yes'},{i % 5 if i != 40 else ''}" for i in range(90)]
    path.write_text("\n".join(["height,kind,weight", *rows]))


def test_map_takes_a_table_with_missing_values_and_a_label_column(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with_a_gap(tmp_path / "gap.csv")
    words = "map gap.csv --impute --label kind --methods softmax --epochs 1 --resolution 3"
    code, _, err = command(*words.split())
    assert code == 0, err
    found = Map.load(tmp_path / "gap-map-softmax.json")
    assert (found.features, found.classes) == (("height", "weight"), ("no", "yes"))


def test_map_has_a_name_for_its_figure(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = "map two_moons --methods softmax --epochs 1 --resolution 3"
    assert command(*words.split())[0] == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "two_moons-map.svg",
        "two_moons-map-softmax.json",
    }
