"""`elgo train`: train a policy."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer


def train(
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="Name of a config, such as paper-tsp, or FILE.toml.")],
    folder: Annotated[  # not --run: torchrun takes that for an abbreviation of its own options
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of the run; a run in it is continued.", show_default="runs/CONFIG"),
    ] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="SECTION.FIELD=VALUE", help="Override a field of the config.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0.01, help="Minutes to train, instead of the config's steps or minutes.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps to train, instead of the config's steps or minutes.")
    ] = None,
    data: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder of the validation sets; missing ones are made.")
    ] = Path("data"),
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads.", show_default="all cores")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Train a policy, or continue a run that was stopped."""
    if minutes and steps:
        raise ValueError("--minutes and --steps are both given; a run ends by one of them")
    overrides = list(sets or [])
    if minutes or steps:
        overrides += [f"train.minutes={float(minutes or 0)}", f"train.steps={steps or 0}"]

    from elgo.train.config import load_config

    chosen = load_config(config, overrides)

    from elgo.cli.train_progress import train_with_progress
    from elgo.model.rollout import torch_threads

    with torch_threads(threads) if threads else nullcontext():
        weights = train_with_progress(chosen, folder or Path("runs") / Path(config).stem, data, quiet)
    print(f"wrote {weights}")
