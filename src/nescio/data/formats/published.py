"""Sets in the forms their authors publish: CIFAR-10's binary batches, USPS as text, EMNIST's transposed letters."""

import io
import tarfile
import zipfile
import zlib
from pathlib import Path

import numpy as np

from nescio.data.arrays import Array
from nescio.data.formats.bounds import allowed, regular, text, unpack, unpacked
from nescio.data.formats.idx import idx_array
from nescio.data.parts import Parts, part
from nescio.data.samples import Samples
from nescio.errors import NescioError

_CIFAR_RECORD = 1 + 3 * 32 * 32  # a label, then the red, the green and the blue plane
_CIFAR_FILES = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")
_EMNIST = [
    f"emnist-letters-{half}-{what}-ubyte.gz"
    for half in ("train", "test")
    for what in ("images-idx3", "labels-idx1")
]


def read_cifar(folder: Path, classes: tuple[str, ...]) -> Parts:
    """CIFAR-10 from the folder `cifar-10-batches-bin`."""
    return _cifar([unpacked(folder / name) for name in _CIFAR_FILES], folder, classes)


def read_cifar_tar(path: Path, classes: tuple[str, ...]) -> Parts:
    """CIFAR-10 from its archive; six members are read, nothing is unpacked to disk."""
    try:
        with tarfile.open(fileobj=io.BytesIO(unpacked(path)), mode="r:") as archive:
            members = {
                Path(member.name).name: member for member in archive.getmembers() if member.isfile()
            }
            files = [archive.extractfile(members[name]) for name in _CIFAR_FILES]
            return _cifar([b"" if file is None else file.read() for file in files], path, classes)
    except (tarfile.TarError, KeyError, EOFError) as error:
        raise NescioError(
            f"{path}: is not the archive of CIFAR-10's binary version ({error})"
        ) from error


def _cifar(batches: list[bytes], where: Path, classes: tuple[str, ...]) -> Parts:
    for name, batch in zip(_CIFAR_FILES, batches, strict=True):
        if not batch or len(batch) % _CIFAR_RECORD:
            raise NescioError(
                f"{where}, {name}: {len(batch)} bytes; expected records of {_CIFAR_RECORD}"
            )

    def samples(data: bytes, half: str) -> Samples:
        records = np.frombuffer(data, np.uint8).reshape(-1, _CIFAR_RECORD)
        return part(
            records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0], f"{where}, {half} part", classes
        )

    return Parts(
        {"train": samples(b"".join(batches[:5]), "train"), "test": samples(batches[5], "test")},
        classes,
    )


def read_usps(paths: tuple[Path, ...], classes: tuple[str, ...]) -> Parts:
    """USPS as text: a digit and 256 grey values from −1 to 1 on each line."""
    return Parts(
        {
            half: _usps(path, False, classes)
            for half, path in zip(("train", "test"), paths, strict=True)
        },
        classes,
    )


def read_libsvm(paths: tuple[Path, ...], classes: tuple[str, ...]) -> Parts:
    """USPS as LIBSVM has it: the digit plus one, and the values behind `index:`, zeros left out."""
    return Parts(
        {
            half: _usps(path, True, classes)
            for half, path in zip(("train", "test"), paths, strict=True)
        },
        classes,
    )


def _usps(path: Path, libsvm: bool, classes: tuple[str, ...]) -> Samples:
    lines = [line.split() for line in text(path).splitlines() if line.strip()]
    values, digits = np.zeros((len(lines), 256)), np.zeros(len(lines), dtype=np.int64)
    places_of = {str(i + 1): i for i in range(256)}
    try:
        for row, (digit, *cells) in enumerate(lines):
            digits[row] = int(float(digit)) - libsvm
            if libsvm:
                pairs = [cell.split(":") for cell in cells]
                places = [places_of[index] for index, _ in pairs]
                values[row, places] = [float(value) for _, value in pairs]
            else:
                values[row] = [float(cell) for cell in cells]
    except (ValueError, KeyError, OverflowError) as error:
        raise NescioError(
            f"{path}, line {row + 1}: expected a digit and 256 values ({error})"
        ) from error
    return part((values.reshape(-1, 16, 16) + 1) / 2, digits, str(path), classes)


def read_emnist(paths: tuple[Path, ...], classes: tuple[str, ...]) -> Parts:
    """EMNIST letters from their four idx files."""
    return _emnist(
        [idx_array(unpacked(path), str(path)) for path in paths], str(paths[0].parent), classes
    )


def read_emnist_zip(path: Path, classes: tuple[str, ...]) -> Parts:
    """EMNIST letters from the archive of all of EMNIST, without unpacking it to disk."""
    try:
        with zipfile.ZipFile(regular(path)) as archive:
            members = {Path(info.filename).name: info for info in archive.infolist()}
            arrays = []
            for name in _EMNIST:
                size = members[name].file_size
                if size > allowed(members[name].compress_size):
                    raise NescioError(f"{path}, {name}: declares {size} bytes unpacked; refused")
                packed = io.BytesIO(archive.read(members[name]))
                arrays.append(idx_array(unpack(packed, size, f"{path}, {name}"), f"{path}, {name}"))
    except (
        zipfile.BadZipFile,
        KeyError,
        EOFError,
        RuntimeError,
        NotImplementedError,
        zlib.error,
        OSError,
    ) as error:
        raise NescioError(f"{path}: is not EMNIST's archive ({error})") from error
    return _emnist(arrays, str(path), classes)


def _emnist(arrays: list[Array], where: str, classes: tuple[str, ...]) -> Parts:
    """Images turned upright, for they are published transposed, and labels that start at 0 instead of 1."""
    samples = {}
    for half, (x, y) in {"train": arrays[:2], "test": arrays[2:]}.items():
        if x.ndim != 3:
            raise NescioError(
                f"{where}, {half} part: images of shape {x.shape}; expected (N, 28, 28)"
            )
        samples[half] = part(
            x.transpose(0, 2, 1), y.astype(np.int64) - 1, f"{where}, {half} part", classes
        )
    return Parts(samples, classes)
