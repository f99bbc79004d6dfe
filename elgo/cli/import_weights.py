"""`elgo import-weights`: convert a checkpoint of the official ELG code."""

from pathlib import Path
from typing import Annotated

import typer

from elgo.cli.outputs import check_file


def import_weights(
    source: Annotated[Path, typer.Argument(metavar="FILE.pt", help="Checkpoint of the official ELG code.")],
    target: Annotated[
        Path | None,
        typer.Argument(metavar="OUT.safetensors", help="Weights file to write.", show_default="beside FILE.pt"),
    ] = None,
) -> None:
    """Convert a checkpoint of the official ELG code."""
    target = target or source.with_suffix(".safetensors")
    if target == source:
        raise ValueError(f"{source}: the weights file would replace its own input")
    check_file("OUT", target)

    from elgo.model.official import import_official

    import_official(source, target)
    print(f"wrote {target}")
