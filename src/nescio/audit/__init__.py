"""What a model does far away from its data: each audit → a record."""

from nescio.audit.affine.asymptote import Asymptote, asymptote
from nescio.audit.affine.plane import regions_in
from nescio.audit.affine.regions import Region, local_affine, region
from nescio.audit.affine.trace import Trace, trace
from nescio.audit.certainty import CertainFrom, certain_from
from nescio.audit.inputs import box_of
from nescio.audit.kernels import UnknownFrom, unknown_from
from nescio.audit.monotone import monotone
from nescio.audit.overconfidence import overconfidence
from nescio.audit.per_feature import per_feature
from nescio.audit.scaling import scaling

__all__ = ["Asymptote", "CertainFrom", "Region", "Trace", "UnknownFrom", "asymptote", "box_of"]
__all__ += ["certain_from", "local_affine", "monotone", "overconfidence", "per_feature", "region"]
__all__ += ["regions_in", "scaling", "trace", "unknown_from"]
