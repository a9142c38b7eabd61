"""Model × data → record."""

from nescio.evaluation.gallery import attack_gallery as attack_gallery
from nescio.evaluation.maps import HIDDEN as HIDDEN
from nescio.evaluation.maps import small_model as small_model
from nescio.evaluation.maps import trained_map as trained_map
from nescio.evaluation.unknown_sets import unknown_set as unknown_set
