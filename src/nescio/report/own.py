"""What a record says by the score its model is paired with."""

from collections.abc import Sequence
from typing import TypeVar

from nescio.records import Rejection, Roc, Separation

ByScore = TypeVar("ByScore", Separation, Rejection, Roc)


def own(found: Sequence[ByScore], score: str) -> ByScore | None:
    """What is said of the score a model is paired with; of the first if it was not judged by that, None if of none."""
    return next((one for one in found if one.score == score), next(iter(found), None))
