"""A network of your own, trained by your own loop: to "I do not know" in less than a minute.

    python examples/own_model.py

It learns the digits 0 to 6 and is then shown 7, 8 and 9. Its code does not use nescio.
"""

import argparse
import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor, nn

import nescio


class Net(nn.Module):
    """A small convolutional network."""

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
    """Train by an ordinary loop."""
    optimizer = torch.optim.Adam(net.parameters(), 2e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
            optimizer.step()


def main() -> None:
    parser = argparse.ArgumentParser(description="A network of your own, and nescio around it.")
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    started = time.monotonic()
    torch.manual_seed(args.seed)
    digits = nescio.data.load("digits", unseen=[7, 8, 9], seed=args.seed)
    net = Net(classes=7)
    train(net, digits.train.inputs, digits.train.labels, args.epochs)

    # all that nescio needs: rank and fit detectors, predict, save and load
    recommended = nescio.recommend(net, digits.test, train=digits.train)
    detector = recommended.detector
    answers = detector.predict(digits.unseen)  # class, or −1 = "I do not know"
    with tempfile.TemporaryDirectory() as folder:
        nescio.save(detector, Path(folder) / "digits.nescio")
        loaded = nescio.load(Path(folder) / "digits.nescio", model=net)

    accuracy = (nescio.predict(net, digits.test)[0].argmax(1) == digits.test.labels).double().mean()
    print(f"Accuracy {accuracy:.1%} on known digits; every 7, 8 or 9 is assigned to one of them")
    first, second = recommended.record.ranking[:2]
    print(
        f"Recommended: {first.name} (mean AUROC {first.mean:.3f} on synthetic outliers), before "
        f"{second.name} ({second.mean:.3f})"
    )
    auroc = nescio.metrics.auroc(detector.score(digits.test), detector.score(digits.unseen))
    print(f"AUROC, known digits against 7, 8 and 9: {auroc:.3f}")
    print(f"Of 7, 8 and 9, {(answers == -1).double().mean():.1%} are rejected")
    print(f"A known digit: {detector.explain(digits.test.inputs[0])[0]}")
    print(f"An unseen digit: {detector.explain(digits.unseen.inputs[0])[0]}")
    same = torch.equal(loaded.predict(digits.unseen), answers)
    print(f"Saved and loaded: {'the same' if same else 'OTHER'} answers")
    print(f"Total: {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
