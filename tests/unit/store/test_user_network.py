"""Networks of the user's by name; errors of the command line are in test_detector_folder.py."""

from torch import nn

from nescio.store.user_network import make_network

LATE = """
from torch import nn

class Make:
    @property
    def __signature__(self):
        raise NameError("name 'Net' is not defined")

    def __call__(self):
        return nn.Linear(2, 3)

make = Make()
"""


def test_annotations_of_a_factory_may_name_what_is_not_there(tmp_path, monkeypatch):
    """As Python 3.14 allows, which looks them up only when a signature is asked for."""
    (tmp_path / "late_nets.py").write_text(LATE)
    monkeypatch.syspath_prepend(tmp_path)
    assert isinstance(make_network("late_nets:make"), nn.Linear)
