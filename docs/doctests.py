"""Shows doctests as examples: mkdocstrings knows those of a docstring by a heading alone."""

import re
from typing import Any

import griffe

DOCTEST = re.compile(r"^>>> .*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)


class Doctests(griffe.Extension):
    """Puts doctests that stand by themselves under a heading, `Examples:`."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring and not obj.is_alias:
            obj.docstring.value = DOCTEST.sub(_under_heading, obj.docstring.value)


def _under_heading(found: re.Match[str]) -> str:
    return "Examples:\n" + "\n".join(f"    {line}".rstrip() for line in found[0].splitlines())
