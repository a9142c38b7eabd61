"""Says in docstrings what mkdocstrings would not find: examples without a heading, and fields.

Doctests are put under a heading. A constant is described by the comment after it, and a dataclass
lists those of its fields. Names of the reference become links to where they stand.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import griffe

DOCTEST = re.compile(r"^>>> .*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
COMMENT, ABOVE = re.compile(r"  # (.+)$"), re.compile(r"# (.+)$")
FIELDS = "Attributes:\n"
SEVERAL = re.compile(r"^    \w+(?:, \w+)+:", re.MULTILINE)  # a space would end the name
CODE = re.compile(r"(?<![`\[\w])`(\w+)`(?!`)")


def linked_names() -> dict[str, str]:
    """Return names that mean one thing wherever they are used, and where the reference has them."""
    pages = (Path(__file__).parent / "api").glob("*.md")
    places = [
        place
        for page in pages
        for place in re.findall(r"^::: ([\w.]+)$", page.read_text("utf-8"), re.MULTILINE)
    ]
    count = Counter(place.rpartition(".")[2] for place in places)
    return {
        name: place
        for place in places
        for door, _, name in [place.rpartition(".")]
        if count[name] == 1 and (door == "nescio" or "_" in name or name[0].isupper())
    }


class Docstrings(griffe.Extension):
    """Completes the docstrings of what is read."""

    def __init__(self) -> None:
        self.places = linked_names()

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            text = CODE.sub(lambda found: self._link(found, obj), obj.docstring.value)
            text = SEVERAL.sub(lambda found: found[0].replace(", ", ",\xa0"), text)
            obj.docstring.value = DOCTEST.sub(_under_heading, text)

    def _link(self, found: re.Match[str], obj: griffe.Object) -> str:
        place = self.places.get(found[1])
        own = {obj.name, *obj.members, *(one.name for one in getattr(obj, "parameters", ()))}
        return found[0] if place is None or found[1] in own else f"[{found[0]}][{place}]"

    def on_attribute(self, *, attr: griffe.Attribute, **kwargs: Any) -> None:
        if attr.parent and attr.parent.is_module and not attr.docstring and _comment(attr):
            words = _comment(attr)
            attr.docstring = griffe.Docstring(f"{words[0].upper()}{words[1:]}.", parent=attr)

    def on_class(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        if "dataclass" in cls.labels and cls.docstring and FIELDS not in cls.docstring.value:
            listed = [
                f"    {field.name}: {_comment(field)}."
                for field in cls.attributes.values()
                if "instance-attribute" in field.labels and _comment(field)
            ]
            if listed:
                words, example, rest = cls.docstring.value.partition("Examples:\n")
                parts = [words.rstrip(), FIELDS + "\n".join(listed), example + rest]
                cls.docstring.value = "\n\n".join(part for part in parts if part)


def _under_heading(found: re.Match[str]) -> str:
    return "Examples:\n" + "\n".join(f"    {line}".rstrip() for line in found[0].splitlines())


def _comment(attribute: griffe.Attribute) -> str:
    """What is said of it after a `#`, on its first line or, of a constant, on the one above."""
    found = COMMENT.search(attribute.source.split("\n")[0].rstrip())
    if not found and attribute.parent and attribute.parent.is_module and attribute.lineno:
        found = ABOVE.match(attribute.lines_collection[attribute.filepath][attribute.lineno - 2])
    return found[1] if found and "noqa" not in found[1] else ""
