"""A new score, in one file and one line.

Copy this file to `src/nescio/scores/gini.py`, change it, import the function in
`scores/__init__.py`, and add it to `SPECS` there:

    ScoreSpec.of(gini),

`needs_draws=True` if it compares draws. It is then known to `nescio.scores.SCORES`, `Threshold`,
`evaluate` and the command line, also with parameters, as in `gini(temperature=2.0)`; the contract
tests run on it, and its row in the documentation is generated.
"""

from torch import Tensor

from nescio.core.logits import check_logits, mean_log_probs


def gini(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """Gini impurity `Σ_c p̄_c (1 − p̄_c)` of the mean prediction; 0 if it is certain.

    >>> import torch
    >>> gini(torch.zeros(1, 1, 4))
    tensor([0.7500], dtype=torch.float64)
    """
    log_p, log_q = mean_log_probs(check_logits(logits) / temperature)  # (N, C): log p, log(1 − p)
    return (log_p + log_q).logsumexp(-1).exp()
