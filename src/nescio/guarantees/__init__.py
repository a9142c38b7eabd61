"""Scores → guarantees that hold in finite samples, without any network."""

from nescio.guarantees.rules import Accept as Accept
from nescio.guarantees.rules import AcceptPerClass as AcceptPerClass
from nescio.guarantees.rules import Balanced as Balanced
from nescio.guarantees.rules import CalibrationScores as CalibrationScores
from nescio.guarantees.rules import ControlRisk as ControlRisk
from nescio.guarantees.rules import Rule as Rule
