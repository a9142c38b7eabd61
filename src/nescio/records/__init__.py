"""Records: frozen results as plain data, JSON in and out. Reports are made from these alone."""

from nescio.records.audit import (
    Audit,
    AuditedFeature,
    Cell,
    CounterExample,
    Course,
    Direction,
    FeatureAudit,
    FeatureSide,
    Gauge,
    Monotonicity,
    Ray,
    Reach,
    Regions,
    Scaling,
)
from nescio.records.checks import (
    Checked,
    Constraint,
    Count,
    Fraction,
    NonNegative,
    Positive,
    check_lengths,
    check_together,
)
from nescio.records.detector import (
    Contest,
    Contestant,
    Decision,
    Fitted,
    Ranked,
    Recommendation,
    RefusedSet,
)
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
from nescio.records.pictures import (
    Example,
    Examples,
    ExampleSet,
    Gallery,
    GalleryRow,
    Image,
    Map,
    Points,
    Surface,
)
from nescio.records.plain import from_plain, parse_json, to_plain
from nescio.records.provenance import Provenance, Stopwatch
from nescio.records.record import FORMAT, Record, read_record
from nescio.records.training import Epoch, History, MetaWeights, Selection, Temperature, Trial

__all__ = ["FORMAT", "Against", "Audit", "AuditedFeature", "Cell", "Checked", "Constraint"]
__all__ += ["Contest", "Contestant", "Count", "CounterExample", "Course", "Decision", "Direction"]
__all__ += ["Epoch", "Evaluation", "Example", "ExampleSet", "Examples", "FeatureAudit"]
__all__ += ["FeatureSide", "Fitted", "Fraction", "Gallery", "GalleryRow", "Gauge", "Histogram"]
__all__ += ["History", "Image", "KnownSide", "Map", "MetaWeights", "Monotonicity", "NonNegative"]
__all__ += ["Points", "Positive", "Provenance", "Ranked", "Ray", "Reach", "Recommendation"]
__all__ += ["Record", "RefusedSet", "Regions", "Rejection", "Reliability", "Roc", "Scaling"]
__all__ += ["Selection", "Separation", "Stopwatch", "Surface", "Temperature", "Trial"]
__all__ += ["UnknownSide", "check_lengths", "check_together", "from_plain", "parse_json"]
__all__ += ["read_record", "to_plain"]
