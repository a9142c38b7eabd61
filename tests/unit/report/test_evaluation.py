import io

import torch
from rich.console import Console

import nescio
from nescio.data import Samples
from nescio.report.evaluation import evaluation_tables


def test_a_table_names_the_score_it_shows():
    torch.manual_seed(0)
    model, x = nescio.models.mlp(3, 2), torch.randn(40, 3)
    known = Samples(x, torch.arange(40) % 2)
    for scores, named in (
        (None, "max_prob"),
        (["entropy"], "entropy"),
        (["gradient_l2:linear1"], "gradient_l2:linear1"),
    ):
        console = Console(width=100, record=True, file=io.StringIO())
        console.print(
            evaluation_tables(nescio.evaluate(model, known, {"far": 9 * x}, scores=scores))
        )
        assert f"known against unknown, by {named}" in console.export_text()
