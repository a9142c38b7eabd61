"""The folder of a tour: known by a file that says what is where, and never another's."""

from pathlib import Path

from nescio.errors import NescioError
from nescio.files import REPORT as PAGE
from nescio.files import atomic_write, check_replaceable

MARK, REPORT = "demo.txt", "report.html"
ABOUT = """Written by `nescio demo`, which writes its own files anew when it is run again on this folder.

report.html            all that was found, for a browser
digits/, two_moons/    one folder for each method, a run such as `nescio train` writes:
  model.safetensors      the trained model
  history.json           how it was trained
  evaluation.json        against known and unknown data
  audit.json             what it does far away
  features.json          the same along each feature of the plane
  decision.json          what a threshold on it promised, and kept
  examples.json          inputs it is surest and least sure of
  map.json               where in the plane it is certain
  detector/              a threshold on it, for `nescio score`
*/calibration.npz      the half of the test data that thresholds were settled on
digits/attack.json     what an attack makes of noise, with pictures
digits/new/            images to try a detector on
two_moons/maps.svg     where in the plane each method is certain
"""


def claim(folder: Path) -> None:
    """Make the folder a tour's; an error if it holds other things.

    An old report goes first, so that none ever stands beside records it was not made from.
    """
    if folder.exists() and not folder.is_dir():
        raise NescioError(f"{str(folder)!r} is a file; expected a folder to write")
    inside = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    if inside and MARK not in inside:
        raise NescioError(
            f"the folder {str(folder)!r} holds other things ({', '.join(inside[:3])}"
            f"{', …' * (len(inside) > 3)}), and no {MARK}; name another with --output"
        )
    check_replaceable(folder / REPORT, PAGE)
    with atomic_write(folder / MARK, "w") as file:
        file.write(ABOUT)
    (folder / REPORT).unlink(missing_ok=True)
