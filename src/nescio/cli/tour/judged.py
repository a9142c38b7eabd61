"""All that the tour finds out about one model, as records in its run's folder."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nescio.audit import overconfidence, per_feature
from nescio.audit.inputs import box_of
from nescio.cli.tour.plan import ACCEPT, Problem, Size
from nescio.data import Known, Samples
from nescio.evaluation.decide import decide
from nescio.evaluation.evaluate import evaluate
from nescio.evaluation.extremes import examples
from nescio.evaluation.maps import uncertainty_map
from nescio.evaluation.unknown_sets import unknown_sets
from nescio.methods.method import Method
from nescio.records import Audit, Decision, Evaluation, Examples, FeatureAudit, History, Map, Record
from nescio.store.detector_choice import NamedDetector
from nescio.store.fit_detector import fit_run
from nescio.store.run import AUDIT, EVALUATION, EXAMPLES, FEATURES

DECISION, DETECTOR, MAP = "decision.json", "detector", "map.json"
SHOWN = 6  # examples of each end


@dataclass(frozen=True)
class Halves:
    """The test data in two: a file to settle thresholds on, and what is left to judge them by."""

    calibration: Path
    judging: Samples


@dataclass(frozen=True)
class Judged:
    """One trained model, and what was found."""

    method: str
    history: History
    evaluation: Evaluation
    audit: Audit
    decision: Decision
    examples: Examples
    map: Map | None = None  # of data in the plane
    features: FeatureAudit | None = None  # there, of a model that gives one draw

    def records(self) -> Iterator[Record]:
        """Those there are."""
        every = (
            self.history,
            self.evaluation,
            self.decision,
            self.examples,
            self.audit,
            self.features,
            self.map,
        )
        yield from (one for one in every if one is not None)

    def auroc(self, name: str) -> float | None:
        """Against an unknown set, by the score the method is paired with; None if there is no such set."""
        side = next((side for side in self.evaluation.unknown if side.name == name), None)
        if side is None:
            return None
        return next(
            found.auroc for found in side.separation if found.score == self.evaluation.score
        )

    def refused(self, name: str) -> float:
        """The share of an unknown set that the threshold refuses."""
        return next(side.refused for side in self.decision.unknown if side.name == name)

    def confidence(self, name: str) -> float:
        """The mean confidence in an unknown set."""
        return next(side.mmc for side in self.evaluation.unknown if side.name == name)


def judge(
    run: Path,
    problem: Problem,
    model: Method,
    history: History,
    known: Known,
    halves: Halves,
    size: Size,
    seed: int,
) -> Judged:
    """Evaluate, settle a threshold, audit, and in the plane draw; every record is saved as it is found."""
    sets = unknown_sets(problem.unknown, known, seed=seed)
    evaluation = evaluate(
        model, known.test, sets, attacked=size.attacked, seed=seed, progress=False
    )
    evaluation.save(run / EVALUATION)
    made = {
        name: data for name, data in sets.items() if not isinstance(data, str)
    }  # all but what an attack makes
    detector, _ = fit_run(
        run / DETECTOR, run, halves.calibration, None, None, NamedDetector(accept=ACCEPT)
    )
    decision = decide(detector, halves.judging, made)
    decision.save(run / DECISION)
    seen = examples(
        model,
        known.test,
        made,
        each=SHOWN,
        classes=known.classes,
        features=known.features,
        seed=seed,
        progress=False,
    )
    seen.save(run / EXAMPLES)
    audit = overconfidence(
        model, box=box_of(known), trials=size.trials, limit=size.limit, seed=seed, progress=False
    )
    audit.save(run / AUDIT)
    drawn, features = None, None
    if known.shape == (2,):
        drawn = uncertainty_map(
            model, known, [model.score], resolution=size.resolution, seed=seed, progress=False
        )
        drawn.save(run / MAP)
    if known.shape == (2,) and audit.draws == 1:  # with 50 draws it takes a minute by itself
        x, _ = known.test.take(slice(0, size.rows))
        features = per_feature(
            model,
            x,
            names=known.features,
            classes=known.classes,
            limit=size.limit,
            seed=seed,
            progress=False,
        )
        features.save(run / FEATURES)
    return Judged(model.name, history, evaluation, audit, decision, seen, drawn, features)
