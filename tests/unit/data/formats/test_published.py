"""Files as their authors publish them: idx, EMNIST, CIFAR-10, USPS."""

import bz2
import gzip
import io
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from nescio import data
from nescio.data.formats.published import idx_array
from nescio.errors import NescioError

RNG = np.random.default_rng(0)
PHOTOS = RNG.integers(0, 256, (6, 20, 3, 32, 32), dtype=np.uint8)  # six batches of 20
CIFAR = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]


def cifar_batches() -> dict[str, bytes]:
    labels = (np.arange(20) % 10).astype(np.uint8)[:, None]
    return {
        name: np.concatenate([labels, photos.reshape(20, -1)], 1).tobytes()
        for name, photos in zip(CIFAR, PHOTOS, strict=True)
    }


def cifar_tar(path: Path, files: dict[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, body in files.items():
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))


@pytest.mark.parametrize("archived", [True, False])
def test_cifar_in_its_binary_version(tmp_path: Path, archived: bool) -> None:
    folder = tmp_path / "cifar10"
    if archived:
        cifar_tar(folder / "cifar-10-binary.tar.gz", cifar_batches())
    else:
        (folder / "cifar-10-batches-bin").mkdir(parents=True)
        for name, body in cifar_batches().items():
            (folder / "cifar-10-batches-bin" / name).write_bytes(body)
    known = data.load("cifar10", root=tmp_path)
    assert known.train is not None
    assert np.array_equal(known.train._stored.numpy(), PHOTOS[:5].reshape(-1, 3, 32, 32))
    assert np.array_equal(known.test._stored.numpy(), PHOTOS[5])
    assert known.classes[3] == "cat"
    assert known.test.labels[:3].tolist() == [0, 1, 2]


def test_cifar_archives_that_are_not(tmp_path: Path) -> None:
    path = tmp_path / "cifar10" / "cifar-10-binary.tar.gz"
    cifar_tar(path, {name: body[:-1] for name, body in cifar_batches().items()})
    with pytest.raises(NescioError, match="expected records of 3073"):
        data.load("cifar10", root=tmp_path)
    cifar_tar(path, {"test_batch.bin": b""})
    with pytest.raises(NescioError, match="not the archive"):
        data.load("cifar10", root=tmp_path)
    path.write_bytes(gzip.compress(b"nothing of the kind" * 100))
    with pytest.raises(NescioError, match=r"cifar-10-binary\.tar\.gz"):
        data.load("cifar10", root=tmp_path)
    cifar_tar(path, cifar_batches())
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(NescioError, match="truncated"):
        data.load("cifar10", root=tmp_path)


VALUES = RNG.uniform(-1, 1, (20, 256)).round(3)


@pytest.mark.parametrize("libsvm", [True, False])
def test_usps_as_text(tmp_path: Path, libsvm: bool) -> None:
    (tmp_path / "usps").mkdir()
    for half in ("train", "test"):
        lines = []
        for i, row in enumerate(VALUES):
            cells = (
                [f"{j}:{v}" for j, v in enumerate(row, 1) if v != 0]
                if libsvm
                else [f"{v:.4f}" for v in row]
            )
            lines.append(" ".join([str(i % 10 + 1) if libsvm else f"{i % 10}.0000", *cells]) + "\n")
        text = "".join(lines).encode()
        if libsvm:
            (tmp_path / "usps" / ("usps.bz2" if half == "train" else "usps.t.bz2")).write_bytes(
                bz2.compress(text)
            )
        else:
            (tmp_path / "usps" / f"zip.{half}.gz").write_bytes(gzip.compress(text))
    known = data.load("usps", root=tmp_path)
    assert known.shape == (1, 16, 16)
    np.testing.assert_allclose(
        known.test._stored.numpy().reshape(20, 256), (VALUES + 1) / 2, atol=1e-6
    )
    assert known.test.labels.tolist() == [i % 10 for i in range(20)]


@pytest.mark.parametrize(
    "line",
    ["1 0:0.5", "1 257:0.5", "1 3:x", "x 1:0.5", "nan 1:1", "1 5", "1 1:7", "1 1:nan", "0 1:1"],
)
def test_usps_lines_that_are_wrong(tmp_path: Path, line: str) -> None:
    (tmp_path / "usps").mkdir()
    for name in ("usps.bz2", "usps.t.bz2"):
        (tmp_path / "usps" / name).write_bytes(bz2.compress(line.encode()))
    with pytest.raises(NescioError, match=r"usps\.bz2"):
        data.load("usps", root=tmp_path)


def test_emnist_in_its_archive(tmp_path: Path) -> None:
    (tmp_path / "emnist_letters").mkdir()
    images = RNG.integers(0, 256, (52, 28, 28), dtype=np.uint8)
    labels = (np.arange(52) % 26 + 1).astype(np.uint8)
    with zipfile.ZipFile(tmp_path / "emnist_letters" / "gzip.zip", "w") as archive:
        for half in ("train", "test"):
            for what, array in (("images-idx3", images), ("labels-idx1", labels)):
                head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
                archive.writestr(
                    f"gzip/emnist-letters-{half}-{what}-ubyte.gz",
                    gzip.compress(head + array.tobytes()),
                )
    known = data.load("emnist_letters", root=tmp_path)
    assert np.array_equal(known.test._stored[:, 0].numpy(), images.transpose(0, 2, 1))
    assert known.test.labels[:2].tolist() == [0, 1]
    (tmp_path / "emnist_letters" / "gzip.zip").write_bytes(b"PK nothing")
    with pytest.raises(NescioError, match="not EMNIST's archive"):
        data.load("emnist_letters", root=tmp_path)


CODES = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}


def idx(array: np.ndarray) -> bytes:
    head = bytes([0, 0, CODES[array.dtype.str[1:]], array.ndim]) + struct.pack(
        f">{array.ndim}I", *array.shape
    )
    return head + array.astype(array.dtype.newbyteorder(">")).tobytes()


@given(
    st.sampled_from(list(CODES)).flatmap(
        lambda t: arrays.arrays(t, arrays.array_shapes(max_dims=4))
    )
)
def test_round_trip(array: np.ndarray) -> None:
    read = idx_array(idx(array), "here")
    assert read.dtype == array.dtype
    np.testing.assert_array_equal(read, array)


def mnist_like(
    folder: Path,
    packed: bool,
    classes: int = 10,
    first: int = 0,
    prefix: str = "",
    test: str = "t10k",
) -> None:
    """Four files as published; pixel values tell image, row and column."""
    folder.mkdir(parents=True, exist_ok=True)
    for half, count in (("train", 60), (test, 30)):
        n, i, j = np.indices((count, 28, 28))
        files = {
            f"{half}-images-idx3-ubyte": ((n * 3 + i * 2 + j) % 256).astype(np.uint8),
            f"{half}-labels-idx1-ubyte": (np.arange(count) % classes + first).astype(np.uint8),
        }
        for name, array in files.items():
            path = folder / (prefix + name + (".gz" if packed else ""))
            path.write_bytes(gzip.compress(idx(array)) if packed else idx(array))


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "kmnist"])
def test_a_set_in_its_published_files(tmp_path: Path, name: str, packed: bool) -> None:
    mnist_like(tmp_path / name, packed)
    known = data.load(name, root=tmp_path)
    assert known.train is not None
    assert (len(known.train), len(known.test), known.shape) == (60, 30, (1, 28, 28))
    assert known.train._stored[5, 0, 7, 9] == 5 * 3 + 7 * 2 + 9
    assert known.train.labels[:12].tolist() == [*range(10), 0, 1]
    assert len(known.classes) == 10
    state = next(one for one in data.status(tmp_path) if one.name == name)
    assert (state.present, state.where) == (True, tmp_path / name)
    assert data.load(tmp_path / name).classes == tuple("0123456789")  # the folder as a path


def test_emnist_letters_are_turned_upright_and_start_at_zero(tmp_path: Path) -> None:
    mnist_like(tmp_path / "emnist_letters", True, 26, 1, "emnist-letters-", "test")
    known = data.load("emnist_letters", root=tmp_path)
    assert known.classes[0] + known.classes[-1] == "AZ"
    assert known.test._stored[5, 0, 7, 9] == 5 * 3 + 9 * 2 + 7
    assert known.test.labels[:3].tolist() == [0, 1, 2]


def test_one_file_with_its_labels_beside_it(tmp_path: Path) -> None:
    mnist_like(tmp_path, True)
    samples = data.read(tmp_path / "t10k-images-idx3-ubyte.gz")
    assert torch.equal(samples.labels, torch.arange(30) % 10)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    assert data.read(tmp_path / "t10k-images-idx3-ubyte.gz").labels.unique().tolist() == [-1]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "not an idx file"),
        (b"\x00\x00\x08", "not an idx file"),
        (b"PK\x03\x04" + bytes(30), "not an idx file"),
        (b"\x00\x00\x07\x01" + bytes(30), "not an idx file"),
        (bytes([0, 0, 8, 255]) + bytes(30), "not an idx file"),
        (bytes([0, 0, 8, 3]) + struct.pack(">3I", 10**9, 28, 28) + bytes(100), "promises"),
        (bytes([0, 0, 8, 3]) + struct.pack(">3I", 2**32 - 1, 2**32 - 1, 2**32 - 1), "promises"),
        (idx(np.zeros((3, 4, 4), np.uint8))[:-1], "promises"),
        (idx(np.zeros((3, 4, 4), np.uint8)) + b"x", "promises"),
        (idx(np.zeros((0, 4, 4), np.uint8)), "shape"),
        (bytes([0, 0, 8, 4]) + struct.pack(">4I", 0, *[2**32 - 1] * 3), "shape"),
        (bytes([0, 0, 8, 65]) + struct.pack(">65I", *[1] * 65) + b"x", "65 axes"),
        (idx(np.zeros((1, 1, 1, 1, 1), np.uint8)), "5 axes"),
        (idx(np.full((1, 4, 4), np.nan, np.float32)), r"\[0, 1\]"),
    ],
)
@pytest.mark.parametrize("packed", [True, False])
def test_files_that_lie(tmp_path: Path, raw: bytes, said: str, packed: bool) -> None:
    path = tmp_path / "images-idx3-ubyte"
    path.write_bytes(gzip.compress(raw) if packed else raw)
    with pytest.raises(NescioError, match=said) as error:
        data.read(path)
    assert str(path) in str(error.value)


def test_a_gzip_bomb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(bytes(80_000_000), 1))
    with pytest.raises(NescioError, match="unpack to more than"):
        data.read(path)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(0, 400), st.integers(0, 255), st.integers(0, 2000))
def test_damaged_gzip_gives_one_kind_of_error(
    tmp_path: Path, at: int, value: int, end: int
) -> None:
    raw = bytearray(
        gzip.compress(
            idx(np.random.default_rng(0).integers(0, 255, (3, 8, 8), dtype=np.uint8)), mtime=0
        )
    )
    raw[at % len(raw)] = value
    path = tmp_path / "images-idx3-ubyte.gz"
    path.write_bytes(raw[:end])
    said = str(path)
    try:
        data.read(path)
    except NescioError as error:
        said = str(error)
    assert str(path) in said
