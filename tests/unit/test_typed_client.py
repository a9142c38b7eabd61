"""A user's script over the public names passes `mypy --strict`, as `py.typed` promises."""

import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

import nescio

CLIENT = """
import torch
from torch import Tensor

import nescio

known = nescio.data.load("digits", unseen=[7, 8, 9])
assert known.train is not None and known.test is not None and known.unseen is not None
model = nescio.methods.Softmax(nescio.models.mlp(64, 7), normalise=known.normalise)
nescio.train(model, known.train, epochs=1, seed=0, progress=False)
logits: Tensor = nescio.predict(model, known.test)
known_scores: Tensor = nescio.scores.entropy(logits)
unknown_scores: Tensor = nescio.scores.entropy(nescio.predict(model, known.unseen))
area: float = nescio.metrics.auroc(known_scores.numpy(), unknown_scores.numpy())

detector = nescio.Mahalanobis(model).fit(known.test, accept=0.95, train=known.train)
answers: Tensor = detector.predict(known.unseen)
p_values: Tensor = detector.p_value(known.unseen)
reasons = detector.explain(known.unseen)
nescio.save(detector, "digits.nescio")
loaded = nescio.load("digits.nescio")

record = nescio.evaluate(model, known.test, {"unseen": known.unseen}, progress=False)
record.save("evaluation.json")
x = torch.stack([known.test[i][0] for i in range(3)])
law = nescio.audit.asymptote(model, x, torch.ones_like(x))
try:
    nescio.train(model, known.train, epochs=0)
except nescio.NescioError as error:
    print(error, area, answers, p_values, reasons, loaded, law)
"""


@pytest.fixture
def kept(request, tmp_path):
    """A folder that the next run of the tests finds again, unless that is turned off."""
    cache = getattr(request.config, "cache", None)
    return cache.mkdir("mypy") if cache else tmp_path


def check(folder, kept, **scripts):
    """Run mypy on scripts that find nescio as an installed package does; return its messages."""
    for name, text in scripts.items():
        (folder / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"]
    command += ["--config-file=", "--cache-dir", kept, *(f"{name}.py" for name in scripts)]
    root = str(Path(nescio.__file__).parents[1])
    environment = os.environ | {"MYPYPATH": root}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert not done.stderr
    *messages, summary = done.stdout.splitlines()
    assert f"checked {len(scripts)} source files" in summary
    return messages


def test_a_client_over_the_public_names_is_well_typed(tmp_path, kept):
    """Both scripts at once, since mypy reads torch for as long as all else takes."""
    imports = f"from nescio import {', '.join(nescio.__all__)}\n"
    client = imports + f"__all__ = {nescio.__all__!r}\n" + CLIENT
    messages = check(tmp_path, kept, client=client, wrong=CLIENT.replace("epochs=1", "epochs='1'"))
    assert len(messages) == 1, messages
    assert messages[0].startswith("wrong.py:")
    assert 'incompatible type "str"; expected "int"' in messages[0]


def test_the_package_says_that_it_is_typed():
    assert files("nescio").joinpath("py.typed").is_file()
