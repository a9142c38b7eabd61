"""Pages in Markdown as files."""

import os

from nescio.files import MARKDOWN, atomic_write


def save_markdown(text: str, path: str | os.PathLike[str]) -> None:
    """Write a page; its first line, which readers do not show, says whose it is, so that it may be replaced."""
    with atomic_write(path, "w") as file:
        file.write(f"{MARKDOWN}\n{text}")
