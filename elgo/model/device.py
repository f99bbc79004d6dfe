"""Where a policy's parameters are, by name: auto, cpu, cuda or cuda:NUMBER."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from elgo.problem.errors import ElgoError

if TYPE_CHECKING:
    import torch

NAMES = re.compile(r"auto|cpu|cuda(:\d+)?")


def check_device(name: str) -> None:
    """Raise ElgoError if this is no name of a device. Needs no torch."""
    if not NAMES.fullmatch(name):
        raise ElgoError(f"device is {name!r}, must be auto, cpu, cuda or cuda:NUMBER")


def require_torch(what: str) -> None:
    """Import torch, which `what` needs; if it is not installed, ModuleNotFoundError says in one line how to get it."""
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(f"{what} needs torch: pip install 'elgo[train]'", name="torch") from None


def is_gpu(name: str) -> bool:
    """Return whether a device is a GPU. Torch is asked only if there may be one: its import takes seconds."""
    check_device(name)
    if name != "auto":
        return name != "cpu"
    return find_spec("torch") is not None and _has_driver() and find_device(name).type == "cuda"


def _has_driver() -> bool:
    """Return whether a driver of NVIDIA's GPUs can be loaded."""
    if "torch" in sys.modules:
        return True  # so there is no import to save
    try:
        ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    except OSError:
        return False
    return True


def find_device(name: str) -> torch.device:
    """Return the device of a name; auto is the first GPU, or the CPU if there is none. ElgoError if it is missing."""
    check_device(name)
    require_torch(f"device {name!r}")
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        name = "cuda" if count else "cpu"
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= count:
        raise ElgoError(f"device is {name!r}, but torch finds {count or 'no'} GPU{'s' if count > 1 else ''}")
    return device
