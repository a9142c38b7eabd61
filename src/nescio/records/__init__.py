"""Records: frozen results as plain data, JSON in and out. Reports are made from these alone."""

from nescio.records.audit import (
    Audit,
    AuditedFeature,
    Cell,
    CounterExample,
    FeatureAudit,
    FeatureSide,
    Monotonicity,
    Ray,
    Reach,
    Regions,
)
from nescio.records.detector import Decision, Fitted, RefusedSet
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
from nescio.records.images import Example, Examples, ExampleSet, Gallery, GalleryRow, Image
from nescio.records.map import Map, Points, Surface
from nescio.records.plain import from_plain, to_plain
from nescio.records.provenance import Provenance, Stopwatch
from nescio.records.ranking import Contest, Contestant, Ranked, Recommendation
from nescio.records.record import FORMAT, Record, read_record
from nescio.records.scaling import Course, Direction, Gauge, Scaling
from nescio.records.training import Epoch, History, MetaWeights, Selection, Temperature, Trial

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
    "Decision",
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
    "Image",
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
    "RefusedSet",
    "Regions",
    "Rejection",
    "Reliability",
    "Roc",
    "Scaling",
    "Selection",
    "Separation",
    "Stopwatch",
    "Surface",
    "Temperature",
    "Trial",
    "UnknownSide",
    "from_plain",
    "read_record",
    "to_plain",
]
