"""Completion in the shell, by the protocol of the scripts that `--show-completion` prints."""

import os
import shlex
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from nescio.cli import app
from nescio.detectors import DETECTORS
from nescio.methods import METHODS


@pytest.fixture
def complete(monkeypatch, capsys):
    """What bash is offered for the last word of a line."""

    def offered(line):
        words = shlex.split(line)
        number = len(words) if line.endswith(" ") else len(words) - 1
        monkeypatch.setenv("_NESCIO_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(number))
        with pytest.raises(SystemExit) as stop:
            app(prog_name="nescio")
        assert not stop.value.code
        return capsys.readouterr().out.split()

    return offered


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("nescio ev", ["evaluate"]),
        ("nescio data ", ["list", "get"]),
        ("nescio data get mn", ["mnist"]),
        ("nescio train so", ["softmax"]),
        ("nescio train --data dig", ["digits"]),
        ("nescio train softmax --data iris --network res", ["resnet9", "resnet18", "resnet20"]),
        ("nescio train ensemble --members 3 --schedule c", ["constant", "cosine"]),
        ("nescio train softmax --data iris --augment crop fl", ["flip"]),
        ("nescio train softmax --data iris --dev", ["--device"]),
        ("nescio fit run --detector rel", ["relative_mahalanobis"]),
        ("nescio fit run --score mut", ["mutual_information"]),
        ("nescio evaluate run --unknown uns", ["unseen"]),
        (
            "nescio evaluate run --unknown noise adversarial_n",
            ["adversarial_noise", "adversarial_noise_paper"],
        ),
        ("nescio evaluate run --unknown noise mni", ["mnist"]),
        ("nescio evaluate run --scores entropy gradient_l", ["gradient_l1", "gradient_l2"]),
        ("nescio evaluate --unk", ["--unknown"]),
        ("nescio fit --score en", ["energy", "entropy"]),
        ("nescio contest run --candidates kn", ["knn"]),
        ("nescio map two_moons --methods duq sof", ["softmax"]),
        ("nescio map three", ["three_blobs"]),
        ("nescio evaluate run --data some_file.n", []),  # left to the shell, which has the files
    ],
)
def test_names_are_completed(complete, line, words):
    assert complete(line) == words


def test_all_names_are_offered(complete):
    assert sorted(complete("nescio train ")) == sorted(METHODS)
    assert sorted(complete("nescio fit run --detector ")) == sorted(DETECTORS)


@pytest.mark.parametrize(
    "line",
    ["nescio train softmax --data dig", "nescio fit run --detector knn --score ent", "nescio au"],
)
def test_nobody_waits_for_torch(line):
    code = (
        "import sys\nfrom nescio.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "slow = {'torch', 'numpy', 'matplotlib', 'sklearn'} & {*sys.modules}\n"
        "sys.exit(f'{slow}' if slow else 0)"
    )
    place = {"_NESCIO_COMPLETE": "complete_bash", "COMP_WORDS": line}
    place["COMP_CWORD"] = str(len(line.split()) - 1)
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, env={**os.environ, **place}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()


def test_a_script_for_the_shell_is_printed(monkeypatch):
    # typer asks which shell it runs in; there may be none, as in continuous integration
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))
    result = CliRunner().invoke(app, ["--show-completion"], prog_name="nescio")
    assert result.exit_code == 0
    assert "complete -o default -F _nescio_completion nescio" in result.stdout
    assert "_NESCIO_COMPLETE=complete_bash" in result.stdout


def test_the_root_can_install_it():
    options = {option for param in typer.main.get_command(app).params for option in param.opts}
    assert {"--install-completion", "--show-completion"} <= options
