"""nescio: classifiers that say "I do not know"."""

__version__ = "0.1.0"
