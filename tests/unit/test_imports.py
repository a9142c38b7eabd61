"""What is loaded only when it is used: nobody waits for figures or downloads to have a score."""

import json
import subprocess
import sys

SCORES = "nescio.scores.entropy(torch.zeros(1, 2, 3))"
DETECTOR = (
    "nescio.Threshold(torch.nn.Linear(2, 3)).fit(torch.randn(99, 2)).predict(torch.randn(5, 2))"
)
LATE = {"matplotlib", "jinja2", "typer", "pooch", "requests", "PIL", "sklearn"}


def loaded(code):
    """The top-level packages that a fresh interpreter has after some code."""
    code += "\nimport json, sys\nprint(json.dumps([name.split('.')[0] for name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_the_package_alone_loads_none_of_its_dependencies():
    assert not loaded("import nescio") & (LATE | {"torch", "numpy", "scipy", "rich", "safetensors"})


def test_scores_load_torch_and_numpy_alone():
    found = loaded(f"import torch\nimport nescio\nimport nescio.scores\n{SCORES}")
    assert not found & (LATE | {"scipy", "rich", "safetensors"})


def test_what_is_for_reports_downloads_and_images_waits():
    rooms = (
        "nescio.train, nescio.evaluate, nescio.audit.asymptote, nescio.data.Samples, nescio.load"
    )
    assert not loaded(f"import torch\nimport nescio\n{DETECTOR}\n{rooms}") & LATE
