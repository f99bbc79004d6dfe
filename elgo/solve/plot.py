"""Solution or Result -> picture. The plot_* functions draw on given axes; the save_* functions write files.

matplotlib is imported where it is used: importing elgo stays fast.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from elgo.problem.errors import ElgoError
from elgo.problem.files import atomic_write, printable
from elgo.problem.files.text import format_number, shortened
from elgo.problem.instance import Instance
from elgo.problem.itinerary import format_length, in_display_unit, itineraries, short_length
from elgo.problem.solution import Solution, format_gap, gap
from elgo.problem.stops import Stops
from elgo.solve.result import Result
from elgo.view.palette import RouteStyle, route_styles

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
_MOST_NUMBERS, _MOST_NAMES, _MOST_LEGEND = 150, 100, 60  # nodes with numbers and names, routes in the legend
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


def plot_solution(solution: Solution, ax: Axes, title: str | None = None, stops: Stops | None = None) -> None:
    """Draw the routes on ax: those of a CVRP in their own styles, with thin legs to the depot, and back unless open.

    With stops, and if there are not too many, they are numbered along their route and named. A legend tells stops,
    load and length of each CVRP route.
    """
    from matplotlib.collections import LineCollection

    instance = solution.instance
    xy = instance.plane()
    width = 1.9 * _scale(instance)
    styles = route_styles(solution)
    if instance.problem == "tsp":
        tours = [xy[[*route, *([] if instance.open else route[:1])]] for route in solution.routes]
        ax.add_collection(LineCollection(tours, colors=_TOUR, linewidths=width, zorder=2))
        styles = [RouteStyle(_TOUR, "#ffffff", ()) for _ in styles]
    else:
        colors = [style.colour for style in styles]
        paths = [xy[list(route)] for route in solution.routes]
        dashes = [_line_style(style) for style in styles]
        ax.add_collection(LineCollection(paths, colors=colors, linewidths=width, linestyles=dashes, zorder=2))
        ends = [(route[0],) if instance.open else (route[0], route[-1]) for route in solution.routes]
        legs = LineCollection([xy[[0, end]] for pair in ends for end in pair], alpha=0.5)
        legs.set(
            color=np.repeat(colors, [len(pair) for pair in ends], axis=0),
            linewidth=max(0.45 * width, 0.4),
            linestyle=(0, (4, 3)),
            zorder=1,
        )
        ax.add_collection(legs)
        _add_legend(solution, styles, ax)
    plot_instance(instance, ax)
    text = _title(solution) if title is None else title
    ax.set_title(text, color=_INK, fontsize="large", parse_math=False)
    if stops is not None and instance.size <= _MOST_NUMBERS:
        _add_numbers(solution, styles, ax)
        if instance.size <= _MOST_NAMES:
            _add_names(instance, stops, ax)


def _line_style(style: RouteStyle) -> Any:
    """Return the dashes as matplotlib takes them, in multiples of the line's width."""
    return (0, tuple(length / 3 for length in style.dash)) if style.dash else "solid"


def _add_legend(solution: Solution, styles: list[RouteStyle], ax: Axes) -> None:
    """Add a line for each route at the right of the axes: number, stops, load and length."""
    from matplotlib.lines import Line2D

    instance, routes = solution.instance, itineraries(solution)
    if len(routes) > _MOST_LEGEND or instance.capacity is None:
        return
    handles = []
    for number, (route, style) in enumerate(zip(routes, styles, strict=True), start=1):
        load = f"{format_number(route.load)} / {format_number(instance.capacity)}"
        stops = "1 stop" if len(route.stops) == 1 else f"{len(route.stops)} stops"
        text = f"{number}: {stops}, load {load}, {short_length(route.cost, instance.metric)}"
        line = Line2D([], [], color=style.colour, linestyle=_line_style(style), linewidth=2, label=text)
        handles.append(line)
    size = 8 if len(routes) <= 30 else 6
    ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=size)


def _add_numbers(solution: Solution, styles: list[RouteStyle], ax: Axes) -> None:
    """Number the stops along their route, on a dot in its colour."""
    xy = solution.instance.plane()
    for route, style in zip(itineraries(solution), styles, strict=True):
        nodes = list(route.stops)
        ax.scatter(xy[nodes, 0], xy[nodes, 1], s=62, color=style.colour, edgecolor="white", linewidths=0.6, zorder=4)
        for position, node in enumerate(nodes, start=1):
            size = 5.5 if position < 100 else 4.5
            text = ax.text(xy[node, 0], xy[node, 1], str(position), ha="center", va="center_baseline", fontsize=size)
            text.set(color=style.ink, zorder=5, fontweight="bold")


def _add_names(instance: Instance, stops: Stops, ax: Axes) -> None:
    """Write the names for which there is room, at the right, left, below or above of their stop."""
    from matplotlib.patheffects import withStroke
    from matplotlib.transforms import Bbox

    figure = ax.get_figure(root=True)
    assert figure is not None, "axes belong to a figure"
    figure.draw_without_rendering()  # now it is known where points are on the page
    halo = [withStroke(linewidth=1.5, foreground="white")]
    points = ax.transData.transform(instance.plane())
    taken = [Bbox([[x - 5, y - 5], [x + 5, y + 5]]) for x, y in points]
    spots: tuple[tuple[tuple[float, float], Any, Any], ...] = (
        ((6.5, 0), "left", "center"),
        ((-6.5, 0), "right", "center"),
        ((0, -6), "center", "top"),
        ((0, 6), "center", "bottom"),
    )
    for place, name in zip(instance.plane(), stops.names, strict=True):
        text = printable(shortened(name, 22))
        for offset, side, height in spots if text else ():
            note = ax.annotate(text, place, offset, textcoords="offset points", ha=side, va=height, parse_math=False)
            note.set(color=_INK, fontsize=5.5, path_effects=halo, zorder=6, in_layout=False)
            box = note.get_window_extent()
            if ax.bbox.containsx(box.x1) and ax.bbox.containsx(box.x0) and not box.count_overlaps(taken):
                taken.append(box)
                break
            note.remove()


def plot_history(result: Result, ax: Axes, title: str | None = None) -> None:
    """Draw on ax how the cost fell as time went by, and where each better solution came from.

    Where the best known cost is known, it is the gap: linear near 0, logarithmic above.
    """
    from matplotlib.ticker import FuncFormatter

    instance, history = result.instance, result.history
    seconds = np.array([max(found.seconds, _AT_ONCE) for found in history])
    costs = np.array([found.cost for found in history])
    scale, unit = in_display_unit(1.0, instance.metric)
    heights = 100 * (costs / instance.best_known - 1) if instance.best_known else scale * costs
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
    cost = f"cost, {unit}" if unit else "cost"
    ax.set_ylabel("gap to the best known cost, %" if instance.best_known else cost)
    ax.grid(color="#e6e9ec", linewidth=0.8)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.legend(frameon=False, loc="upper right")
    text = _title(result.solution) if title is None else title
    ax.set_title(text, color=_INK, fontsize="large", parse_math=False)


def _scale_gaps(ax: Axes, smallest: float, largest: float) -> None:
    """An axis on which a tenth of a percent at the end is seen as well as the beginning."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    ax.set_yscale("symlog", linthresh=1.0, linscale=0.5)
    ax.set_yticks([0.0, *(tick for tick in _TICKS if 0.2 <= tick < largest)])
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.set_ylim(min(-0.1, 1.2 * smallest), 1.2 * max(largest, 0.5))


def save_plot(solution: Solution, path: str | Path, stops: Stops | None = None) -> None:
    """Write a picture of the solution, see plot_solution, to a .png or .svg file; it appears whole or not at all."""
    from matplotlib.figure import Figure

    span = np.ptp(solution.instance.plane(), axis=0)
    ratio = float(np.clip(span[1] / max(span[0], 1e-12), 0.4, 1.6))  # the page follows the shape of the map
    side = 8.0 if solution.instance.size <= 2000 else 12.0
    figure = Figure(figsize=(side, side * ratio + 0.5), layout="constrained")  # no pyplot: no global state, no display
    with _any_script():
        plot_solution(solution, figure.add_subplot(), stops=stops)
    _save(figure, Path(path))


def save_history(result: Result, path: str | Path) -> None:
    """Write a picture of how the cost fell to path, as save_plot does."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    plot_history(result, figure.add_subplot())
    _save(figure, Path(path))


@contextmanager
def _any_script() -> Iterator[None]:
    """Silence warnings of names in scripts that the font does not have: they are drawn as boxes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)
        yield


def _save(figure: Figure, path: Path) -> None:
    if path.suffix.lower() not in FORMATS:
        raise ElgoError(f"{path}: plot format {path.suffix!r} is not one of {', '.join(FORMATS)}")
    buffer = BytesIO()
    with _any_script():
        figure.savefig(buffer, format=path.suffix.lower()[1:], dpi=150, bbox_inches="tight", pad_inches=0.1)
    atomic_write(path, buffer.getvalue())


def _scale(instance: Instance) -> float:
    """Thickness of lines and marks: 1 at about 100 nodes, thinner with the mean spacing of the nodes."""
    return float(np.clip((100 / instance.size) ** 0.35, 0.35, 1.3))


def _title(solution: Solution) -> str:
    instance = solution.instance
    parts = [shortened(instance.name, 60), f"cost {format_length(solution.cost, instance.metric)}"]
    percent = gap(solution.cost, instance.best_known)
    if percent is not None:
        parts.append(f"gap {format_gap(percent)} %")
    if instance.problem == "cvrp":
        parts.append(f"{len(solution.routes)} route{'s' if len(solution.routes) != 1 else ''}")
    return "   ".join(parts)
