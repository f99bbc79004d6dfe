"""`elgo info`: describe a weights file."""

from pathlib import Path
from typing import Annotated

import typer


def info(weights: Annotated[Path, typer.Argument(metavar="FILE", help="Weights file (.safetensors).")]) -> None:
    """Describe a weights file: its network and training. The models of the package: elgo models."""
    from elgo.model.checkpoint import open_weights

    with open_weights(weights) as tensors:
        header = tensors.metadata() or {}
    print(weights)
    for key, value in sorted(header.items()):
        if value:
            print(f"  {key}: {value}")
