"""Every command: options of one name are one option; what runs a model has those of a run."""

import types
import typing

import pytest
import typer

from nescio.cli import app
from nescio.cli.names import TABLES, names, names_in_source

# what a script may rely on: for a command that is not here, say why in the sets below
RUN = ("batch_size", "seed", "device")
RUNS_A_MODEL = {"train", "fit", "score", "evaluate", "recommend", "contest", "audit", "attack"}
RUNS_A_MODEL |= {"map", "demo"}
WITHOUT = {
    "demo": {"batch_size", "device"},  # one fixed tour
    "audit": {"device"},  # proofs are made on the CPU
}
JSON = {"train", "fit", "evaluate", "compare", "recommend", "contest", "audit", "data list"}


def commands(group, before=""):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} ")
        else:
            yield f"{before}{name}", command


COMMANDS = dict(commands(typer.main.get_command(app)))


def options(command):
    """The options of a command, by the name of their parameter."""
    return {param.name: param for param in command.params if param.opts[0].startswith("-")}


def facts(command, param):
    """What must be the same of an option wherever it is, beside its default."""
    kind = typing.get_type_hints(command.callback)[param.name]
    given = [inner for inner in typing.get_args(kind) if inner is not type(None)]
    return {
        "type": given[0] if isinstance(kind, types.UnionType) else kind,
        "opts": sorted(param.opts),
        "secondary": sorted(param.secondary_opts),
        "metavar": param.metavar or None,
        "multiple": param.multiple,
        "is_flag": param.is_flag,
    }


def every(name):
    """The commands with an option of that name, and the option."""
    found = {command: options(one) for command, one in COMMANDS.items()}
    return {command: its[name] for command, its in found.items() if name in its}


NAMES = sorted({name for command in COMMANDS.values() for name in options(command)})


@pytest.mark.parametrize("name", NAMES)
def test_options_of_one_name_are_alike(name):
    kinds = {one: facts(COMMANDS[one], param) for one, param in every(name).items()}
    first = next(iter(kinds.values()))
    assert kinds == dict.fromkeys(kinds, first)


def test_one_spelling_belongs_to_one_option():
    spelt = {}
    for command in COMMANDS.values():
        for name, param in options(command).items():
            for word in (*param.opts, *param.secondary_opts):
                spelt.setdefault(word, set()).add(name)
    shared = {word: names for word, names in spelt.items() if len(names) > 1}
    # a list of scores, of which one is also a list, and the one score of a threshold
    assert shared == {"--score": {"score", "scores"}}
    assert {word for word in spelt if not word.startswith("--")} == {"-o"}


@pytest.mark.parametrize("command", sorted(RUNS_A_MODEL))
def test_what_runs_a_model_says_where_and_how(command):
    its = options(COMMANDS[command])
    assert {name for name in RUN if name not in its} == WITHOUT.get(command, set())


def test_every_other_command_runs_no_model():
    others = {name: options(one) for name, one in COMMANDS.items() if name not in RUNS_A_MODEL}
    assert not [name for name, its in others.items() if any(option in its for option in RUN)]


def test_results_can_be_had_as_json():
    assert set(every("json")) == JSON


def test_commands_that_write_take_a_place_and_force():
    assert set(every("force")) == set(COMMANDS) - {"data list"}
    assert set(every("output")) == set(COMMANDS) - {"data list", "data get"}


@pytest.mark.parametrize("table", TABLES)
def test_names_in_the_source_are_those_in_the_table(table):
    assert sorted(names_in_source(table)) == sorted(names(table))


@pytest.mark.parametrize("name", [*RUN, "json", "force", "root", "impute", "weights"])
def test_shared_options_say_the_same_everywhere(name):
    assert len({param.help for param in every(name).values()}) == 1
