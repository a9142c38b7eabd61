"""The oracle of gradient statistics: autograd for one input at a time in float64, numpy and scipy
on its entries.
"""

import numpy as np
import torch
import torch.nn.functional as F
from scipy.stats import kurtosis, skew
from torch import nn

from nescio.core.weight_gradients import STATISTICS
from nescio.core.weight_gradients.layers import layers_of
from nescio.scores import gradient_features

CLOSE = 1e-9  # relative


def ready(model, seed):
    """In float64 and eval mode, with statistics and weights of BatchNorm that are not 0 and 1, so
    that they show.
    """
    draw = torch.Generator().manual_seed(seed)
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_(generator=draw)
            module.running_var.uniform_(0.5, 2.0, generator=draw)
            for weight in module.parameters():
                nn.init.normal_(weight, 1, 0.3, generator=draw)
    return model.double().eval()


def used_layers(model, x):
    """The weights of each layer on which the logits of a batch depend."""
    layers = layers_of(model)
    weights = [weight for own in layers.values() for weight in own.values()]
    found = torch.autograd.grad(model(x).sum(), weights, allow_unused=True)
    used = {weight for weight, part in zip(weights, found, strict=True) if part is not None}
    kept = {
        name: [weight for weight in own.values() if weight in used] for name, own in layers.items()
    }
    return {name: own for name, own in kept.items() if own}


def entries(model, one, layers, pull=None):
    """The gradient of one input `(1, …)`, all its entries, for each layer and all; of the
    cross-entropy at the class it is given, or else of `⟨pull, logits⟩`.
    """
    torch.manual_seed(0)  # as a pass with seed=0 begins, for models that draw
    logits = model(one)
    logits = logits[0] if logits.dim() == 3 else logits
    loss = F.cross_entropy(logits, logits.argmax(1)) if pull is None else logits[0] @ pull
    rows = {}
    for name, own in layers.items():
        parts = torch.autograd.grad(loss, own, retain_graph=True, materialize_grads=True)
        rows[name] = torch.cat([part.flatten() for part in parts]).detach().numpy()
    return {**rows, "all": np.concatenate(list(rows.values()))}


def statistics_of(row):
    """The eight statistics of a row of entries, by name; where all are equal, skewness is 0 and
    kurtosis 1.
    """
    spread = np.ptp(row) > 8 * np.finfo(row.dtype).eps * np.abs(row).max()
    shape = [row.std(), skew(row), kurtosis(row, fisher=False)] if spread else [0.0, 0.0, 1.0]
    sizes = [np.abs(row).sum(), np.linalg.norm(row), row.min(), row.max(), row.mean()]
    return dict(zip(STATISTICS, [*sizes, *shape], strict=True))


def assert_close(found, wanted, row, what=""):
    """Statistics of a row agree, relative to themselves; but some may be what is left when large
    parts cancel.

    A mean may be nothing but rounding: it is compared on the scale of the spread, and skewness,
    likewise, on that of 1. An extreme is an entry, in a convolution itself a sum, whose rounding is
    on the scale of the largest.
    """
    scales = {
        "mean": row.std(),
        "skewness": 1.0,
        "min": 1e-6 * np.abs(row).max(),
        "max": 1e-6 * np.abs(row).max(),
    }
    for name, value in found.items():
        error = abs(value - wanted[name])
        assert error <= CLOSE * max(abs(wanted[name]), scales.get(name, 0.0)), (
            what,
            name,
            value,
            wanted[name],
        )


def assert_exact(model, x, **how):
    """Every statistic that `gradient_features` gives is the oracle's, and it gives all but the last
    layer's mean.
    """
    values, names = gradient_features(model, x, **how)
    layers = used_layers(model, x)
    for number, one in enumerate(x.split(1)):
        rows = entries(model, one, layers)
        columns = {f"{layer}/{statistic}" for layer in rows for statistic in STATISTICS}
        left_out = columns.symmetric_difference(names) - {"entropy", "max_prob"}
        assert len(left_out) <= 1, left_out
        assert all(name.endswith("/mean") for name in left_out), left_out
        for layer, row in rows.items():
            own = {
                s: values[number, names.index(f"{layer}/{s}")].item()
                for s in STATISTICS
                if f"{layer}/{s}" in names
            }
            assert_close(own, statistics_of(row), row, (number, layer))
