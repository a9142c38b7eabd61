"""What a model does far away from its data: each audit → a record."""

from nescio.audit.monotone import monotone
from nescio.audit.scaling import scaling

__all__ = ["monotone", "scaling"]
