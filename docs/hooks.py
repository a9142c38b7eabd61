"""Lets pages of the site link to files of the repository beside `docs/`, as GitHub shows them.

An image becomes a file of the site; a link to anything else leads to the repository.
"""

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(?<=\]\()(\.\.?/[\w./-]+|[\w-]+/)(?=[)#])")
IMAGES = (".svg", ".png")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return a page's text with its links to files outside of `docs/` replaced."""
    page_file = Path(page.file.abs_src_path or "")

    def replaced(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(page_file.parent / link[0]))
        if not target.exists() or (target.is_relative_to(ROOT / "docs") and target.suffix == ".md"):
            return link[0]  # within the site, or for MkDocs to complain about
        path = target.relative_to(ROOT).as_posix()
        if target.is_dir():
            return f"{config.repo_url}/tree/main/{path}"
        if target.suffix not in IMAGES:
            return f"{config.repo_url}/blob/main/{path}"
        if target.is_relative_to(ROOT / "docs"):
            return link[0]
        if files.get_file_from_path(path) is None:
            files.append(File.generated(config, path, abs_src_path=str(target)))
        return os.path.relpath(path, Path(page.file.src_uri).parent)

    return LINK.sub(replaced, markdown)
