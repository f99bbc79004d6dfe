"""Solution or Result -> picture. The plot_* functions draw on given axes; the save_* functions write files.

matplotlib is imported where it is used: importing elgo stays fast.
"""

from __future__ import annotations

from colorsys import hsv_to_rgb
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from elgo.problem.files import atomic_write
from elgo.problem.instance import Instance
from elgo.problem.solution import Solution, format_cost, format_gap, gap
from elgo.solve.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg")
_INK = "#22303c"
_TOUR = "#1f6fb2"
_SOURCES = {  # of solutions
    "warm start": "#8a8f98",
    "fallback": "#b8bec6",
    "exact": "#7a5cc0",
    "savings": "#e0a030",
    "policy": "#c2403d",
    "search": _TOUR,
    "fast_tsp": "#2f9e62",
}
_AT_ONCE = 0.01  # seconds: where the axis of time begins
_TICKS = [a * b for b in (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0) for a in (1, 2, 5)]


def plot_instance(instance: Instance, ax: Axes) -> None:
    """Draw the nodes of the instance, and the depot as a square, on ax."""
    xy = instance.plane()
    first = 1 if instance.problem == "cvrp" else 0
    size = _scale(instance) ** 2
    ax.scatter(xy[first:, 0], xy[first:, 1], s=9 * size, color=_INK, linewidths=0, zorder=3)
    if first:
        depot = ax.scatter(xy[:1, 0], xy[:1, 1], s=50 + 20 * size, marker="s", color="white", zorder=4)
        depot.set(edgecolor=_INK, linewidth=1.8)
    ax.set_aspect("equal")
    ax.margins(0.03)
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_color("#c8cdd2")


def plot_solution(solution: Solution, ax: Axes, title: str | None = None) -> None:
    """Draw the routes on ax, CVRP routes in colours with dashed legs to the depot, and back unless they are open."""
    from matplotlib.collections import LineCollection

    instance = solution.instance
    xy = instance.plane()
    width = 1.9 * _scale(instance)
    if instance.problem == "tsp":
        tours = [xy[[*route, *([] if instance.open else route[:1])]] for route in solution.routes]
        ax.add_collection(LineCollection(tours, colors=_TOUR, linewidths=width, zorder=2))
    else:
        colors = _route_colors(xy, solution.routes)
        paths = [xy[list(route)] for route in solution.routes]
        ax.add_collection(LineCollection(paths, colors=colors, linewidths=width, zorder=2))
        ends = [(route[0],) if instance.open else (route[0], route[-1]) for route in solution.routes]
        legs = LineCollection([xy[[0, end]] for pair in ends for end in pair], alpha=0.5)
        legs.set(
            color=np.repeat(colors, [len(pair) for pair in ends], axis=0),
            linewidth=max(0.45 * width, 0.4),
            linestyle=(0, (4, 3)),
            zorder=1,
        )
        ax.add_collection(legs)
    plot_instance(instance, ax)
    ax.set_title(_title(solution) if title is None else title, color=_INK, fontsize="large")


def plot_history(result: Result, ax: Axes, title: str | None = None) -> None:
    """Draw on ax how the cost fell as time went by, and where each better solution came from.

    Where the best known cost is known, it is the gap: linear near 0, logarithmic above.
    """
    from matplotlib.ticker import FuncFormatter

    instance, history = result.instance, result.history
    seconds = np.array([max(found.seconds, _AT_ONCE) for found in history])
    costs = np.array([found.cost for found in history])
    heights = 100 * (costs / instance.best_known - 1) if instance.best_known else costs
    times, steps = np.append(seconds, max(result.seconds.total, _AT_ONCE)), np.append(heights, heights[-1:])
    ax.step(times, steps, where="post", color=_INK, linewidth=1.2, zorder=2)
    for source in dict.fromkeys(found.source for found in history):
        own = [found.source == source for found in history]
        ax.scatter(
            seconds[own], heights[own], s=26, color=_SOURCES.get(source, _INK), label=source, linewidths=0, zorder=3
        )
    ax.set_xscale("log")
    ax.set_xlabel("seconds")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if instance.best_known:
        _scale_gaps(ax, float(heights.min()), float(heights.max()))
    ax.set_ylabel("gap to the best known cost, %" if instance.best_known else "cost")
    ax.grid(color="#e6e9ec", linewidth=0.8)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.legend(frameon=False, loc="upper right")
    ax.set_title(_title(result.solution) if title is None else title, color=_INK, fontsize="large")


def _scale_gaps(ax: Axes, smallest: float, largest: float) -> None:
    """An axis on which a tenth of a percent at the end is seen as well as the beginning."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    ax.set_yscale("symlog", linthresh=1.0, linscale=0.5)
    ax.set_yticks([0.0, *(tick for tick in _TICKS if 0.2 <= tick < largest)])
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.set_ylim(min(-0.1, 1.2 * smallest), 1.2 * max(largest, 0.5))


def save_plot(solution: Solution, path: str | Path) -> None:
    """Write a picture of the solution to path, a .png or .svg file; the file appears whole or not at all."""
    from matplotlib.figure import Figure

    span = np.ptp(solution.instance.plane(), axis=0)
    ratio = float(np.clip(span[1] / max(span[0], 1e-12), 0.4, 1.6))  # the page follows the shape of the map
    side = 8.0 if solution.instance.size <= 2000 else 12.0
    figure = Figure(figsize=(side, side * ratio + 0.5), layout="constrained")  # no pyplot: no global state, no display
    plot_solution(solution, figure.add_subplot())
    _save(figure, Path(path))


def save_history(result: Result, path: str | Path) -> None:
    """Write a picture of how the cost fell to path, as save_plot does."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    plot_history(result, figure.add_subplot())
    _save(figure, Path(path))


def _save(figure: Figure, path: Path) -> None:
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"{path}: plot format {path.suffix!r} is not one of {', '.join(FORMATS)}")
    buffer = BytesIO()
    figure.savefig(buffer, format=path.suffix.lower()[1:], dpi=150, bbox_inches="tight", pad_inches=0.1)
    atomic_write(path, buffer.getvalue())


def _scale(instance: Instance) -> float:
    """Thickness of lines and marks: 1 at about 100 nodes, thinner with the mean spacing of the nodes."""
    return float(np.clip((100 / instance.size) ** 0.35, 0.35, 1.3))


def _route_colors(xy: np.ndarray, routes: tuple[tuple[int, ...], ...]) -> list[tuple[float, float, float]]:
    """One colour per route; golden-ratio steps in the angular order of the routes keep neighbours apart in hue."""
    centres = np.array([xy[list(route)].mean(axis=0) - xy[0] for route in routes]).reshape(-1, 2)
    ranks = np.argsort(np.argsort(np.arctan2(centres[:, 1], centres[:, 0]), kind="stable"))
    shades = ((0.9, 0.75), (0.65, 0.85), (0.8, 0.6))  # saturation and value, in turn
    return [hsv_to_rgb((rank * 0.618034) % 1.0, *shades[rank % 3]) for rank in ranks]


def _title(solution: Solution) -> str:
    instance = solution.instance
    parts = [instance.name, f"cost {format_cost(solution.cost)}"]
    percent = gap(solution.cost, instance.best_known)
    if percent is not None:
        parts.append(f"gap {format_gap(percent)} %")
    if instance.problem == "cvrp":
        parts.append(f"{len(solution.routes)} route{'s' if len(solution.routes) != 1 else ''}")
    return "   ".join(parts)
