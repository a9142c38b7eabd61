"""Files of nescio's with other content, signed anew by its own functions."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from fuzz.mutations import changed
from nescio.core.tensorfile import _digest
from nescio.records import Fitted
from nescio.store.detector_folder import digests


def forge(rng: Random, place: Path, victim: str) -> None:
    """Change what a file says, and sign it anew."""
    path = place / victim
    if path.suffix == ".json":
        path.write_text(json.dumps(changed(rng, json.loads(path.read_bytes()))), encoding="utf-8")
    else:
        with safe_open(str(path), framework="pt") as file:
            about = json.loads(file.metadata()["nescio"])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - no mapping
        del about["digest"]
        if rng.random() < 0.5:
            other = changed(rng, about)
            about = json.loads(json.dumps(other)) if isinstance(other, dict) else about
        else:
            tensors = other_tensors(rng, tensors)
        header = {"nescio": json.dumps({**about, "digest": _digest(tensors, about)})}
        path.write_bytes(save(tensors, header))
    if (place / "fitted.json").exists():
        body = json.loads((place / "fitted.json").read_bytes())
        if isinstance(body, dict):
            body["files"] = digests(place)
            (place / "fitted.json").write_text(json.dumps(body), encoding="utf-8")
            sealed = Fitted.load(place / "fitted.json")
            body["digest"] = sealed.own_digest()
            (place / "fitted.json").write_text(json.dumps(body), encoding="utf-8")


def other_tensors(rng: Random, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors with one of another shape, type or name, with other values, or without it."""
    name = rng.choice(sorted(tensors))
    value, rest = tensors[name], {key: one for key, one in tensors.items() if key != name}
    floats = value.is_floating_point()
    ways: tuple[Callable[[], dict[str, Tensor]], ...] = (
        dict,
        lambda: {name + "x": value},
        lambda: {name: value, "extra": value.clone()},
        lambda: {name: value[0].clone() if value.dim() and len(value) else value[None].clone()},
        lambda: {name: value[None].clone()},
        lambda: {name: value[:-1].clone() if value.dim() else value + 1},
        lambda: {name: torch.cat([value, value]) if value.dim() else value.expand(3).clone()},
        lambda: {name: value.flatten()},
        lambda: {
            name: value.mT.contiguous()
            if value.dim() > 1
            else value.flip(0)
            if value.dim()
            else -value
        },
        lambda: {
            name: value.to(
                rng.choice((torch.float64, torch.float16, torch.int64, torch.bool, torch.uint8))
            )
        },
        lambda: {
            name: torch.full_like(
                value, rng.choice((torch.nan, torch.inf, 1e30)) if floats else 10**6
            )
        },
        lambda: {name: -value if value.dtype != torch.bool else ~value},
        lambda: {name: torch.zeros_like(value)},
        lambda: {name: value[:0].clone() if value.dim() else value},
    )
    return rest | rng.choice(ways)()
