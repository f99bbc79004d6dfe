"""Curves of training runs."""

import io
from collections.abc import Sequence
from itertools import accumulate, cycle
from pathlib import Path

from elgo.problem.errors import ElgoError
from elgo.problem.files import atomic_write
from elgo.train.run import read_log, validation_gaps

SMOOTHING = 0.98  # of the loss


def plot_training(runs: Sequence[Path], target: Path) -> None:
    """Draw loss and validation gaps of runs against hours, as a picture (png or svg)."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter

    figure = Figure(figsize=(13, 4.2), layout="constrained")
    loss, gaps = figure.subplots(1, 2)
    for number, run_folder in enumerate(runs):
        rows = list(read_log(run_folder))
        if not rows:
            raise ElgoError(f"{run_folder}: log.jsonl has no rows; is this the folder of a run?")
        colour = f"C{number}"
        hours = [row["seconds"] / 3600 for row in rows]
        loss.plot(hours, smoothed([row["loss"] for row in rows]), color=colour, label=run_folder.name)
        checked = [row for row in rows if validation_gaps(row)]
        names = validation_gaps(checked[0]) if checked else ()
        for style, name in zip(cycle(("-", "--", ":", "-.")), names, strict=False):
            series = [(row["seconds"] / 3600, row[name]) for row in checked]
            gaps.plot(*zip(*series, strict=True), style, color=colour, marker=".", label=f"{run_folder.name}: {name}")
    loss.set(xlabel="hours of training", ylabel="loss (smoothed)", title="Loss")
    gaps.set(xlabel="hours of training", ylabel="gap %", title="Validation, best of the starts")
    if all(min(line.get_ydata()) > 0 for line in gaps.lines):
        gaps.set_yscale("log")
        gaps.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        gaps.yaxis.set_major_formatter("{x:g}")
        gaps.yaxis.set_minor_formatter(NullFormatter())
    loss.grid(alpha=0.3)
    loss.legend(fontsize=8)
    gaps.grid(alpha=0.3)
    if gaps.lines:
        gaps.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))  # outside, because of many lines
    buffer = io.BytesIO()
    figure.savefig(buffer, format=target.suffix.lstrip(".") or "png", dpi=150)
    atomic_write(target, buffer.getvalue())


def smoothed(values: Sequence[float]) -> list[float]:
    """Return the exponential moving average."""
    return list(accumulate(values, lambda mean, value: SMOOTHING * mean + (1 - SMOOTHING) * value))
