"""Where a policy's parameters are, by name: auto, cpu, cuda or cuda:NUMBER."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

NAMES = re.compile(r"auto|cpu|cuda(:\d+)?")


def check_device(name: str) -> None:
    """Raise ValueError if this is no name of a device. Needs no torch."""
    if not NAMES.fullmatch(name):
        raise ValueError(f"device is {name!r}, must be auto, cpu, cuda or cuda:NUMBER")


def find_device(name: str) -> torch.device:
    """Return the device of a name; auto is the first GPU, or the CPU if there is none. ValueError if it is missing."""
    import torch

    check_device(name)
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        name = "cuda" if count else "cpu"
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= count:
        raise ValueError(f"device is {name!r}, but torch finds {count or 'no'} GPU{'s' if count > 1 else ''}")
    return device
