"""Figure 1 of paper 2 on a trained network: the polygons on which it is one affine function.

    python examples/linear_regions.py -o regions.svg

Regions crowd around the data. The outer ones are unbounded, and along almost all of their
directions the confidence of the network tends to 1.
"""

import argparse

import torch

import nescio
from nescio.audit import asymptote, regions_in
from nescio.methods import Softmax
from nescio.models import mlp
from nescio.report import regions_figure, save_figure


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", default="regions.svg", help="svg, png or pdf")
    parser.add_argument(
        "--data", default="two_moons", help="data with two features: three_blobs, two_moons, …"
    )
    parser.add_argument(
        "--hidden", type=int, nargs="+", default=[12, 12], help="widths of the hidden layers"
    )
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument(
        "--width",
        type=float,
        default=2.5,
        help="side of the window, as a multiple of the data's extent",
    )
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    known = nescio.data.load(args.data, seed=args.seed)
    torch.manual_seed(args.seed)
    model = Softmax(mlp(2, len(known.classes), hidden=args.hidden), normalise=known.normalise)
    history = nescio.train(
        model, known.train, epochs=args.epochs, batch_size=64, learning_rate=5e-3, seed=args.seed
    )

    x, _ = known.train.take(slice(None))
    middle = (x.amin(0) + x.amax(0)) / 2
    half = args.width / 2 * float((x.amax(0) - x.amin(0)).max())
    record = regions_in(model, [(c - half, c + half) for c in middle.tolist()], known)
    angles = torch.linspace(0, 2 * torch.pi, 1001)[:-1]
    far = asymptote(model, middle.expand(1000, 2), torch.stack([angles.cos(), angles.sin()], 1))
    certain = (far.limit.amax(1) > 0.999).double().mean()
    print(
        f"accuracy {history.epochs[-1].accuracy:.3f}; {record.count} linear regions in the window, "
        f"{record.unbounded} of them unbounded; confidence → 1 along {certain:.1%} of directions"
    )
    save_figure(regions_figure(record), args.output)
    print(f"Saved: {args.output}")


if __name__ == "__main__":
    main()
