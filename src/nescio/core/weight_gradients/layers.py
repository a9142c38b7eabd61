"""The layers of a network: modules that hold weights of their own, and the names they go by."""

from collections import Counter

from torch import Tensor, nn

_KINDS = {
    "Conv1d": "conv",
    "Conv2d": "conv",
    "Conv3d": "conv",
    "BatchNorm1d": "norm",
    "BatchNorm2d": "norm",
    "BatchNorm3d": "norm",
    "LayerNorm": "norm",
    "GroupNorm": "norm",
}


def layers_of(model: nn.Module) -> dict[str, dict[str, Tensor]]:
    """The weights of each layer, weights and biases together, by the layer's name, and by their own full names.

    A layer goes by its path in the network, without what all paths share (a method's `net.`); where that is but a
    number, as in `nn.Sequential`, by its kind and place: `conv2`, `linear1`. Weights used by two layers count to the
    first.

    >>> list(layers_of(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))))
    ['linear1', 'linear2']
    """
    found: dict[str, dict[str, Tensor]] = {}
    owners, modules = {}, dict(model.named_modules())
    for path, parameter in model.named_parameters():
        if parameter.is_floating_point():
            owner = _owner(path)
            owners[owner] = modules[owner]
            found.setdefault(owner, {})[path] = parameter
    return dict(zip(_names(owners), found.values(), strict=True))


def _owner(path: str) -> str:
    """The path of the layer a weight belongs to; a parametrised one keeps parts of its weight in modules of its own.

    >>> _owner("net.2.bias"), _owner("net.2.parametrizations.weight.original0")
    ('net.2', 'net.2')
    """
    words = path.split(".")[:-1]
    return ".".join(
        words[: words.index("parametrizations")] if "parametrizations" in words else words
    )


def _names(owners: dict[str, nn.Module]) -> list[str]:
    shared = _shared(list(owners))
    places: Counter[str] = Counter()
    named = []
    for path, module in owners.items():
        kind = str(getattr(module, "original_name", type(module).__name__)).removeprefix(
            "Parametrized"
        )
        kind = _KINDS.get(kind, kind.lower())
        places[kind] += 1
        short = ".".join(path.split(".")[shared:])
        telling = (
            any(character.isalpha() for character in short) and short != "all"
        )  # which is the whole network
        named.append(short if telling else f"{kind}{places[kind]}")
    return [path or "own" for path in owners] if len(set(named)) < len(named) else named


def _shared(paths: list[str]) -> int:
    """How many words all paths begin with; the last word of a path is never shared."""
    split = [path.split(".")[:-1] for path in paths]
    shortest = min((len(words) for words in split), default=0)
    return next((at for at in range(shortest) if len({words[at] for words in split}) > 1), shortest)
