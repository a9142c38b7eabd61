"""What the command line says of itself."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import nescio
from nescio.cli import app
from nescio.cli.options import described_arguments
from nescio.methods import METHODS

MAX_LINES = 45  # of a help in 100 columns, so that it fits a screen
PANELS = ["Start", "Train", "Judge", "Decide", "Deploy", "Research"]


@pytest.mark.parametrize("words", ["--help", "train --help", "fit --help"])
def test_help_needs_no_torch(words):
    code = (
        f"import sys; sys.argv = ['nescio', *{words.split()}]\nfrom nescio.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\nsys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "Usage: nescio" in done.stdout


def test_commands_are_grouped_by_what_people_come_for(command):
    _, out, _ = command("--help")
    assert [out.index(f"─ {panel}") for panel in PANELS] == sorted(
        out.index(f"─ {panel}") for panel in PANELS
    )
    assert "─ Commands" not in out
    for name in typer.main.get_command(app).commands:
        assert f"│ {name} " in out


def commands(group):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from ((f"{name} {inner}", one) for inner, one in commands(command))
        else:
            yield name, command


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_has_help_with_an_example(command, words):
    code, out, _ = command(*words.split(), "--help")
    assert code == 0
    assert f"nescio {words}" in out.partition(" Examples\n")[2]


@pytest.mark.parametrize("words", ["", *COMMANDS, *(f"train {method}" for method in METHODS)])
def test_every_help_fits_a_screen(command, monkeypatch, words):
    monkeypatch.setenv("COLUMNS", "100")
    code, out, _ = command(*words.split(), "--help")
    assert code == 0
    assert "Usage: nescio" in out
    assert len(out.splitlines()) <= MAX_LINES


@pytest.mark.parametrize(("name", "command"), [*commands(typer.main.get_command(app))])
def test_every_option_is_described_and_nothing_else_is(name, command):
    assert [param.name for param in command.params if not param.help] == []
    described = described_arguments(inspect.getdoc(command.callback))
    assert described.keys() <= {param.name for param in command.params}
    assert "Args:" not in command.help


@pytest.mark.parametrize(("name", "command"), [*commands(typer.main.get_command(app))])
def test_examples_fit_in_80_columns(name, command):
    assert all(line.startswith(f"nescio {name}") for line in command.examples)
    assert all(len(line) <= 77 for line in command.examples)


def test_no_type_is_shown_of_a_flag(command):
    assert "<bool>" not in command("--help")[1] + command("score", "--help")[1]


def test_help_of_train_names_what_there_is(command):
    _, out, _ = command("train", "--help")
    flat = " ".join(out.replace("│", " ").split())
    assert all(method in flat for method in METHODS)
    assert "resnet18, resnet20" in flat
    assert "one_cycle" in flat
    assert "--members" not in out.partition(" Examples\n")[0]  # which is a method's setting


def test_version(command):
    assert command("--version")[1].strip() == f"nescio {nescio.__version__}"
    citation = Path(__file__).parents[3] / "CITATION.cff"
    assert f"\nversion: {nescio.__version__}\n" in citation.read_text()


def test_help_of_train_says_how_settings_are_found(command):
    flat = " ".join(command("train", "duq", "--help")[1].replace("│", " ").split())
    assert "trials of a third of --epochs (at least 10, or all)" in flat
    assert "the fraction --validation of the training data, by default 0.1" in flat
    assert "--duq-momentum" in flat


def test_help_on_a_method_explains_its_settings(command):
    code, out, _ = command("train", "acet", "--help")
    assert code == 0
    settings = " ".join(out.partition("Settings of acet")[2].split())
    assert "--eps radius of the ball. (default: 0.3)" in settings
    assert "--first-steps" in settings
    assert "Settings of" not in command("train", "--help")[1]
    assert "softmax has no settings of its own" in command("train", "softmax", "--help")[1]


def test_data_list_names_every_set(command):
    code, out, _ = command("data", "list")
    assert code == 0
    assert all(name in out for name in nescio.data.NAMES)
