"""The nine residual networks of the paper's authors, from files that are no part of nescio."""

import os
import re
from pathlib import Path

from safetensors.torch import load_file

from nescio import NescioError
from nescio.methods import Softmax
from nescio.models import resnet20

FOLDER = "networks"  # beside the data
PLACES = {"stem": "1", "last": "11", "fc": "15"}  # of their layers in ours; blocks are 2 to 10


def weights_file(data: str, kind: str) -> str:
    """Return the name of the file of a network."""
    return f"relu-{data}-{kind}.safetensors"


def authors_network(root: str | None, data: str, kind: str) -> Softmax:
    """Return a network as its authors left it after 100 epochs; its inputs are not normalised."""
    root = root or os.environ.get("NESCIO_DATA")
    path = Path(root or ".") / FOLDER / weights_file(data, kind)
    if not path.is_file():
        raise NescioError(
            f"{path} is missing: weights of the network {kind} on {data} by the paper's authors, "
            "converted from their TensorFlow checkpoint"
        )
    weights = {_place(name): value for name, value in load_file(path).items()}
    net = resnet20(len(weights[f"{PLACES['fc']}.bias"]))
    net.load_state_dict(weights)
    return Softmax(net).eval()


def _place(name: str) -> str:
    """Return the name in our network of one of theirs.

    >>> _place("stem.weight"), _place("blocks.8.norm1.bias"), _place("fc.bias")
    ('1.weight', '10.norm1.bias', '15.bias')
    """
    layer, rest = name.split(".", 1)
    if match := re.fullmatch(r"(\d)\.(.+)", rest):
        return f"{2 + int(match[1])}.{match[2]}"
    return f"{PLACES[layer]}.{rest}"
