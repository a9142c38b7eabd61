"""What a model does far away from its data: each audit → a record."""

from nescio.audit.asymptote import Asymptote, asymptote
from nescio.audit.monotone import monotone
from nescio.audit.scaling import scaling
from nescio.audit.trace import Trace, trace

__all__ = ["Asymptote", "Trace", "asymptote", "monotone", "scaling", "trace"]
