"""Model × data → record."""

from nescio.evaluation.gallery import attack_gallery
from nescio.evaluation.maps import HIDDEN, small_model, trained_map
from nescio.evaluation.unknown_sets import unknown_set

__all__ = ["HIDDEN", "attack_gallery", "small_model", "trained_map", "unknown_set"]
