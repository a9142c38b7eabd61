"""Options of the command line that no command lists: the settings of its method."""

import sys

import pytest
import typer

import nescio
from nescio.cli import app, main
from nescio.cli.method_options import method_settings
from nescio.cli.names import score_in
from nescio.errors import NescioError
from nescio.methods import METHODS, default_settings


def given(words):
    """The parameters of `nescio train` and the settings of the method, from words."""
    command = typer.main.get_command(app).commands["train"]
    ctx = command.make_context("train", words.split())
    return ctx.params, method_settings(ctx, ctx.params["method"])


@pytest.mark.parametrize(
    ("words", "want"),
    [
        ("ensemble --members 3", {"members": 3}),
        ("ensemble --members=3", {"members": 3}),
        ("--members 3 ensemble", {"members": 3}),
        ("ensemble --members 3 --members 4", {"members": 4}),
        ("ensemble --bootstrap", {"bootstrap": True}),
        ("--bootstrap ensemble", {"bootstrap": True}),
        ("ensemble --bootstrap --members 3", {"bootstrap": True, "members": 3}),
        ("ensemble --bootstrap false", {"bootstrap": False}),
        ("ensemble --bootstrap=True --stacked False", {"bootstrap": True, "stacked": False}),
        ("ensemble --stacked none", {"stacked": None}),
        ("anchored --prior-std 0.5 --members 2", {"prior_std": 0.5, "members": 2}),
        ("mc_dropout --samples 9", {"samples": 9}),
        ("bayes_by_backprop --prior 0.25,1,0.01", {"prior": [0.25, 1, 0.01]}),
        ("bayes_by_backprop --prior=2e-1", {"prior": 0.2}),
        (
            "bayes_by_backprop --kl-weights decreasing --warm-up 0.4 --elbo-samples 3",
            {"kl_weights": "decreasing", "warm_up": 0.4, "elbo_samples": 3},
        ),
        ("bayes_by_backprop --beta -1", {"beta": -1}),
        (
            "bayes_by_backprop --beta -.5 --prior .25,1,.01",
            {"beta": -0.5, "prior": [0.25, 1, 0.01]},
        ),
        ("duq --duq-momentum 0.99 --length-scale 0.3", {"momentum": 0.99, "length_scale": 0.3}),
        ("duq --length-scale auto --penalty=auto", {"length_scale": "auto", "penalty": "auto"}),
        ("softmax", {}),
    ],
)
@pytest.mark.parametrize(
    "rest", ["{} --data iris -o out", "--data iris {} -o out", "--data=iris -o out {}"]
)
def test_settings_of_a_method_are_options(words, want, rest):
    params, settings = given(rest.format(words))
    assert settings == want
    assert (params["data"], str(params["output"])) == ("iris", "out")


def test_own_options_stay_the_commands():
    params, settings = given(
        "ensemble --data iris -o out --epochs 3 --augment crop flip --members 2 --seed=4 --impute"
    )
    assert settings == {"members": 2}
    assert (params["epochs"], params["seed"], params["impute"]) == (3, 4, True)
    assert [*params["augment"]] == ["crop", "flip"]


def test_an_option_that_the_command_has_taken_has_the_methods_name_in_front():
    params, settings = given("duq --data iris -o out --momentum 0.5 --duq-momentum 0.25")
    assert (params["momentum"], settings) == (0.5, {"momentum": 0.25})
    with pytest.raises(NescioError, match="did you mean '--duq-momentum'"):
        given("duq --data iris -o out --duq-momentun 0.25")
    with pytest.raises(NescioError, match=r"unknown option \(for softmax\) '--duq-momentum'"):
        given("softmax --data iris -o out --duq-momentum 0.25")


def test_settings_do_not_stay_from_one_call_to_the_next():
    given("ensemble --members 3 --data iris -o out")
    assert given("ensemble --data iris -o out")[1] == {}


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        ("ensemble --data iris -o out --member 3", "--members"),
        ("ensemble --data iris -o out --memebrs=3", "--members"),
        ("ensemble --data iris -o out --boostrap", "--bootstrap"),
        ("anchored --data iris -o out --prior_std 3", "--prior-std"),
        ("softmax --data iris -o out --epoch 3", "--epochs"),
        ("softmax --dta iris -o out", "--data"),
        ("softmax --data iris --ouput out", "--output"),
    ],
)
def test_misspelt_options_name_the_nearest(words, nearest):
    with pytest.raises(NescioError, match=f"unknown option.*did you mean '{nearest}'"):
        given(words)


@pytest.mark.parametrize(
    ("method", "option"),
    [("softmax", "--members"), ("ensemble", "--prior-std"), ("mc_dropout", "--beta")],
)
def test_the_settings_of_another_method_are_refused(method, option):
    with pytest.raises(NescioError, match=rf"unknown option \(for {method}\) '{option}'"):
        given(f"{method} --data iris -o out {option} 3")


def test_what_follows_two_dashes_is_no_option():
    params, settings = given("--data iris -o out -- ensemble")
    assert (params["method"], settings) == ("ensemble", {})
    with pytest.raises(typer.BadParameter, match="'--members'"):
        given("--data iris -o out -- --members")


@pytest.fixture
def command(monkeypatch, capsys):
    def run(words):
        monkeypatch.setattr(sys, "argv", ["nescio", *words.split()])
        monkeypatch.setenv("COLUMNS", "200")
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run


@pytest.mark.parametrize("method", METHODS)
def test_help_of_a_method_names_its_settings(command, method):
    code, out = command(f"train {method} --help")
    assert not code
    for name in default_settings(method):
        option = "--duq-momentum" if name == "momentum" else f"--{name.replace('_', '-')}"
        assert option in out  # sgd has the plain --momentum
    assert "{" not in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("train ensemble --members 0", "members must be an int ≥ 1, got 0"),
        ("train ensemble --members", "members must be an int ≥ 1, got True"),
        (
            "train ensemble --members many",
            "members must be an int ≥ 1, got 'many'",
        ),
        ("train ensemble --bootstrap=maybe", "bootstrap must be True or False, got 'maybe'"),
        ("train anchored --prior-std", "prior_std must be a number from"),
        (
            "train bayes_by_backprop --prior 0.25,1",
            "prior must be a std, or (fraction, std_1, std_2)",
        ),
        ("train bayes_by_backprop --beta -1", "beta must be a number from 0 to 1e+100, got -1"),
        ("train bayes_by_backprop --std", "std must be a number"),
        ("train mc_dropout --samples 1.5", "samples must be an int"),
        ("train mc_dropout --dropout 0", "no dropout module"),
        ("train ensemble --member 3", "did you mean '--members'"),
        (
            "train duq --penalty 0.1",
            "--penalty must be two-sided or one-sided, or auto to tune its weight; got 0.1. To set "
            "the weight, use --gradient-penalty",
        ),
        (
            "train duq --penalty",
            "--penalty must be two-sided or one-sided, or auto to tune its weight; it has no value",
        ),
        (
            "train duq --length-scale AUTO",
            "--length-scale must be a number, or auto to tune it; got 'AUTO'",
        ),
        (
            "train duq --length-scale foo",
            "--length-scale must be a number, or auto to tune it; got 'foo'",
        ),
        (
            "train duq --length-scale",
            "--length-scale must be a number, or auto to tune it; it has no value",
        ),
        (
            "train duq --gradient-penalty=none",
            "--gradient-penalty must be a number, or auto to tune it; got None",
        ),
        (
            "train duq --length-scale -1",
            "length_scale must be a number from 1e-06 to 1e+06, got -1",
        ),
    ],
)
def test_bad_settings_end_in_a_message(command, tmp_path, words, message):
    code, out = command(f"{words} --data iris -o {tmp_path / 'run'}")
    assert code == 2
    assert message in out
    assert "Traceback" not in out


def test_settings_reach_the_trained_model(command, tmp_path):
    more = "--members 3 --bootstrap --data iris --network mlp --epochs 1"
    assert not command(f"train anchored {more} --prior-std=0.5 -o {tmp_path / 'run'}")[0]
    model = nescio.load(tmp_path / "run" / "model.safetensors")
    assert model.settings() == {"members": 3, "bootstrap": True, "stacked": True, "prior_std": 0.5}
    code, out = command(f"train anchored {more} --prior-std=0.6 -o {tmp_path / 'run'}")
    assert code == 2  # another run than the one that is there
    assert "was made with prior_std=0.5, not 0.6; use the same settings" in out


def test_scores_by_name_and_by_layer():
    assert score_in("SCORES")("gradient_l2:conv2") == "gradient_l2:conv2"
    assert score_in("OF_LOGITS")("entropy") == "entropy"
    for table, given, match in (
        ("SCORES", "entropy:conv2", "'entropy:conv2' is no score"),
        ("SCORES", "gradient_l2:", "'gradient_l2:' is no score"),
        ("OF_LOGITS", "gradient_l2", "looks into the network"),
        ("OF_LOGITS", "gradient_l2:conv2", "looks into the network"),
        ("SCORES", "entropi", "did you mean 'entropy'"),
    ):
        with pytest.raises(typer.BadParameter, match=match):
            score_in(table)(given)
