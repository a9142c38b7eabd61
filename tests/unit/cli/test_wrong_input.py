"""Wrong input ends with a message and exit code 2, and nothing is written over what is read."""

import pytest


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
        ("train softmax --data digits --unsen 7 -o {bad}/o", "did you mean '--unseen'"),
        ("fit {trained}/digits --confidence 0.9", "--confidence-level"),
        (
            "fit {trained}/digits --detector energy",
            "is a score, not a detector; use --score energy",
        ),
        ("train softmx --data digits -o {bad}/o", "did you mean 'softmax'"),
        ("train softmax --data digitz -o {bad}/o", "did you mean 'digits'"),
        ("train softmax --data digits --network resnet -o {bad}/o", "did you mean 'resnet"),
        ("train softmax --data iris --network lenet -o {bad}/o", "images"),
        ("train softmax --data digits --unseen 11 -o {bad}/o", "got 11"),
        ("train softmax --data digits --unseen , -o {bad}/o", "--unseen must name classes"),
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
        ("evaluate {trained}/iris --unknown unseen", "no unseen classes"),
        ("evaluate {trained}/iris --unknown digits", "shape|features|tab"),
        ("evaluate {trained}/digits --scores entropi", "did you mean 'entropy'"),
        ("evaluate {trained}/digits --scores variance", "one draw"),
        ("score {trained}/digits {bad}/none.csv", "no such file"),
        ("score {trained}/digits {bad}/nan.csv", "p0"),
        ("score {trained}/digits {bad}/short.csv", "must have 64 columns"),
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
