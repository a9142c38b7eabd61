"""A network of your own, trained by a loop of your own: from nothing to "I do not know" in under a
minute.

    python examples/own_model.py

It learns the digits 0 to 6 and then meets 7, 8 and 9. Nothing in the network knows of nescio.
"""

import argparse
import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor, nn

import nescio


class Net(nn.Module):
    """A small convolutional network, as anyone would write it."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.features = nn.Sequential(nn.Flatten(), nn.Linear(64 * 16, 64), nn.ReLU())
        self.head = nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(self.body(x)))
        return logits


def train(net: nn.Module, x: Tensor, y: Tensor, epochs: int) -> None:
    """An ordinary training loop."""
    optimizer = torch.optim.Adam(net.parameters(), 2e-3)
    for _ in range(epochs):
        for some in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[some]), y[some]).backward()
            optimizer.step()


def main() -> None:
    parser = argparse.ArgumentParser(description="A network of your own, and nescio around it.")
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    started = time.monotonic()
    torch.manual_seed(given.seed)
    digits = nescio.data.load("digits", unseen=[7, 8, 9], seed=given.seed)
    net = Net(classes=7)
    train(net, digits.train.inputs, digits.train.labels, given.epochs)

    # the six lines: which detector, what it promises, what it answers
    found = nescio.recommend(net, digits.test, train=digits.train)
    detector = found.detector
    answers = detector.predict(digits.unseen)  # class, or −1
    with tempfile.TemporaryDirectory() as folder:
        nescio.save(detector, Path(folder) / "digits.nescio")
        again = nescio.load(Path(folder) / "digits.nescio", model=net)

    accuracy = (nescio.predict(net, digits.test)[0].argmax(1) == digits.test.labels).double().mean()
    print(
        f"accuracy of the network {accuracy:.1%} on known digits; it takes each 7, 8 or 9 for one"
    )
    first, second = found.record.ranking[:2]
    print(
        f"recommended by known data alone: {first.name} ({first.mean:.3f}), before {second.name} "
        f"({second.mean:.3f})"
    )
    auroc = nescio.metrics.auroc(detector.score(digits.test), detector.score(digits.unseen))
    print(f"AUROC, known against 7, 8 and 9: {auroc:.3f}")
    print(f"of 7, 8 and 9, it does not know {(answers == -1).double().mean():.1%}")
    print(f"one known digit: {detector.explain(digits.test.inputs[0])[0]}")
    print(f"one it never saw: {detector.explain(digits.unseen.inputs[0])[0]}")
    same = torch.equal(again.predict(digits.unseen), answers)
    print(
        f"saved and loaded, it answers {'the same' if same else 'OTHERWISE'}; "
        f"{time.monotonic() - started:.0f} s in all"
    )


if __name__ == "__main__":
    main()
