import csv

import numpy as np
import pytest
import torch

from nescio.data import load
from nescio.errors import NescioError
from nescio.evaluation.unknown_sets import set_names, unknown_set, unknown_sets


@pytest.fixture(scope="module")
def digits():
    return load("digits", unseen=[9])


def test_names_that_follow_from_the_known_data(digits):
    assert unknown_set("unseen", digits) is digits.unseen
    noise = unknown_set("uniform", digits, seed=1)
    assert noise.shape == (1, 8, 8)
    assert not torch.equal(noise.inputs, unknown_set("uniform", digits, seed=2).inputs)
    assert unknown_set("normal", digits).name == "normal noise"
    moved, mean = unknown_set("far", digits).inputs, digits.test.inputs.mean(0)
    torch.testing.assert_close(
        moved - mean, 100 * (digits.test.inputs - mean), rtol=1e-4, atol=1e-3
    )


def test_a_file_of_images_takes_the_shape_of_the_known_ones(digits, tmp_path):
    np.savez(tmp_path / "other.npz", images=np.full((5, 16, 16, 3), 255, dtype=np.uint8))
    samples = unknown_set(str(tmp_path / "other.npz"), digits)
    assert samples.shape == (1, 8, 8)
    assert (samples.take(slice(None))[0] == 1).all()


def test_a_table_is_encoded_like_the_known_one(tmp_path):
    iris = load("iris")
    path = tmp_path / "more.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["note", *iris.features[::-1]], ["a", 1, 2, 3, 4]])
    assert unknown_set(str(path), iris).inputs.tolist() == [[4, 3, 2, 1]]


def test_what_cannot_be_is_reported(digits):
    with pytest.raises(NescioError, match="did you mean 'uniform'"):
        unknown_set("unifrm", digits)
    with pytest.raises(NescioError, match="no unseen classes"):
        unknown_set("unseen", load("digits"))
    with pytest.raises(NescioError, match="only images"):
        unknown_set("iris", digits)
    with pytest.raises(NescioError, match="no such file"):
        unknown_set("none.npz", digits)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("data/notmnist.npz noise", ["notmnist", "noise"]),
        ("a/letters.npz b/letters.npz", ["a/letters.npz", "b/letters.npz"]),
        ("letters.npz letters.csv", ["letters.npz", "letters.csv"]),
        ("a/c/x.npz b/c/x.npz other/x.csv", ["a/c/x.npz", "b/c/x.npz", "x.csv"]),
        ("mnist.npz mnist", ["mnist.npz", "mnist"]),
        (
            "far.npz known.csv far",
            ["far.npz", "known.csv", "far"],
        ),  # which have a meaning of their own
        ("rows.csv.gz folder.d/", ["rows", "folder.d"]),
        ("x.npz ./x.npz a/../x.npz", ["x"]),
    ],
)
def test_files_go_by_their_stems(given, names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.d").mkdir()
    found = set_names(given.split())
    assert list(found) == names
    assert set(found.values()) <= set(given.split())


def test_tables_show_files_by_their_stems(digits, tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        np.savez(tmp_path / folder / "notmnist.npz", images=np.zeros((5, 8, 8), dtype=np.uint8))
    (tmp_path / "two" / "notmnist.npz").rename(tmp_path / "two" / "omniglot.npz")
    files = [str(tmp_path / "one" / "notmnist.npz"), str(tmp_path / "two" / "omniglot.npz")]
    assert list(unknown_sets(["far", *files], digits)) == ["far", "notmnist", "omniglot"]


def test_a_folder_may_have_been_meant(digits, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other_photos").mkdir()
    with pytest.raises(NescioError, match="unknown data 'other_photo'; did you mean 'other_pho"):
        unknown_set("other_photo", digits)
