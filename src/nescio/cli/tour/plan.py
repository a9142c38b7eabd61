"""What the tour trains, on what, and how large; settings that do well from every seed within two minutes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nescio.store.run import Source

ACCEPT = 0.95  # the share of known inputs that thresholds are to accept
NETWORK = "mlp"

# what each method does, in the words that stand beside it while it trains
METHODS = {
    "softmax": "one network, trained as everyone does",
    "ensemble": "five networks; doubt is where they disagree",
    "mc_dropout": "one network, thinned by chance, asked 50 times",
    "acet": "also shown the noise it is surest of, to doubt it",
    "duq": "asks how near an input is to any class it knows",
}


@dataclass(frozen=True)
class Problem:
    """Embedded data, the unknown sets to judge by, and the settings that suit each method there."""

    name: str
    epochs: int
    unknown: tuple[str, ...]
    unseen: tuple[str, ...] = ()
    own: Mapping[str, Mapping[str, Any]] = field(
        default_factory=dict
    )  # of methods, where not the usual ones

    def source(self, seed: int) -> Source:
        """The data, as a run folder names them."""
        return Source(self.name, self.unseen, seed)


DIGITS = Problem(
    "digits",
    30,
    ("unseen", "noise", "adversarial_noise", "far"),
    ("7", "8", "9"),
    {"acet": {"steps": 5}, "duq": {"momentum": 0.99}},
)
MOONS = Problem(
    "two_moons",
    30,
    ("noise", "adversarial_noise", "far"),
    # of DUQ's paper, appendix A.1; in the plane a few steps of ACET's search reach the edge of its ball
    own={
        "acet": {"eps": 0.5, "steps": 3},
        "duq": {
            "length_scale": 0.3,
            "gradient_penalty": 1.0,
            "momentum": 0.99,
            "centroid_size": 10,
            "weight_spread": 1.0,
        },
    },
)


@dataclass(frozen=True)
class Size:
    """How much work the tour does; `SMALL` is for tests, and says nothing true of any method."""

    epochs: float = 1.0  # times those of the problem
    trials: int = 200  # directions that are audited
    limit: int | None = None  # breakpoints that are followed along one; None for what is usual
    rows: int = 50  # points in the plane that are moved feature by feature
    attacked: int = 100  # inputs that adversarial noise is made from
    images: int = 8  # in the gallery of attacks
    resolution: int = 81  # of maps


SMALL = Size(epochs=0.1, trials=10, limit=0, rows=4, attacked=4, images=2, resolution=15)
