"""Plain words that tables, figures and sentences share."""

from collections.abc import Sequence

from nescio.records import Against

UNKNOWN_SETS = {  # of `nescio evaluate --unknown`
    "unseen": "classes left out of training",
    "noise": "noise",
    "uniform": "uniform noise",
    "normal": "normal noise",
    "permuted": "inputs with permuted values",
    "far": "inputs far from its data",
    "adversarial_noise": "noise optimised to fool it",
    "adversarial_samples": "inputs changed to fool it",
    "adversarial_noise_paper": "noise optimised to fool it, by the paper's attack",
    "adversarial_samples_paper": "inputs changed to fool it, by the paper's attack",
}
METRICS = {
    "accuracy": "fraction of known inputs given their true class.",
    "mean confidence": "mean of the largest probability (MMC).",
    "ECE": "expected calibration error: mean gap between confidence and accuracy over 15 bins of "
    "confidence. Lower is better.",
    "NLL, Brier": "proper scoring rules; Brier is from 0 to 2. Lower is better.",
    "AUROC correct/wrong": "probability that a wrong answer scores as less certain than a correct "
    "one, ties half; a dash if no answer is wrong.",
    "score": "a number for each input: higher = more likely unknown (OOD).",
    "AUROC": "probability that an unknown input scores above a known one, ties half. 0.5 is "
    "chance, 1 perfect.",
    "AUPR-In, AUPR-Out": "average precision with known (In) or unknown (Out) inputs as positives; "
    "depends on how many there are of each.",
    "FPR95": "fraction of unknown inputs accepted when 95 % of known inputs are accepted; the "
    "threshold is an observed score, without interpolation. Definitions differ between libraries.",
}


def definitions(*names: str) -> list[str]:
    """Return what metrics mean, a line for each."""
    return [f"{name}: {METRICS[name]}" for name in names]


def describe_set(name: str) -> str:
    """Return what a set of unknown inputs is.

    >>> describe_set("unseen"), describe_set("mnist")
    ('classes left out of training (unseen)', '“mnist”')
    """
    words = UNKNOWN_SETS.get(name, f"“{name}”")
    return f"{words} ({name})" if name in UNKNOWN_SETS and words != name else words


def describe_attack(attack: Against) -> str:
    """Return an attack's objective and strength.

    >>> describe_attack(Against(1000, "loss", 0.3, 80, 0.0075, "linf", True, 1, False))
    'loss increased within ε = 0.3 (linf), 80 steps of 0.0075'
    """
    doubt = attack.objective == "doubt"
    objective = "confidence decreased" if doubt else f"{attack.objective} increased"
    step = f"{'initially ' if attack.adaptive else ''}{attack.step_size:g}"
    more = [f"{attack.restarts} restarts"] if attack.restarts > 1 else []
    more += [f"again towards each of {attack.targets} classes"] if attack.targets else []
    more += [f"from the best of {attack.known_starts} known inputs"] if attack.known_starts else []
    bound = f"ε = {attack.eps:g} ({attack.norm})"
    return ", ".join([f"{objective} within {bound}", f"{attack.steps} steps of {step}", *more])


def listed(words: Sequence[str]) -> str:
    """Join words: `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def short_number(value: float) -> str:
    """Return three significant digits, with a comma between thousands.

    >>> short_number(17782.8), short_number(0.5)
    ('17,800', '0.5')
    """
    return f"{float(f'{value:.3g}'):,.10g}"


def times(factor: float) -> str:
    """Return a factor in words.

    >>> times(6.123), times(17782.8), times(1.0004)
    ('6.12 times', '17,800 times', '1.00 times')
    """
    return f"{factor:.2f} times" if factor < 10 else f"{short_number(factor)} times"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: `1 run`, `2 runs`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"
