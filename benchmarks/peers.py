"""Other packages to measure against, where they are installed."""

from types import ModuleType

import torch

DECLARED: list[
    torch.library.Library
] = []  # what is declared is forgotten with the object that declared it


def pytorch_ood() -> ModuleType | None:
    """The detectors of pytorch-ood, or None if it is not installed.

    It imports torchvision for its data sets. Of torchvision the usual build cannot load its
    operators beside a torch for the CPU, and fails for want of two; these are then declared here,
    and none of them is ever run.
    """
    try:
        import torchvision  # noqa: F401
    except ImportError:
        return None
    except RuntimeError:
        DECLARED.append(torch.library.Library("torchvision", "FRAGMENT"))
        for name in ("nms", "qnms"):
            DECLARED[-1].define(
                f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            )
    try:
        from pytorch_ood import detector
    except ImportError:
        return None
    return detector
