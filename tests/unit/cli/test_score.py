"""`nescio score`: one row for each input, from files of any kind."""

import csv

import numpy as np
import pytest
from PIL import Image

import nescio
from nescio.core.tensorfile import read_tensors, write_tensors
from nescio.data import load


def test_score_writes_one_row_per_input(command, trained, rows, tmp_path):
    code, _, err = command("score", trained / "digits", rows, "-o", tmp_path / "a.csv")
    assert code == 0, err
    with (tmp_path / "a.csv").open() as file:
        found = list(csv.DictReader(file))
    assert len(found) == 7
    assert list(found[0]) == [
        "input",
        "class",
        "confidence",
        *map(str, nescio.scores.usual_scores(1)),
    ]
    model = nescio.load(trained / "digits" / "model.safetensors")
    logits = nescio.predict(model, load("digits").test.inputs[:7])
    assert [int(row["class"]) for row in found] == logits[0].argmax(-1).tolist()
    assert [float(row["entropy"]) for row in found] == pytest.approx(
        nescio.scores.entropy(logits).tolist(), rel=1e-5
    )
    code, out, _ = command("score", trained / "digits", rows)
    assert out == (tmp_path / "a.csv").read_text()


def test_score_reads_tables_by_column_name(command, trained, tmp_path):
    iris = load("iris")
    names, x = list(iris.features), iris.test.inputs[:5]
    with (tmp_path / "i.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [["note", *reversed(names)], *([0, *row[::-1]] for row in x.tolist())]
        )
    code, out, err = command("score", trained / "iris", tmp_path / "i.csv", "--score", "margin")
    assert code == 0, err
    found = list(csv.DictReader(out.splitlines()))
    model = nescio.load(trained / "iris" / "model.safetensors")
    want = nescio.predict(model, x)[0].argmax(-1).tolist()
    assert [row["class"] for row in found] == [iris.classes[index] for index in want]


def test_case_of_the_ending_does_not_matter(command, trained, tmp_path):
    iris = load("iris")
    with (tmp_path / "I.CSV").open("w", newline="") as file:
        csv.writer(file).writerows(
            [iris.features[::-1], *(row[::-1] for row in iris.test.inputs[:5].tolist())]
        )
    (tmp_path / "i.csv").write_bytes((tmp_path / "I.CSV").read_bytes())
    answers = [
        command("score", trained / "iris", tmp_path / name)[1] for name in ("I.CSV", "i.csv")
    ]
    assert answers[0] == answers[1] != ""


def test_score_reads_npz_and_folders_of_images(command, trained, tmp_path):
    images = (load("digits").test.inputs[:3, 0].numpy() * 255).round().astype(np.uint8)
    np.savez(tmp_path / "x.npz", images=images)
    (tmp_path / "pictures").mkdir()
    for index, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / "pictures" / f"{index}.png")
    outputs = [
        command("score", trained / "digits", tmp_path / name) for name in ("x.npz", "pictures")
    ]
    assert [code for code, _, _ in outputs] == [0, 0], outputs
    columns = [[row["class"] for row in csv.DictReader(out.splitlines())] for _, out, _ in outputs]
    assert columns[0] == columns[1]
    named = [[row["input"] for row in csv.DictReader(out.splitlines())] for _, out, _ in outputs]
    assert named == [["0", "1", "2"], ["0.png", "1.png", "2.png"]]
    code, out, err = command("score", trained / "digits", tmp_path / "pictures" / "1.png")
    assert code == 0, err
    alone = list(csv.DictReader(out.splitlines()))
    assert [(row["input"], row["class"]) for row in alone] == [("1.png", columns[0][1])]


def test_a_model_file_that_names_other_classes_is_refused(command, trained, rows, tmp_path):
    tensors, about = read_tensors(trained / "digits" / "model.safetensors", "model")
    for change in (
        {"classes": ["0", "1"]},
        {"classes": []},
        {"shape": [1, 8, 9]},
        {"shape": [-1]},
        {"shape": [10**12]},
        {"encoding": {"columns": [[]]}},
    ):
        path = tmp_path / "run" / "model.safetensors"
        write_tensors(path, "model", tensors, {**about, "about": {**about["about"], **change}})
        code, _, err = command("score", tmp_path / "run", rows)
        assert (code, "Traceback" in err) == (2, False), err
