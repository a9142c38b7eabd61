"""Token ids as inputs, some of which a model does not have."""

import csv
import sys

import numpy as np
import pytest
import torch
from torch import nn

import nescio
from nescio.core.forward import UnknownTokenError, embedding_sizes
from nescio.errors import NescioError
from nescio.store.graph import Graph, exported


class Words(nn.Module):
    def __init__(self, bag=False):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.head = (nn.EmbeddingBag if bag else nn.Embedding)(50, 8), nn.Linear(8, 4)
        self.bag = bag

    def forward(self, x):
        return self.head(self.embed(x) if self.bag else self.embed(x).mean(1))


class Columns(nn.Module):
    """An embedding for each column, with words of its own."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.one, self.other = nn.Embedding(5, 4), nn.Embedding(100, 4)

    def forward(self, x):
        return self.one(x[:, 0]) + self.other(x[:, 1])


def words(count=200, width=7, below=50):
    return torch.randint(0, below, (count, width), generator=torch.Generator().manual_seed(1))


def graph():
    return Graph(*exported(Words(), words(4)))


NETS = {
    "embedding": Words,
    "bag": lambda: Words(bag=True),
    "script": lambda: torch.jit.script(Words()),
    "trace": lambda: torch.jit.trace(Words(), words(3)),
    "graph": graph,
}


@pytest.mark.filterwarnings("ignore:.torch.jit")
@pytest.mark.parametrize("name", NETS)
def test_an_input_with_an_unknown_word_is_unknown_and_the_others_are_answered(name):
    net = NETS[name]()
    assert embedding_sizes(net) == [50]
    detector = nescio.Threshold(net).fit(words())
    x = words(20)
    whole = x.clone()
    x[3, 2], x[11, 0], x[12] = 50, -1, 10**9
    bad = torch.tensor([3, 11, 12])
    fine = torch.ones(20, dtype=torch.bool)
    fine[bad] = False
    answers, p = detector.predict(x), detector.p_value(x)
    assert answers[bad].tolist() == [-1] * 3
    assert p[bad].tolist() == [0] * 3
    assert torch.equal(answers[fine], detector.predict(whole)[fine])
    assert torch.equal(p[fine], detector.p_value(whole)[fine])
    explained = detector.explain(x)
    assert [one.answer for one in explained] == answers.tolist()
    assert "unknown word" in explained[3].verdict
    assert detector.predict(x, batch_size=4).tolist() == answers.tolist()
    assert detector.predict(x[bad]).tolist() == [-1] * 3
    assert detector.predict(x[3]) == -1


@pytest.mark.filterwarnings("ignore:.torch.jit")
@pytest.mark.parametrize("name", NETS)
def test_where_nothing_can_be_unknown_an_error_names_input_word_and_vocabulary(name):
    net = NETS[name]()
    x = words(600)
    x[300, 4] = 77
    for ask in (
        lambda: nescio.predict(net, x),
        lambda: nescio.Threshold(net).score(x),
        lambda: nescio.Threshold(net).fit(x),
    ):
        with pytest.raises(
            UnknownTokenError, match=r"input 300 holds 77, which .* expected 0 to 49"
        ):
            ask()


def test_each_embedding_has_words_of_its_own():
    x = words(60, 2, 5)
    x[:, 1] *= 10
    detector = nescio.Threshold(Columns()).fit(x)
    x[7, 0], x[9, 1] = 6, 100
    assert (detector.predict(x) == -1)[[7, 9]].all()
    with pytest.raises(NescioError, match=r"input 7 holds 6, which .* expected 0 to 4"):
        nescio.predict(Columns(), x)
    with pytest.raises(NescioError, match=r"input 0 holds 100, which .* expected 0 to 99"):
        nescio.predict(Columns(), x[9:])


def test_what_is_wrong_with_all_inputs_alike_is_reported_as_it_is():
    net = nn.Sequential(nn.Embedding(50, 8), nn.Flatten(), nn.Linear(8 * 7, 3))
    with pytest.raises(NescioError, match="cannot be run on a batch of shape"):
        nescio.predict(net, words(5, 6))


class Padded(Words):
    """Takes 0 for padding, and no row of it alone; token ids may be floats, as from a table."""

    def forward(self, x):
        lengths = (x != 0).sum(1).cpu()
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embed(x.long()), lengths, batch_first=True, enforce_sorted=False
        )
        return self.head(nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)[0].sum(1))


@pytest.mark.parametrize("kind", [torch.int64, torch.float32])
def test_a_row_of_padding_may_be_refused_and_words_may_be_floats(kind):
    detector = nescio.Threshold(Padded()).fit(words().clamp(min=1).to(kind))
    x = words(20).clamp(min=1).to(kind)
    x[4, 2], x[9, 0] = 50, 77
    found = detector.predict(x)
    fine = torch.arange(20)[(torch.arange(20) != 4) & (torch.arange(20) != 9)]
    assert found[[4, 9]].tolist() == [-1, -1]
    assert torch.equal(found[fine], detector.predict(x[fine]))
    with pytest.raises(UnknownTokenError, match=r"input 4 holds 50, .* expected 0 to 49"):
        detector.score(x)


def test_long_rows_cost_no_more_than_their_length():
    net, x = Words(), words(3, width=20_000)
    x[1, 19_999] = 50
    with pytest.raises(
        UnknownTokenError, match="input 1 holds 50"
    ):  # a square of that would be 3 GB
        nescio.predict(net, x)


@pytest.mark.parametrize(
    "look_up",
    [
        lambda x, w: nn.functional.one_hot(x, 50).float().mean(1) @ w,
        lambda x, w: nn.functional.embedding(x, w).mean(1),
    ],
)
def test_a_network_may_look_words_up_by_itself(look_up):
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(torch.randn(50, 4))

        def forward(self, x):
            return look_up(x, self.table)

    net, x = Own(), words(9)
    with torch.no_grad():
        assert torch.equal(nescio.predict(net, x)[0], net(x))
    with pytest.raises(NescioError, match="must be floating point"):
        nescio.predict(net, x.byte())


def test_from_the_command_line(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "token_nets.py").write_text(
        "import torch\nfrom torch import nn\ndef net():\n    torch.manual_seed(0)\n"
        "    return nn.Sequential(nn.Embedding(50, 8), nn.Flatten(), nn.Linear(56, 4))\n"
    )
    np.savez("calibration.npz", inputs=words().numpy())
    new = words(30).numpy()
    new[5, 1] = 99
    np.savez("new.npz", inputs=new)
    code, _, err = command(
        "fit", "--model", "token_nets:net", "--data", "calibration.npz", "-o", "det"
    )
    sys.modules.pop("token_nets", None)
    assert code == 0, err
    code, out, err = command("score", "det", "new.npz")
    assert code == 0, err
    rows = list(csv.DictReader(out.splitlines()))
    assert len(rows) == 30
    assert rows[5] == {
        "input": "5",
        "class": "unknown",
        "model_class": "",
        "confidence": "",
        "p_value": "0.0",
        "score": "",
    }
    assert sum(row["model_class"] == "" for row in rows) == 1
