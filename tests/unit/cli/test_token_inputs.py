"""Networks that take whole numbers, such as words, from the command line."""

import csv
import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import nescio
from nescio.data import Samples, Stream
from nescio.data.arrays import as_any_inputs
from nescio.errors import NescioError

CODE = """
import torch
from torch import nn

class Words(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.head = nn.Embedding(50, 8), nn.Linear(8, 4)
    def forward(self, x):
        return self.head(self.embed(x).mean(1))

class Choosing(Words):
    def forward(self, x):
        return super().forward(x) if x.sum() > -1 else super().forward(-x)

class Hashed(Words):
    def forward(self, x):
        return super().forward(x.long() % 50)

def numbers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(7, 8), nn.ReLU(), nn.Linear(8, 4))
"""


@pytest.fixture
def there(tmp_path, monkeypatch):
    """The current folder, with networks and words, some of which float32 cannot tell apart."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "word_nets.py").write_text(CODE)
    rng = np.random.default_rng(0)
    np.savez("calibration.npz", inputs=rng.integers(0, 50, (200, 7)))
    np.savez("new.npz", inputs=rng.integers(0, 50, (30, 7), dtype=np.int32))
    np.savez("large.npz", inputs=2**30 + rng.integers(0, 50, (200, 7)))
    yield tmp_path
    sys.modules.pop("word_nets", None)


def fitted(command, net, data="calibration.npz", *words):
    code, out, err = command(
        "fit",
        "--model",
        f"word_nets:{net}",
        "--data",
        data,
        "-o",
        "det",
        "--accept",
        0.9,
        "--detector",
        "threshold",
        *words,
    )
    assert code == 0, err
    return out


def rows(command, data, *words):
    code, out, err = command("score", "det", data, *words)
    assert code == 0, err
    return list(csv.DictReader(out.splitlines()))


@pytest.mark.parametrize(
    ("net", "data", "kept"),
    [
        ("Words", "calibration.npz", "graph"),
        ("Choosing", "calibration.npz", "weights"),
        ("Hashed", "large.npz", "graph"),
    ],
)
def test_words_reach_the_network_as_they_are(command, there, net, data, kept):
    fitted(command, net, data)
    facts = json.loads((there / "det" / "fitted.json").read_text())
    assert (facts["dtype"], facts["network"]) == ("int64", kept)
    held = torch.from_numpy(np.load(data)["inputs"])
    detector = nescio.Threshold(getattr(sys.modules["word_nets"], net)()).fit(held, accept=0.9)
    new = "new.npz" if data == "calibration.npz" else data
    found = rows(command, new, *(["--model", f"word_nets:{net}"] if kept == "weights" else []))
    explained = detector.explain(torch.from_numpy(np.load(new)["inputs"]).long())
    assert [float(row["score"]) for row in found] == [one.score for one in explained]
    assert [row["class"] for row in found] == [
        "unknown" if one.answer < 0 else str(one.answer) for one in explained
    ]


def test_a_detector_on_features_learns_from_words(command, there):
    out = fitted(
        command,
        "Words",
        "calibration.npz",
        "--detector",
        "knn",
        "--train",
        "new.npz",
        "--set",
        "k=3",
    )
    assert "Learned from: new.npz" in out
    assert len(rows(command, "new.npz")) == 30
    np.savez("floats.npz", inputs=np.zeros((30, 7), np.float32))
    code, _, err = command(
        "fit",
        "--model",
        "word_nets:Words",
        "--data",
        "calibration.npz",
        "--train",
        "floats.npz",
        "--detector",
        "knn",
        "-o",
        "other",
    )
    assert (code, "the data hold integers" in err) == (2, True)


def test_whole_numbers_for_a_network_of_floats_are_floats_as_ever(command, there):
    fitted(command, "numbers")
    assert json.loads((there / "det" / "fitted.json").read_text())["dtype"] == "float32"
    held, new = (
        torch.from_numpy(np.load(name)["inputs"]).float() for name in ("calibration.npz", "new.npz")
    )
    detector = nescio.Threshold(sys.modules["word_nets"].numbers()).fit(held, accept=0.9)
    assert [float(row["score"]) for row in rows(command, "new.npz")] == detector.score(new).tolist()


def test_other_inputs_are_refused_in_words(command, there):
    fitted(command, "Words")
    np.savez("floats.npz", inputs=np.zeros((3, 7), np.float32))
    np.savez("wide.npz", inputs=np.zeros((3, 8), np.int64))
    np.savez("strange.npz", inputs=np.full((3, 7), 50))
    np.save("plain.npy", np.zeros((3, 7), np.int64))
    (there / "t.csv").write_text("a,b,c,d,e,f,g\n" + "1,2,3,4,5,6,7\n")
    for name, message in (
        ("floats.npz", "fitted on integers"),
        ("plain.npy", "fitted on integers"),
        ("t.csv", "fitted on integers"),
        ("wide.npz", "must have shape (7,), got"),
    ):
        code, out, err = command("score", "det", name)
        assert (code, out.count("\n") < 2, message in err) == (2, True, True), (name, err)
    code, _, err = command(
        "fit", "--model", "word_nets:Words", "--data", "strange.npz", "-o", "other"
    )
    assert (code, "input 0 holds 50, which" in err) == (2, True), err


def test_a_folder_of_an_earlier_version_says_nothing_of_types_and_is_read(command, there):
    fitted(command, "numbers")
    path = there / "det" / "fitted.json"
    before = rows(command, "new.npz")
    text = path.read_text()
    path.write_text(text.replace(',\n "dtype": "float32"', ""))
    assert "dtype" not in path.read_text()
    assert rows(command, "new.npz") == before
    path.write_text(text.replace("float32", "int64"))
    code, _, err = command("score", "det", "new.npz")
    assert (code, "was changed since" in err) == (2, True)
    facts = nescio.records.Fitted.from_json(text)
    replace(facts, dtype="qint8").sealed(facts.files).save(path)
    code, _, err = command("score", "det", "new.npz")
    assert (code, "'qint8'" in err) == (2, True)


def test_arrays_and_samples_of_words():
    for kind in (np.uint8, np.int16, np.int64, bool):
        found = as_any_inputs(np.ones((2, 3), kind), "here")
        assert (found.dtype, found.tolist()) == (torch.int64, [[1] * 3] * 2)
    with pytest.raises(NescioError, match="integers must fit in int64"):
        as_any_inputs(np.full((2, 3), 2**63, np.uint64), "here")
    samples = Samples(torch.arange(6).reshape(3, 2), torch.arange(3), tokens=True)
    assert samples.select(torch.tensor([1])).take(slice(None))[0].tolist() == [[2, 3]]
    assert samples.with_labels(torch.zeros(3).long(), "x")[2][0].dtype == torch.int64
    assert samples.floats().inputs.dtype == torch.float32
    with pytest.raises(NescioError, match="int32"):
        Samples(torch.zeros(3, 2, dtype=torch.int32), torch.arange(3), tokens=True)
    assert not Stream.tokens


def test_a_detector_for_words_is_recommended():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Embedding(30, 8), nn.Flatten(), nn.Linear(40, 3))
    y = torch.arange(600) % 3
    x = torch.randint(10, (600, 5)) + 10 * y[:, None]  # each class has words of its own
    optimizer = torch.optim.Adam(net.parameters(), 0.05)
    for _ in range(40):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x[:300]), y[:300]).backward()
        optimizer.step()
    found = nescio.recommend(net, x[300:], x[:300], progress=False)
    assert set(found.record.ranking[0].auroc) == {"uniform", "permuted", "pasted", "averaged"}
    assert found.record.ranking[0].auroc["uniform"] > 0.9
    assert "odin" in found.record.skipped
    assert (found.detector.predict(x[300:]) >= 0).double().mean() > 0.9
