import pytest

from papers.spent import Spent


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves only when told to."""
    now = [0.0]
    monkeypatch.setattr("papers.spent.time.monotonic", lambda: now[0])

    def forward(seconds):
        now[0] += seconds

    return forward


def test_blocks_within_blocks_count_for_themselves(clock):
    spent = Spent()
    with spent.measure("all"):
        clock(1)
        with spent.measure("stage"):
            clock(2)
            with spent.measure("run"):
                clock(4)
        clock(8)
    assert spent.seconds == {"all": 9, "stage": 2, "run": 4}
    assert spent.total() == 15


def test_what_is_known_takes_the_place_of_what_was_measured(clock):
    spent = Spent()
    with spent.measure("stage"):
        with spent.measure("run"):
            clock(1)  # only the rest of a training that was cut off
        spent.set_known({"run": 100.0})
        clock(2)
        assert spent.used() == {"run"}
    spent.set_known({"earlier": 10.0})
    assert spent.seconds == {"stage": 2, "run": 100, "earlier": 10}


def test_a_block_that_ends_with_an_error_is_closed(clock):
    spent = Spent()

    def fail():
        with spent.measure("stage"):
            clock(3)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    clock(5)
    with spent.measure("next"):
        clock(1)
    assert spent.seconds == {"stage": 3, "next": 1}
