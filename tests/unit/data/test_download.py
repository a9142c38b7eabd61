import gzip
import hashlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests

from nescio import data
from nescio.data.catalogue import CATALOGUE, Remote
from nescio.errors import NescioError


class Server(ThreadingHTTPServer):
    """Files from memory; `cut` ends each answer after so many bytes; `ranges` honours Range."""

    files: dict[str, bytes]
    cut: int | None = None
    ranges = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/files"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        name, span = self.path.rsplit("/", 1)[-1], self.headers.get("Range")
        self.server.asked.append((name, span))
        body = self.server.files.get(name)
        if body is None:
            self.send_error(404)
            return
        start = (
            int(span.removeprefix("bytes=").removesuffix("-")) if span and self.server.ranges else 0
        )
        if start and start >= len(body):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        self.wfile.write(body[start:][: self.server.cut])

    def log_message(self, *_: Any) -> None:
        pass


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A small MNIST with checksums of its own, served from this machine."""
    rng, files = np.random.default_rng(0), {}
    for half, count in (("train", 400), ("t10k", 100)):
        files[f"{half}-images-idx3-ubyte.gz"] = gzip.compress(
            idx(rng.integers(0, 256, (count, 28, 28), np.uint8))
        )
        files[f"{half}-labels-idx1-ubyte.gz"] = gzip.compress(
            idx((np.arange(count) % 10).astype(np.uint8))
        )
    remotes = tuple(
        Remote(old.file, old.url, "md5:" + hashlib.md5(files[Path(old.file).name]).hexdigest())
        for old in CATALOGUE["mnist"].remotes
    )
    monkeypatch.setitem(CATALOGUE, "mnist", replace(CATALOGUE["mnist"], remotes=remotes))
    with Server() as made:
        made.files = files
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def held(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_what_is_downloaded_can_be_loaded_and_is_not_fetched_twice(
    tmp_path: Path, server: Server
) -> None:
    seen: list[tuple[str, int, int | None]] = []
    paths = data.download("mnist", tmp_path, server.url, lambda *step: seen.append(step))
    assert [path.name for path in paths] == [name for name, _ in server.asked]
    assert held(tmp_path) == sorted(server.files)
    known = data.load("mnist", root=tmp_path)
    assert known.train is not None
    assert (len(known.train), len(known.test)) == (400, 100)
    last = {name: (done, total) for name, done, total in seen}
    assert last == {name: (len(body), len(body)) for name, body in server.files.items()}
    data.download("mnist", tmp_path, server.url)
    assert len(server.asked) == 4


def test_a_cut_connection_leaves_nothing_usable_and_the_next_call_resumes(
    tmp_path: Path, server: Server
) -> None:
    server.cut = 200_000
    with pytest.raises(
        NescioError, match=r"127\.0\.0\.1:\d+ was cut; the same command resumes"
    ) as error:
        data.download("mnist", tmp_path, server.url)
    assert "IncompleteRead" not in str(error.value)
    first = "train-images-idx3-ubyte.gz"
    assert held(tmp_path) == [f"{first}.part"]
    kept = (tmp_path / "mnist" / f"{first}.part").stat().st_size
    assert 100_000 < kept <= 200_000
    assert not next(one for one in data.status(tmp_path) if one.name == "mnist").present
    with pytest.raises(NescioError, match="nescio data get mnist"):
        data.load("mnist", root=tmp_path)
    server.cut = None
    data.download("mnist", tmp_path, server.url)
    assert server.asked[1] == (first, f"bytes={kept}-")
    assert held(tmp_path) == sorted(server.files)
    assert (tmp_path / "mnist" / first).read_bytes() == server.files[first]


def test_a_server_without_ranges_starts_over(tmp_path: Path, server: Server) -> None:
    server.cut, server.ranges = 200_000, False
    with pytest.raises(NescioError, match="resumes"):
        data.download("mnist", tmp_path, server.url)
    server.cut = None
    (path, *_) = data.download("mnist", tmp_path, server.url)
    assert path.read_bytes() == server.files[path.name]


@pytest.mark.parametrize("rest", [b"of something else", bytes(10**6)], ids=["shorter", "longer"])
def test_a_part_of_another_file_does_not_survive(
    tmp_path: Path, server: Server, rest: bytes
) -> None:
    part = tmp_path / "mnist" / "train-images-idx3-ubyte.gz.part"
    part.parent.mkdir()
    part.write_bytes(rest)
    if len(rest) < 1000:
        with pytest.raises(NescioError, match="not the published file"):
            data.download("mnist", tmp_path, server.url)
        assert held(tmp_path) == []
    data.download("mnist", tmp_path, server.url)
    assert held(tmp_path) == sorted(server.files)


def test_a_wrong_checksum_keeps_nothing(tmp_path: Path, server: Server) -> None:
    server.files["t10k-labels-idx1-ubyte.gz"] += b"!"
    with pytest.raises(NescioError, match="not the published file"):
        data.download("mnist", tmp_path, server.url)
    assert "t10k-labels-idx1-ubyte.gz" not in held(tmp_path)
    assert not any(name.endswith(".part") for name in held(tmp_path))
    with pytest.raises(NescioError, match="found no"):
        data.load("mnist", root=tmp_path)


def test_another_file_of_the_same_name_is_left_alone(tmp_path: Path, server: Server) -> None:
    *_, last = data.download("mnist", tmp_path, server.url)
    last.write_text("mine")
    with pytest.raises(NescioError, match=rf"{last.name}' was not written by nescio.*--force"):
        data.download("mnist", tmp_path, server.url)
    assert (last.read_text(), len(server.asked)) == ("mine", 4)
    data.download("mnist", tmp_path, server.url, force=True)
    assert (last.read_bytes(), len(server.asked)) == (server.files[last.name], 5)


def test_what_the_server_or_the_disk_refuses(tmp_path: Path, server: Server) -> None:
    server.files.clear()
    with pytest.raises(NescioError, match="404"):
        data.download("mnist", tmp_path, server.url)
    (tmp_path / "file").write_text("")
    with pytest.raises(NescioError, match="cannot write"):
        data.download("mnist", tmp_path / "file", server.url)


@pytest.mark.parametrize("base", ["http://127.0.0.1:9", "https://127.0.0.1:9"])
def test_without_a_network_there_is_one_sentence_and_no_folder(tmp_path: Path, base: str) -> None:
    with pytest.raises(NescioError) as error:
        data.download("mnist", tmp_path / "a" / "b", base)
    assert f"{base.split('/')[2]} cannot be reached; once it can, the same command resumes" in str(
        error.value
    )
    assert len(str(error.value)) < 200
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("base", ["nowhere", "gopher://x", "http://", "http://[x"])
def test_an_address_that_is_none(tmp_path: Path, base: str) -> None:
    with pytest.raises(NescioError, match="train-images") as error:
        data.download("mnist", tmp_path, base)
    assert "resumes" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_refused_certificate_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise requests.exceptions.SSLError("HTTPSConnectionPool(host=…): pages of it")

    monkeypatch.setattr(requests, "get", refuse)
    with pytest.raises(
        NescioError, match=r"x\.org cannot be reached \(its certificate was refused\)"
    ) as error:
        data.download("mnist", tmp_path, "https://x.org")
    assert "pages" not in str(error.value)


def test_an_empty_folder_that_was_there_stays(tmp_path: Path) -> None:
    with pytest.raises(NescioError, match="cannot be reached"):
        data.download("mnist", tmp_path, "http://127.0.0.1:9")
    assert tmp_path.is_dir()


@pytest.mark.parametrize(
    ("name", "said"),
    [("svhn", "NESCIO_DATA"), ("digits", "embedded"), ("mnst", "did you mean 'mnist'")],
)
def test_sets_without_an_address_say_so(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(NescioError, match=said):
        data.download(name, tmp_path)


def test_every_address_is_encrypted_and_has_a_checksum() -> None:
    remotes = [remote for entry in CATALOGUE.values() for remote in entry.remotes]
    assert len(remotes) == 12 + 1 + 2 + 1
    for remote in remotes:
        assert remote.url.startswith("https://")
        assert remote.url.rsplit("/", 1)[-1] == Path(remote.file).name
        assert len(bytes.fromhex(remote.checksum.removeprefix("md5:"))) == 16
    assert len({remote.checksum for remote in remotes}) == len(remotes)


def test_a_set_that_can_be_downloaded_is_found_where_it_is_put() -> None:
    for name, entry in CATALOGUE.items():
        fetched = {remote.file.removesuffix(".gz") for remote in entry.remotes}
        forms = [{file.removesuffix(".gz") for file in files} for files in entry.sources.values()]
        assert not fetched or fetched in forms, name
