"""`nescio evaluate`: what it writes and prints."""

import io
from dataclasses import replace

import numpy as np
from PIL import Image
from rich.console import Console

from nescio.records import (
    Evaluation,
    Examples,
    Provenance,
)
from nescio.report.evaluation import evaluation_tables


def test_evaluate_writes_a_record_and_prints_its_conventions(command, trained, tmp_path):
    path = tmp_path / "e.json"
    code, out, err = command(
        "evaluate", trained / "digits", "--unknown", "unseen", "uniform", "far", "-o", path
    )
    assert code == 0, err
    assert "fraction of unknown inputs accepted when 95 %" in out
    record = Evaluation.load(path)
    assert [side.name for side in record.unknown] == ["unseen", "uniform", "far"]
    assert f"{record.unknown[0].separation[0].auroc:.3f}" in out
    assert record.known.accuracy > 0.9
    found = Examples.load(tmp_path / "e-examples.json")
    assert [side.name for side in found.unknown] == ["unseen", "uniform", "far"]
    assert {example.truth for example in found.known.surest} <= set("01234567")
    assert np.shape(found.known.surest[0].image) == (1, 8, 8)
    assert str(tmp_path / "e-examples.json") in out
    typed = f"nescio evaluate {trained / 'digits'} --unknown unseen uniform far -o {path}"
    assert record.provenance.command == found.provenance.command == typed
    assert Provenance.now(0, {}, 0.0).command is None  # the command is done


def test_evaluate_tells_what_was_in_the_record_that_it_replaces(command, trained, tmp_path):
    path = tmp_path / "e.json"
    words = ["evaluate", trained / "digits", "-o", path, "--unknown"]
    assert "replaced" not in command(*words, "unseen", "uniform", "far")[2]
    record = Evaluation.load(path)
    held = replace(
        record.provenance,
        settings={**record.provenance.settings, "resisted": {"adversarial_samples": 9}},
    )
    replace(record, provenance=held).save(path)
    err = command(*words, "far")[2]
    covered = "covers unseen, uniform, adversarial_samples, too, and will be replaced; -o FILE"
    assert covered in " ".join(err.split())
    assert [side.name for side in Evaluation.load(path).unknown] == ["far"]
    assert "replaced" not in command(*words, "far", "uniform")[2]  # nothing is lost
    path.write_bytes(b"\xff no record")
    code, _, err = command(*words, "far", "--force")
    assert code == 0, err
    assert "replaced" not in err
    assert [side.name for side in Evaluation.load(path).unknown] == ["far"]


def test_list_options_may_be_repeated_or_follow_each_other(command, trained, tmp_path):
    for words in (
        ["--scores", "entropy", "energy"],
        ["--score", "entropy", "--score", "energy"],
        ["--scores=entropy", "energy"],
    ):
        command(
            "evaluate", trained / "digits", "--unknown", "far", *words, "-o", tmp_path / "e.json"
        )
        found = Evaluation.load(tmp_path / "e.json").unknown[0].separation
        assert [one.score for one in found] == ["entropy", "energy"]


def test_unknown_folders_of_images_need_no_labels(command, trained, tmp_path, monkeypatch):
    (tmp_path / "pictures").mkdir()
    for index in range(4):
        image = np.random.default_rng(index).integers(256, size=(12, 12, 3), dtype=np.uint8)
        Image.fromarray(image).save(tmp_path / "pictures" / f"{index}.png")
    monkeypatch.chdir(tmp_path)
    code, _, err = command("evaluate", trained / "digits", "--unknown", "pictures", "-o", "e.json")
    assert code == 0, err
    assert Evaluation.load(tmp_path / "e.json").unknown[0].inputs == 4


def test_figures_stay_whole_on_a_narrow_terminal(command, trained, tmp_path):
    command("evaluate", trained / "digits", "--unknown", "unseen", "-o", tmp_path / "e.json")
    record = Evaluation.load(tmp_path / "e.json")
    console = Console(width=40, file=io.StringIO())
    console.print(evaluation_tables(record))
    assert f"{record.unknown[0].separation[0].auroc:.3f}" in console.file.getvalue()
    assert f"{record.known.accuracy:.1%}" in console.file.getvalue()
