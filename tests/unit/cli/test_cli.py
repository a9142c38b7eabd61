"""The command line as a user meets it: what it prints, writes, and says when something is wrong."""

import csv
import io
import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

import nescio
from nescio.cli import main
from nescio.core.tensorfile import read_tensors, write_tensors
from nescio.data import load
from nescio.methods import METHODS
from nescio.records import (
    Audit,
    Evaluation,
    Examples,
    FeatureAudit,
    Gallery,
    History,
    Map,
    Provenance,
    Recommendation,
    Scaling,
    Selection,
)
from nescio.report.audit import audit_words
from nescio.report.evaluation import evaluation_tables


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A small run on digits without 8 and 9, and one on iris."""
    folder = tmp_path_factory.mktemp("runs")
    for name, more in (
        ("digits", ["--unseen", "8, 9", "--network", "mlp", "--epochs", "8"]),
        ("iris", ["--epochs", "20"]),
    ):
        sys.argv = ["nescio", "train", "softmax", "--data", name, "-o", str(folder / name), *more]
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code
    return folder


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "inputs.csv"
    x = load("digits").test.inputs[:7].reshape(7, 64)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([[f"pixel{i}" for i in range(64)], *x.tolist()])
    return path


def test_help_needs_no_torch():
    code = (
        "import sys; sys.argv = ['nescio', '--help']\nfrom nescio.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\nsys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "evaluate" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        "demo",
        "train",
        "evaluate",
        "recommend",
        "contest",
        "compare",
        "attack",
        "fit",
        "score",
        "audit",
        "map",
        "report",
        "data list",
        "data get",
    ],
)
def test_every_command_has_help_with_an_example(command, words):
    code, out, _ = command(*words.split(), "--help")
    assert code == 0
    assert f"nescio {words}" in out.partition(" Examples\n")[2]


def test_help_of_train_names_what_there_is(command):
    _, out, _ = command("train", "--help")
    flat = " ".join(out.replace("│", " ").split())
    assert "softmax" in flat
    assert "resnet18, resnet20" in flat
    assert "one_cycle" in flat


def test_version(command):
    assert command("--version")[1].strip() == f"nescio {nescio.__version__}"


def test_train_writes_a_run(trained):
    names = {path.name for path in (trained / "digits").iterdir()}
    assert names == {"model.safetensors", "history.json", "checkpoint.safetensors"}
    assert len(History.load(trained / "digits" / "history.json").epochs) == 8


def test_the_seed_decides_the_first_weights(command, tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        command(
            "train",
            "softmax",
            "--data",
            "iris",
            "--epochs",
            1,
            "--learning-rate",
            1e-30,
            "--seed",
            seed,
            "-o",
            tmp_path / name,
        )
    a, b, c = (nescio.load(tmp_path / name / "model.safetensors").net[1].weight for name in "abc")
    assert (a == b).all()
    assert (a != c).any()


def test_recommend_saves_a_ranking_and_a_detector_that_decides(command, trained, tmp_path):
    words = [
        "recommend",
        trained / "digits",
        "--candidates",
        "energy",
        "max_prob",
        "-o",
        tmp_path / "found",
    ]
    code, out, _ = command(*words, "--accept", "0.9")
    assert code == 0
    record = Recommendation.load(tmp_path / "found" / "recommendation.json")
    assert {one.name for one in record.ranking} == {"energy", "max_prob"}
    assert f"Recommended: {record.detector} " in out
    detector = nescio.load(tmp_path / "found" / "recommended" / "detector.safetensors")
    known = load("digits", unseen=[8, 9])
    assert (detector.predict(known.unseen) == -1).double().mean() > 0.5
    np.savez(tmp_path / "new.npz", inputs=known.unseen.inputs.numpy())
    code, out, _ = command("score", tmp_path / "found" / "recommended", tmp_path / "new.npz")
    assert code == 0
    told = [line.split(",")[1] == "unknown" for line in out.splitlines()[1:]]
    assert told == (detector.predict(known.unseen) == -1).tolist()
    code, _, err = command("audit", tmp_path / "found" / "recommended")
    assert code == 2
    assert (
        "it holds a detector of `nescio fit`, which `nescio score` and `evaluate` take"
        in " ".join(err.split())
    )
    code, _, err = command("recommend", trained / "digits", "--candidates", "energi")
    assert code == 2
    assert "did you mean 'energy'" in err


def test_evaluate_writes_a_record_and_prints_its_conventions(command, trained, tmp_path):
    path = tmp_path / "e.json"
    code, out, err = command(
        "evaluate", trained / "digits", "--unknown", "unseen", "uniform", "far", "-o", path
    )
    assert code == 0, err
    assert "share of unknown inputs accepted when 95 %" in out
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
    assert "replaced" not in command(*words, "unseen", "uniform", "far")[1]
    record = Evaluation.load(path)
    held = replace(
        record.provenance,
        settings={**record.provenance.settings, "resisted": {"adversarial_samples": 9}},
    )
    replace(record, provenance=held).save(path)
    out = command(*words, "far")[1]
    assert (
        "The replaced record also covered unseen, uniform, adversarial_samples; use `-o` with "
        "another file to keep both."
    ) in out
    assert [side.name for side in Evaluation.load(path).unknown] == ["far"]
    assert "replaced" not in command(*words, "far", "uniform")[1]  # nothing is lost
    path.write_bytes(b"\xff no record")
    code, out, err = command(*words, "far", "--force")
    assert code == 0, err
    assert "replaced" not in out
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


def test_unknown_folders_of_images_need_no_labels(command, trained, tmp_path, monkeypatch):
    (tmp_path / "pictures").mkdir()
    for index in range(4):
        image = np.random.default_rng(index).integers(256, size=(12, 12, 3), dtype=np.uint8)
        Image.fromarray(image).save(tmp_path / "pictures" / f"{index}.png")
    monkeypatch.chdir(tmp_path)
    code, _, err = command("evaluate", trained / "digits", "--unknown", "pictures", "-o", "e.json")
    assert code == 0, err
    assert Evaluation.load(tmp_path / "e.json").unknown[0].inputs == 4


def test_a_run_on_a_file_is_judged_from_anywhere_unless_the_file_has_changed(
    command, tmp_path, monkeypatch
):
    rows = [("a", "b", "kind"), *((i % 7, i % 5, "no" if i % 7 > 3 else "yes") for i in range(90))]
    (tmp_path / "t.csv").write_text("\n".join(",".join(map(str, row)) for row in rows))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    assert command("train", "softmax", "--data", "t.csv", "--epochs", 3, "-o", "run")[0] == 0
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert command("evaluate", "../run")[0] == 0
    (tmp_path / "t.csv").write_text((tmp_path / "t.csv").read_text().replace("no", "aaa"))
    code, _, err = command("evaluate", "../run")
    assert code == 2
    assert "classes were ('no', 'yes')" in err
    text = (tmp_path / "t.csv").read_text().replace("aaa", "no")
    (tmp_path / "t.csv").write_text(text + "\n3,3,yes\n4,4,no\n")
    code, _, err = command("evaluate", "../run")
    assert code == 2
    assert "t.csv has changed" in err


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


def test_figures_stay_whole_on_a_narrow_terminal(command, trained, tmp_path):
    command("evaluate", trained / "digits", "--unknown", "unseen", "-o", tmp_path / "e.json")
    record = Evaluation.load(tmp_path / "e.json")
    console = Console(width=40, file=io.StringIO())
    console.print(evaluation_tables(record))
    assert f"{record.unknown[0].separation[0].auroc:.3f}" in console.file.getvalue()
    assert f"{record.known.accuracy:.1%}" in console.file.getvalue()


@pytest.mark.parametrize(
    "words",
    [
        "score {run} {rows} -o {rows}",
        "score {run} {rows} -o {run}/model.safetensors",
        "score {run} {rows} -o {run}/history.json",
        "evaluate {run} --unknown {rows} -o {rows}",
        "evaluate {run} --unknown unseen -o {run}/model.safetensors",
        "evaluate {run} -o {run}/history.json",
        "attack {run} --images 1 --steps 1 -o {run}/history.svg",
    ],
)
def test_nothing_is_written_over_what_is_read(command, trained, rows, words):
    run = trained / "digits"
    before = {path: path.read_bytes() for path in (rows, *run.iterdir())}
    code, _, err = command(*words.format(run=run, rows=rows).split())
    assert (code, "and would be overwritten; choose another output" in err) == (2, True), err
    assert {path: path.read_bytes() for path in (rows, *run.iterdir())} == before


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


def test_a_finished_run_started_again_is_left_as_it_is(command, trained):
    before = (trained / "iris" / "model.safetensors").read_bytes()
    code, out, _ = command(
        "train", "softmax", "--data", "iris", "-o", trained / "iris", "--epochs", "20"
    )
    assert code == 0
    assert "test accuracy" in out
    assert (trained / "iris" / "model.safetensors").read_bytes() == before


def test_data_list_names_every_set(command):
    code, out, _ = command("data", "list")
    assert code == 0
    assert all(name in out for name in nescio.data.NAMES)


@pytest.fixture
def bad(tmp_path, trained):
    """Files and folders that are not what they should be."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "nan.csv").write_text(
        ",".join(f"p{i}" for i in range(64)) + "\n" + ",".join(["nan"] * 64) + "\n"
    )
    (tmp_path / "short.csv").write_text("a,b\n1,2\n")
    (tmp_path / "bright.csv").write_text(
        ",".join(f"p{i}" for i in range(64)) + "\n" + ",".join(["16"] * 64) + "\n"
    )
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 and no more")
    (tmp_path / "run").mkdir()
    blob = (trained / "digits" / "model.safetensors").read_bytes()
    (tmp_path / "run" / "model.safetensors").write_bytes(blob[: len(blob) // 2])
    (tmp_path / "file").write_text("in the way")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("train softmx --data digits -o {bad}/o", "did you mean 'softmax'"),
        ("train softmax --data digitz -o {bad}/o", "did you mean 'digits'"),
        ("train softmax --data digits --network resnet -o {bad}/o", "did you mean 'resnet"),
        ("train softmax --data iris --network lenet -o {bad}/o", "images"),
        ("train softmax --data digits --unseen 11 -o {bad}/o", "class 11"),
        ("train softmax --data digits --unseen 0,1,2,3,4,5,6,7,8 -o {bad}/o", "at least 2"),
        ("train softmax --data digits --epochs 0 -o {bad}/o", "epochs"),
        ("train softmax --data digits --learning-rate -1 -o {bad}/o", "learning_rate"),
        ("train softmax --data digits --optimizer adamm -o {bad}/o", "did you mean 'adam'"),
        ("train softmax --data {bad}/short.csv -o {bad}/o", "class"),
        ("train softmax --data {bad}/none.csv -o {bad}/o", "none.csv"),
        ("train softmax --data digits --device gpu -o {bad}/o", "device"),
        ("train softmax --data digits --device meta -o {bad}/o", "device"),
        ("train softmax --data digits --validation nan -o {bad}/o", "validation"),
        ("score {trained}/digits {bad}/bright.csv -o {bad}/empty", "is a folder"),
        ("evaluate {trained}/digits -o {bad}/empty", "is a folder"),
        ("train softmax --data iris --epochs 1 -o {bad}/file", "file"),
        ("evaluate {bad}/empty", "not a run"),
        ("evaluate {bad}/run", "not a whole nescio model"),
        ("evaluate {trained}/digits --unknown unifrm", "did you mean 'uniform'"),
        ("evaluate {trained}/iris --unknown unseen", "held out"),
        ("evaluate {trained}/iris --unknown digits", "shape|features|tab"),
        ("evaluate {trained}/digits --scores entropi", "did you mean 'entropy'"),
        ("evaluate {trained}/digits --scores variance", "one draw"),
        ("score {trained}/digits {bad}/none.csv", "no such file"),
        ("score {trained}/digits {bad}/nan.csv", "p0"),
        ("score {trained}/digits {bad}/short.csv", "2 columns"),
        ("score {trained}/digits {bad}/bright.csv", "[0, 1]"),
        ("score {trained}/digits {bad}/broken.npz", "broken.npz"),
        ("score {trained}/digits {bad}/empty", "empty"),
        ("score {trained}/iris {bad}/short.csv", "no column"),
        ("data get mnst", "did you mean 'mnist'"),
        ("data get digits", "embedded"),
        ("nonsense", "nonsense"),
    ],
)
def test_bad_input_ends_with_its_message_and_code_2(command, bad, trained, words, message):
    before = {path: path.read_bytes() for path in bad.rglob("*") if path.is_file()}
    code, out, err = command(*words.format(bad=bad, trained=trained).split())
    shown = " ".join(err.replace("│", " ").split())
    assert code == 2, (code, out, err)
    assert any(part in shown for part in message.split("|")), shown
    assert "Traceback" not in err
    assert {path: path.read_bytes() for path in bad.rglob("*") if path.is_file()} == before


def test_map_draws_methods_and_keeps_their_records(command, tmp_path):
    code, out, err = command(
        "map",
        "two_moons",
        "--methods",
        "softmax",
        "ensemble",
        "--scores",
        "entropy",
        "variance",
        "--epochs",
        2,
        "--resolution",
        5,
        "-o",
        tmp_path / "maps.svg",
    )
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
    command(
        "map",
        "two_moons",
        "--method",
        "softmax",
        "--epochs",
        2,
        "--resolution",
        5,
        "--saturation",
        "-o",
        tmp_path / "maps.svg",
    )
    assert (tmp_path / "maps.svg").read_bytes() != values


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["two_moons", "-o", "maps.jpg"], "a figure ends in .svg, .png, .pdf"),
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
            "this compares draws",
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
    """Write a table of two features, one value of which is missing, with the class in the middle."""
    rows = [f"{i % 7},{'no' if i % 7 > 3 else 'yes'},{i % 5 if i != 40 else ''}" for i in range(90)]
    path.write_text("\n".join(["height,kind,weight", *rows]))


def test_map_takes_a_table_with_missing_values_and_a_label_column(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with_a_gap(tmp_path / "gap.csv")
    code, _, err = command(
        "map",
        "gap.csv",
        "--impute",
        "--label",
        "kind",
        "--methods",
        "softmax",
        "--epochs",
        1,
        "--resolution",
        3,
    )
    assert code == 0, err
    found = Map.load(tmp_path / "gap-map-softmax.json")
    assert (found.features, found.classes) == (("height", "weight"), ("no", "yes"))


def test_map_has_a_name_for_its_figure(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert (
        command("map", "two_moons", "--methods", "softmax", "--epochs", 1, "--resolution", 3)[0]
        == 0
    )
    assert {path.name for path in tmp_path.iterdir()} == {
        "two_moons-map.svg",
        "two_moons-map-softmax.json",
    }


@pytest.mark.parametrize("method", [name for name in METHODS if name != "softmax"])
def test_every_method_is_trained_judged_and_found_again(command, tmp_path, method):
    quick = {"acet": ["--steps", 3], "rbf": ["--gamma", 0.05]}.get(method, [])
    words = [
        "train",
        method,
        *quick,
        "--data",
        "digits",
        "--unseen",
        "8,9",
        "--epochs",
        6,
        "-o",
        tmp_path,
    ]
    words += ["--network", "mlp"] if METHODS[method].on_network else []
    code, out, err = command(*words)
    assert code == 0, err
    assert (
        f"{method} (mlp) on digits" in out
        if METHODS[method].on_network
        else f"{method} on digits" in out
    )
    code, _, err = command("evaluate", tmp_path, "--unknown", "unseen")
    assert code == 0, err
    record = Evaluation.load(tmp_path / "evaluation.json")
    assert (record.draws > 1) == METHODS[method].sampled
    assert record.known.accuracy > 0.85
    weights = (tmp_path / "model.safetensors").read_bytes()
    assert command(*words)[0] == 0  # the finished run is found again
    assert (tmp_path / "model.safetensors").read_bytes() == weights
    code, _, err = command(*words, "--learning-rate", 0.5)
    assert code == 2
    assert "learning_rate" in err


def test_audit_says_when_a_model_grows_certain(command, trained, tmp_path):
    code, out, err = command(
        "audit", trained / "iris", "--rows", 9, "--trials", 50, "-o", tmp_path / "away"
    )
    assert code == 0, err
    record = Scaling.load(tmp_path / "away" / "scaling.json")
    assert [one.name for one in record.directions[:2]] == ["sepal length (cm)", "sepal width (cm)"]
    assert record.inputs == 9
    assert "no score" in out
    far = Audit.load(tmp_path / "away" / "audit.json")
    assert (far.trials, far.law, far.proved) == (50, "affine", 1.0)
    assert " ".join(audit_words(far)) in " ".join(out.split())
    features = FeatureAudit.load(tmp_path / "away" / "features.json")
    assert (features.rows, features.classes) == (9, load("iris").classes)
    assert {path.name for path in (tmp_path / "away").iterdir()} == {
        f"{name}.{suffix}"
        for name in ("scaling", "audit", "features")
        for suffix in ("json", "svg")
    }
    code, _, err = command("audit", trained / "iris", "--features", "petal lenght (cm)")
    assert code == 2
    assert "did you mean 'petal length (cm)'" in err


class Hurrying:
    """A clock that goes on by a second whenever it is looked at, so that no machine is too fast for it."""

    looks = 0

    def monotonic(self):
        self.looks += 1
        return time.monotonic() + self.looks


def test_an_audit_keeps_to_its_budget_and_says_what_that_left_out(
    command, trained, tmp_path, monkeypatch
):
    words = "audit", trained / "digits", "--rows", 5, "-o", tmp_path / "away"
    with monkeypatch.context() as hurry:
        hurry.setattr("nescio.audit.budget.time", Hurrying())
        code, out, err = command(*words, "--budget", "1.5m")
    assert code == 0, err
    far = Audit.load(tmp_path / "away" / "audit.json")
    assert far.budget == 90.0
    assert 0 < far.unfollowed <= far.trials < 10_000
    proved = round(far.proved * far.trials)
    told = f"Factors proved: {proved:,}; measured: {far.trials - proved:,}. A budget of more than 90 s proves more."
    assert told in " ".join(out.split())
    assert f"Of 10,000 trials the budget allowed {far.trials:,}." in out
    code, _, err = command(
        *words, "--limit", 0, "--trials", 5
    )  # who says how much has all the time for it
    assert code == 0, err
    assert Audit.load(tmp_path / "away" / "audit.json").budget is None
    assert command(*words, "--trials", 5)[0] == 0
    assert Audit.load(tmp_path / "away" / "audit.json").budget == 60.0
    code, _, err = command(*words, "--budget", "soon")
    assert code == 2
    assert "expected a time such as" in err


def test_audit_of_images_takes_positions(command, trained):
    assert "positions" in command("audit", "--help")[1]
    words = "audit", trained / "digits", "--rows", 5, "--trials", 5
    code, _, err = command(*words, "--features", 3, "feature 20", 34)
    assert code == 0, err
    found = Scaling.load(trained / "digits" / "scaling.json").directions
    assert [one.feature for one in found] == [3, 20, 34, None]
    assert not (trained / "digits" / "features.json").exists()
    for word in ("64", "-1", "9" * 5000, "3.0"):
        code, _, err = command(*words, f"--features={word}")
        assert (code, "Traceback" in err) == (2, False), err


def test_audit_says_what_is_wrong_before_the_work(command, trained, tmp_path, monkeypatch):
    monkeypatch.setattr("nescio.cli.run_audits.scaling", lambda *_, **__: pytest.fail("scaled"))
    (tmp_path / "file").write_text("")
    code, _, err = command("audit", trained / "iris", "-o", tmp_path / "file")
    assert code == 2
    assert "is a file, where a folder was expected" in err


def test_a_run_has_a_folder_of_its_own_unless_told(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = command("train", "ensemble", "--data", "iris", "--epochs", 1)
    assert code == 0, err
    assert (tmp_path / "iris-ensemble" / "model.safetensors").exists()
    assert "nescio evaluate iris-ensemble" in out


FOUND = (
    "train duq --data digits --unseen 8,9 --network mlp --epochs 6 --learning-rate 0.01 --duq-momentum 0.9 "
    "--length-scale auto {} -o {}"
)


def test_settings_of_duq_are_found_before_the_training(command, tmp_path, monkeypatch):
    monkeypatch.setattr("nescio.cli.tuned_settings.MIN_TRIAL_EPOCHS", 2)
    words = FOUND.format("--penalty auto --select-on unseen", tmp_path).split()
    code, out, err = command(*words)
    assert code == 0, err
    scale, penalty = (
        Selection.load(tmp_path / f"{name}.json") for name in ("length_scale", "penalty")
    )
    assert len(scale.trials) == 6
    assert len(penalty.trials) == 7
    assert penalty.criterion == "AUROC of validation data against digits unseen"
    for record, name in ((scale, "length_scale"), (penalty, "penalty")):
        settings = record.provenance.settings
        assert settings["training"]["epochs"] == 2  # a third
        assert settings["validation_data"].startswith("101 inputs")  # a tenth
        assert f"{record.setting} {record.value:g} chosen" in out
        assert str(tmp_path / f"{name}.json") in out
        assert "<svg" in (tmp_path / f"{name}.svg").read_text()
    assert scale.provenance.settings["method_settings"]["gradient_penalty"] == 0
    assert penalty.provenance.settings["method_settings"]["length_scale"] == scale.value
    model = nescio.load(tmp_path / "model.safetensors")
    assert (model.length_scale, model.gradient_penalty, model.momentum) == (
        scale.value,
        penalty.value,
        0.9,
    )
    history = History.load(tmp_path / "history.json")
    assert len(history.epochs) == 6
    assert history.provenance.settings["data"].startswith("1010 inputs")  # all of them
    monkeypatch.setattr(
        "nescio.training.sweep.train_model", lambda *_, **__: pytest.fail("tried again")
    )
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.suffix == ".json"}
    code, again, err = command(*words)
    assert code == 0, err
    assert again == out
    assert {
        path.name: path.read_bytes() for path in tmp_path.iterdir() if path.suffix == ".json"
    } == before
    code, _, err = command(*words, "--epochs", 9)
    assert code == 2
    assert "length_scale.json' was made with epochs=2, not 3; use" in err


@pytest.mark.parametrize(
    ("words", "penalty"),
    [
        ("--gradient-penalty auto --penalty one-sided --validation 0.2", "one-sided"),
        ("--gradient-penalty 0.1 --penalty one-sided --validation 0.2", "one-sided"),
        ("--gradient-penalty auto --penalty auto --validation 0.2 --patience 3", "two-sided"),
    ],
)
def test_the_penalty_may_be_found_or_given_on_either_side(
    command, tmp_path, monkeypatch, words, penalty
):
    asked = []

    def chosen(make, data, **how):
        asked.append((make(), how))
        return SimpleNamespace(value=0.3)

    monkeypatch.setattr(
        "nescio.cli.tuned_settings.select_length_scale", lambda *_, **__: SimpleNamespace(value=0.2)
    )
    monkeypatch.setattr("nescio.cli.tuned_settings.select_penalty", chosen)
    monkeypatch.setattr("nescio.cli.tuned_settings._show", lambda found, *_: found.value)
    code, _, err = command(*FOUND.format(words, tmp_path).split())
    assert code == 0, err
    model = nescio.load(tmp_path / "model.safetensors")
    found = "auto" in words
    assert (model.penalty, model.length_scale, model.gradient_penalty) == (
        penalty,
        0.2,
        0.3 if found else 0.1,
    )
    assert len(asked) == found
    for tried, how in asked:
        assert (tried.penalty, tried.length_scale) == (penalty, 0.2)
        assert (how["validation"], how["epochs"], how["unknown"]) == (
            0.2,
            6,
            None,
        )  # a third would be too short


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "--select-on uniform",
            "--select-on uniform needs --penalty auto, which it selects",
        ),
        ("--penalty auto --gradient-penalty 0.5", "but --gradient-penalty 0.5 sets it"),
        ("--penalty auto --select-on unifrm", "did you mean 'uniform'"),
        ("--penalty auto --select-on iris", "shape"),
        ("--penalty auto --patience 3", "--patience needs validation data"),
        ("--centroid-size auto", "centroid_size must be an int"),
        ("--validation 1.5", "validation=1.5"),
        ("--device gpu", "device"),
    ],
)
def test_what_cannot_be_found_is_told_before_any_training(
    command, tmp_path, monkeypatch, words, message
):
    monkeypatch.setattr(
        "nescio.training.sweep.train_model", lambda *_, **__: pytest.fail("trained")
    )
    code, _, err = command(*FOUND.format(words, tmp_path).split())
    assert code == 2
    assert message in " ".join(err.split())
    assert "Traceback" not in err


def test_other_methods_have_nothing_to_be_found(command, tmp_path):
    code, _, err = command(*f"train softmax --data iris --select-on uniform -o {tmp_path}".split())
    assert code == 2
    assert "needs --penalty auto" in err
    code, _, err = command(*f"train ensemble --members auto --data iris -o {tmp_path}".split())
    assert code == 2
    assert "members must be an int ≥ 1, got 'auto'" in err


def test_what_speaks_against_a_choice_is_printed(command, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "nescio.cli.tuned_settings.doubts", lambda found: [f"{found.setting} is [doubtful]."]
    )
    code, out, err = command(
        *f"train duq --data iris --epochs 1 --penalty auto -o {tmp_path}".split()
    )
    assert code == 0, err
    assert "Note: gradient_penalty is [doubtful]." in out


def test_help_of_train_says_how_settings_are_found(command):
    flat = " ".join(command("train", "--help")[1].replace("│", " ").split())
    assert "trials of a third of --epochs (at least 10, or all)" in flat
    assert "the fraction --validation of the training data, by default 0.1" in flat
    assert "--duq-momentum" in flat


def test_compare_puts_runs_side_by_side(command, tmp_path):
    for method, seed in (("softmax", 0), ("duq", 0), ("duq", 1)):
        run = tmp_path / f"{method}-{seed}"
        how = (
            "--data",
            "digits",
            "--unseen",
            "8,9",
            "--network",
            "mlp",
            "--epochs",
            4,
            "--seed",
            seed,
        )
        assert command("train", method, *how, "-o", run)[0] == 0
        assert command("evaluate", run, "--unknown", "unseen", "uniform")[0] == 0
    runs = [
        tmp_path / "softmax-0",
        f"kernels={tmp_path / 'duq-0'}",
        f"kernels={tmp_path / 'duq-1/evaluation.json'}",
    ]
    code, out, err = command("compare", *runs, "--unknown", "unseen", "-o", tmp_path / "figures")
    assert code == 0, err
    assert "kernels" in out
    assert "±" in out  # two seeds of one name
    assert "uniform" not in out
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        "roc.svg",
        "rejection.svg",
        "confidence.svg",
        "table.md",
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{iris}", "--unknown", "mars"], "mars"),
        (["nowhere"], "there is no record 'nowhere'"),
        (["{empty}"], "nescio evaluate"),
        (["name={empty}/x.json"], "there is no record"),
    ],
)
def test_compare_says_what_is_missing(command, trained, tmp_path, words, message):
    (tmp_path / "empty").mkdir()
    assert (
        command("evaluate", trained / "iris", "--unknown", "uniform", "-o", tmp_path / "iris.json")[
            0
        ]
        == 0
    )
    given = [word.format(iris=tmp_path / "iris.json", empty=tmp_path / "empty") for word in words]
    code, _, err = command("compare", *given, "-o", tmp_path / "figures")
    assert code == 2
    assert message in err
    assert not (tmp_path / "figures").exists()


def test_outliers_of_a_file_are_learned_and_told_apart(command, tmp_path):
    """Outlier exposure: `--noise` takes what `--unknown` takes, in the shape of the known data."""
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "stripes.npz",
        images=np.repeat(rng.integers(0, 256, (300, 16, 1), dtype=np.uint8), 16, axis=2),
    )
    words = ["--data", "digits", "--network", "mlp", "--epochs", 10, "-o", tmp_path / "run"]
    code, _, err = command("train", "ceda", "--noise", tmp_path / "stripes.npz", *words)
    assert code == 0, err
    sets = [tmp_path / "stripes.npz", "noise", "permuted", "adversarial_noise"]
    code, out, err = command("evaluate", tmp_path / "run", "--attacked", 20, "--unknown", *sets)
    assert code == 0, err
    assert "adversarial_noise" in out
    record = Evaluation.load(tmp_path / "run" / "evaluation.json")
    names = [side.name for side in Examples.load(tmp_path / "run" / "examples.json").unknown]
    assert names == [side.name for side in record.unknown] == ["stripes", *sets[1:]]
    assert record.unknown[0].mmc < 0.2
    assert record.unknown[0].separation[0].auroc > 0.99
    assert (record.unknown[3].inputs, record.unknown[3].attack.steps) == (20, 200)
    code, _, err = command("train", "ceda", "--noise", "mixd", *words)
    assert code == 2
    assert "did you mean 'mixed'" in err
    code, _, err = command("train", "ceda", "--noise", "uniform", *words)
    assert code == 2
    assert "noise='outliers', not 'uniform'" in err


@pytest.fixture(scope="module")
def wary(tmp_path_factory):
    """Two runs on the images of digits, by different methods."""
    folder = tmp_path_factory.mktemp("wary")
    for method in ("softmax", "ceda"):
        sys.argv = [
            "nescio",
            "train",
            method,
            "--data",
            "digits",
            "--network",
            "mlp",
            "--epochs",
            "2",
        ]
        sys.argv += ["-o", str(folder / method)]
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code
    return folder


@pytest.mark.parametrize("start", ["noise", "samples"])
def test_attack_draws_every_run_and_keeps_the_record(command, wary, tmp_path, start):
    path = tmp_path / "attack.svg"
    code, out, err = command(
        "attack",
        wary / "softmax",
        wary / "ceda",
        "--start",
        start,
        "--images",
        4,
        "--steps",
        5,
        "-o",
        path,
    )
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
        (["{wary}/softmax", "-o", "attack.txt"], "a figure ends in .svg, .png, .pdf"),
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


def test_what_has_no_network_takes_none(command, tmp_path):
    for more in (["--network", "mlp"], ["--dropout", 0.5]):
        code, _, err = command("train", "rbf", "--data", "iris", "-o", tmp_path / "run", *more)
        assert code == 2
        assert "rbf has no network inside" in err
    assert not (tmp_path / "run").exists()


def test_help_on_a_method_explains_its_settings(command):
    code, out, _ = command("train", "acet", "--help")
    assert code == 0
    told = " ".join(out.partition("Settings of acet")[2].split())
    assert "--eps radius of the ball. (default: 0.3)" in told
    assert "--first-steps" in told
    assert "Settings of" not in command("train", "--help")[1]
    assert "Settings of" not in command("train", "softmax", "--help")[1]
