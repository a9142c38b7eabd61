"""Pages in Markdown as files."""

import os

from nescio.file_kinds import MARKDOWN
from nescio.files import replacing


def save_markdown(text: str, path: str | os.PathLike[str]) -> None:
    """Write a page; its first line, which readers do not show, says whose it is, so that it may be replaced."""
    with replacing(path, "w") as file:
        file.write(f"{MARKDOWN}\n{text}")
