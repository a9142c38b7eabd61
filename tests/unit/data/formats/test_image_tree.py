import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from nescio.data import Stream
from nescio.errors import NescioError


def paint(path: Path, value: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((4, 4), value, np.uint8)).save(path)


def names_in(stream: Stream) -> list[str]:
    return [name for names, _, _ in stream for name in names]


def test_every_image_of_a_tree_has_its_row_in_the_order_of_counting(tmp_path: Path) -> None:
    wanted = ["a2.png", "a10.JPG", "k2/b.jpeg", "k10/1.png", "test/deep/er/x.png", "train/y.png"]
    for value, name in enumerate(wanted):
        paint(tmp_path / name, 40 * value)
    (tmp_path / "notes.txt").write_text("no image")
    stream = Stream(tmp_path, (1, 4, 4), None, 4)
    batches = list(stream)
    assert [name for names, _, _ in batches for name in names] == wanted
    assert [(len(names), count) for names, count, _ in batches] == [(4, 6), (2, 6)]
    grey = torch.cat([x for *_, x in batches]).flatten(1).mean(1) * 255
    assert torch.allclose(grey, 40 * torch.arange(6.0), atol=2)
    assert stream.skipped == []


def test_a_folder_of_train_and_test_is_scored_whole(tmp_path: Path) -> None:
    for name in ("train/a.png", "test/b.png"):
        paint(tmp_path / name)
    assert names_in(Stream(tmp_path, (1, 4, 4), None, 9)) == ["test/b.png", "train/a.png"]


def test_what_is_hidden_is_passed_over_and_other_kinds_are_told(tmp_path: Path) -> None:
    for name in ("a.png", ".cache/b.png", "c/._a.png", "c/d.tif", "e.webp"):
        paint(tmp_path / "x.png")
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / "x.png").rename(tmp_path / name)
    stream = Stream(tmp_path, (1, 4, 4), None, 9)
    for _ in range(2):
        assert names_in(stream) == ["a.png"]
        assert stream.skipped == [str(tmp_path / "e.webp"), str(tmp_path / "c" / "d.tif")]


def test_folders_without_images_are_passed_over_but_not_a_tree_without_any(tmp_path: Path) -> None:
    (tmp_path / "empty" / "inside").mkdir(parents=True)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_bytes(b"")
    stream = Stream(tmp_path, (1, 4, 4), None, 9)
    with pytest.raises(NescioError, match=r"holds no PNG or JPEG image$"):
        list(stream)
    (tmp_path / "empty" / "scan.tiff").write_bytes(b"II")
    with pytest.raises(NescioError, match=r"but 1 of other kinds, such as scan\.tiff"):
        list(stream)
    paint(tmp_path / "last" / "a.png")
    assert names_in(stream) == ["last/a.png"]


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    paint(tmp_path / "outside" / "a.png")
    (tmp_path / "tree" / "deep").mkdir(parents=True)
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "tree" / "deep" / "back").symlink_to(tmp_path / "tree")
    assert names_in(Stream(tmp_path / "tree", (1, 4, 4), None, 9)) == ["link/a.png"]


def test_a_pipe_and_a_link_to_nothing_are_images_that_cannot_be_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.png")
    (tmp_path / "b.png").symlink_to(tmp_path / "nothing")
    stream = Stream(tmp_path, (1, 4, 4), None, 9, allow_missing=True)
    assert names_in(stream) == ["a.png", "b.png"]
    assert [said.partition(": ")[2] for said in stream.unread] == ["is not a file", "no such file"]


@pytest.mark.skipif(sys.platform != "linux", reason="others have no such names")
def test_a_name_that_is_no_text_is_written_as_far_as_it_is(tmp_path):
    Image.new("L", (4, 4)).save(tmp_path / "whole.png")
    os.rename(tmp_path / "whole.png", os.fsencode(tmp_path) + b"/half\xff.png")
    [(names, count, _)] = Stream(tmp_path, (1, 4, 4), None, 8)
    assert names == ["half\N{REPLACEMENT CHARACTER}.png"]
    assert count == 1
