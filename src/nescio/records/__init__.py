"""Records: frozen results as plain data, JSON in and out. Reports are made from these alone."""

from nescio.records.audit import CounterExample, Course, Direction, Gauge, Monotonicity, Scaling
from nescio.records.evaluation import Evaluation, Histogram, KnownSide, Rejection, Roc, Separation, UnknownSide
from nescio.records.history import Epoch, History
from nescio.records.map import Map, Points, Surface
from nescio.records.record import FORMAT, Provenance, Record, from_plain, to_plain
from nescio.records.selection import Selection, Trial

__all__ = [
    "FORMAT",
    "CounterExample",
    "Course",
    "Direction",
    "Epoch",
    "Evaluation",
    "Gauge",
    "Histogram",
    "History",
    "KnownSide",
    "Map",
    "Monotonicity",
    "Points",
    "Provenance",
    "Record",
    "Rejection",
    "Roc",
    "Scaling",
    "Selection",
    "Separation",
    "Surface",
    "Trial",
    "UnknownSide",
    "from_plain",
    "to_plain",
]
