from pathlib import Path

import numpy as np
import pytest

from nescio import data
from nescio.errors import NescioError


def test_a_set_that_is_not_there_says_where_it_was_sought_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NescioError, match="nescio data get kmnist") as error:
        data.load("kmnist", root=tmp_path)
    assert str(tmp_path) in str(error.value)
    with pytest.raises(NescioError, match="set NESCIO_DATA"):
        data.load("svhn", root=tmp_path)


def test_the_environment_says_where_data_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = np.zeros((4, 28, 28), np.uint8)
    np.savez(tmp_path / "notmnist_test.npz", test_images=images, test_labels=np.arange(4))
    monkeypatch.setenv("NESCIO_DATA", str(tmp_path))
    assert data.load("notmnist").classes == tuple("ABCDEFGHIJ")
    states = {one.name: one for one in data.status()}
    assert states["notmnist"].where == tmp_path / "notmnist_test.npz"
    assert states["notmnist"].kind == "image"
    assert states["digits"].where == "embedded"
    assert tuple(states) == data.NAMES


def test_a_root_is_the_only_place_looked_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "mnist.npz", test_images=np.zeros((4, 28, 28), np.uint8), test_labels=np.arange(4))
    monkeypatch.setenv("NESCIO_DATA", str(tmp_path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(NescioError, match="found no"):
        data.load("mnist", root=tmp_path / "empty")
    assert not any(one.present for one in data.status(tmp_path / "empty") if one.where != "embedded")


@pytest.mark.parametrize("path", ["no/such/thing", "thing.npz", "thing.csv"])
def test_a_path_that_is_not_there(path: str) -> None:
    with pytest.raises(NescioError, match="no such file"):
        data.load(path)
    with pytest.raises(NescioError, match="no such file"):
        data.read(path)


def test_a_file_of_no_known_format(tmp_path: Path) -> None:
    (tmp_path / "a.xls").write_text("1")
    with pytest.raises(NescioError, match="of no known format"):
        data.load(tmp_path / "a.xls")


def test_labels_beyond_a_named_sets_classes_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "mnist.npz", test_images=np.zeros((2, 28, 28), np.uint8), test_labels=np.array([3, 10]))
    with pytest.raises(NescioError, match="expected 0 to 9"):
        data.load("mnist", root=tmp_path)


def test_parts_that_do_not_go_together(tmp_path: Path) -> None:
    parts = {"train_images": np.zeros((4, 8, 8), np.uint8), "test_images": np.zeros((4, 9, 9), np.uint8)}
    np.savez(tmp_path / "a.npz", **parts, train_labels=np.arange(4), test_labels=np.arange(4))
    with pytest.raises(NescioError, match=r"\(1, 8, 8\) and \(1, 9, 9\)"):
        data.load(tmp_path / "a.npz")


def test_one_class_is_nothing_to_learn(tmp_path: Path) -> None:
    images = np.zeros((4, 28, 28), np.uint8)
    parts = {"train_images": images, "train_labels": np.full(4, 3), "test_images": images, "test_labels": np.arange(4)}
    np.savez(tmp_path / "mnist.npz", **parts)
    with pytest.raises(NescioError, match="one label"):
        data.load("mnist", root=tmp_path)


def test_a_column_with_names(tmp_path: Path) -> None:
    arrays = {"test_images": np.zeros((3, 28, 28), np.uint8), "test_labels": np.arange(3)}
    names = np.array(["Greek", "Latin"])
    np.savez(tmp_path / "omniglot_small.npz", **arrays, alphabet=np.array([1, 0, 1]), alphabet_names=names)
    assert data.load("omniglot", root=tmp_path).test.columns["alphabet"].tolist() == ["Latin", "Greek", "Latin"]
    np.savez(tmp_path / "omniglot_small.npz", **arrays, alphabet=np.array([1, 0, 2]), alphabet_names=names)
    with pytest.raises(NescioError, match="alphabet"):
        data.load("omniglot", root=tmp_path)


def test_a_directory_in_the_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "mnist.npz").mkdir()
    with pytest.raises(NescioError, match="is not a file"):
        data.load("mnist", root=tmp_path)
