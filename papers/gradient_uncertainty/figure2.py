"""Figure 2: how entropy and gradient metrics are distributed on each set."""

import numpy as np
from scipy.stats import mannwhitneyu

from nescio import metrics
from papers.experiment import Outcome
from papers.gradient_uncertainty.parts import UNKNOWN, deviations, experiment, kept_part, listed
from papers.gradient_uncertainty.plan import RIGHT, WRONG
from papers.gradient_uncertainty.published import PAPER
from papers.gradient_uncertainty.separations import violin_figure
from papers.gradient_uncertainty.splits import SHOWN
from papers.workspace import Workspace

HIGH_AUROC = 80  # what we take "well" to reach
MAX_P = 1e-3  # below which two distributions differ


def figure2(work: Workspace) -> Outcome:
    """Violins of the first split."""
    sets = (RIGHT, WRONG, *UNKNOWN)
    record = kept_part(work, "spreads", "", (), sets)
    work.picture("violins.svg", violin_figure(record))
    values = {
        one.score: {name: np.array(one.values[name]) for name in sets} for one in record.spreads
    }
    auroc = {
        score: {name: 100 * metrics.separation(by[RIGHT], by[name]).auroc for name in sets[1:]}
        for score, by in values.items()
    }
    p = max(float(mannwhitneyu(by[RIGHT], by[WRONG]).pvalue) for by in values.values())
    gradient = [score for score in SHOWN if score != "entropy"]
    concepts = (WRONG, "nist_letters", "cifar10")
    others = {score: min(auroc[score][name] for name in concepts) for score in gradient}
    wrong, noise = ({score: auroc[score][name] for score in SHOWN} for name in (WRONG, "uniform"))
    test = f"largest p-value {p:.1g} (Mann–Whitney; wanted: below {MAX_P})"
    lowest = f"the lowest of wrong answers, letters and CIFAR-10: {listed(others)}"
    wanted = f"(wanted: AUROC of each at least {HIGH_AUROC})"
    less = all(noise[score] < noise["entropy"] for score in gradient)
    claims = (
        PAPER.claim("otherwise", p < MAX_P, f"{test}; AUROC {listed(wrong)}"),
        PAPER.claim("noise_less", less, f"AUROC, uniform noise: {listed(noise)}"),
        PAPER.claim("others_well", min(others.values()) >= HIGH_AUROC, f"{lowest} {wanted}"),
    )
    remark = PAPER.remark("first_split", inputs=max(map(len, values["entropy"].values())))
    return Outcome((), claims, deviations(work, record), (remark,))


_TITLE = "How entropy and gradient metrics are distributed on each set"
EXPERIMENTS = (experiment("Figure 2", _TITLE, figure2),)
