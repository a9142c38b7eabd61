"""What nescio wrote, known by what stands in it and not by its name, so that nothing else is replaced unasked."""

import os
import re
from pathlib import Path

ENDS = 4096  # bytes, at the beginning and at the end of a file, that marks stand in
MADE_BY = "nescio"  # what figures say they were made by
MARKDOWN = "<!-- made by nescio -->"  # the first line of a page; readers do not show it
ARCHIVE = b"made by nescio"  # the comment of an npz file
REPORT, FIGURE, PAGE, ANSWERS, STAGES = (
    "report",
    "figure",
    "page in Markdown",
    "table of answers",
    "list of stages",
)

# names that files of ours begin with, as `nescio.records` and `nescio.scores` have them
RECORDS = (
    b"Audit",
    b"Contest",
    b"Decision",
    b"Evaluation",
    b"Examples",
    b"FeatureAudit",
    b"Fitted",
    b"Gallery",
    b"History",
    b"Map",
    b"MetaWeights",
    b"Monotonicity",
    b"Radius",
    b"Recommendation",
    b"Regions",
    b"Reproduction",
    b"Scaling",
    b"Selection",
    b"Separations",
    b"Temperature",
    b"Timings",
)
SCORES = (
    b"max_prob",
    b"margin",
    b"entropy",
    b"normalised_entropy",
    b"max_logit",
    b"energy",
    b"expected_entropy",
    b"variance",
    b"mutual_information",
    rb"gradient_\w+",
)

# what a file of each kind begins with and, of some, ends with; a group within is the kind itself
_MARKS = {
    "{} record": rb'\A\{\s*"record"\s*:\s*"('
    + b"|".join(RECORDS)
    + rb')"\s*,\s*"format"\s*:\s*\d+\s*[,}]',
    "{} file": rb'\A.{8}\{"__metadata__":\{"nescio":"\{\\"kind\\": \\"(\w+)\\"',
    REPORT: rb'\A<!doctype html>.*<meta name="generator" content="nescio ',
    FIGURE: rb"\A(?:<\?xml.*<dc:creator>\s*<cc:Agent>\s*<dc:title>nescio</dc:title>"
    rb"|\x89PNG\r\n.*tEXtSoftware\0nescio|%PDF-.*/Creator \(nescio\))",
    PAGE: rb"\A<!-- made by nescio -->",
    ANSWERS: rb"\Ainput,class,(?:model_class,confidence,p_value,score|confidence(?:,\"?(?:"
    + b"|".join(SCORES)
    + rb")(?::[^,\r\n]+)?)+)(?:,unseen)?\r?\n",
    STAGES: rb'\A\{\s*"[^"]+": \{\s*"scale": "\w+",\s*"dry": ',
    "set of inputs": rb"\APK.*made by nescio\Z",
    "note on a demo": rb"\AWritten by `nescio demo`",
}


def kind_of(path: str | os.PathLike[str]) -> str | None:
    """What kind of file of ours this is, such as "Evaluation record" or "report"; None of one that others wrote."""
    with Path(path).open("rb") as file:
        found = file.read(ENDS)
        rest = file.seek(0, os.SEEK_END) - len(found)
        file.seek(-min(rest, ENDS), os.SEEK_END)
        found += file.read()
    for kind, mark in _MARKS.items():
        if match := re.search(mark, found, re.DOTALL):
            return kind.format(*(group.decode() for group in match.groups()))
    return None
