"""What the command line says of itself."""

import subprocess
import sys

import pytest

import nescio


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


def test_help_of_train_says_how_settings_are_found(command):
    flat = " ".join(command("train", "--help")[1].replace("│", " ").split())
    assert "trials of a third of --epochs (at least 10, or all)" in flat
    assert "the fraction --validation of the training data, by default 0.1" in flat
    assert "--duq-momentum" in flat


def test_help_on_a_method_explains_its_settings(command):
    code, out, _ = command("train", "acet", "--help")
    assert code == 0
    told = " ".join(out.partition("Settings of acet")[2].split())
    assert "--eps radius of the ball. (default: 0.3)" in told
    assert "--first-steps" in told
    assert "Settings of" not in command("train", "--help")[1]
    assert "Settings of" not in command("train", "softmax", "--help")[1]


def test_data_list_names_every_set(command):
    code, out, _ = command("data", "list")
    assert code == 0
    assert all(name in out for name in nescio.data.NAMES)
