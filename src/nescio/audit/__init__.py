"""What a model does far away from its data: each audit → a record."""

from nescio.audit.affine.asymptote import Asymptote as Asymptote
from nescio.audit.affine.asymptote import asymptote as asymptote
from nescio.audit.affine.plane import regions_in as regions_in
from nescio.audit.affine.regions import Region as Region
from nescio.audit.affine.regions import local_affine as local_affine
from nescio.audit.affine.regions import region as region
from nescio.audit.affine.trace import Trace as Trace
from nescio.audit.affine.trace import trace as trace
from nescio.audit.certainty import CertainFrom as CertainFrom
from nescio.audit.certainty import certain_from as certain_from
from nescio.audit.kernels import UnknownFrom as UnknownFrom
from nescio.audit.kernels import unknown_from as unknown_from
from nescio.audit.monotone import monotone as monotone
from nescio.audit.overconfidence import overconfidence as overconfidence
from nescio.audit.per_feature import per_feature as per_feature
from nescio.audit.scaling import scaling as scaling
