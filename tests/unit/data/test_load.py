from pathlib import Path
from typing import Any

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


def test_the_environment_says_where_data_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = np.zeros((4, 28, 28), np.uint8)
    np.savez(tmp_path / "notmnist_test.npz", test_images=images, test_labels=np.arange(4))
    monkeypatch.setenv("NESCIO_DATA", str(tmp_path))
    assert data.load("notmnist").classes == tuple("ABCDEFGHIJ")
    states = {one.name: one for one in data.status()}
    assert states["notmnist"].where == tmp_path / "notmnist_test.npz"
    assert states["notmnist"].kind == "image"
    assert states["digits"].where == "embedded"
    assert tuple(states) == data.NAMES


def test_a_root_is_the_only_place_looked_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez(
        tmp_path / "mnist.npz",
        test_images=np.zeros((4, 28, 28), np.uint8),
        test_labels=np.arange(4),
    )
    monkeypatch.setenv("NESCIO_DATA", str(tmp_path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(NescioError, match="found no"):
        data.load("mnist", root=tmp_path / "empty")
    assert not any(
        one.present for one in data.status(tmp_path / "empty") if one.where != "embedded"
    )


def test_a_misspelt_path_is_told_from_a_misspelt_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_photos").mkdir()
    with pytest.raises(NescioError, match=r"my_photo: no such file or folder,.*mean 'my_photos'\?"):
        data.load("my_photo")
    with pytest.raises(NescioError, match=r"no data set of that name; did you mean 'digits'\?"):
        data.load("digitz")
    with pytest.raises(NescioError, match=r"no data set of that name\. Data sets: two_moons"):
        data.load("users")


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
    np.savez(
        tmp_path / "mnist.npz",
        test_images=np.zeros((2, 28, 28), np.uint8),
        test_labels=np.array([3, 10]),
    )
    with pytest.raises(NescioError, match="must be 0 to 9, got"):
        data.load("mnist", root=tmp_path)


def test_parts_that_do_not_go_together(tmp_path: Path) -> None:
    parts = {
        "train_images": np.zeros((4, 8, 8), np.uint8),
        "test_images": np.zeros((4, 9, 9), np.uint8),
    }
    np.savez(tmp_path / "a.npz", **parts, train_labels=np.arange(4), test_labels=np.arange(4))
    with pytest.raises(NescioError, match=r"\(1, 8, 8\) and \(1, 9, 9\)"):
        data.load(tmp_path / "a.npz")


def test_one_class_is_nothing_to_learn(tmp_path: Path) -> None:
    images = np.zeros((4, 28, 28), np.uint8)
    parts = {
        "train_images": images,
        "train_labels": np.full(4, 3),
        "test_images": images,
        "test_labels": np.arange(4),
    }
    np.savez(tmp_path / "mnist.npz", **parts)
    with pytest.raises(NescioError, match="one label"):
        data.load("mnist", root=tmp_path)


def test_a_column_with_names(tmp_path: Path) -> None:
    arrays = {"test_images": np.zeros((3, 28, 28), np.uint8), "test_labels": np.arange(3)}
    names = np.array(["Greek", "Latin"])
    np.savez(
        tmp_path / "omniglot_small.npz",
        **arrays,
        alphabet=np.array([1, 0, 1]),
        alphabet_names=names,
    )
    assert data.load("omniglot", root=tmp_path).test.columns["alphabet"].tolist() == [
        "Latin",
        "Greek",
        "Latin",
    ]
    np.savez(
        tmp_path / "omniglot_small.npz",
        **arrays,
        alphabet=np.array([1, 0, 2]),
        alphabet_names=names,
    )
    with pytest.raises(NescioError, match="alphabet"):
        data.load("omniglot", root=tmp_path)


def test_a_directory_in_the_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "mnist.npz").mkdir()
    with pytest.raises(NescioError, match="is not a file"):
        data.load("mnist", root=tmp_path)


@pytest.mark.parametrize("name", ["loop.csv", "loop.npz", "loop", "x" * 5000 + ".csv"], ids=len)
def test_a_path_that_cannot_be_looked_at(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if name.startswith("loop"):
        Path(name).symlink_to(name)
    for reader in (data.load, data.read):
        with pytest.raises(NescioError, match="cannot be read"):
            reader(name)


@pytest.mark.parametrize("seed", [1.5, "a", -1, None, True, 2**63])
def test_what_is_no_seed(seed: Any) -> None:
    for name in ("two_moons", "iris"):
        with pytest.raises(NescioError, match="seed"):
            data.load(name, seed=seed)


def test_a_seed_may_be_numpys() -> None:
    for name in ("two_moons", "iris"):
        given, plain = (data.load(name, seed=seed).test for seed in (np.int64(3), 3))
        assert given.inputs.tolist() == plain.inputs.tolist()


GAPS = np.array([0, 5, 10, 10, 5, 0, 0, 5, 10])


def test_labels_with_gaps_are_the_names_of_the_classes_present(tmp_path: Path) -> None:
    images = np.zeros((9, 4, 4), np.uint8)
    np.savez(
        tmp_path / "a.npz",
        train_images=images,
        train_labels=GAPS,
        test_images=images[:3],
        test_labels=GAPS[2:5],
    )
    known = data.load(tmp_path / "a.npz")
    assert known.train is not None
    assert known.classes == ("0", "5", "10")
    assert known.train.labels.tolist() == [0, 1, 2, 2, 1, 0, 0, 1, 2]
    assert known.test.labels.tolist() == [2, 2, 1]
    assert data.load(tmp_path / "a.npz", unseen="5").classes == ("0", "10")
    assert data.read(tmp_path / "a.npz", classes=known.classes).labels.tolist() == [2, 2, 1]
    assert data.read(tmp_path / "a.npz", classes=("10", "0")).labels.tolist() == [0, 0, -1]
    assert data.read(tmp_path / "a.npz", classes=tuple("abcdef")).labels.tolist() == [
        -1,
        -1,
        5,
    ]  # positions


def test_one_part_with_gaps_is_renumbered_before_it_is_divided(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", inputs=np.arange(18.0).reshape(9, 2), labels=GAPS)
    known = data.load(tmp_path / "a.npz")
    assert known.classes == ("0", "5", "10")
    assert sorted(known.test.labels.tolist()) == [0, 1, 2]


def test_a_test_label_that_is_never_trained_on_is_named(tmp_path: Path) -> None:
    parts = {
        "train_images": np.zeros((9, 4, 4), np.uint8),
        "test_images": np.zeros((2, 4, 4), np.uint8),
    }
    np.savez(tmp_path / "a.npz", **parts, train_labels=GAPS, test_labels=np.array([5, 7]))
    with pytest.raises(
        NescioError, match=r"a\.npz: the test part has label 7, .* expected one of 0, 5, 10"
    ):
        data.load(tmp_path / "a.npz")


def test_declared_classes_are_all_kept(tmp_path: Path) -> None:
    images = np.zeros((9, 28, 28), np.uint8)
    np.savez(
        tmp_path / "mnist.npz",
        train_images=images,
        train_labels=GAPS % 9,
        test_images=images,
        test_labels=GAPS,
    )
    with pytest.raises(NescioError, match="must be 0 to 9, got"):
        data.load("mnist", root=tmp_path)
    np.savez(
        tmp_path / "mnist.npz",
        train_images=images,
        train_labels=GAPS % 9,
        test_images=images,
        test_labels=GAPS % 7,
    )
    known = data.load("mnist", root=tmp_path)
    assert known.classes == tuple("0123456789")
    assert known.test.labels.tolist() == (GAPS % 7).tolist()


@pytest.mark.parametrize(
    "name", ["iris", "two_moons", "mnist", "heart_disease", "a.npz", "no_such.npz"]
)
def test_only_a_csv_file_has_a_label_column_to_choose(tmp_path: Path, name: str) -> None:
    np.savez(tmp_path / "a.npz", images=np.zeros((6, 4, 4), np.uint8), labels=np.arange(6) % 2)
    given = tmp_path / name if name == "a.npz" else name
    with pytest.raises(NescioError, match="label column 'age' can only be chosen of a CSV file"):
        data.load(given, label="age")
    if name == "a.npz":
        with pytest.raises(
            NescioError, match="label column 'age' can only be chosen of a CSV file"
        ):
            data.read(given, label="age")


def test_imputing_is_harmless_where_there_is_no_table() -> None:
    assert data.load("digits", impute=True).kind == "image"


def test_rows_of_which_no_class_has_two(tmp_path: Path) -> None:
    (tmp_path / "few.csv").write_text("a,b\n1,x\n2,y\n")
    with pytest.raises(NescioError, match=r"few\.csv: must have 2 or more inputs of some class"):
        data.load(tmp_path / "few.csv")
