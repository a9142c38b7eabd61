"""Fixtures shared by all tests."""

import gc
import os
import sys
from functools import cache

import pytest
import torch
import typer.main

import nescio
from nescio.cli import main

torch.set_num_threads(1)  # two test processes on two cores; and sums in one order
typer.main.get_command = cache(typer.main.get_command)  # not built anew for each command
gc.disable()  # while thousands of tests are collected, of which none is garbage


def pytest_collection_finish():
    """Spare the collector what stays until the end: libraries, and the tests themselves."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


@pytest.fixture
def seed() -> int:
    """Fixed by default; `NESCIO_TEST_SEED=7 make test` shows that no test hangs on a lucky one."""
    return int(os.environ.get("NESCIO_TEST_SEED", "0"))


@pytest.fixture
def blobs():
    """A thousand points of three kinds, to train on in no time."""
    return nescio.data.load("three_blobs").train


@pytest.fixture
def command(monkeypatch, capsys):
    """Run `nescio …`, or another command line, in this process: exit code, standard output,
    standard error.
    """

    def run(*words, program=main):
        monkeypatch.setattr(sys, "argv", ["nescio", *map(str, words)])
        monkeypatch.setenv("COLUMNS", "120")
        try:
            program()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
