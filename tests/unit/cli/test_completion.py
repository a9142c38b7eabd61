"""A shell completes commands, options and names."""

import pytest
from typer.testing import CliRunner

from nescio.cli import app


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("nescio e", {"evaluate"}),
        ("nescio evaluate --unk", {"--unknown"}),
        ("nescio train d", {"duq"}),
        ("nescio train duq --network res", {"resnet18", "resnet20"}),
        ("nescio fit --detector k", {"knn"}),
        ("nescio fit --score en", {"energy", "entropy"}),
        ("nescio evaluate run --scores gradient_m", {"gradient_max", "gradient_min"}),
    ],
)
def test_a_word_is_completed(words, expected):
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    result = CliRunner().invoke(
        app, env={"_NESCIO_COMPLETE": "complete_bash", **asked}, prog_name="nescio"
    )
    assert set(result.stdout.split()) == expected


def test_a_script_for_the_shell_is_printed():
    result = CliRunner().invoke(app, ["--show-completion", "bash"], prog_name="nescio")
    assert result.exit_code == 0
    assert "complete -o default -F _nescio_completion nescio" in result.stdout
