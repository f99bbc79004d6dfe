"""Curves of training runs."""

import io
from collections.abc import Sequence
from itertools import accumulate, cycle
from pathlib import Path
from typing import Any

from elgo.problem.errors import ElgoError
from elgo.problem.files import atomic_write
from elgo.train.run import read_log, validation_gaps

SMOOTHING = 0.98  # of the loss


def plot_training(runs: Sequence[Path], target: Path) -> None:
    """Draw loss and validation gaps of runs against core-hours, as a picture (png or svg).

    A+B are runs of one model: B, which began with the weights of A, goes on at the core-hours where A ended.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter

    figure = Figure(figsize=(13, 4.2), layout="constrained")
    loss, gaps = figure.subplots(1, 2)
    for number, run in enumerate(runs):
        colour, stages = f"C{number}", read_stages(run)
        label = "+".join(folder.name for folder in stage_folders(run))
        for rows in stages:  # their losses may be of different methods
            hours = [row["core_hours"] for row in rows]
            loss.plot(hours, smoothed([row["loss"] for row in rows]), color=colour, label=label)
            label = f"_{label}"  # only once in the legend
        checked = [row for rows in stages for row in rows if validation_gaps(row)]
        names = dict.fromkeys(name for row in checked for name in validation_gaps(row))
        for style, name in zip(cycle(("-", "--", ":", "-.")), names, strict=False):
            series = [(row["core_hours"], row[name]) for row in checked if name in row]
            text = f"{label.lstrip('_')}: {name}"
            gaps.plot(*zip(*series, strict=True), style, color=colour, marker=".", label=text)
    loss.set(xlabel="core-hours of training", ylabel="loss (smoothed)", title="Loss")
    gaps.set(xlabel="core-hours of training", ylabel="gap %", title="Validation, best of the starts")
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


def stage_folders(run: Path) -> list[Path]:
    """Return the folders of a run, or of the runs A+B that one model went through."""
    return [run] if run.is_dir() else [Path(part) for part in str(run).split("+")]


def read_stages(run: Path) -> list[list[dict[str, Any]]]:
    """Return the rows of each log of a model's runs, with core_hours since the beginning of the first one.

    Logs of earlier versions have no CPU time: theirs is the time by the clock.
    """
    stages, begin = [], 0.0
    for folder in stage_folders(run):
        rows = list(read_log(folder))
        if not rows:
            raise ElgoError(f"{folder}: log.jsonl has no rows; is this the folder of a run?")
        stages.append([row | {"core_hours": begin + row.get("cpu_seconds", row["seconds"]) / 3600} for row in rows])
        begin = stages[-1][-1]["core_hours"]
    return stages


def smoothed(values: Sequence[float]) -> list[float]:
    """Return the exponential moving average."""
    return list(accumulate(values, lambda mean, value: SMOOTHING * mean + (1 - SMOOTHING) * value))
