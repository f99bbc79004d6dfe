"""`elgo info`: describe models."""

from pathlib import Path
from typing import Annotated

import typer


def info(
    weights: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Weights file (.safetensors).", show_default="the models of the package"),
    ] = None,
) -> None:
    """Describe models: their network and training. Without a file, list the models of the package."""
    from elgo.model.checkpoint import SHIPPED

    for file in [weights] if weights else sorted(SHIPPED.glob("*.safetensors")):
        header = _header(file)
        print(file if weights else "{} ({})".format(*file.stem.rsplit("-", 1)))
        for key, value in sorted(header.items()):
            if value:
                print(f"  {key}: {value}")


def _header(file: Path) -> dict[str, str]:
    """Return the metadata of a weights file, without loading the weights."""
    from elgo.model.checkpoint import open_weights

    with open_weights(file) as tensors:
        return tensors.metadata() or {}
