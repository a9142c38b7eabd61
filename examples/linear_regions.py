"""Figure 1 of paper 2 on a trained network: the plane cut into polygons, on each of which it is one
affine function.

    python examples/linear_regions.py -o regions.svg

Regions crowd around the data. The outer ones never end, and in almost all of their directions the
network grows certain without bound: nothing there can tell it otherwise.
"""

import argparse

import torch

import nescio
from nescio.audit import asymptote, regions_in
from nescio.methods import Softmax
from nescio.models import mlp
from nescio.report.figures import save_figure
from nescio.report.regions import regions_figure


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("-o", "--output", default="regions.svg", help="svg, png or pdf")
    arguments.add_argument(
        "--data", default="two_moons", help="a problem in the plane: three_blobs, two_moons, …"
    )
    arguments.add_argument(
        "--hidden", type=int, nargs="+", default=[12, 12], help="widths of the hidden layers"
    )
    arguments.add_argument("--epochs", type=int, default=60)
    arguments.add_argument(
        "--width", type=float, default=2.5, help="side of the window, in extents of the data"
    )
    arguments.add_argument("--seed", type=int, default=0)
    given = arguments.parse_args()

    known = nescio.data.load(given.data, seed=given.seed)
    torch.manual_seed(given.seed)
    model = Softmax(mlp(2, len(known.classes), hidden=given.hidden), normalise=known.normalise)
    history = nescio.train(
        model, known.train, epochs=given.epochs, batch_size=64, learning_rate=5e-3, seed=given.seed
    )

    x, _ = known.train.take(slice(None))
    middle, half = (
        (x.amin(0) + x.amax(0)) / 2,
        given.width / 2 * float((x.amax(0) - x.amin(0)).max()),
    )
    record = regions_in(model, [(c - half, c + half) for c in middle.tolist()], known)
    angles = torch.linspace(0, 2 * torch.pi, 1001)[:-1]
    far = asymptote(model, middle.expand(1000, 2), torch.stack([angles.cos(), angles.sin()], 1))
    certain = (far.limit.amax(1) > 0.999).double().mean()
    print(
        f"accuracy {history.epochs[-1].accuracy:.3f}; {record.count} linear regions in the window, "
        f"{record.unbounded} of them unbounded; confidence → 1 along {certain:.1%} of directions"
    )
    save_figure(regions_figure(record), given.output)
    print(f"Saved: {given.output}")


if __name__ == "__main__":
    main()
