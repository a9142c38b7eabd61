"""Every command and block of the README and of the docs runs: page by page, in order, each page in
a folder of its own.

What a page needs beside itself is in its source, in a comment above a block:

    <!-- test: quick train --epochs 3; audit --trials 20 -->  options to add to these commands
    <!-- test: slow -->               by default only read: options parsed, Python compiled
    <!-- test: file my_nets.py -->    this block is a file
    <!-- test: skip because … -->     never run, only read
    <!-- test: prints -->             what the block above it prints
    <!-- test: prints about -->       the same, up to a tenth of each number

`make slow` runs blocks as they are written. What installs, or takes a paper's time, is never run:
see `NEVER`.
"""

import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
import typer

from nescio.cli import app
from nescio.cli.names import names
from papers.__main__ import app as papers_app
from papers.__main__ import main as papers_main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"(?:^<!-- test: (?P<mark>.*?) -->\n)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.M | re.S
)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
NEVER = {  # by their first words, and why
    "make": "installs, or runs these very tests",
    "pip": "installs",
    "python -m papers": "takes minutes to hours; experiments have tests of their own",
}
RUN_ALL_THE_SAME = ("python -m papers list",)
PROGRAMS = {"nescio": app, "python -m papers": papers_app}
OURS = "|".join(PROGRAMS)


def name_of(page):
    """Its path in the repository."""
    return page.relative_to(ROOT).as_posix()


@dataclass(frozen=True)
class Block:
    """A block of a page, and what the comment above it says."""

    kind: str
    text: str
    mark: str

    @property
    def lines(self):
        """Its commands, as words."""
        return [
            words for line in self.text.splitlines() if (words := shlex.split(line, comments=True))
        ]

    def runs(self, as_written):
        """Whether it is run, rather than only read."""
        return not self.mark.startswith("skip") and (as_written or self.mark != "slow")

    def further(self, words):
        """Options that a command gets to be quick."""
        if not self.mark.startswith("quick "):
            return []
        answers = {
            name: more
            for name, *more in map(str.split, self.mark.removeprefix("quick ").split(";"))
        }
        return answers.get(words[1], [])


def blocks(page):
    found = [
        Block(one["kind"], one["text"], one["mark"] or "")
        for one in BLOCK.finditer(page.read_text("utf-8"))
    ]
    for one in found:
        assert re.match(
            r"(quick .+|slow|file [\w./]+|skip because .+|prints|prints about|)$", one.mark
        ), one.mark
    return [one for one in found if one.kind in ("sh", "python") or one.mark.startswith("prints")]


def program(words):
    """Which of our programs it is that a line calls, if one."""
    return next((name for name in PROGRAMS if f"{' '.join(words)} ".startswith(f"{name} ")), None)


def after_program(words):
    """The words for the program."""
    return words[len(program(words).split()) :]


def resolved(words):
    """The command that words name, and those that are left for it."""
    command, left = typer.main.get_command(PROGRAMS[program(words)]), list(after_program(words))
    while isinstance(command, typer.core.TyperGroup) and left and not left[0].startswith("-"):
        _, command, left = command.resolve_command(typer.Context(command), left)
        assert command is not None, f"there is no such command: {shlex.join(words)}"
    return command, left


def parsed(words):
    """An error of click's if a command does not take these words."""
    command, left = resolved(words)
    command.make_context(after_program(words)[0], list(left))


def never(words):
    """Whether a command is not to be run, by its name."""
    line = " ".join(words)
    return not line.startswith(RUN_ALL_THE_SAME) and any(
        f"{line} ".startswith(f"{name} ") for name in NEVER
    )


def compare_output(printed, page_says, exact):
    """The same text, and the same numbers or nearly so."""
    if exact:
        assert printed == page_says
        return
    assert NUMBER.sub("#", printed) == NUMBER.sub("#", page_says), printed
    now, then = (np.array(NUMBER.findall(text), float) for text in (printed, page_says))
    np.testing.assert_allclose(now, then, rtol=0.1, atol=0.05, err_msg=printed)


CHECKS = {  # of what the blocks of a page print
    "README.md": [r"accuracy (0\.9[5-9]|1\.00), AUROC 0\.[89]\d"],
    "docs/guide/guarantees.md": [
        r"known inputs score at least as high",
        r"Unknown inputs: not guaranteed",
    ],
    "docs/papers/gradients.md": [r"features have a weight; learned from"],
    "docs/guide/command-line.md": [
        r"Guarantee: at least 95 % of known inputs",
        r"Unknown inputs rejected",
    ],
    "docs/papers/relu-overconfidence.md": [
        r"'noise': 0\.1\d, 'adversarial_noise': 0\.[1-6]",
        r"100% of the rays end at confidence 1",
        r"provably → 1 as the input is scaled",
    ],
    "docs/guide/tables.md": [
        r"accuracy 0\.9[789]",
        r"AUROC 0\.9[3-9]",
        r"known inputs accepted: 0\.9",
        r"unknown inputs accepted: 0\.[0-3]",
    ],
}


def run(page, folder, command, monkeypatch, capsys, as_written):
    """All of a page in a folder; what it printed."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.delitem(sys.modules, "my_nets", raising=False)
    scope, said, ran = {}, [], False
    torch.manual_seed(0)  # what a page prints does not depend on what ran before
    for block in blocks(page):
        if block.mark.startswith("file "):
            (folder / block.mark.removeprefix("file ")).write_text(block.text)
        elif block.mark.startswith("prints"):
            if ran:
                compare_output(said[-1], block.text, exact=block.mark == "prints")
            continue
        elif block.kind == "python":
            code = compile(block.text, page.name, "exec")
            if block.runs(as_written):
                exec(code, scope)
                said.append(capsys.readouterr().out)
        else:
            for words in block.lines:
                if program(words):
                    parsed(words)
                if not block.runs(as_written) or never(words):
                    continue
                assert program(words), f"{page.name}: {words[0]} is neither nescio nor in NEVER"
                main = {} if words[0] == "nescio" else {"program": papers_main}
                more = [] if as_written else block.further(words)
                code, out, err = command(*after_program(words), *more, **main)
                assert code == 0, f"{page.name}: {shlex.join(words)}\n{err}"
                said.append(out)
        ran = block.runs(as_written) and not block.mark.startswith("file ")
    monkeypatch.delitem(sys.modules, "my_nets", raising=False)
    return "\n".join(said)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_runs(page, tmp_path, command, monkeypatch, capsys):
    said = run(page, tmp_path, command, monkeypatch, capsys, as_written=False)
    if not any(one.mark == "slow" for one in blocks(page)):
        check(page, said)


def check(page, said):
    for pattern in CHECKS.get(name_of(page), ()):
        assert re.search(pattern, said), pattern


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_command_of_a_page_loses_what_another_wrote(page):
    lines = [words for block in blocks(page) if block.kind == "sh" for words in block.lines]
    evaluated = [words[2] for words in lines if words[1] == "evaluate" and "-o" not in words]
    assert len(set(evaluated)) == len(evaluated)


def needs_more(page):
    return any(one.mark.startswith("quick") or one.mark == "slow" for one in blocks(page))


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if needs_more(page)], ids=name_of)
def test_a_page_runs_as_it_is_written(page, tmp_path, command, monkeypatch, capsys):
    check(page, run(page, tmp_path, command, monkeypatch, capsys, as_written=True))


def examples():
    """Commands in running text, and in the help of the command line."""
    for page in PAGES:
        for text in re.findall(rf"`((?:{OURS}) [^`\n]+)`", BLOCK.sub("", page.read_text("utf-8"))):
            yield pytest.param(text, id=f"{name_of(page)}: {text}")
    for program_app in PROGRAMS.values():
        for command in commands(typer.main.get_command(program_app)):
            for text in command.examples:
                yield pytest.param(text, id=f"help: {text}")


def commands(group):
    """All commands of a group, also those of groups within."""
    for command in group.commands.values():
        yield from commands(command) if hasattr(command, "commands") else [command]


@pytest.mark.parametrize("text", [*examples()])
def test_commands_in_running_text_have_commands_and_options_that_exist(text):
    words = shlex.split(text)
    if after_program(words)[0] == "COMMAND":
        return
    command, rest = resolved(words)
    known = {
        option for param in command.params for option in (*param.opts, *param.secondary_opts)
    } | {"--help"}
    for word in rest:
        name = word.partition("=")[0]
        if name.startswith("-") and name not in known:
            assert rest[0] in names("METHODS"), f"{text}: no option {name}"
            parsed([*words, "--data", "digits"])


@pytest.mark.parametrize(
    "text",
    [
        "```sh\nnescio evaluat run\n```",
        "```sh\nnescio evaluate run --unknwon far\n```",
        "```python\nnescio.no_such\n```",
        "```sh\nnescio compare run-softmax run-duq\n```",
        "```sh\nrm -rf x\n```",
        "```python\nprint(1)\n```\n\n<!-- test: prints -->\n```text\n2\n```",
        "```python\nprint(1.0)\n```\n\n<!-- test: prints about -->\n```text\n1.2\n```",
        "```python\nprint('a 1')\n```\n\n<!-- test: prints about -->\n```text\nb 1\n```",
    ],
)
def test_a_page_that_is_wrong_is_found(text, tmp_path, command, monkeypatch, capsys):
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n{text}\n")
    wrong = (AssertionError, NameError, typer.BadParameter.__base__)
    with pytest.raises(wrong):
        run(page, tmp_path, command, monkeypatch, capsys, as_written=False)
