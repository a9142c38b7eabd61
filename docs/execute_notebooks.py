"""Run the notebooks of the site, each in a folder of its own, and write their outputs into them.

    make notebooks
    python docs/execute_notebooks.py own-model

Neither paths nor times of the machine are kept. A notebook whose data are missing is left as it is.
"""

import hashlib
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

FOLDER = Path(__file__).parent / "notebooks"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def digest(notebook: dict[str, Any]) -> str:
    """Return a digest of a notebook's code, by which its outputs can be known to be of this code.

    >>> digest({"cells": [{"cell_type": "code", "source": ["1 +", " 1"]}]})
    '2e8f4da7fd468f4a'
    """
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    code = ["".join(cell["source"]) for cell in cells]
    return hashlib.sha256(json.dumps(code).encode()).hexdigest()[:16]


def execute(path: Path) -> str:
    """Run a notebook and rewrite its file; return what became of it."""
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as folder:
        where = {"metadata": {"path": folder}}
        try:
            NotebookClient(notebook, timeout=600, resources=where, coalesce_streams=True).execute()
        except CellExecutionError as error:
            if error.ename != "FileNotFoundError":
                raise
            return f"skipped: {error.evalue}"
    normalise(notebook)
    nbformat.write(notebook, path)
    return "written"


def normalise(notebook: Any) -> None:
    """Keep what a reader sees of an executed notebook, and a digest of the code that made it."""
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number}", {}
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if len(data) > 1:  # words that stand in for a figure or a table
                data.pop("text/plain", None)
            if "metadata" in output:
                output.metadata = {}
    language = {"name": "python"}
    executed = {"executed": digest(notebook)}
    notebook.metadata = {"kernelspec": KERNEL, "language_info": language, "nescio": executed}


def main() -> None:
    """Run the notebooks named on the command line, or all of them."""
    for path in [FOLDER / f"{name}.ipynb" for name in sys.argv[1:]] or sorted(
        FOLDER.glob("*.ipynb")
    ):
        print(f"{path.name}: {execute(path)}", flush=True)


if __name__ == "__main__":
    main()
