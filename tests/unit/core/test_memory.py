"""Blocks as large as activations come from memory that the process keeps."""

import platform
import subprocess
import sys

import pytest

LIBRARY, VERSION = platform.libc_ver()
MAPPED = """
import ctypes, sys
import torch
from nescio.core.memory import keep_freed

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks mapped a b c d e".split()]

ask = ctypes.CDLL(None).mallinfo2
ask.restype = Info
if sys.argv[1] == "kept":
    keep_freed()
before = ask().mapped
block = torch.zeros(4 * 2**20)  # 16 MiB
print(ask().mapped - before)
"""


def mapped(how):
    """Bytes of a block of 16 MiB that are the system's, and go back to it as soon as the block is freed."""
    command = [sys.executable, "-c", MAPPED, how]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(
    LIBRARY != "glibc" or tuple(map(int, VERSION.split("."))) < (2, 33),
    reason="needs the C library of Linux, 2.33",
)
def test_large_blocks_stay_with_the_process():
    assert mapped("as it is") >= 2**24
    assert mapped("kept") == 0
