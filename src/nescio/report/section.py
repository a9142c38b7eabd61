"""A part of a report, and the records it is made from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from markupsafe import Markup

from nescio.records import Record

R = TypeVar("R", bound=Record)
DRAWN = 6  # records of one kind that have figures of their own; more would make a page that no one reads to its end


@dataclass(frozen=True)
class ReportContext:
    """The records of a report, each with the name it goes by, such as its run's."""

    records: tuple[tuple[str, Record], ...]

    def of(self, kind: type[R]) -> list[tuple[str, R]]:
        """Those of one kind, in the order given."""
        return [(name, record) for name, record in self.records if isinstance(record, kind)]

    def told_apart(self, kind: type[R]) -> list[tuple[str, R]]:
        """Those of one kind, each under a name of its own: where several share one, they are numbered."""
        found = self.of(kind)
        names = [name for name, _ in found]
        return [
            (name if names.count(name) == 1 else f"{name} ({names[:i].count(name) + 1})", record)
            for i, (name, record) in enumerate(found)
        ]


@dataclass(frozen=True)
class Section:
    """A part of the page: what its heading says, where links to it lead, and what stands in it."""

    anchor: str
    title: str
    body: Markup


def paragraphs(words: Sequence[str]) -> Markup:
    """Plain sentences, escaped, a paragraph each."""
    return Markup("").join(Markup("<p>{}</p>").format(word) for word in words)


def left_out(count: int, what: str) -> Markup:
    """A sentence on those that have no figures of their own, if there are any."""
    more = count - DRAWN
    return paragraphs([f"{more} more {what} in the tables only."]) if more > 0 else Markup("")
