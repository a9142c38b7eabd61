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
from nescio.records.decision import Decision, RefusedSet
from nescio.records.evaluation import (
    Against,
    Evaluation,
    Histogram,
    KnownSide,
    Rejection,
    Reliability,
    Roc,
    Separation,
    UnknownSide,
)
from nescio.records.examples import Example, Examples, ExampleSet
from nescio.records.fitted import Fitted
from nescio.records.gallery import Gallery, GalleryRow
from nescio.records.history import Epoch, History
from nescio.records.map import Map, Points, Surface
from nescio.records.meta import MetaWeights
from nescio.records.overconfidence import Audit, Ray
from nescio.records.radius import Promise, Radius
from nescio.records.reading import read_record
from nescio.records.recommendation import Ranked, Recommendation
from nescio.records.record import FORMAT, Provenance, Record, from_plain, to_plain
from nescio.records.reproduction import Claim, Compared, Differs, Reproduction
from nescio.records.selection import Selection, Trial
from nescio.records.separations import Repeated, Row, Separations, Spread
from nescio.records.temperature import Temperature
from nescio.records.timings import Timings

__all__ = [
    "FORMAT",
    "Against",
    "Audit",
    "AuditedFeature",
    "Cell",
    "Claim",
    "Compared",
    "Contest",
    "Contestant",
    "CounterExample",
    "Course",
    "Decision",
    "Differs",
    "Direction",
    "Epoch",
    "Evaluation",
    "Example",
    "ExampleSet",
    "Examples",
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
    "Promise",
    "Provenance",
    "Radius",
    "Ranked",
    "Ray",
    "Reach",
    "Recommendation",
    "Record",
    "RefusedSet",
    "Regions",
    "Rejection",
    "Reliability",
    "Repeated",
    "Reproduction",
    "Roc",
    "Row",
    "Scaling",
    "Selection",
    "Separation",
    "Separations",
    "Spread",
    "Surface",
    "Temperature",
    "Timings",
    "Trial",
    "UnknownSide",
    "from_plain",
    "read_record",
    "to_plain",
]
