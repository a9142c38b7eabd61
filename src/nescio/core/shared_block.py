"""A setting of the whole process, such as a filter of warnings, that several threads need at the same time."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager


class SharedBlock:
    """A block that the first thread to come enters for all, and the last one to go leaves.

    Were each to put back what it found, one would put back what another had set.

    Args:
        make: makes the context manager that changes the setting and puts it back.
    """

    def __init__(self, make: Callable[[], AbstractContextManager[object]]) -> None:
        self._make = make
        self._lock, self._inside = threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._block = self._make()
                self._block.__enter__()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._block.__exit__(None, None, None)
