"""`elgo plot-training`: draw the curves of training runs."""

from pathlib import Path
from typing import Annotated

import typer

from elgo.cli.outputs import check_file


def plot_training(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Folders of runs; A+B: B began with the weights of A.")
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Picture to write (.png or .svg).")] = Path("training.png"),
) -> None:
    """Draw loss and validation gaps of training runs against core-hours."""
    check_file("--out", out)

    from elgo.train.plot import plot_training as plot

    plot(runs, out)
    print(f"wrote {out}")
