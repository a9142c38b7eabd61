"""Our files: trained models, run folders, detector folders, and a user's network by name.

What nescio did not write is replaced only when asked for: `atomic_write`, `check_replaceable`.
"""

from nescio.files import PAGE, atomic_write, check_replaceable
from nescio.store.run import Source, open_run, train_run, training_part

__all__ = ["PAGE", "Source", "atomic_write", "check_replaceable", "open_run", "train_run"]
__all__ += ["training_part"]
