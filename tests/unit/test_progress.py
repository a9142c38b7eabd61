"""Bars on a terminal, lines in a log, and neither where nobody asked."""

import io
import time

import pytest

import nescio
from nescio import progress
from nescio.models import mlp


class Terminal(io.StringIO):
    def isatty(self):
        return True


def terminal_in(monkeypatch):
    """Standard error that is a terminal, and bars that wait for nothing."""
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr("sys.stderr", screen := Terminal())
    return screen


def log_in(monkeypatch):
    """Standard error that is no terminal, and a log that waits for nothing."""
    monkeypatch.setattr(progress, "LOG_INTERVAL", 0.0)
    monkeypatch.setattr(progress, "EPOCH_LOG_INTERVAL", 0.0)
    monkeypatch.setattr(progress._SCREEN, "last_line", None)
    monkeypatch.setattr("sys.stderr", screen := io.StringIO())
    return screen


def wait_for(screen, text):
    """A clock opens bars; it need not strike at once."""
    for _ in range(500):
        if text in screen.getvalue():
            return
        time.sleep(0.01)
    pytest.fail(f"{text!r} was not shown: {screen.getvalue()!r}")


def test_a_bar_is_shown_on_a_terminal_once_work_is_long(monkeypatch):
    terminal = terminal_in(monkeypatch)
    with progress.bar(10, "train") as shown:
        shown.advance(4, "loss 0.5")
        shown.advance(5)
        wait_for(terminal, "9/10")
        wait_for(terminal, "loss 0.5")


def test_a_bar_is_shown_although_the_first_step_is_long_itself(monkeypatch):
    terminal = terminal_in(monkeypatch)
    with progress.bar(10, "train"):
        wait_for(terminal, "0/10")


def test_a_bar_within_a_bar_stands_below_it(monkeypatch):
    terminal = terminal_in(monkeypatch)
    with progress.bar(10, "contest") as outer:
        outer.advance(3)
        wait_for(terminal, "3/10")
        with progress.bar(7, "predict") as inner:
            inner.advance(5)
            wait_for(terminal, "5/7")
        outer.advance(1)
        wait_for(terminal, "4/10")
    assert progress._SCREEN.rich is None


def test_short_work_and_no_terminal_are_silent(monkeypatch):
    for screen, patience in ((Terminal(), 60.0), (io.StringIO(), 0.0)):
        monkeypatch.setattr(progress, "DELAY", patience)
        monkeypatch.setattr("sys.stderr", screen)
        with progress.bar(10, "train") as shown:
            shown.advance(10, ends=True)
        progress.say("resuming", False)
        assert screen.getvalue() == ""


def test_each_thing_in_a_row_has_a_total_of_its_own(monkeypatch):
    terminal = terminal_in(monkeypatch)
    with progress.bar(None, "get") as shown:
        shown.at(3, 7, "first")
        shown.at(5, 5, "second")
        wait_for(terminal, "5/5")
        wait_for(terminal, "second")


def test_a_log_has_lines_if_asked_for(monkeypatch):
    log = log_in(monkeypatch)
    with progress.bar(10, "score", True, done=2) as shown:
        shown.advance(6, "far")
        shown.advance(2)
    assert log.getvalue().splitlines() == [
        "score: 8 of 10, about 1 s left, far",
        "score: 10 of 10, far",
    ]
    with progress.logged(), progress.bar(None, "get") as shown:
        shown.advance(1)
    assert log.getvalue().splitlines()[2:] == ["get: 1"]
    with progress.logged(), progress.bar(10, "quiet", False) as shown:
        shown.advance(1)
    with progress.bar(10, "quiet") as shown:  # as from Python
        shown.advance(1)
    assert "quiet" not in log.getvalue()


def test_a_log_has_a_line_a_minute_at_most_and_one_at_the_end_of_an_epoch(monkeypatch):
    log = log_in(monkeypatch)
    now = [0.0]
    monkeypatch.setattr(progress, "LOG_INTERVAL", 60.0)
    monkeypatch.setattr(progress, "EPOCH_LOG_INTERVAL", 5.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with progress.logged():
        now[0] = 4.0  # what came before the training is none of it
        with progress.bar(300, "train") as shown:
            for step in range(1, 301):
                now[0] = 4.0 + step
                shown.advance(ends=step in (2, 10, 12, 20))
    logged = [int(line.split()[1]) for line in log.getvalue().splitlines()]
    assert logged == [10, 20, 81, 142, 203, 264]


def test_a_closed_standard_error_is_no_terminal(monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    with progress.logged(), progress.bar(10, "train") as shown:
        shown.advance(10, ends=True)
    progress.say("resuming")


def test_a_resumed_run_says_so(monkeypatch, tmp_path):
    log = log_in(monkeypatch)
    known = nescio.data.load("iris")

    def train(stop=None, progress=True):
        model = nescio.methods.Softmax(mlp(4, 3, hidden=(4,)), normalise=known.normalise)
        if stop:
            model.after_step = stop
        nescio.train(
            model,
            known.train,
            epochs=3,
            batch_size=40,
            checkpoint=tmp_path / "c",
            progress=progress,
        )
        lines = log.getvalue().splitlines()
        log.truncate(0)
        log.seek(0)
        return [line for line in lines if "checkpoint" in line]

    steps = []

    def stop(*_):
        steps.append(1)
        if len(steps) == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(stop)
    assert "resuming" not in log.getvalue()
    assert train() == [f"train: resuming from epoch 2 of 3 (checkpoint {tmp_path / 'c'})"]
    assert train() == [f"train: already trained (checkpoint {tmp_path / 'c'})"]
    assert train(progress=None) == []


def test_an_attack_moves_within_a_batch(monkeypatch):
    seen = []
    monkeypatch.setattr(progress.Bar, "at", lambda _, done, total, facts="": seen.append(done))
    net = mlp(2, 3)
    x = nescio.data.load("two_moons").test.inputs[:6]
    how = nescio.attacks.Attack(eps=0.1, steps=4, step_size=0.01)
    nescio.attacks.attack(net, x, how, box=None)
    assert len(seen) > 2  # though there is one batch
    assert seen == sorted(seen)
    assert seen[-1] == len(x)
