"""The networks of *Why ReLU networks yield high-confidence predictions*: plain, CEDA and ACET, in training.

Its tables, figures and theorem are in the files beside this one; all are about the same networks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from typing import Any

from nescio.data import Known, status
from nescio.methods.method import Method
from nescio.records import History
from nescio.store.run import Source
from papers.experiment import Work
from papers.reproduction import Differs

KINDS = {"plain": "softmax", "ceda": "ceda", "acet": "acet"}  # and the method that trains each
SHOWN = {"plain": "plain", "ceda": "CEDA", "acet": "ACET", "free": "plain, no weight decay"}
PAPER_EPOCHS, PAPER_STEPS = 100, 40
Networks = dict[tuple[str, int], Callable[[], Method]]  # by kind and seed
Trained = Callable[[], tuple[Method, History]]


@dataclass(frozen=True)
class Plan:
    """What is trained on which data, and what it is held against."""

    data: str
    network: str
    unknown: tuple[str, ...]  # beside noise and what attacks make
    epochs: int
    steps: int  # of ACET's search, at its end
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    augment: tuple[str, ...] = ()
    first_steps: int | None = None  # at its beginning
    missing: tuple[str, ...] = ()  # sets of the paper's table that we do not have


MNIST_SETS = ("fashion_mnist", "letters", "cifar10", "omniglot", "notmnist")
MISSING = ("CIFAR-100", "LSUN classrooms", "ImageNet−")
QUICK = {
    "mnist": Plan("mnist", "lenet", MNIST_SETS, epochs=4, steps=10, first_steps=2),
    # LeNet, without batch norm, would end up uniform for all images alike: CEDA's loss is flat there
    "cifar10": Plan(
        "cifar10",
        "resnet20",
        ("svhn",),
        epochs=8,
        steps=5,
        optimizer="sgd",
        learning_rate=0.1,
        first_steps=1,
        missing=MISSING,
    ),
}
PAPER = {
    "mnist": Plan("mnist", "lenet", MNIST_SETS, PAPER_EPOCHS, PAPER_STEPS, augment=("crop",)),
    "cifar10": Plan(
        "cifar10",
        "resnet20",
        ("svhn",),
        PAPER_EPOCHS,
        PAPER_STEPS,
        "sgd",
        0.1,
        ("crop", "flip"),
        missing=MISSING,
    ),
}
EMBEDDED = {
    "digits": Plan("digits", "lenet", (), epochs=3, steps=3, first_steps=1)
}  # to try it all without files


def plan_of(work: Work, data: str) -> Plan:
    """The plan for data, by scale."""
    plans: dict[str, Plan] = EMBEDDED if data in EMBEDDED else work.pick(QUICK, PAPER)
    return plans[data]


def networks(work: Work, plan: Plan, kinds: Sequence[str] = tuple(KINDS)) -> Networks:
    """The networks of each kind and seed, as functions that give them; "free" is plain without weight decay.

    Each is trained, unless there is a record that it was: then only if a stage asks for it.
    """
    found: Networks = {}
    for kind, seed in product(kinds, range(work.seeds)):
        how = training_of(plan, kind)
        train = cache(
            partial(
                work.trained,
                f"relu-{plan.data}-{kind}-{work.scale}-{seed}",
                Source(plan.data),
                KINDS.get(kind, "softmax"),
                seed=seed,
                checkpoint_every=100,
                **how,
            )
        )
        work.stage(history_name(plan, kind, seed), History, partial(_history, train), **how)
        found[kind, seed] = partial(_model, train)
    return found


def training_of(plan: Plan, kind: str) -> dict[str, Any]:
    """How a network is trained; the stages that use it know it by this.

    The authors halve both losses but not the weight decay, 5e-4 ‖w‖²: as a gradient beside whole ones that is twice as
    much, and for the plain network, which has one loss, 1e-3. Of losses that are not halved sgd takes half as long
    steps for the same way; adam does not see how large they are.
    """
    halved = kind in ("ceda", "acet") and plan.optimizer == "sgd"
    return {
        "network": plan.network,
        "own": {} if kind != "acet" else {"steps": plan.steps, "first_steps": plan.first_steps},
        "epochs": plan.epochs,
        "batch_size": 128,
        "optimizer": plan.optimizer,
        "schedule": "step",
        "learning_rate": plan.learning_rate / (2 if halved else 1),
        "weight_decay": {"plain": 1e-3, "free": 0.0}.get(kind, 2e-3),
        "augment": list(plan.augment),
    }


def history_name(plan: Plan, kind: str, seed: int) -> str:
    """The stage that holds how a network was trained."""
    return f"{plan.data}-{kind}-{seed}-history"


def learned(work: Work, plan: Plan, kind: str) -> list[float]:
    """The accuracy of each seed's network on its training data, in the last epoch."""
    files = (work.folder / f"{history_name(plan, kind, seed)}.json" for seed in range(work.seeds))
    return [History.load(file).epochs[-1].accuracy for file in files]


def _history(train: Trained) -> History:
    return train()[1]


def _model(train: Trained) -> Method:
    return train()[0]


def letters(root: str | None) -> str:
    """The letters at hand: those of the paper or, in their place, capitals of the same source."""
    present = {one.name for one in status(root) if one.present}
    return "emnist_letters" if "emnist_letters" in present else "nist_letters"


def unlike(plan: Plan, known: Known, work: Work) -> list[Differs]:
    """How our training is not the paper's."""
    found = []
    if plan.epochs != PAPER_EPOCHS:
        moved = "random crops" + (", random mirroring" if plan.data == "cifar10" else "")
        found.append(
            Differs(
                "training",
                f"{PAPER_EPOCHS} epochs, {moved}",
                f"{plan.epochs} epochs, of images as they are",
                "to fit within an hour on two cores",
            )
        )
    found.append(
        Differs(
            "weight decay",
            "5e-4 for all",
            "1e-3 of the plain network, 2e-3 of CEDA and ACET",
            "what their code's 5e-4 ‖w‖² beside halved losses comes to",
        )
    )
    if plan.network != "lenet":
        found.append(
            Differs("batch norm", "has no weight decay (their code)", "has it as all weights")
        )
    if plan.steps != PAPER_STEPS:
        found.append(
            Differs(
                "search of ACET",
                f"{PAPER_STEPS} steps of 0.0075",
                f"{plan.first_steps} steps at the beginning and {plan.steps} at the end, each ε over "
                "their number",
                "most of the time goes there",
            )
        )
    found.append(
        Differs("inputs", "as they are", "normalised within the network", "as all our networks")
    )
    found.append(
        Differs(
            "low-pass of the noise",
            "one σ for a batch",
            "one σ for each image",
            "more kinds of noise in a batch",
        )
    )
    count = 0 if known.train is None else len(known.train)
    if plan.data == "cifar10" and not work.dry and count < 50_000:
        found.append(
            Differs("training images", "50 000", f"{count:,}".replace(",", " "), "those at hand")
        )
    return found
