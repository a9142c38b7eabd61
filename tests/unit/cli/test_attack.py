"""`nescio attack`: images under attack, for every run."""

import sys

import pytest

from nescio.cli import main
from nescio.records import (
    Gallery,
)


@pytest.fixture(scope="module")
def wary(tmp_path_factory):
    """Two runs on the images of digits, by different methods."""
    folder = tmp_path_factory.mktemp("wary")
    for method in ("softmax", "ceda"):
        words = f"nescio train {method} --data digits --network mlp --epochs 2 -o".split()
        sys.argv = [*words, str(folder / method)]
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code
    return folder


@pytest.mark.parametrize("start", ["noise", "samples"])
def test_attack_draws_every_run_and_keeps_the_record(command, wary, tmp_path, start):
    path = tmp_path / "attack.svg"
    words = f"--start {start} --images 4 --steps 5 -o {path}"
    code, out, err = command("attack", wary / "softmax", wary / "ceda", *words.split())
    assert code == 0, err
    record = Gallery.load(tmp_path / "attack.json")
    assert [row.name for row in record.rows] == ["softmax", "ceda"]
    assert len(record.images) == 4
    assert record.start == start
    assert record.provenance.settings["attack"]["steps"] == 5
    assert f"{100 * sum(record.rows[1].confidence) / 4:.1f} %" in out
    assert path.stat().st_size > 1000


def test_runs_of_one_method_go_by_their_folders(command, wary, tmp_path):
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "model.safetensors").write_bytes(
        (wary / "ceda" / "model.safetensors").read_bytes()
    )
    words = ("--images", 1, "--steps", 1, "-o", tmp_path / "a.png")
    assert command("attack", wary / "ceda", tmp_path / "again", *words)[0] == 0
    assert [row.name for row in Gallery.load(tmp_path / "a.json").rows] == ["ceda", "again"]
    code, _, err = command("attack", wary / "ceda", wary / "ceda", *words)
    assert code == 2
    assert "several are called 'ceda'" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{wary}/softmax", "{trained}/digits"], "runs must have been trained on the same data"),
        (
            ["{trained}/iris"],
            "a gallery shows images, grey or in colour; iris has inputs of shape (4,)",
        ),
        (["{wary}/softmax", "--start", "nose"], "did you mean 'noise'"),
        (
            ["{wary}/softmax", "-o", "attack.txt"],
            "a figure's name must end in one of .svg, .png, .pdf",
        ),
        (["{wary}/nowhere"], "is not a run of `nescio train`"),
        (["{wary}/softmax", "--eps", "-1"], "eps must be a number from 0"),
    ],
)
def test_attack_says_what_is_wrong(command, wary, trained, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    code, _, err = command("attack", *(word.format(wary=wary, trained=trained) for word in words))
    assert code == 2
    assert message in " ".join(err.split())
    assert not list(tmp_path.iterdir())
