"""Our files: trained models, run folders, detector folders, and a user's network by name."""

from nescio.store.run import Source as Source
from nescio.store.run import open_run as open_run
from nescio.store.run import train_run as train_run
from nescio.store.run import training_part as training_part
