"""No command overwrites what nescio did not write without `--force`, and it says so at once."""

import importlib
import os
import shutil
from functools import reduce

import numpy as np
import pytest
from PIL import Image

import nescio
from nescio.cli import main
from nescio.errors import NescioError
from nescio.files import kind_of
from nescio.records import History
from nescio.report.figures import save_figure
from nescio.report.training import history_figure
from report_records import a_history, an_evaluation

# what each command writes, and what does its work
COMMANDS = {
    "train softmax --data iris --epochs 1 -o new": (
        ["new/model.safetensors", "new/history.json", "new/checkpoint.safetensors"],
        "nescio.store.run:train_model",
    ),
    "train duq --length-scale auto --data iris --network mlp --epochs 1 -o sure": (
        ["sure/model.safetensors", "sure/length_scale.svg"],
        "nescio.cli.tuned_settings:select_length_scale",
    ),
    "evaluate run --unknown noise": (
        ["run/evaluation.json", "run/examples.json"],
        "nescio.evaluation.evaluate:evaluate",
    ),
    "evaluate run --unknown noise -o e.json": (
        ["e.json", "e-examples.json"],
        "nescio.evaluation.evaluate:evaluate",
    ),
    "recommend run --candidates energy --inputs 20": (
        ["run/recommendation.json", "run/recommended/fitted.json"],
        "nescio.store.detector_choice:RecommendedDetector.fitted",
    ),
    "contest run --unknown noise --candidates energy": (
        ["run/contest.json", "run/contest.md"],
        "nescio.evaluation.contest:contest",
    ),
    "compare record.json -o side": (
        ["side/roc.svg", "side/table.md"],
        "nescio.report.comparison:save_figure",
    ),
    "report record.json -o my_nets.py": (["my_nets.py"], "nescio.report.page:report_page"),
    "attack images --images 1 --steps 1 -o attack.png": (
        ["attack.png", "attack.json"],
        "nescio.evaluation.gallery:attack_gallery",
    ),
    "fit run -o detector": (
        ["detector/fitted.json"],
        "nescio.store.detector_choice:NamedDetector.fitted",
    ),
    "score run inputs.npz -o answers.csv": (
        ["answers.csv"],
        "nescio.evaluation.score_file:write_answers",
    ),
    "map two_moons --methods softmax --epochs 1 --resolution 9 -o map.pdf": (
        ["map.pdf", "map-softmax.json"],
        "nescio.evaluation.maps:trained_map",
    ),
    "audit run --rows 2 --trials 5 --limit 0 -o far": (
        [
            "far/audit.json",
            "far/audit.svg",
            "far/features.json",
            "far/features.svg",
            "far/scaling.json",
        ],
        "nescio.cli.run_audits:scaling",
    ),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two runs, a record and inputs."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for words in ("iris --epochs 1 -o run", "digits --epochs 1 --network mlp -o images"):
            patch.setattr("sys.argv", ["nescio", "train", "softmax", "--data", *words.split()])
            with pytest.raises(SystemExit) as stop:
                main()
            assert not stop.value.code
    np.savez(folder / "inputs.npz", inputs=np.zeros((3, 4), "f"))
    an_evaluation({"noise": 0.9}).save(folder / "record.json")
    return folder


@pytest.fixture
def there(made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def no_work(*_, **__):
    raise AssertionError("work was done that would be lost")


@pytest.mark.parametrize("words", COMMANDS)
def test_what_others_wrote_is_refused_before_the_work(command, there, words, monkeypatch):
    targets, work = COMMANDS[words]
    module, _, name = work.partition(":")
    *kind, name = name.split(".")
    monkeypatch.setattr(reduce(getattr, kind, importlib.import_module(module)), name, no_work)
    for target in targets:
        path = there / target
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
        code, _, err = command(*words.split())
        assert code == 2, err
        assert target.partition("/")[0] in err
        assert "--force" in err or "holds other things" in err
        assert path.read_text() == "mine"
        path.unlink()


@pytest.mark.parametrize("words", COMMANDS)
def test_forced_it_is_replaced_and_what_is_written_is_known_again(command, there, words):
    targets, _ = COMMANDS[words]
    for target in targets:
        (there / target).parent.mkdir(exist_ok=True)
        (there / target).write_text("mine")
    before = set(there.rglob("*")) - {there / target for target in targets}
    code, _, err = command(*words.split(), "--force")
    assert code == 0, err
    written = [path for path in there.rglob("*") if path not in before and path.is_file()]
    assert {there / target for target in targets} <= set(written)
    assert [path for path in written if kind_of(path) is None] == []
    code, _, err = command(*words.split())  # what is ours is replaced without being asked
    assert code == 0, err
    assert not list(there.rglob("*.partial"))


def test_a_foreign_checkpoint_is_left_alone_or_replaced_and_never_resumed_from(command, there):
    checkpoint = there / "new" / "checkpoint.safetensors"
    checkpoint.parent.mkdir()
    checkpoint.write_text("mine")
    train = ["train", "softmax", "--data", "iris", "--epochs", "1", "-o", "new"]
    code, _, err = command(*train)
    assert (code, "not written by nescio" in err, checkpoint.read_text()) == (2, True, "mine")
    assert command(*train, "--force")[0] == 0
    assert kind_of(checkpoint) == "checkpoint file"


def test_every_command_that_writes_can_be_forced(command):
    for words in (
        "demo",
        "train",
        "evaluate",
        "recommend",
        "contest",
        "compare",
        "report",
        "attack",
        "fit",
        "score",
        "map",
        "audit",
        "data get",
    ):
        assert "--force" in command(*words.split(), "--help")[1], words


def test_one_kind_of_ours_does_not_replace_another(command, there):
    before = (there / "run" / "model.safetensors").read_bytes()
    code, _, err = command("report", "record.json", "-o", "run/model.safetensors")
    assert code == 2
    assert "is a model file that nescio wrote, and would be replaced by a report" in err
    assert (there / "run" / "model.safetensors").read_bytes() == before
    code, _, err = command("evaluate", "images", "--unknown", "noise", "-o", "run/history.json")
    assert code == 2
    assert (
        "is a History record that nescio wrote, and would be replaced by an Evaluation record"
        in err
    )


def test_from_python_too(tmp_path):
    path = tmp_path / "mine"
    path.write_text("mine")
    net = nescio.models.mlp(2, 2)
    for write in (
        lambda **how: a_history().save(path, **how),
        lambda **how: nescio.save(nescio.methods.Softmax(net), path, **how),
    ):
        with pytest.raises(NescioError, match=r"force=True"):
            write()
        assert path.read_text(errors="replace") == "mine"
        write(force=True)
        write()
        path.write_text("mine")
    for name in ("a.svg", "a.png", "a.pdf"):
        (tmp_path / name).write_text("mine")
        figure = history_figure(a_history(), "run")
        with pytest.raises(NescioError, match="not written by nescio"):
            save_figure(figure, tmp_path / name)
        save_figure(figure, tmp_path / name, force=True)
        first = (tmp_path / name).read_bytes()
        # drawn anew: before matplotlib 3.11, drawing moves the axes of a figure by a rounding error
        save_figure(history_figure(a_history(), "run"), tmp_path / name)
        assert (tmp_path / name).read_bytes() == first


@pytest.mark.parametrize(
    "foreign",
    [
        "<!doctype html>\n<title>mine</title>",
        '<meta name="generator" content="nescio 1">',
        '{"record": "History"}',
        "class,input\n",
        "input,class\n1,2\n",
        "# made by nescio\n",
        '{"a": {"scale": "quick"}}',
        "PK made by nescio?",
    ],
)
def test_what_only_looks_like_ours_is_not(tmp_path, foreign):
    (tmp_path / "a").write_text(foreign)
    assert kind_of(tmp_path / "a") is None


def test_what_other_tools_make_is_not_ours(tmp_path):
    from matplotlib.figure import Figure
    from safetensors.torch import save_file
    from torch import zeros

    for suffix in ("svg", "png", "pdf"):
        Figure().savefig(tmp_path / f"a.{suffix}")
    Image.new("L", (4, 4)).save(tmp_path / "b.png")
    np.savez(tmp_path / "c.npz", a=np.zeros(3))
    save_file({"a": zeros(2)}, tmp_path / "d.safetensors", {"format": "pt"})
    assert len(os.listdir(tmp_path)) == 6
    assert [path.name for path in tmp_path.iterdir() if kind_of(path)] == []


def test_a_record_that_was_set_anew_is_still_one(tmp_path):
    (tmp_path / "a.json").write_text(a_history().to_json().replace("\n", "").replace('": ', '":'))
    assert kind_of(tmp_path / "a.json") == "History record"
    a_history().save(tmp_path / "a.json")
    assert History.load(tmp_path / "a.json") == a_history()
