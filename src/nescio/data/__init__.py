"""Data sets: embedded, from files, downloaded; images in [0, 1], tables in their own units."""

from nescio.data import noise
from nescio.data.batches import batches, length
from nescio.data.catalogue import NAMES, Status, download, status
from nescio.data.known import Known
from nescio.data.load import load, read
from nescio.data.samples import Samples
from nescio.data.stream import Stream
from nescio.data.table import Encoding
from nescio.data.transforms import AUGMENTATIONS, Normalise, adapt

__all__ = ["AUGMENTATIONS", "NAMES", "Encoding", "Known", "Normalise", "Samples", "Status"]
__all__ += ["Stream", "adapt", "batches", "download", "length", "load", "noise", "read", "status"]
