"""What a model does far away from its data: each audit → a record."""

from nescio.audit.asymptote import Asymptote, asymptote
from nescio.audit.certainty import CertainFrom, certain_from
from nescio.audit.kernels import UnknownFrom, unknown_from
from nescio.audit.monotone import monotone
from nescio.audit.overconfidence import overconfidence
from nescio.audit.per_feature import per_feature
from nescio.audit.plane import regions_in
from nescio.audit.regions import Region, local_affine, region
from nescio.audit.scaling import scaling
from nescio.audit.trace import Trace, trace

__all__ = [
    "Asymptote",
    "CertainFrom",
    "Region",
    "Trace",
    "UnknownFrom",
    "asymptote",
    "certain_from",
    "local_affine",
    "monotone",
    "overconfidence",
    "per_feature",
    "region",
    "regions_in",
    "scaling",
    "trace",
    "unknown_from",
]
