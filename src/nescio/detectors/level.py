"""Where to draw the line: a threshold from the scores of held-out data."""

from torch import Tensor

from nescio.data.labelled import check_labels, whole
from nescio.errors import NescioError
from nescio.logits import classes
from nescio.metrics import balanced_threshold
from nescio.metrics.ranking import accepted_count

ACCEPT = 0.95


def share_to_accept(accept: float | None, balanced: bool) -> float | None:
    """The share of known inputs to accept, or None if the threshold is to be balanced instead."""
    if balanced:
        if accept is not None:
            raise NescioError(f"accept={accept} and balanced=True are two ways to settle one threshold; give one")
        return None
    share = ACCEPT if accept is None else accept
    if not isinstance(share, float | int) or not 0 < share <= 1:
        raise NescioError(f"accept is the share of known inputs to accept, in (0, 1], not {share}")
    return share


def accepting(share: float, scores: Tensor) -> float:
    """The smallest of these scores `(N,)` at which this share of them is accepted."""
    return float(scores.sort().values[accepted_count(len(scores), share) - 1])


def balancing(scores: Tensor, right: Tensor) -> float:
    """The threshold that tells right answers from wrong ones best, both counting half."""
    count = int(right.sum())
    if count in (0, len(right)):
        raise NescioError(f"balanced=True needs right and wrong answers to tell apart, but {count} of {len(right)} are "
                          "right; give other data, or a share to accept")  # fmt: skip
    return balanced_threshold(scores[right].cpu().numpy(), scores[~right].cpu().numpy())


def right_answers(logits: Tensor, labels: Tensor | None) -> Tensor:
    """Which inputs `(B,)` got the class of their label, which must be one of those the model knows."""
    if labels is None:
        raise NescioError("this needs labelled data, to tell right answers from wrong ones: a dataset of "
                          "(input, label), or a loader of such batches")  # fmt: skip
    labels = whole(labels).to(logits.device)
    check_labels(labels, logits.shape[2])
    return classes(logits) == labels
