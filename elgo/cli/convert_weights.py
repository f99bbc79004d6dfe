"""`elgo import-weights` and `elgo export-weights`: checkpoints of the published ELG code."""

from pathlib import Path
from typing import Annotated, Any

import typer

from elgo.cli.outputs import check_file, file_ids

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
    neighbours: Annotated[
        int | None, typer.Option(help=f"{NOT_SAID}number of neighbours that the local policy sees (K).")
    ] = None,
    xi: Annotated[float | None, typer.Option(help=f"{NOT_SAID}penalty of nodes that are no neighbours (xi).")] = None,
    clip: Annotated[float | None, typer.Option(help=f"{NOT_SAID}bound of the scores (C).")] = None,
    heads: Annotated[int | None, typer.Option(help=f"{NOT_SAID}attention heads of the global policy.")] = None,
    local_heads: Annotated[int | None, typer.Option(help=f"{NOT_SAID}attention heads of the local policy.")] = None,
    penalty: Annotated[
        bool | None, typer.Option(help=f"{NOT_SAID}whether far nodes are penalised by their distance.")
    ] = None,
    positional: Annotated[
        bool | None, typer.Option(help=f"{NOT_SAID}whether neighbours are told apart by their rank.")
    ] = None,
    coordinates: Annotated[
        str | None, typer.Option(help=f"{NOT_SAID}coordinates of neighbours: polar or euclidean.")
    ] = None,
) -> None:
    """Import weights of the published ELG code.

    What the checkpoint does not say is given by its config.yml or by options.
    """
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
    """Export weights to the published ELG code. Writes a checkpoint, and model_params for its config.yml."""
    target = target or source.with_suffix(".pt")
    _check_target(source, target)
    _check_target(source, target.with_suffix(".yml"))

    from elgo.model.official import export_official

    export_official(source, target)
    print(f"wrote {target} and {target.with_suffix('.yml')}")


def _check_target(source: Path, target: Path) -> None:
    check_file("OUT", target, file_ids([source]))
