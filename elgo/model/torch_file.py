"""Reading files of torch.save safely: nothing in them is executed."""

from pathlib import Path
from typing import Any

import torch

from elgo.problem.errors import ElgoError


def read_torch_file(path: Path) -> Any:
    """Return the content of a file of torch.save that holds only tensors and plain values; ElgoError if not."""
    if not path.is_file():
        raise ElgoError(f"{path}: no such checkpoint")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds, from pickle, zip and its own, some with unsafe advice
        kind = type(error).__name__
        raise ElgoError(
            f"{path}: not a checkpoint that loads safely: it is damaged, or holds more than tensors ({kind})"
        ) from None
