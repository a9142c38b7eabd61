"""`nescio recommend`: a ranking, and a detector that decides."""

import numpy as np

import nescio
from nescio.data import load
from nescio.records import (
    Recommendation,
)


def test_recommend_saves_a_ranking_and_a_detector_that_decides(command, trained, tmp_path):
    candidates = "--candidates energy max_prob --accept 0.9 -o"
    words = ["recommend", trained / "digits", *candidates.split(), tmp_path / "found"]
    code, out, _ = command(*words)
    assert code == 0
    record = Recommendation.load(tmp_path / "found" / "recommendation.json")
    assert {one.name for one in record.ranking} == {"energy", "max_prob"}
    assert f"Recommended: {record.detector} " in out
    detector = nescio.load(tmp_path / "found" / "recommended" / "detector.safetensors")
    known = load("digits", unseen=[8, 9])
    assert (detector.predict(known.unseen) == -1).double().mean() > 0.5
    np.savez(tmp_path / "new.npz", inputs=known.unseen.inputs.numpy())
    code, out, _ = command("score", tmp_path / "found" / "recommended", tmp_path / "new.npz")
    assert code == 0
    refused = [line.split(",")[1] == "unknown" for line in out.splitlines()[1:]]
    assert refused == (detector.predict(known.unseen) == -1).tolist()
    code, _, err = command("audit", tmp_path / "found" / "recommended")
    assert code == 2
    message = "it holds a detector of `nescio fit`: for `nescio score` or `evaluate`"
    assert message in " ".join(err.split())
    code, _, err = command("recommend", trained / "digits", "--candidates", "energi")
    assert code == 2
    assert "did you mean 'energy'" in err
