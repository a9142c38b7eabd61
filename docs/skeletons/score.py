"""A new score, in one file and one line.

Copy this file to `src/nescio/scores/gini.py`, change it, and import its function in
`scores/__init__.py`:

    from nescio.scores.gini import gini as gini

It is then known to `nescio.scores.SCORES`, `Threshold`, `evaluate` and the command line, also with
parameters, as in `gini(temperature=2.0)`; the contract tests run on it, and `make tables` writes it
into the documentation.
"""

from torch import Tensor

from nescio.core.logits import check_logits, mean_log_probs
from nescio.scores.spec import declare


@declare()  # or, if it compares draws, @declare(needs_draws=True)
def gini(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """Gini impurity `Σ_c p̄_c (1 − p̄_c)` of the mean prediction; 0 if it is certain.

    >>> import torch
    >>> gini(torch.zeros(1, 1, 4))
    tensor([0.7500], dtype=torch.float64)
    """
    log_p, log_q = mean_log_probs(check_logits(logits) / temperature)  # (N, C): log p, log(1 − p)
    return (log_p + log_q).logsumexp(-1).exp()
