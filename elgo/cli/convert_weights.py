"""`elgo import-weights` and `elgo export-weights`: checkpoints of the published ELG code."""

from pathlib import Path
from typing import Annotated, Any

import typer

from elgo.cli.outputs import check_file

NOT_SAID = "Instead of --config: "


def import_weights(
    source: Annotated[Path, typer.Argument(metavar="FILE.pt", help="Checkpoint of the published ELG code.")],
    target: Annotated[
        Path | None,
        typer.Argument(metavar="OUT.safetensors", help="Weights file to write.", show_default="beside FILE.pt"),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE.yml", help="The config.yml that the checkpoint was trained with.")
    ] = None,
    neighbours: Annotated[int | None, typer.Option(help=f"{NOT_SAID}K.")] = None,
    xi: Annotated[float | None, typer.Option(help=f"{NOT_SAID}the penalty outside the neighbourhood.")] = None,
    clip: Annotated[float | None, typer.Option(help=f"{NOT_SAID}C.")] = None,
    heads: Annotated[int | None, typer.Option(help=f"{NOT_SAID}heads of the global policy.")] = None,
    local_heads: Annotated[int | None, typer.Option(help=f"{NOT_SAID}heads of the local policy.")] = None,
    penalty: Annotated[bool | None, typer.Option(help=f"{NOT_SAID}the distance penalty.")] = None,
    positional: Annotated[bool | None, typer.Option(help=f"{NOT_SAID}the rank encoding.")] = None,
    coordinates: Annotated[str | None, typer.Option(help=f"{NOT_SAID}polar or euclidean.")] = None,
) -> None:
    """Convert a checkpoint of the published ELG code. What it does not say is given by its config.yml or by options."""
    target = target or source.with_suffix(".safetensors")
    _check_target(source, target)

    from elgo.model.official import import_official, read_config

    given: dict[str, Any] = read_config(config) if config else {}
    options = {
        "neighbours": neighbours,
        "xi": xi,
        "clip": clip,
        "heads": heads,
        "local_heads": local_heads,
        "penalty": penalty,
        "positional": positional,
        "coordinates": coordinates,
    }
    import_official(source, target, given | {name: value for name, value in options.items() if value is not None})
    print(f"wrote {target}")


def export_weights(
    source: Annotated[Path, typer.Argument(metavar="FILE.safetensors", help="Weights file.")],
    target: Annotated[
        Path | None,
        typer.Argument(metavar="OUT.pt", help="Checkpoint to write, with OUT.yml.", show_default="beside the file"),
    ] = None,
) -> None:
    """Convert a weights file into a checkpoint of the published ELG code, and model_params for its config.yml."""
    target = target or source.with_suffix(".pt")
    _check_target(source, target)
    _check_target(source, target.with_suffix(".yml"))

    from elgo.model.official import export_official

    export_official(source, target)
    print(f"wrote {target} and {target.with_suffix('.yml')}")


def _check_target(source: Path, target: Path) -> None:
    check_file("OUT", target, {source.resolve()})
