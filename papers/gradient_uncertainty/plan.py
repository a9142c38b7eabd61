"""What is trained for the tables and figure 2, on how much, and what it is held against."""

from dataclasses import dataclass

RIGHT, WRONG, ALL = "right", "wrong", "all unknown"


@dataclass(frozen=True)
class SplitPlan:
    """What is trained, on how much, and what it is held against."""

    data: str
    network: str
    unknown: tuple[str, ...]  # sets that are separated from right answers
    mixed: tuple[str, ...]  # those that make up `all unknown`
    mixes: tuple[tuple[str, ...], ...]  # known unknowns that the network of table 3 learns from
    train: int
    validation: int
    test: int
    digits: tuple[str, ...] = ()  # more data of known classes, whose wrong answers are a set
    unseen: tuple[str, ...] = ()
    epochs: int = 20
    batch_size: int = 256
    learning_rate: float = 0.1
    weight_decay: float = 1e-3
    most: int = 5000  # inputs of an unknown set
    each: int = 200  # inputs of a known unknown
    networks: int = 3  # of table 3 that are averaged


MNIST = SplitPlan(
    data="mnist",
    network="cnn16",
    unknown=("nist_letters", "omniglot", "notmnist", "cifar10", "normal", "uniform"),
    mixed=("omniglot", "notmnist", "cifar10", "normal", "uniform"),
    mixes=(
        *((), ("normal",), ("uniform",)),
        *(("uniform", "cifar10"), ("uniform", "cifar10", "omniglot")),
    ),
    train=45_000,
    validation=10_000,
    test=15_000,
    digits=("emnist_digits",),
)
DIGITS = SplitPlan(
    data="digits",
    network="lenet",
    unknown=("unseen", "normal", "uniform"),
    mixed=("unseen", "normal", "uniform"),
    mixes=((), ("uniform",)),
    train=120,
    validation=540,
    test=540,
    unseen=("7", "8", "9"),
    epochs=20,
    batch_size=32,
    learning_rate=0.01,
    most=400,
    each=100,
    networks=1,
)
