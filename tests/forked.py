"""Work in a child of this process, which has loaded torch already: a new Python takes seconds."""

import multiprocessing
import os
import signal
import sys

FORK = multiprocessing.get_context("fork")


class Forked:
    """`work()` in a child, within a folder, with what it prints."""

    def __init__(self, work, folder):
        self._files = [folder / ".stdout", folder / ".stderr"]
        self._process = FORK.Process(target=self._run, args=(work, folder))
        self._process.start()

    def _run(self, work, folder):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(folder)
        for number, path in enumerate(self._files, start=1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8") for number in (1, 2))
        work()

    def send(self, number):
        os.kill(self._process.pid, number)

    def wait(self):
        """Exit code, standard output and standard error; the code is negative after a signal."""
        self._process.join(120)
        texts = [path.read_text("utf-8") if path.exists() else "" for path in self._files]
        for path in self._files:
            path.unlink(missing_ok=True)
        return self._process.exitcode, *texts
