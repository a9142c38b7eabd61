import bz2
import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from nescio import data
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
