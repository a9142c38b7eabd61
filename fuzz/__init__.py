"""Random cases against nescio's promises: no traceback, no wrong answer, nothing changed in
silence.

    python -m fuzz                                   every kind, a minute in all
    python -m fuzz files --seconds 600 --seed 7      one kind
    python -m fuzz arrays --seed 7 --case 1234       one case again, with its traceback

A case is a function of seed and number alone. What a user may meet is a `NescioError`, a right
answer, and no more.
"""

import sys
from pathlib import Path

sys.path.append(
    str(Path(__file__).parents[1] / "tests")
)  # records and networks made for tests serve here too
