import io
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nescio import data
from nescio.errors import NescioError

GREY = np.arange(10 * 4 * 5, dtype=np.uint8).reshape(10, 4, 5)
LABELS = np.arange(10, dtype=np.uint8) % 3


def save(path: Path, **arrays: Any) -> Path:
    np.savez_compressed(path, **arrays)
    return path


def header(shape: tuple[int, ...], descr: str = "|u1") -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"shape": shape, "fortran_order": False, "descr": descr}
    )
    return buffer.getvalue()


def test_parts_become_a_known_set(tmp_path: Path) -> None:
    colour = np.stack([GREY] * 3, -1)
    path = save(
        tmp_path / "a.npz",
        train_images=colour,
        train_labels=LABELS,
        test_images=colour,
        test_labels=LABELS,
    )
    known = data.load(path)
    assert known.shape == (3, 4, 5)
    assert known.train is not None
    assert known.train._stored.dtype == torch.uint8
    assert np.array_equal(known.train._stored.numpy(), colour.transpose(0, 3, 1, 2))
    assert known.classes == ("0", "1", "2")
    assert known.name == "a.npz"
    assert data.load(str(path), unseen=["1"]).classes == ("0", "2")


def test_a_test_part_alone_has_nothing_to_train_on(tmp_path: Path) -> None:
    known = data.load(
        save(
            tmp_path / "a.npz", test_images=GREY, test_labels=LABELS, classes=np.array(list("abc"))
        )
    )
    assert known.train is None
    assert known.normalise is None
    assert known.classes == ("a", "b", "c")
    assert known.shape == (1, 4, 5)


def test_one_part_is_divided_by_seed(tmp_path: Path) -> None:
    inputs = np.random.default_rng(0).normal(size=(50, 4))
    path = save(tmp_path / "a.npz", inputs=inputs, labels=np.arange(50) % 2)
    known, other = data.load(path), data.load(path, seed=1)
    assert known.train is not None
    assert (len(known.train), len(known.test), known.kind) == (40, 10, "tabular")
    assert not torch.equal(known.test.inputs, other.test.inputs)


def test_unlabelled_inputs_are_read_but_not_loaded(tmp_path: Path) -> None:
    path = save(tmp_path / "a.npz", images=GREY / 255.0)
    samples = data.read(path)
    assert samples.labels.unique().tolist() == [-1]
    assert samples.inputs.dtype == torch.float32
    np.testing.assert_allclose(samples.inputs.numpy()[:, 0], GREY / 255.0, atol=1e-7)
    with pytest.raises(NescioError, match="no labels"):
        data.load(path)


def test_npy_tables_and_images(tmp_path: Path) -> None:
    np.save(tmp_path / "table.npy", np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3)))
    np.save(tmp_path / "images.npy", GREY)
    assert data.read(tmp_path / "table.npy").inputs.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert data.read(tmp_path / "images.npy").shape == (1, 4, 5)


def test_read_takes_the_test_part_by_default(tmp_path: Path) -> None:
    path = save(
        tmp_path / "a.npz",
        train_images=GREY[:6],
        train_labels=LABELS[:6],
        test_images=GREY,
        test_labels=LABELS,
    )
    assert len(data.read(path)) == 10
    assert len(data.read(path, part="train")) == 6
    with pytest.raises(NescioError, match="did you mean 'train'"):
        data.read(path, part="trains")


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"images": np.full((2, 3, 3), np.nan)}, r"\[0, 1\]"),
        ({"images": np.full((2, 3, 3), 255.0)}, r"\[0, 1\]"),
        ({"images": np.zeros((2, 3, 3), np.int64)}, "int64"),
        ({"images": np.zeros((2, 9, 9, 9), np.uint8)}, "shape"),
        ({"inputs": np.array([[1.0, np.inf]])}, "got inf in row 0, column 1"),
        ({"inputs": np.array([[1.0, 1e300]])}, "1e\\+300"),
        ({"inputs": np.zeros((0, 3))}, r"there are no inputs \(shape \(0, 3\)\)"),
        ({"images": np.zeros((0, 1, 8, 8))}, "there are no inputs"),
        ({"inputs": np.zeros(3)}, r"\(3,\)"),
        ({"inputs": np.array([["a"]])}, "<U1"),
        ({"inputs": np.zeros((2, 3), complex)}, "complex128; expected real numbers$"),
        ({"inputs": np.zeros((2, 3), "M8[s]")}, "datetime64.* expected real numbers$"),
        ({"images": GREY, "labels": LABELS + 0.5}, r"labels must be integers, got \d\.5"),
        ({"images": GREY, "labels": np.full(10, np.nan)}, "labels must be integers, got nan"),
        ({"images": GREY, "labels": np.full(10, np.inf)}, "labels must be integers, got inf"),
        ({"images": GREY, "labels": LABELS.astype(str)}, "must be .* integers, got .*<U"),
        ({"images": GREY, "labels": LABELS[:4]}, r"\(10,\) integers"),
        ({"images": GREY, "labels": LABELS.astype(np.int8) - 1}, "got -1 to"),
        ({"images": GREY, "labels": LABELS.astype(np.int64) + 10**9}, "1000000000"),
        (
            {"images": GREY, "labels": LABELS, "classes": np.array(["a", "b"])},
            "must be 0 to 1, got 0 to 2",
        ),
        ({"images": GREY, "labels": np.zeros(10, int)}, "at least 2 classes, got 1"),
        ({"pictures": GREY}, "pictures"),
        ({}, "nothing"),
    ],
)
def test_arrays_that_make_no_data_set(tmp_path: Path, arrays: dict[str, Any], said: str) -> None:
    with pytest.raises(NescioError, match=said) as error:
        data.load(save(tmp_path / "bad.npz", **arrays))
    assert "bad.npz" in str(error.value)


def test_labels_may_be_floats_that_are_whole_numbers(tmp_path: Path) -> None:
    path = save(tmp_path / "a.npz", images=GREY, labels=LABELS.astype(np.float32))
    assert data.read(path).labels.tolist() == LABELS.tolist()


def test_an_empty_file_says_so_when_it_is_streamed(tmp_path: Path) -> None:
    path = save(tmp_path / "a.npz", images=np.zeros((0, 1, 8, 8)))
    with pytest.raises(NescioError, match="images: there are no inputs"):
        list(data.Stream(path, (1, 8, 8), None, 4))


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    path = save(tmp_path / "a.npz", images=np.array([{"a": 1}], dtype=object))
    with pytest.raises(NescioError, match="never loaded"):
        data.read(path)
    np.save(tmp_path / "a.npy", np.array([None]))
    with pytest.raises(NescioError, match="never loaded"):
        data.read(tmp_path / "a.npy")


def test_a_zip_bomb_is_refused_by_its_directory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("images.npy", header((1, 9000, 9000)) + bytes(81_000_000))
    assert path.stat().st_size < 100_000
    with pytest.raises(NescioError, match="refused"):
        data.read(path)


def with_header(text: str, body: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) + 1) + text.encode() + b"\n" + body


def test_a_file_of_python_2_is_read_without_a_warning(tmp_path: Path) -> None:
    head = "{'descr': '|u1', 'fortran_order': False, 'shape': (1L, 2L, 2L), }"
    (tmp_path / "a.npy").write_bytes(with_header(head, b"abcd"))
    assert data.read(tmp_path / "a.npy")._stored.flatten().tolist() == [97, 98, 99, 100]


@pytest.mark.parametrize(
    "descr", ["()", "('<f4',)", "[()]", "[('a',)]", "{}", "[]", "'<U0'", "'|a'", "None", "(((" * 99]
)
def test_a_header_of_an_unusual_type(tmp_path: Path, descr: str) -> None:
    (tmp_path / "a.npy").write_bytes(
        with_header(f"{{'descr': {descr}, 'fortran_order': False, 'shape': (1, 2)}}")
    )
    with pytest.raises(NescioError, match=r"a\.npy"):
        data.read(tmp_path / "a.npy")


@pytest.mark.parametrize("shape", [(10**9, 28, 28), (10**18, 10**18, 4), (-1, 4, 4), (3, 4, 4)])
def test_a_header_that_promises_what_is_not_there(tmp_path: Path, shape: tuple[int, ...]) -> None:
    body = header(shape) + bytes(32)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("images.npy", body)
    (tmp_path / "a.npy").write_bytes(body)
    for name in ("a.npz", "a.npy"):
        with pytest.raises(NescioError, match="does not fit"):
            data.read(tmp_path / name)


def test_a_directory_that_lies_about_sizes(tmp_path: Path) -> None:
    """The declared size is small, the stream is not: no more is read, and the lie is noticed."""
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("images.npy", header((1, 3000, 3000)) + bytes(9_000_000))
    raw = bytearray(path.read_bytes())
    at = raw.rindex(b"PK\x01\x02")
    raw[at + 24 : at + 28] = struct.pack("<I", 500)
    path.write_bytes(raw)
    with pytest.raises(NescioError, match=r"a\.npz"):
        data.read(path)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(["a.npz", "a.npy"]), st.data())
def test_damaged_files_give_one_kind_of_error(
    tmp_path: Path, name: str, draw: st.DataObject
) -> None:
    path = tmp_path / name
    if name == "a.npz":
        np.savez(path, images=GREY, labels=LABELS)
    else:
        np.save(path, GREY)
    raw = bytearray(path.read_bytes())
    for _ in range(draw.draw(st.integers(0, 4))):
        raw[draw.draw(st.integers(0, len(raw) - 1))] = draw.draw(st.integers(0, 255))
    path.write_bytes(raw[: draw.draw(st.integers(0, len(raw)))])
    said = name
    try:
        data.read(path)
    except NescioError as error:
        said = str(error)
    assert name in said
