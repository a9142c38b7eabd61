"""Records: frozen results as plain data, JSON in and out. Reports are made from these alone."""

from nescio.records.audit import (
    AuditedFeature,
    Cell,
    CounterExample,
    Course,
    Direction,
    FeatureAudit,
    FeatureSide,
    Gauge,
    Monotonicity,
    Reach,
    Regions,
    Scaling,
)
from nescio.records.contest import Contest, Contestant
from nescio.records.evaluation import (
    Against,
    Evaluation,
    Histogram,
    KnownSide,
    Rejection,
    Roc,
    Separation,
    UnknownSide,
)
from nescio.records.fitted import Fitted
from nescio.records.gallery import Gallery, GalleryRow
from nescio.records.history import Epoch, History
from nescio.records.map import Map, Points, Surface
from nescio.records.meta import MetaWeights
from nescio.records.overconfidence import Audit, Ray
from nescio.records.recommendation import Ranked, Recommendation
from nescio.records.record import FORMAT, Provenance, Record, from_plain, to_plain
from nescio.records.selection import Selection, Trial
from nescio.records.separations import Repeated, Row, Separations, Spread
from nescio.records.temperature import Temperature

__all__ = [
    "FORMAT",
    "Against",
    "Audit",
    "AuditedFeature",
    "Cell",
    "Contest",
    "Contestant",
    "CounterExample",
    "Course",
    "Direction",
    "Epoch",
    "Evaluation",
    "FeatureAudit",
    "FeatureSide",
    "Fitted",
    "Gallery",
    "GalleryRow",
    "Gauge",
    "Histogram",
    "History",
    "KnownSide",
    "Map",
    "MetaWeights",
    "Monotonicity",
    "Points",
    "Provenance",
    "Ranked",
    "Ray",
    "Reach",
    "Recommendation",
    "Record",
    "Regions",
    "Rejection",
    "Repeated",
    "Roc",
    "Row",
    "Scaling",
    "Selection",
    "Separation",
    "Separations",
    "Spread",
    "Surface",
    "Temperature",
    "Trial",
    "UnknownSide",
    "from_plain",
    "to_plain",
]
