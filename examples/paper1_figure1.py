"""Figure 1 of *Know your limits*: predictive entropy of five models, far beyond their data.

    python examples/paper1_figure1.py -o figure1.svg

White is certain. A single network is uncertain only in thin bands between the classes, and certain
everywhere else, out to infinity. Several draws widen the bands into wedges, but the certain regions
remain unbounded.
"""

import argparse

import numpy as np

import nescio
from nescio.evaluation import trained_map
from nescio.methods import METHODS
from nescio.report import map_figure, save_figure

FIVE = ("softmax", "mc_dropout", "bayes_by_backprop", "ensemble", "anchored")


def rim(record: nescio.records.Map) -> float:
    """Return the fraction of the map's rim where the model's confidence exceeds 99 %."""
    confidence = np.array(record.confidence.values)
    edge = np.concatenate(
        [confidence[0], confidence[-1], confidence[1:-1, 0], confidence[1:-1, -1]]
    )
    return float((edge > 0.99).mean())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", default="figure1.svg", help="svg, png or pdf")
    parser.add_argument(
        "--data", default="three_blobs", help="data with two features: three_blobs, two_moons, …"
    )
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--resolution", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    known = nescio.data.load(args.data, seed=args.seed)
    how = {"epochs": args.epochs, "resolution": args.resolution, "seed": args.seed}
    maps = []
    for name in FIVE:
        maps.append(trained_map(name, known, ["entropy"], **how))
        title = METHODS[name].__name__
        print(f"{title:<17} confidence above 99 % on {rim(maps[-1]):4.0%} of the rim")
    save_figure(map_figure(maps), args.output)
    print(f"Saved: {args.output}")


if __name__ == "__main__":
    main()
