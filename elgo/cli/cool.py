"""`elgo cool`: lower the learning rate of a run to 0, in a branch of it."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from elgo.cli.inputs import DeviceOption
from elgo.cli.train import DataOption, QuietOption, ThreadsOption, train_with_progress
from elgo.problem.errors import ElgoError


def cool(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run at a constant rate; it stays as it is.")],
    minutes: Annotated[float | None, typer.Option(min=0.01, help="Minutes until the rate is 0.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps until the rate is 0.")] = None,
    folder: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of the branch; one in it is continued.", show_default="RUN-cooled"),
    ] = None,
    data: DataOption = Path("data"),
    threads: ThreadsOption = None,
    device: DeviceOption = "auto",
    quiet: QuietOption = False,
) -> None:
    """Finish a training run: lower its rate to 0.

    That is done in a branch from the run's last checkpoint; the run itself stays as it is.
    """
    if bool(minutes) == bool(steps):
        raise ElgoError("give either --minutes or --steps: how long the rate falls")

    from elgo.model.checkpoint import read_weights
    from elgo.model.rollout import torch_threads
    from elgo.train.cool import branch
    from elgo.train.processes import Processes

    target = folder or run.with_name(f"{run.name}-cooled")
    with Processes(device).first_alone():
        config = branch(run, target, steps or 0, minutes or 0.0)
    with torch_threads(threads) if threads else nullcontext():
        train_with_progress(config, target, data, quiet, device)
    weights = target / "last.safetensors"
    print(f"wrote {weights}: {read_weights(weights).training}")
