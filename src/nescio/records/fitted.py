"""What a detector folder says of itself."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nescio.metrics.percent import percent
from nescio.records.checks import check_counts, check_shares
from nescio.records.record import Provenance, Record, as_json

UNCOVERED = "Unknown inputs: not guaranteed"  # beside every promise


@dataclass(frozen=True)
class Fitted(Record):
    """How a detector was fitted, and what must be known to score new inputs with it."""

    detector: str  # as in DETECTORS
    settings: dict[str, Any]  # of the detector
    factory: (
        str | None
    )  # what made the user's network, `package.module:factory`; None of a network of ours
    network: str  # where the network is: "graph" or "weights", each a file of the folder, or "detector": with that
    why: str | None  # there is no graph of the user's network
    shape: tuple[int, ...]  # of one input
    kind: (
        str | None
    )  # how the user's network was given them: "images", in [0, 1], or "inputs", as they were
    classes: tuple[str, ...]
    encoding: dict[str, Any] | None  # of a table's columns
    data: str  # what the threshold was settled on
    inputs: int  # in it that the threshold was settled by
    taught: str | None  # what else was learned from, if anything
    promise: str  # in words
    thresholds: tuple[float, ...]  # one, or one for each class
    provenance: Provenance
    files: dict[str, str] = dataclasses.field(
        default_factory=dict
    )  # the folder's others, each with its SHA-256
    digest: str = ""  # of all the above, and of what follows
    dtype: str = (
        "float32"  # of inputs: "int64" of words; floats come in the precision of the network
    )
    refused: dict[str, float] | None = (
        None  # share of each kind of made outliers, where they were tried
    )
    run: dict[str, Any] | None = (
        None  # of a network of ours, the data it was trained on: `runs.Facts`, as plain data
    )

    def __post_init__(self) -> None:
        check_counts(self, "shape", "inputs")
        check_shares(self, "refused")

    @property
    def uncovered(self) -> str:
        """What the promise does not cover, and what is known of it all the same, in words."""
        if not self.refused:
            return UNCOVERED
        shares = ", ".join(f"{name} {percent(value)}" for name, value in self.refused.items())
        return f"{UNCOVERED}; measured on outliers made from known inputs, of which it refuses: {shares}"

    def sealed(self, files: Mapping[str, str]) -> "Fitted":
        """The same with digests: of the folder's other files, and of what it says itself."""
        named = dataclasses.replace(self, files=dict(files))
        return dataclasses.replace(named, digest=named.own_digest())

    def own_digest(self) -> str:
        """Of all it says: tells damage and careless changes, though not those of someone who writes a new digest."""
        body = json.loads(dataclasses.replace(self, digest="").to_json())
        # folders from before these were kept have digests without them
        if body["provenance"]["command"] is None:
            del body["provenance"]["command"]
        if self.dtype == "float32":
            del body["dtype"]
        for name in ("refused", "run"):
            if body[name] is None:
                del body[name]
        return hashlib.sha256(as_json(body).encode()).hexdigest()
