"""The report of a benchmark: pictures, and one HTML page with tables and pictures that opens without a network."""

import base64
import html
import io
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter

from elgo.bench.methods import family, time_limit
from elgo.bench.published import published
from elgo.bench.run import BenchConfig, Record, read_config, read_records, write_csv
from elgo.bench.sets import MEAN_COSTS
from elgo.bench.tables import PUBLISHED, Table, instance_table, main_table, relative_gaps
from elgo.problem.errors import ElgoError
from elgo.problem.files import atomic_write

MAX_LISTED = 1000  # instances in the table of the page; more are in results.csv
MARKERS = "osD^vP*X<>"
BINS = 8
DASHES: tuple[Any, ...] = ("--", ":", "-.", (0, (8, 3)), (0, (1, 4)))
MAX_LINES = 9  # in the picture of gaps against N
LINEAR_BELOW = 0.1  # percent: a logarithmic axis of gaps is linear around 0


def write_report(path: Path, with_published: bool = True) -> Table:
    """Write results.csv, tables, pictures and report.html into the folder of a benchmark; return the main table."""
    config, records = read_config(path), list(read_records(path))
    if not records:
        raise ElgoError(f"{path / 'results.jsonl'}: has no results yet")
    records.sort(key=lambda record: config.methods.index(record.method))  # instances stay in the order of the set
    machine = config.machine
    hardware = f"{machine['processor']}, {machine['cores']} cores" if "cores" in machine else machine["processor"]
    write_csv(path / "results.csv", records, hardware)
    table = main_table(config, records, with_published)
    each = instance_table(config, records)
    atomic_write(path / "tables.txt", f"{table.text()}\n")
    atomic_write(path / "tables.md", f"{table.markdown()}\n\n{each.markdown()}\n")
    pictures = draw(config, records, with_published)
    for name, (_, picture) in pictures.items():
        atomic_write(path / f"{name}.png", picture)
    atomic_write(path / "report.html", make_page(config, table, each, pictures))
    return table


# --- pictures --------------------------------------------------------------------------------------------------------


class Results:
    """What pictures show: of each method the records that have a gap, these gaps in percent, families and colours."""

    def __init__(self, config: BenchConfig, records: Sequence[Record]) -> None:
        self.title, self.gaps = config.title, relative_gaps(records, config)
        self.records = [record for record in records if record.key in self.gaps]
        found = {name: [record for record in self.records if record.method == name] for name in config.methods}
        self.methods = {name: own for name, own in found.items() if own}
        self.mean_gap = {name: fmean(self.gaps[record.key] for record in own) for name, own in self.methods.items()}
        self.families: dict[str, list[str]] = {}
        for name in self.methods:
            self.families.setdefault(family(name), []).append(name)
        groups = list(self.families.values()) if len(self.families) > 1 else [[name] for name in self.methods]
        self.colour = {name: f"C{number % 10}" for number, names in enumerate(groups) for name in names}

    def best_of_families(self) -> list[str]:
        """Return the method with the lowest mean gap of each family."""
        return [min(names, key=self.mean_gap.__getitem__) for names in self.families.values()]


def draw(config: BenchConfig, records: Sequence[Record], with_published: bool = True) -> dict[str, tuple[str, bytes]]:
    """Return the pictures that have something to show: name -> caption and PNG."""
    literature = published(config.set) if with_published and config.instances == config.full else {}
    results = Results(config, records)
    pictures: dict[str, tuple[str, bytes]] = {}

    def add(name: str, caption: str, plot: Callable[..., None], *more: object) -> None:
        figure = Figure(figsize=(8.4, 5.0), layout="constrained")
        plot(figure.add_subplot(), results, *more)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=130)
        pictures[name] = (caption, buffer.getvalue())

    if results.records:
        add("gap-time", "Mean gap against mean seconds per instance.", plot_gap_time)
    if len({record.nodes for record in results.records}) > 1:
        caption = "Gap against N: each instance, and the mean of neighbouring sizes."
        add("gap-size", caption, plot_gap_size, literature)
    if len(results.methods) > 1 and not MEAN_COSTS.keys() & config.instances.keys():
        caption = "Gap of each instance with one method against others; below the line, the other is better."
        add("scatter", caption, plot_scatter)
    return pictures


def plot_gap_time(ax: Axes, results: Results) -> None:
    """Draw a point per method, those of a family joined; time on a logarithmic axis."""
    for marker, (name, methods) in zip(cycle(MARKERS), results.families.items(), strict=False):
        seconds = {method: fmean(record.seconds for record in results.methods[method]) for method in methods}
        methods = sorted(methods, key=seconds.__getitem__)
        points = [(max(1e-6, seconds[method]), results.mean_gap[method]) for method in methods]
        ax.plot(*zip(*points, strict=True), marker=marker, color=results.colour[methods[0]], label=name, markersize=7)
        for method, point in zip(methods, points, strict=True) if len(methods) > 1 else ():
            limit = time_limit(method)
            label = f"{limit:g} s" if limit is not None else method.removeprefix(name)[1:] or "x8"
            colour = results.colour[method]
            ax.annotate(label, point, (5, 5), textcoords="offset points", fontsize=7, color=colour)
    _set_log_scale(ax, "x")
    _set_gap_scale(ax, "y", min(results.mean_gap.values()))
    _finish(ax, xlabel="seconds per instance", ylabel="mean gap %", title=f"{results.title}: gap against time")


def plot_gap_size(ax: Axes, results: Results, literature: Mapping[str, Mapping[str, str]]) -> None:
    """Draw faint points for instances, and lines through the means of bins of N with about equally many instances.

    Of many methods, only the best of each family is drawn. literature: published means, method -> group -> figure.
    """
    methods = list(results.methods) if len(results.methods) <= MAX_LINES else results.best_of_families()
    sizes = np.array(sorted({record.instance: record.nodes for record in results.records}.values()))
    edges = np.unique(np.quantile(sizes, np.linspace(0, 1, BINS + 1)))
    styles = {colour: cycle(("-", "--", ":", "-.")) for colour in results.colour.values()}
    for marker, method in zip(cycle(MARKERS), methods, strict=False):
        own, colour = results.methods[method], results.colour[method]
        nodes, gaps = np.array([(record.nodes, results.gaps[record.key]) for record in own]).T
        if len(methods) <= 6:
            ax.scatter(nodes, gaps, s=9, color=colour, alpha=0.25, linewidths=0)
        bins = np.clip(np.searchsorted(edges, nodes, side="right") - 1, 0, len(edges) - 2)
        means = [(nodes[bins == b].mean(), gaps[bins == b].mean()) for b in np.unique(bins)]
        style = f"{marker}{next(styles[colour])}"
        ax.plot(*zip(*means, strict=True), style, markersize=4, color=colour, label=method)
    _draw_published(ax, results.records, literature)
    if sizes[-1] > 4 * sizes[0]:
        _set_log_scale(ax, "x")
    _set_gap_scale(ax, "y", min(results.gaps[record.key] for method in methods for record in results.methods[method]))
    _finish(ax, xlabel="N", ylabel="gap %", title=f"{results.title}: gap against N")


def _draw_published(ax: Axes, records: Sequence[Record], literature: Mapping[str, Mapping[str, str]]) -> None:
    """Draw each mean from the smallest to the largest N of its group; not those far below, which would squeeze ours."""
    lowest = min(float(np.min(line.get_ydata())) for line in ax.get_lines())
    for number, (method, figures) in enumerate(literature.items()):
        label: str | None = f"{method} {PUBLISHED}"
        for group, figure in figures.items():
            nodes = [record.nodes for record in records if record.group == group]
            if nodes and figure != "-" and float(figure.lstrip("~")) > lowest / 4:
                style = {"color": str(0.1 * number), "linestyle": DASHES[number % len(DASHES)], "linewidth": 1.2}
                ax.plot([min(nodes), max(nodes)], [float(figure.lstrip("~"))] * 2, label=label, **style)
                label = None


def plot_scatter(ax: Axes, results: Results) -> None:
    """Draw instances: x with the best method of the first family, y with the best of each other family.

    If there is only one family, y is with all its other methods.
    """
    base, *others = results.best_of_families()
    others = others or [method for method in results.methods if method != base]
    lowest = np.inf
    for number, (marker, method) in enumerate(zip(cycle(MARKERS), others, strict=False)):
        pairs = [((base, record.instance), record.key) for record in results.methods[method]]
        gaps = [(results.gaps[one], results.gaps[other]) for one, other in pairs if one in results.gaps]
        if not gaps:
            continue
        x, y = zip(*gaps, strict=True)
        lowest = min(lowest, *x, *y)
        ax.scatter(x, y, s=20, marker=marker, alpha=0.6, linewidths=0, color=f"C{(number + 1) % 10}", label=method)
    if np.isfinite(lowest):
        right = ax.get_xlim()[1]
        top = max(right, ax.get_ylim()[1])
        _set_gap_scale(ax, "x", lowest, top)
        _set_gap_scale(ax, "y", lowest, top)
        ax.plot([lowest, top], [lowest, top], color="#888", linewidth=0.8, zorder=0)
        ax.set_xlim(right=right)
    title = f"{results.title}: instance by instance"
    _finish(ax, xlabel=f"gap % with {base}", ylabel="gap % with another method", title=title)


def _set_gap_scale(ax: Axes, name: Literal["x", "y"], lowest: float, top: float | None = None) -> None:
    """Scale an axis for gaps from `lowest` up: from 0, or logarithmic if they span too much for a linear axis."""
    top = ax.get_ylim()[1] if top is None else top
    if top >= 20 * max(lowest, LINEAR_BELOW):
        _set_log_scale(ax, name, lowest)
    elif lowest >= 0:
        ax.set(**{f"{name}lim": (0, None)})


def _set_log_scale(ax: Axes, name: Literal["x", "y"], lowest: float = np.inf) -> None:
    """Make an axis logarithmic, but linear around 0 if the lowest value is there or below."""
    set_scale, axis = (ax.set_xscale, ax.xaxis) if name == "x" else (ax.set_yscale, ax.yaxis)
    if lowest > LINEAR_BELOW:
        set_scale("log")
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    else:
        set_scale("symlog", linthresh=LINEAR_BELOW, linscale=0.5)
        ticks = [m * 10.0**k for k in range(-1, 4) for m in (1, 2, 5)]
        axis.set_major_locator(FixedLocator([*(-tick for tick in ticks), 0.0, *ticks]))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def _finish(ax: Axes, **labels: str) -> None:
    ax.set(**labels)
    ax.grid(alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)


# --- the page --------------------------------------------------------------------------------------------------------

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #22303c; max-width: 1000px; margin: 2em auto; padding: 0 1em; }
h1, h2 { font-weight: 600; line-height: 1.2; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 3px 12px 3px 0; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
thead th { border-bottom: 1px solid #22303c; }
tbody tr:hover { background: #f2f5f8; }
tr.published td { color: #77838f; font-style: italic; }
ul { color: #55616d; font-size: 13px; padding-left: 1.2em; }
img { max-width: 100%; height: auto; }
figure { margin: 2em 0; }
figcaption, pre { color: #55616d; font-size: 13px; }
pre { background: #f2f5f8; padding: 1em; overflow-x: auto; }
summary { cursor: pointer; font-weight: 600; margin: 1em 0; }
"""


def make_page(config: BenchConfig, table: Table, each: Table, pictures: dict[str, tuple[str, bytes]]) -> str:
    """Return the report as one HTML document with the pictures inside."""
    figures = "\n".join(
        f'<figure><img alt="{html.escape(caption)}" src="data:image/png;base64,{base64.b64encode(picture).decode()}">'
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
        for caption, picture in pictures.values()
    )
    if len(each.rows) <= MAX_LISTED:
        listed = f'<details><summary>Every instance</summary><div class="wide">{each.html()}</div></details>'
    else:
        listed = f"<p>The {len(each.rows)} instances are in results.csv.</p>"
    setup = json.dumps({"options": config.options, "versions": config.versions, "machine": config.machine}, indent=2)
    title = html.escape(f"elgo bench {config.set}")
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>{_STYLE}</style></head>
<body><h1>{title}</h1><p>{html.escape(config.date)}</p>
<div class="wide">{table.html()}</div>
{figures}
{listed}
<details><summary>Setup</summary><pre>{html.escape(setup)}</pre></details>
</body></html>
"""
