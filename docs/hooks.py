"""Lets pages of the site link to files of the repository beside `docs/`, as GitHub shows them.

An image becomes a file of the site; a link to anything else leads to the repository. Names such as
`nescio.train(…)` lead to the API reference.
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
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"(?<![`\[\w])`(nescio\.[\w.]+)(?:\([^`]*\))?`(?!`)")
SHOWN = {
    name
    for page in (ROOT / "docs" / "api").glob("*.md")
    for name in re.findall(r"^::: ([\w.]+)$", page.read_text("utf-8"), re.MULTILINE)
}


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

    parts = FENCE.split(markdown)  # text, block, text, …
    parts[::2] = [NAME.sub(_to_reference, LINK.sub(replaced, text)) for text in parts[::2]]
    return "".join(parts)


def _to_reference(found: re.Match[str]) -> str:
    return f"[{found[0]}][{found[1]}]" if found[1] in SHOWN else found[0]
