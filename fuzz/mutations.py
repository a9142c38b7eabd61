"""Files with something changed in them, by one who knows their formats."""

import bz2
import gzip
import io
import json
import struct
import zipfile
from collections.abc import Callable
from random import Random
from typing import Any

INTERESTING = (0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
NUMBERS = (
    0,
    -1,
    1,
    2,
    7.5,
    -0.0,
    1e-320,
    1e300,
    2**31,
    2**63,
    -(2**63),
    10**400,
    float("nan"),
    float("inf"),
)
WORDS = (
    "",
    "other",
    "\ud800",
    "\x00",
    "a" * 10_000,
    "../../etc/passwd",
    "<script>",
    "energy",
    "float64",
    "é",
    "0",
    "nan",
)
CELLS = (
    *WORDS[:2],
    "nan",
    "inf",
    "-inf",
    "1e999",
    "1_0",
    "٣",
    '"',
    "\x00",
    "NA",
    "0x1p3",
    "1,5",
    "9" * 400,
    " 1 ",
    "True",
)
SHAPES = ((), (0,), (2**40,), (2**62, 2**62), (-1,), (1,) * 33, (3, 0, 5), (True,), "x")
TYPES = (
    "<f8",
    "<f4",
    ">f4",
    "|u1",
    "<i8",
    "|O",
    "<U4",
    "|S4",
    "<c16",
    "|b1",
    "<M8[s]",
    "<f2",
    "|V8",
    "no",
)
DEEP = "@deep@"  # stands for more brackets than a parser may follow


def damaged(rng: Random, name: str, data: bytes) -> bytes:
    """The bytes of a file of that name, changed with or without regard to its format."""
    for suffix, change in FORMATS.items():
        if name.endswith(suffix) and rng.random() < 0.7:
            return change(rng, data)
    return scrambled(rng, data)


def scrambled(rng: Random, data: bytes) -> bytes:
    """Bits flipped; bytes cut off, doubled, put in, taken out, swapped, or overwritten by numbers
    that often matter.
    """
    new = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        size = len(new)
        # the beginning of a file says most
        a = rng.randrange(min(size, rng.choice((16, 256, size or 1)))) if size else 0
        b = min(size, a + rng.choice((1, 4, 8, 64, size)))
        match rng.randrange(9):
            case 0 | 1 if size:
                new[a] ^= 1 << rng.randrange(8)
            case 2:
                del new[a:]
            case 3:
                new[b:b] = new[a:b]
            case 4:
                new[a:a] = rng.randbytes(rng.choice((1, 4, 100)))
            case 5:
                del new[a:b]
            case 6:
                c = rng.randrange(b, size + 1) if size else 0
                new[a:c] = new[b:c] + new[a:b]
            case 7:
                value = rng.choice(INTERESTING)
                new[a : a + 4] = value.to_bytes(4, rng.choice(("little", "big")))
            case _:
                new[a:b] = bytes(b - a)
    return bytes(new)


def other_json(rng: Random, data: bytes) -> bytes:
    """JSON with a key or item taken out, doubled or renamed, or another value somewhere."""
    try:
        body = json.loads(data)
    except ValueError:
        return scrambled(rng, data)
    return as_text(changed(rng, body)).encode("utf-8")


def as_text(body: Any) -> str:
    """JSON text of a body that may hold NaN, surrogates and the sign for deep brackets."""
    return json.dumps(body).replace(f'"{DEEP}"', "[" * 100_000 + "]" * 100_000)


def changed(rng: Random, body: Any) -> Any:
    """Plain data with one place changed; every key of a dict is as likely, however much lies under
    it.
    """
    if isinstance(body, dict | list) and body and rng.random() < 0.85:
        key = rng.choice(list(body)) if isinstance(body, dict) else rng.randrange(len(body))
        new = body.copy()
        match rng.randrange(12):
            case 0:
                del new[key]
            case 1 if isinstance(new, list):
                new.insert(key, new[key])
            case 1:
                new[rng.choice(WORDS)] = new.pop(key)
            case 2:
                new[key] = other_value(rng, new[key])
            case 3:
                new[key] = new[
                    rng.choice(list(new)) if isinstance(new, dict) else rng.randrange(len(new))
                ]
            case _:
                new[key] = changed(rng, new[key])
        return new
    return other_value(rng, body)


def other_value(rng: Random, value: Any) -> Any:
    """A value that a file may well have in place of this one: mostly of its type."""
    if isinstance(value, bool) or rng.random() < 0.3:
        return rng.choice(
            (None, True, False, [], {}, [[]], DEEP, rng.choice(NUMBERS), rng.choice(WORDS))
        )
    if isinstance(value, int | float):
        return rng.choice((*NUMBERS, value + 1, -value, value * 1e6))
    if isinstance(value, str):
        return rng.choice((*WORDS, value + "x", value[:-1], value.upper()))
    if isinstance(value, list):
        return rng.choice(([], value[:-1], value + value[-1:], value[::-1], [value], value * 50))
    return rng.choice(({}, None, [value], list(value) if isinstance(value, dict) else value))


def other_header(rng: Random, data: bytes) -> bytes:
    """Safetensors with another header, of its right length."""
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    about = header.get("__metadata__", {})
    if "nescio" in about and rng.random() < 0.5:
        about["nescio"] = as_text(changed(rng, json.loads(about["nescio"])))
        text = json.dumps(header).encode()
    else:
        text = as_text(changed(rng, header)).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + size :]


def other_npy(rng: Random, data: bytes) -> bytes:
    """An array whose header says other things: another type, a shape for which there are no
    bytes.
    """
    start, size = data.index(b"{"), struct.unpack("<H", data[8:10])[0]
    said = {
        "descr": rng.choice(TYPES),
        "fortran_order": rng.choice((True, False, 1)),
        "shape": rng.choice(SHAPES),
    }
    text = data[start : 10 + size].decode("latin1")
    for key in rng.sample(sorted(said), rng.choice((1, 1, 2))):
        old = text.partition(f"'{key}': ")[2]
        old = old[: old.index(")") + 1] if key == "shape" else old.partition(",")[0]
        text = text.replace(f"'{key}': {old}", f"'{key}': {said[key]!r}", 1)
    return data[:8] + struct.pack("<H", len(text)) + text.encode("latin1") + data[10 + size :]


def other_npz(rng: Random, data: bytes) -> bytes:
    """An archive with an array damaged, doubled, renamed or taken out."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    at = rng.randrange(len(members))
    name, content = members[at]
    match rng.randrange(5):
        case 0:
            del members[at]
        case 1:
            members[at] = (rng.choice(("../x.npy", "images.npy", "labels.npy", "a.txt")), content)
        case 2:
            members[at] = (name, scrambled(rng, content))
        case _:
            members[at] = (name, other_npy(rng, content))
    packed = io.BytesIO()
    with zipfile.ZipFile(
        packed, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    ) as archive:
        for each, content in members:
            archive.writestr(each, content)
    return packed.getvalue()


def other_csv(rng: Random, data: bytes) -> bytes:
    """A table with another cell, or a row or column more or less."""
    rows = [line.split(b",") for line in data.split(b"\n")]
    row = rng.choice(rows)
    at = rng.randrange(len(row))
    match rng.randrange(6):
        case 0:
            del row[at]
        case 1:
            row.insert(at, row[at])
        case 2:
            rows.insert(rng.randrange(len(rows)), [])
        case 3:
            row[at] = rng.choice((b"\xff\xfe", b"\xed\xa0\x80", b"\r", b'"a""'))
        case _:
            row[at] = rng.choice(CELLS).encode("utf-8", "surrogatepass")
    return b"\n".join(b",".join(one) for one in rows)


def packed(
    pack: Callable[[bytes], bytes],
    unpack: Callable[[bytes], bytes],
    change: Callable[[Random, bytes], bytes],
):
    """The change within a compressed file, or rarely one that unpacks to far more than it is."""

    def other(rng: Random, data: bytes) -> bytes:
        return pack(bytes(2**24)) if rng.random() < 0.01 else pack(change(rng, unpack(data)))

    return other


FORMATS: dict[str, Callable[[Random, bytes], bytes]] = {
    ".safetensors": other_header,
    ".json": other_json,
    ".npz": other_npz,
    ".npy": other_npy,
    ".csv": other_csv,
    ".csv.gz": packed(gzip.compress, gzip.decompress, other_csv),
    ".csv.bz2": packed(bz2.compress, bz2.decompress, other_csv),
    ".gz": packed(gzip.compress, gzip.decompress, scrambled),
}
