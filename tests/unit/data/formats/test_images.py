"""PNG and JPEG files in folders and trees of folders."""

import os
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from nescio import data
from nescio.data import Stream
from nescio.errors import NescioError

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 5, 7, 3), dtype=np.uint8)


def paint(path: Path, pixels: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def test_one_folder_for_each_class(tmp_path: Path) -> None:
    for i, pixels in enumerate(PIXELS):
        paint(tmp_path / "ab"[i % 2] / f"{i}.png", pixels)
    samples = data.read(tmp_path)
    assert samples.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert np.array_equal(samples._stored.numpy(), PIXELS[[0, 2, 4, 1, 3, 5]].transpose(0, 3, 1, 2))
    known = data.load(tmp_path)
    assert known.train is not None
    assert (known.classes, known.shape, len(known.train), len(known.test)) == (
        ("a", "b"),
        (3, 5, 7),
        4,
        2,
    )
    assert data.read(tmp_path, classes=["b"]).labels.tolist() == [-1, -1, -1, 0, 0, 0]


def test_train_and_test_folders(tmp_path: Path) -> None:
    for half, chosen in (("train", PIXELS[:4]), ("test", PIXELS[4:])):
        for i, pixels in enumerate(chosen):
            paint(tmp_path / half / "ab"[i % 2] / f"{i}.png", pixels[..., 0])
    known = data.load(tmp_path)
    assert known.train is not None
    assert (len(known.train), len(known.test), known.shape) == (4, 2, (1, 5, 7))
    assert np.array_equal(known.test._stored[:, 0].numpy(), PIXELS[4:, ..., 0])


def test_a_flat_folder_has_no_labels_and_jpegs_and_greys_become_colours(tmp_path: Path) -> None:
    paint(tmp_path / "a.jpg", np.full((8, 8, 3), (200, 100, 50), np.uint8))
    paint(tmp_path / "b.PNG", np.full((8, 8), 77, np.uint8))
    paint(tmp_path / "c.png", np.full((8, 8, 4), (1, 2, 3, 9), np.uint8))
    (tmp_path / "notes.txt").write_text("not an image")
    samples = data.read(tmp_path)
    assert samples.labels.tolist() == [-1, -1, -1]
    assert (
        samples._stored[0].float().mean((1, 2)) - torch.tensor([200.0, 100, 50])
    ).abs().max() < 3
    assert samples._stored[1].unique().tolist() == [77]
    assert samples._stored[2, :, 0, 0].tolist() == [1, 2, 3]


def test_greys_of_16_bits_keep_them_all(tmp_path: Path) -> None:
    fine = np.arange(16, dtype=np.uint16).reshape(4, 4) * 4369
    paint(tmp_path / "fine" / "a.png", fine)
    read = data.read(tmp_path / "fine")
    assert read._stored.dtype == torch.float32
    assert read._stored.flatten().tolist() == [torch.tensor(i / 15).item() for i in range(16)]
    ((_, _, x),) = data.Stream(tmp_path / "fine", (1, 4, 4), None, 9)
    assert torch.equal(x, read._stored)
    paint(tmp_path / "both" / "a.png", fine)
    paint(tmp_path / "both" / "b.png", np.full((4, 4, 3), (0, 51, 255), np.uint8))
    both = data.read(tmp_path / "both")._stored
    assert torch.equal(both[0], read._stored[0].expand(3, 4, 4))
    assert both[1, :, 0, 0].tolist() == pytest.approx([0, 0.2, 1])


def test_images_of_two_sizes_are_refused(tmp_path: Path) -> None:
    paint(tmp_path / "a.png", PIXELS[0])
    paint(tmp_path / "b.png", PIXELS[0, :4])
    with pytest.raises(NescioError, match=r"b\.png: is 7×4; expected 7×5 .*resize them"):
        data.read(tmp_path)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NescioError, match="no PNG or JPEG"):
        data.read(tmp_path)
    (tmp_path / "a").mkdir()
    with pytest.raises(NescioError, match="no PNG or JPEG"):
        data.load(tmp_path)


@pytest.mark.parametrize("stray", ["stray.png", "train/stray.jpg", "train/a/deeper/stray.png"])
def test_labelled_images_outside_the_folders_of_classes_are_not_lost_in_silence(
    tmp_path: Path, stray: str
) -> None:
    for half in ("train", "test"):
        for name in "ab":
            paint(tmp_path / half / name / "1.png", PIXELS[0])
    Image.fromarray(PIXELS[0]).save(tmp_path / "train" / "a" / "._1.png")
    assert len(data.load(tmp_path).test) == 2
    paint(tmp_path / stray, PIXELS[0])
    with pytest.raises(
        NescioError, match=r"stray.*lies in no folder of a class, which here are train/a, train/b, "
    ):
        data.load(tmp_path)


def test_images_beside_the_folders_of_classes_are_not_lost_in_silence(tmp_path: Path) -> None:
    for name in ("a/1.png", "b/1.png", "1.png"):
        paint(tmp_path / name, PIXELS[0])
    with pytest.raises(
        NescioError, match=r"1\.png: lies in no folder of a class, which here are a, b;"
    ):
        data.read(tmp_path)


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


@pytest.mark.parametrize("side", [12_000, 60_000])
def test_an_image_bomb_is_refused_before_it_is_decoded(tmp_path: Path, side: int) -> None:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    (tmp_path / "bomb.png").write_bytes(b"\x89PNG\r\n\x1a\n" + head + body)
    with pytest.raises(NescioError, match=r"bomb\.png.*refused"):
        data.read(tmp_path)


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(["png", "jpg"]), st.data())
def test_damaged_images_give_one_kind_of_error(
    tmp_path: Path, suffix: str, draw: st.DataObject
) -> None:
    folder = tmp_path / suffix
    paint(folder / f"a.{suffix}", PIXELS[0])
    raw = bytearray((folder / f"a.{suffix}").read_bytes())
    for _ in range(draw.draw(st.integers(0, 5))):
        raw[draw.draw(st.integers(0, len(raw) - 1))] = draw.draw(st.integers(0, 255))
    (folder / f"a.{suffix}").write_bytes(raw[: draw.draw(st.integers(0, len(raw)))])
    said = f"a.{suffix}"
    try:
        data.read(folder)
    except NescioError as error:
        said = str(error)
    assert f"a.{suffix}" in said


def test_a_palette_with_transparency_is_read_without_a_warning(tmp_path: Path) -> None:
    image = Image.fromarray(PIXELS[0]).convert("RGB").quantize(4)
    image.save(tmp_path / "a.png", transparency=bytes([0, 100, 255, 255]))
    assert data.read(tmp_path).shape[0] == 3


def paint_square(path: Path, value: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((4, 4), value, np.uint8)).save(path)


def names_in(stream: Stream) -> list[str]:
    return [name for names, _, _ in stream for name in names]


def test_every_image_of_a_tree_has_its_row_in_the_order_of_counting(tmp_path: Path) -> None:
    wanted = ["a2.png", "a10.JPG", "k2/b.jpeg", "k10/1.png", "test/deep/er/x.png", "train/y.png"]
    for value, name in enumerate(wanted):
        paint_square(tmp_path / name, 40 * value)
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
        paint_square(tmp_path / name)
    assert names_in(Stream(tmp_path, (1, 4, 4), None, 9)) == ["test/b.png", "train/a.png"]


def test_what_is_hidden_is_passed_over_and_other_kinds_are_reported(tmp_path: Path) -> None:
    for name in ("a.png", ".cache/b.png", "c/._a.png", "c/d.tif", "e.webp"):
        paint_square(tmp_path / "x.png")
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
    paint_square(tmp_path / "last" / "a.png")
    assert names_in(stream) == ["last/a.png"]


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    paint_square(tmp_path / "outside" / "a.png")
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
