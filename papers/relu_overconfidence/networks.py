"""The networks of the paper, plain, CEDA and ACET, which its tables and figures share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Any

from nescio.data import Known, status
from nescio.methods import Method
from nescio.records import History
from nescio.store import Source
from papers.paper import read_paper
from papers.relu_overconfidence.authors import authors_network, weights_file
from papers.reproduction import Deviation
from papers.workspace import Workspace

PAPER = read_paper("relu_overconfidence")
KINDS = {"plain": "softmax", "ceda": "ceda", "acet": "acet"}  # and the method that trains each
SHOWN = {
    "plain": "plain",
    "ceda": "CEDA",
    "acet": "ACET",
    "free": "plain, no weight decay",
    "crops": "plain, random crops, inputs as they are",
}
CHANGES: dict[str, dict[str, Any]] = {  # in how a plain network is trained
    "free": {"weight_decay": 0.0},
    "crops": {"augment": ["crop"], "normalised": False},
}
PAPER_EPOCHS, PAPER_STEPS = 100, 40
# the sets that the networks of both tables are trained on
IN_PAPER = {"mnist": "MNIST", "svhn": "SVHN", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
Networks = dict[tuple[str, int], Callable[[], Method]]  # by kind and seed


@dataclass(frozen=True)
class TrainingPlan:
    """What is trained on which data, and what it is held against."""

    data: str
    network: str
    unknown: tuple[str, ...]  # beside noise and what attacks make
    epochs: int = PAPER_EPOCHS
    steps: int = PAPER_STEPS  # of ACET's search, at its end
    first_steps: int | None = None  # at its beginning
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    augment: tuple[str, ...] = ()
    missing: str = ""  # sets of the paper's table that are not at hand
    by_authors: bool = False  # whether the authors' weights are loaded, so that nothing is trained
    images: str = ""  # data whose images stand in for those of `data`, if these are not at hand

    @property
    def source(self) -> Source:
        """The known images."""
        return Source(self.images or self.data)


MNIST_SETS = ("fashion_mnist", "letters", "cifar10", "omniglot", "notmnist")
_MNIST = TrainingPlan("mnist", "lenet", MNIST_SETS)
# LeNet, without batch norm, would end up uniform for all images alike: CEDA's loss is flat there
_CIFAR = TrainingPlan(
    *("cifar10", "resnet20", ("svhn",)),
    optimizer="sgd",
    learning_rate=0.1,
    missing="CIFAR-100, LSUN classrooms, ImageNet−",
)
QUICK = {"mnist": replace(_MNIST, epochs=4, steps=10, first_steps=2)}
PAPER_SCALE = {
    "mnist": replace(_MNIST, augment=("crop",)),
    "cifar10": replace(_CIFAR, augment=("crop", "flip")),
}
_AUTHORS = TrainingPlan("cifar10", "resnet20", ("svhn",), by_authors=True)
AUTHORS = {
    "cifar10": replace(_AUTHORS, missing=_CIFAR.missing),
    "svhn": replace(_AUTHORS, data="svhn", unknown=("cifar10",), missing=_CIFAR.missing),
    "cifar100": replace(
        _AUTHORS,
        data="cifar100",
        unknown=("svhn", "cifar10"),
        missing="LSUN classrooms, ImageNet−",
        images="cifar10",
    ),
}
# to try it all without files
EMBEDDED = {"digits": TrainingPlan("digits", "mlp", (), epochs=60, steps=10, first_steps=2)}


def plan_of(work: Workspace, data: str) -> TrainingPlan:
    """Return the plan for data, by scale."""
    plans: dict[str, TrainingPlan] = EMBEDDED if data in EMBEDDED else work.pick(QUICK, PAPER_SCALE)
    return plans[data]


def networks(work: Workspace, plan: TrainingPlan, kinds: Sequence[str] = tuple(KINDS)) -> Networks:
    """Return functions that give each network: a method's, or plain with one of `CHANGES`.

    Those of the authors are loaded. Each other is trained, unless there is a record that it was:
    then only if a stage asks for it.
    """
    networks: Networks = {}
    for kind, seed in product(kinds, range(work.seeds)):
        if plan.by_authors:
            networks[kind, seed] = cache(partial(authors_network, work.root, plan.data, kind))
            continue
        how, name = training_of(plan, kind), f"relu-{plan.data}-{kind}-{work.scale}-{seed}"
        which = (name, Source(plan.data), KINDS.get(kind, "softmax"))
        train = cache(partial(work.trained, *which, seed=seed, checkpoint_every=100, **how))
        # bound now: the loop goes on
        history = partial(lambda train: train()[1], train)
        work.stage(history_name(plan, kind, seed), History, history, **how)
        networks[kind, seed] = partial(lambda train: train()[0], train)
    return networks


def training_of(plan: TrainingPlan, kind: str) -> dict[str, Any]:
    """Return how a network is trained; the stages that use it know it by this.

    The authors halve both losses but not the weight decay, 5e-4 ‖w‖²: as a gradient beside whole
    ones that is twice as much, and for the plain network, which has one loss, 1e-3. Of losses that
    are not halved sgd takes half as long steps for the same way; adam does not see their size.
    """
    if plan.by_authors:
        return {"weights": weights_file(plan.data, kind)}
    halved = kind in ("ceda", "acet") and plan.optimizer == "sgd"
    return {
        "network": plan.network,
        "own": {} if kind != "acet" else {"steps": plan.steps, "first_steps": plan.first_steps},
        "epochs": plan.epochs,
        "batch_size": 128,
        "optimizer": plan.optimizer,
        "schedule": "step",
        "learning_rate": plan.learning_rate / (2 if halved else 1),
        "weight_decay": 2e-3 if kind in ("ceda", "acet") else 1e-3,
        "augment": list(plan.augment),
        **CHANGES.get(kind, {}),
    }


def history_name(plan: TrainingPlan, kind: str, seed: int) -> str:
    """Return the stage that holds how a network was trained."""
    return f"{plan.data}-{kind}-{seed}-history"


def train_accuracy(work: Workspace, plan: TrainingPlan, kind: str) -> list[float]:
    """Return the accuracy of each seed's network on its training data, in the last epoch."""
    files = (work.folder / f"{history_name(plan, kind, seed)}.json" for seed in range(work.seeds))
    return [History.load(file).epochs[-1].accuracy for file in files]


def letters(root: str | None) -> str:
    """Return the letters that are available: the paper's or else capitals of the same source."""
    present = {one.name for one in status(root) if one.present}
    return "emnist_letters" if "emnist_letters" in present else "nist_letters"


def with_spaces(count: int) -> str:
    """Return a number with spaces between thousands."""
    return f"{count:,}".replace(",", " ")


def deviations(
    plan: TrainingPlan, known: Known, work: Workspace, kinds: Sequence[str] = tuple(KINDS)
) -> list[Deviation]:
    """Return how our networks are not the paper's."""
    if plan.by_authors:
        return [*PAPER.deviates("authors")]
    if tuple(kinds) == ("crops",):
        short = PAPER.deviates("short", paper_epochs=PAPER_EPOCHS, epochs=plan.epochs)
        return [] if plan.epochs == PAPER_EPOCHS else [*short]
    count = 0 if known.train is None else len(known.train)
    few = plan.data == "cifar10" and not work.dry and count < 50_000
    keys = {
        "training": plan.epochs != PAPER_EPOCHS,
        "weight_decay": True,
        "batch_norm": plan.network == "resnet20",
        "search": plan.steps != PAPER_STEPS,
        "inputs": True,
        "low_pass": True,
        "images": few,
    }
    moved = "random crops" + (", random mirroring" if plan.data == "cifar10" else "")
    values = {**vars(plan), "moved": moved, "count": with_spaces(count)}
    values |= {"paper_epochs": PAPER_EPOCHS, "paper_steps": PAPER_STEPS}
    return [*PAPER.deviates(*(key for key, applies in keys.items() if applies), **values)]
