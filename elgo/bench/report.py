"""The report of a benchmark: pictures, and one HTML page with tables and pictures that opens without a network."""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter

from elgo.bench.published import published
from elgo.bench.run import BenchConfig, Key, Record, read_config, read_records, write_csv
from elgo.bench.tables import PUBLISHED, Table, instance_table, main_table, reference_gaps
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
        raise ValueError(f"{path / 'results.jsonl'}: has no results yet")
    records.sort(key=lambda record: config.methods.index(record.method))  # instances stay in the order of the set
    write_csv(path / "results.csv", records)
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


class Results(NamedTuple):
    """What a picture shows: the config, the records that have a gap, and these gaps in percent."""

    config: BenchConfig
    records: Sequence[Record]
    gaps: Mapping[Key, float]

    @property
    def methods(self) -> list[str]:
        """The methods that have results, in their order."""
        found = {record.method for record in self.records}
        return [method for method in self.config.methods if method in found]

    def of(self, method: str) -> list[Record]:
        """Return the records of a method."""
        return [record for record in self.records if record.method == method]

    def mean_gap(self, method: str) -> float:
        return fmean(self.gaps[record.key] for record in self.of(method))


def draw(config: BenchConfig, records: Sequence[Record], with_published: bool = True) -> dict[str, tuple[str, bytes]]:
    """Return the pictures that have something to show: name -> caption and PNG."""
    literature = published(config.set) if with_published and config.instances == config.full else {}
    gaps, _ = reference_gaps(config, records)
    results = Results(config, [record for record in records if record.key in gaps], gaps)
    pictures: dict[str, tuple[str, bytes]] = {}

    def add(name: str, caption: str, plot: Callable[[Axes], None]) -> None:
        figure = Figure(figsize=(8.4, 5.0), layout="constrained")
        plot(figure.add_subplot())
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=130)
        pictures[name] = (caption, buffer.getvalue())

    if results.records:
        add("gap-time", "Mean gap against mean seconds per instance.", lambda ax: plot_gap_time(ax, results))
    if len({record.nodes for record in results.records}) > 1:
        caption = "Gap against N: each instance, and the mean of neighbouring sizes."
        add("gap-size", caption, lambda ax: plot_gap_size(ax, results, literature))
    if len(results.methods) > 1 and not config.mean_costs:
        caption = "Gap of each instance with one method against others; below the line, the other is better."
        add("scatter", caption, lambda ax: plot_scatter(ax, results))
    return pictures


def colours(config: BenchConfig) -> dict[str, str]:
    """Return the colour of each method: one per family, or one per method if there is only one family."""
    families = list(dict.fromkeys(config.families.values()))
    if len(families) == 1:
        return {method: f"C{number % 10}" for number, method in enumerate(config.methods)}
    return {method: f"C{families.index(family) % 10}" for method, family in config.families.items()}


def plot_gap_time(ax: Axes, results: Results) -> None:
    """Draw a point per method, those of a family joined; time on a logarithmic axis."""
    config, colour = results.config, colours(results.config)
    for number, family in enumerate(dict.fromkeys(config.families.values())):
        points = []
        for method in (method for method in results.methods if config.families[method] == family):
            seconds = fmean(record.seconds for record in results.of(method))
            points.append((max(1e-6, seconds), results.mean_gap(method), method))
        if not points:
            continue
        points.sort()
        x, y, methods = zip(*points, strict=True)
        ax.plot(x, y, marker=MARKERS[number % len(MARKERS)], color=colour[methods[0]], label=family, markersize=7)
        for seconds, gap, method in points if len(points) > 1 else ():
            limit = config.limits.get(method)
            label = f"{limit:g} s" if limit is not None else method.removeprefix(family)[1:] or "x8"
            ax.annotate(label, (seconds, gap), (5, 5), textcoords="offset points", fontsize=7, color=colour[method])
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set(xlabel="seconds per instance", ylabel="mean gap %", title=f"{config.title}: gap against time")
    _set_gap_axis(ax, min(map(results.mean_gap, results.methods)))
    _finish(ax)


def plot_gap_size(ax: Axes, results: Results, literature: Mapping[str, Mapping[str, str]]) -> None:
    """Draw faint points for instances, and lines through the means of bins of N with about equally many instances.

    Of many methods, only the best of each family is drawn. literature: published means, method -> group -> figure.
    """
    config, colour = results.config, colours(results.config)
    methods = results.methods if len(config.methods) <= MAX_LINES else _best_of_families(results)
    sizes = np.array(sorted({record.instance: record.nodes for record in results.records}.values()))
    edges = np.unique(np.quantile(sizes, np.linspace(0, 1, BINS + 1)))
    styles: dict[str, int] = {}
    for method in methods:
        own = results.of(method)
        nodes = np.array([record.nodes for record in own])
        gaps = np.array([results.gaps[record.key] for record in own])
        style = styles[colour[method]] = styles.get(colour[method], -1) + 1
        if len(methods) <= 6:
            ax.scatter(nodes, gaps, s=9, color=colour[method], alpha=0.25, linewidths=0)
        bins = np.clip(np.searchsorted(edges, nodes, side="right") - 1, 0, max(0, len(edges) - 2))
        means = [(nodes[bins == b].mean(), gaps[bins == b].mean()) for b in np.unique(bins)]
        ax.plot(
            *zip(*means, strict=True), marker=MARKERS[methods.index(method) % len(MARKERS)], markersize=4,
            color=colour[method], linestyle=("-", "--", ":", "-.")[style % 4], label=method,
        )  # fmt: skip
    _draw_published(ax, results.records, literature)
    if sizes[-1] > 4 * sizes[0]:
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set(xlabel="N", ylabel="gap %", title=f"{config.title}: gap against N")
    _set_gap_axis(ax, min(results.gaps[record.key] for record in results.records if record.method in methods))
    _finish(ax)


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


def _best_of_families(results: Results) -> list[str]:
    """Return the method with the lowest mean gap of each family, in the order of families."""
    families = results.config.families
    best: dict[str, str] = {}
    for method in sorted(results.methods, key=results.mean_gap):
        best.setdefault(families[method], method)
    return [best[family] for family in dict.fromkeys(families.values()) if family in best]


def plot_scatter(ax: Axes, results: Results) -> None:
    """Draw instances: x with the best method of the first family, y with the best of each other family.

    If there is only one family, y is with all its other methods.
    """
    found = {method: {r.instance: results.gaps[r.key] for r in results.of(method)} for method in results.methods}
    base, *others = _best_of_families(results)
    others = others or [method for method in results.methods if method != base]
    lowest = np.inf
    for number, method in enumerate(others):
        both = [name for name in found[method] if name in found[base]]
        if not both:
            continue
        x, y = [found[base][name] for name in both], [found[method][name] for name in both]
        lowest = min(lowest, *x, *y)
        marker = MARKERS[number % len(MARKERS)]
        ax.scatter(x, y, s=20, marker=marker, alpha=0.6, linewidths=0, color=f"C{(number + 1) % 10}", label=method)
    if np.isfinite(lowest):
        right, top = ax.get_xlim()[1], max(ax.get_xlim()[1], ax.get_ylim()[1])
        _set_gap_scale(ax, "x", lowest, top)
        _set_gap_scale(ax, "y", lowest, top)
        ends = np.array([lowest, top])
        ax.plot(ends, ends, color="#888", linewidth=0.8, zorder=0)
        ax.set_xlim(right=right)
    title = f"{results.config.title}: instance by instance"
    ax.set(xlabel=f"gap % with {base}", ylabel="gap % with another method", title=title)
    _finish(ax)


def _set_gap_axis(ax: Axes, lowest: float) -> None:
    """Scale the y axis for gaps from `lowest` up."""
    _set_gap_scale(ax, "y", lowest, ax.get_ylim()[1])
    if lowest >= 0 and ax.get_yscale() != "log":
        ax.set_ylim(bottom=0)


def _set_gap_scale(ax: Axes, name: Literal["x", "y"], lowest: float, top: float) -> None:
    """Make an axis logarithmic (linear around 0) if the gaps span too much for a linear one."""
    if top < 20 * max(lowest, LINEAR_BELOW):
        return
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


def _finish(ax: Axes) -> None:
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
