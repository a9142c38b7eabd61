"""One model, many threads, as in a web server.

A case takes a detector or a method and asks it from several threads at once, some of which give it
bad input, or from `asyncio`. Every answer must be, to the bit, the one that it gives when asked
alone; the model must be left as it was. What a case asks follows from its number, when the threads
take turns does not: a finding may take several tries.
"""

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import torch
from torch import nn

import nescio
from fuzz import subjects
from fuzz.core import WRONG, Fault, Fuzzer
from fuzz.state import bits, check_same, model_state, process_state
from nescio.detectors import DETECTORS, Detector
from nescio.errors import NescioError
from nescio.methods import METHODS
from nescio.scores import gradient_l2

Answer = tuple[str, Any]  # how it ended, and with what
Question = tuple[str, int, int]  # a way of asking, how many inputs, a seed
BAD = {"as NaN": lambda x: x * torch.nan, "too wide": lambda x: torch.cat([x, x], 1)}
OF_DETECTOR = ("score", "predict", "p_value", "explain", *BAD)
OF_METHOD = ("predict", "gradient", *BAD)
SWITCH = 1e-5  # seconds after which Python lets another thread go on
MOST = 40  # inputs of a question


class Threads(Fuzzer):
    """Questions from many threads."""

    name: ClassVar[str] = "threads"
    limit: ClassVar[float] = 60.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.x = subjects.new_inputs(MOST)
        self.made: dict[str, nn.Module] = {}
        self.answers: dict[tuple[str, Question], Answer] = {}
        self.now = ""

    def mend(self) -> None:
        self.made.pop(self.now, None)

    def case(self, rng: Random) -> None:
        self.now = rng.choice(
            (*(f"detector {name}" for name in DETECTORS), *(f"method {name}" for name in METHODS))
        )
        model = self._model(self.now)
        ways = OF_DETECTOR if isinstance(model, Detector) else OF_METHOD
        every = [
            (rng.choice(ways), rng.randrange(1, MOST), rng.randrange(3))
            for _ in range(rng.choice((4, 12, 24)))
        ]
        count, in_loop = rng.choice((2, 4, 8)), rng.random() < 0.2
        self.doing = (
            f"{self.now}, {len(every)} questions in {'asyncio' if in_loop else f'{count} threads'}"
        )
        alone = [self._alone(model, question) for question in every]
        before = model_state(model) | process_state()
        with switching(SWITCH):
            asked = [lambda q=question: self._ask(model, q) for question in every]
            found = asyncio.run(_gathered(asked)) if in_loop else _threaded(asked, count)
        for (way, *_), one, other in zip(every, alone, found, strict=True):
            if isinstance(other[1], Exception):
                raise other[1]
            if one != other:
                raise Fault(WRONG, f"{self.now}: {way} gives another answer among threads, or none")
        check_same(before, model_state(model) | process_state(), self.now)

    def _model(self, name: str) -> nn.Module:
        if name not in self.made:
            kind, _, own = name.partition(" ")
            self.made[name] = (
                subjects.detector(own, subjects.net())
                if kind == "detector"
                else subjects.method(own)
            )
        return self.made[name]

    def _alone(self, model: nn.Module, question: Question) -> Answer:
        key = self.now, question
        if key not in self.answers:
            self.answers[key] = self._ask(model, question)
        return self.answers[key]

    def _ask(self, model: nn.Module, question: Question) -> Answer:
        way, count, seed = question
        x = self.x[:count]
        try:
            if way in BAD:
                return "an answer", bits(_asked(model, BAD[way](x), "score", seed))
            return "an answer", bits(_asked(model, x, way, seed))
        except NescioError as error:
            return "NescioError", str(error)
        except Exception as error:  # noqa: BLE001 - that there is none is the point
            return type(error).__name__, error


def _asked(model: nn.Module, x: torch.Tensor, way: str, seed: int) -> Any:
    if not isinstance(model, Detector):
        return (
            gradient_l2(model, x)
            if way == "gradient"
            else nescio.predict(model, x, seed=seed, batch_size=7)
        )
    found = getattr(model, way)(x)
    return [astuple(one) for one in found] if way == "explain" else found


def _threaded(asked: list[Callable[[], Answer]], count: int) -> list[Answer]:
    """Answers in the order of the questions, each asked by one of so many threads that all start at
    once.
    """
    found: list[Any] = [None] * len(asked)
    gate = threading.Barrier(count)

    def work(first: int) -> None:
        gate.wait()
        for index in range(first, len(asked), count):
            found[index] = asked[index]()

    threads = [threading.Thread(target=work, args=(first,)) for first in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


async def _gathered(asked: list[Callable[[], Answer]]) -> list[Answer]:
    return list(await asyncio.gather(*(asyncio.to_thread(one) for one in asked)))


@contextmanager
def switching(seconds: float) -> Iterator[None]:
    """A block in which Python lets another thread go on after so many seconds."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
