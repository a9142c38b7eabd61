"""Figure 1 of *Know your limits*: predictive entropy of five models, far beyond the data they
learned.

    python examples/paper1_figure1.py -o figure1.svg

White is certain. A single network is uncertain only in thin bands between the classes, and certain
everywhere else, out to infinity; drawing several widens the bands into wedges, and leaves the
open-ended certain regions.
"""

import argparse

import numpy as np

import nescio
from nescio.evaluation.maps import trained_map
from nescio.methods import METHODS
from nescio.report.figures import save_figure
from nescio.report.maps import map_figure

FIVE = ("softmax", "mc_dropout", "bayes_by_backprop", "ensemble", "anchored")


def rim(record: nescio.records.Map) -> float:
    """The share of the map's rim, as far out as it goes, where the model's confidence exceeds
    99 %.
    """
    confidence = np.array(record.confidence.values)
    edge = np.concatenate(
        [confidence[0], confidence[-1], confidence[1:-1, 0], confidence[1:-1, -1]]
    )
    return float((edge > 0.99).mean())


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("-o", "--output", default="figure1.svg", help="svg, png or pdf")
    arguments.add_argument(
        "--data", default="three_blobs", help="a problem in the plane: three_blobs, two_moons, …"
    )
    arguments.add_argument("--epochs", type=int, default=40)
    arguments.add_argument("--resolution", type=int, default=120)
    arguments.add_argument("--seed", type=int, default=0)
    given = arguments.parse_args()
    known = nescio.data.load(given.data, seed=given.seed)
    how = {"epochs": given.epochs, "resolution": given.resolution, "seed": given.seed}
    maps = []
    for name in FIVE:
        maps.append(trained_map(name, known, ["entropy"], **how))
        title = METHODS[name].__name__
        print(f"{title:<17} confidence above 99 % on {rim(maps[-1]):4.0%} of the rim")
    save_figure(map_figure(maps), given.output)
    print(f"Saved: {given.output}")


if __name__ == "__main__":
    main()
