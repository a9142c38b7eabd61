"""A seeded part of every fuzzer; `make fuzz` runs as much as one likes."""

import random

import pytest

from fuzz.arrays import Arrays
from fuzz.calls import ARGUMENTS, calls
from fuzz.core import CHANGED, HANG, TRACEBACK, WRONG, Fault, Fuzzer, Hang, folder, run
from fuzz.faults import Faults
from fuzz.files import Files
from fuzz.threads import Threads
from nescio.errors import NescioError

KINDS = {
    "files": (Files, 240),
    "arrays": (Arrays, 240),
    "threads": (Threads, 40),
    "faults": (Faults, 25),
}


@pytest.mark.filterwarnings("ignore")  # of what is done with odd numbers
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_found(kind, seed):
    make, cases = KINDS[kind]
    with folder() as place:
        fuzzer = make(place, killing=False) if make is Faults else make(place)
        tally = run(fuzzer, seed, cases=cases)
    found = [
        f"{one.what} × {n}: {one.where}, case {one.number}: {one.doing}" for one, n in tally.alike()
    ]
    assert not found, "\n".join(found)
    assert tally.cases == cases


class Known(Fuzzer):
    """Cases whose end is known."""

    name, limit = "known", 0.2

    def case(self, rng):
        end = rng.randrange(6)
        self.doing = str(end)
        if end == 0:
            raise NescioError("refused")
        if end == 1:
            raise KeyError("traceback")
        if end == 2:
            raise Fault(WRONG, "wrong")
        if end == 3:
            raise Fault(CHANGED, "changed")
        if end == 4:
            while True:
                pass

    def evidence(self):
        return {"made": self.doing.encode()}


def test_what_a_case_ends_in_is_reported(tmp_path):
    ends = [random.Random(f"known 5 {number}").randrange(6) for number in range(12)]
    tally = run(Known(tmp_path), 5, cases=12)
    assert set(ends) == set(range(6))
    assert tally.refused == ends.count(0)
    assert [tally.count(what) for what in (TRACEBACK, WRONG, CHANGED, HANG)] == [
        ends.count(n) for n in (1, 2, 3, 4)
    ]
    first = tally.found[0]
    assert (tally.saved / str(first.number) / "made").read_text() == str(ends[first.number])
    assert first.doing in (tally.saved / str(first.number) / "finding.txt").read_text()


def test_a_case_can_be_run_again(tmp_path):
    number = run(Known(tmp_path), 5, cases=12).found[-1].number
    again = run(Known(tmp_path), 5, cases=1, first=number)
    assert [one.number for one in again.found] == [number]


def test_a_hang_is_no_exception():  # which a careless `except Exception` would swallow
    assert not issubclass(Hang, Exception)


def test_every_public_function_has_arguments():
    assert all(call.names and set(call.names) <= set(ARGUMENTS) for call in calls())
