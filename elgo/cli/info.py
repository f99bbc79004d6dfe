"""`elgo info`: describe a weights file."""

from pathlib import Path
from typing import Annotated

import typer


def info(weights: Annotated[Path, typer.Argument(metavar="FILE", help="Weights file (.safetensors).")]) -> None:
    """Describe a weights file: its network and training. The models of the package: elgo models."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(weights, framework="numpy") as tensors:
            header = tensors.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{weights}: not a safetensors file ({error})") from error
    print(weights)
    for key, value in sorted(header.items()):
        if value:
            print(f"  {key}: {value}")
