"""What a model does far away from its data: each audit → a record."""

from nescio.audit.asymptote import Asymptote, asymptote
from nescio.audit.monotone import monotone
from nescio.audit.plane import regions_in
from nescio.audit.regions import Region, local_affine, region
from nescio.audit.scaling import scaling
from nescio.audit.trace import Trace, trace

__all__ = [
    "Asymptote",
    "Region",
    "Trace",
    "asymptote",
    "local_affine",
    "monotone",
    "region",
    "regions_in",
    "scaling",
    "trace",
]
