"""Files fetched from an address: verified, resumed if interrupted, never half there."""

import logging
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pooch
import requests

from nescio.data.catalogue import Progress, Remote
from nescio.errors import NescioError
from nescio.files import check_replaceable

TIMEOUT_SECONDS = 30  # of silence, not of work


def fetch(
    remotes: Sequence[Remote],
    folder: Path,
    base_url: str | None = None,
    progress: Progress | None = None,
    force: bool = False,
) -> tuple[Path, ...]:
    """Fetch files into a folder, as `download` describes, and return their paths."""
    for remote in remotes:
        target = folder / remote.file
        if target.is_file() and not pooch.hashes.hash_matches(str(target), remote.checksum):
            # an interrupted download leaves a `.part`, so this is somebody else's file
            check_replaceable(target, force=force)
    return tuple(_fetched(remote, folder, base_url, progress) for remote in remotes)


def _fetched(remote: Remote, folder: Path, base_url: str | None, progress: Progress | None) -> Path:
    target = folder / remote.file
    url = remote.url if base_url is None else f"{base_url.rstrip('/')}/{target.name}"
    logger, level = pooch.get_logger(), pooch.get_logger().level
    logger.setLevel(logging.ERROR)  # it would announce each file beside our own progress
    new_folders = [folder for folder in target.parents if not os.path.exists(folder)]
    fetch = _Resuming(target.with_name(f"{target.name}.part"), progress)
    try:
        where = target.name, target.parent
        return Path(pooch.retrieve(url, remote.checksum, *where, downloader=fetch))
    except requests.RequestException as error:
        raise NescioError(_trouble(url, error)) from error
    except OSError as error:
        raise NescioError(f"cannot write {target} ({error.strerror or error})") from error
    except NescioError:
        raise
    except ValueError as error:  # what pooch raises for a wrong checksum
        raise NescioError(f"{url}: not the published file; nothing was kept ({error})") from error
    finally:
        logger.setLevel(level)
        with suppress(OSError):  # a folder made for a file that came is not empty, and stays
            for folder in new_folders:
                folder.rmdir()


def _trouble(url: str, error: requests.RequestException) -> str:
    """Say what went wrong; a connection error's own message is pages long."""
    if isinstance(error, requests.HTTPError | ValueError | requests.TooManyRedirects):
        return f"{url}: {error}"
    host, resumes = urlsplit(url).netloc, "the same command resumes where this one stopped"
    if isinstance(error, _Cut):
        return f"{url}: the connection to {host} was cut; {resumes}"
    refused = isinstance(error, requests.exceptions.SSLError)
    why = " (its certificate was refused)" if refused else ""
    return f"{url}: {host} cannot be reached{why}; once it can, {resumes}"


class _Cut(requests.ConnectionError):
    """The connection was there, and broke off."""


class _Resuming:
    """A downloader for pooch with a `.part` file that outlives a broken connection."""

    def __init__(self, part: Path, progress: Progress | None) -> None:
        self.part, self.progress = part, progress

    def __call__(self, url: str, output_file: str, _: object) -> None:
        have = self.part.stat().st_size if self.part.exists() else 0
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT_SECONDS) as answer:
            if have and answer.status_code == requests.codes.requested_range_not_satisfiable:
                self.part.unlink()  # longer than the file: a part of something else
                return self(url, output_file, _)
            answer.raise_for_status()
            resumed = answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")
            partial = answer.status_code == requests.codes.partial_content
            self._save(answer, have if partial and resumed else 0)
        shutil.move(self.part, output_file)
        return None

    def _save(self, answer: requests.Response, done: int) -> None:
        rest = answer.headers.get("Content-Length")
        total = None if rest is None else done + int(rest)
        with self.part.open("r+b" if done else "wb") as file:
            file.seek(done)
            try:
                for chunk in answer.iter_content(2**16):
                    file.write(chunk)
                    done += len(chunk)
                    if self.progress is not None:
                        self.progress(self.part.name.removesuffix(".part"), done, total)
            except requests.RequestException as error:
                raise _Cut(str(error)) from error
        if total is not None and done != total:
            raise _Cut(f"{done} of {total} bytes came")
