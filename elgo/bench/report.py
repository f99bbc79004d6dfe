"""Records -> pictures, and one HTML page with tables and pictures inside it that opens without a network."""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter

from elgo.bench.published import published
from elgo.bench.run import Bench, Record, read_bench, read_records, write_csv
from elgo.bench.tables import Gaps, Table, instance_table, main_table, reference_gaps
from elgo.problem.files import atomic_write

MOST_LISTED = 1000  # instances in the table of the page; more are in results.csv
MARKS = "osD^vP*X<>"
BINS = 8
DASHES: tuple[Any, ...] = ("--", ":", "-.", (0, (8, 3)), (0, (1, 4)))
MOST_LINES = 9  # in the picture of gaps against N
SMALL = 0.1  # gaps below are nearly the same on a logarithmic axis


def write_report(path: Path, with_published: bool = True) -> Table:
    """Write results.csv, tables.txt, tables.md, the pictures and report.html of a benchmark's folder; the main table.

    Rows are in the order of the config. Instances of a row have come in the order of the set, however often stopped.
    """
    bench, records = read_bench(path), list(read_records(path))
    if not records:
        raise ValueError(f"{path / 'results.jsonl'}: has no results yet")
    records.sort(key=lambda record: bench.rows.index(record.row))
    write_csv(path / "results.csv", records)
    table = main_table(bench, records, with_published)
    each = instance_table(bench, records)
    atomic_write(path / "tables.txt", f"{table.text()}\n")
    atomic_write(path / "tables.md", f"{table.markdown()}\n\n{each.markdown()}\n")
    pictures = draw(bench, records, with_published)
    for name, (_, picture) in pictures.items():
        atomic_write(path / f"{name}.png", picture)
    atomic_write(path / "report.html", page(bench, table, each, pictures))
    return table


# --- pictures --------------------------------------------------------------------------------------------------------


def draw(bench: Bench, records: Sequence[Record], with_published: bool = True) -> dict[str, tuple[str, bytes]]:
    """The pictures for which there is something to show: name -> caption and PNG."""
    theirs = published(bench.set) if with_published and bench.instances == bench.full else {}
    gaps, _ = reference_gaps(bench, records)
    shown = [record for record in records if record.key in gaps]
    rows = [row for row in bench.rows if any(record.row == row for record in shown)]
    pictures: dict[str, tuple[str, bytes]] = {}

    def add(name: str, caption: str, plot: Callable[[Axes, Bench, Sequence[Record], Gaps], None]) -> None:
        figure = Figure(figsize=(8.4, 5.0), layout="constrained")
        ax = figure.add_subplot()
        plot(ax, bench, shown, gaps)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=130)
        pictures[name] = (caption, buffer.getvalue())

    if rows:
        add("gap-time", "Mean gap against mean seconds per instance.", plot_gap_time)
    if rows and len({record.nodes for record in shown}) > 1:
        add(
            "gap-size",
            "Gap against N: each instance, and the mean of neighbouring sizes.",
            partial(plot_gap_size, theirs=theirs),
        )
    if len(rows) > 1 and not bench.means:
        add(
            "scatter",
            "Each instance: its gap with one row against its gap with others; below the line, the other is better.",
            plot_scatter,
        )
    return pictures


def colours(bench: Bench) -> dict[str, str]:
    """Row -> colour, the same for a family; where there is one family only, each row has its own."""
    families = list(dict.fromkeys(bench.families.values()))
    if len(families) == 1:
        return {row: f"C{number % 10}" for number, row in enumerate(bench.rows)}
    return {row: f"C{families.index(family) % 10}" for row, family in bench.families.items()}


def plot_gap_time(ax: Axes, bench: Bench, records: Sequence[Record], gaps: Gaps) -> None:
    """One point per row, those of a family joined; time on a logarithmic axis."""
    colour = colours(bench)
    lowest = np.inf
    for number, family in enumerate(dict.fromkeys(bench.families.values())):
        points = []
        for row in (row for row in bench.rows if bench.families[row] == family):
            own = [record for record in records if record.row == row]
            if own:
                seconds = max(1e-6, fmean(record.seconds for record in own))
                points.append((seconds, fmean(gaps[record.key] for record in own), row))
        if not points:
            continue
        points.sort()
        x, y, rows = zip(*points, strict=True)
        lowest = min(lowest, *y)
        ax.plot(x, y, marker=MARKS[number % len(MARKS)], color=colour[rows[0]], label=family, markersize=7)
        if len(points) > 1:
            for at, gap, row in points:
                spent = f"{bench.limits[row]:g} s" if row in bench.limits else row.removeprefix(family)[1:] or "x8"
                ax.annotate(spent, (at, gap), (5, 5), textcoords="offset points", fontsize=7, color=colour[row])
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set(xlabel="seconds per instance", ylabel="mean gap %", title=f"{bench.title}: gap against time")
    _gap_axis(ax, lowest)
    _finish(ax)


def plot_gap_size(
    ax: Axes, bench: Bench, records: Sequence[Record], gaps: Gaps, theirs: Mapping[str, Mapping[str, str]]
) -> None:
    """Faint points for instances, lines through the means of bins of N with about equally many instances.

    Of many rows, only the best of each family. theirs: published means, row -> group -> figure.
    """
    rows = bench.rows if len(bench.rows) <= MOST_LINES else _best_of_families(bench, records, gaps)
    sizes = np.array(sorted({record.instance: record.nodes for record in records}.values()))
    edges = np.unique(np.quantile(sizes, np.linspace(0, 1, BINS + 1)))
    colour = colours(bench)
    styles: dict[str, int] = {}
    for number, row in enumerate(rows):
        own = [record for record in records if record.row == row]
        if not own:
            continue
        nodes = np.array([record.nodes for record in own])
        values = np.array([gaps[record.key] for record in own])
        style = styles[colour[row]] = styles.get(colour[row], -1) + 1
        if len(rows) <= 6:
            ax.scatter(nodes, values, s=9, color=colour[row], alpha=0.25, linewidths=0)
        which = np.clip(np.searchsorted(edges, nodes, side="right") - 1, 0, max(0, len(edges) - 2))
        bins = np.unique(which)
        means = [(nodes[which == b].mean(), values[which == b].mean()) for b in bins]
        ax.plot(
            *zip(*means, strict=True), marker=MARKS[number % len(MARKS)], markersize=4, color=colour[row],
            linestyle=("-", "--", ":", "-.")[style % 4], label=row,
        )  # fmt: skip
    _draw_published(ax, records, theirs)
    if sizes[-1] > 4 * sizes[0]:
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set(xlabel="N", ylabel="gap %", title=f"{bench.title}: gap against N")
    _gap_axis(ax, min(gaps[record.key] for record in records if record.row in rows))
    _finish(ax)


def _draw_published(ax: Axes, records: Sequence[Record], theirs: Mapping[str, Mapping[str, str]]) -> None:
    """Each mean from the smallest to the largest N of its group; not those far below, which would squeeze the rest."""
    least = min(float(np.min(line.get_ydata())) for line in ax.get_lines())
    for number, (row, figures) in enumerate(theirs.items()):
        label: str | None = f"{row} (published)"
        for group, figure in figures.items():
            nodes = [record.nodes for record in records if record.group == group]
            if nodes and figure != "-" and float(figure.lstrip("~")) > least / 4:
                style = {"color": str(0.1 * number), "linestyle": DASHES[number % len(DASHES)], "linewidth": 1.2}
                ax.plot([min(nodes), max(nodes)], [float(figure.lstrip("~"))] * 2, label=label, **style)
                label = None


def _best_of_families(bench: Bench, records: Sequence[Record], gaps: Gaps) -> list[str]:
    """The row with the lowest mean gap of each family, in their order."""
    found = {row: [gaps[record.key] for record in records if record.row == row] for row in bench.rows}
    order = sorted((row for row in bench.rows if found[row]), key=lambda row: fmean(found[row]))
    best = {bench.families[row]: row for row in reversed(order)}  # the first of the order stays
    return [best[family] for family in dict.fromkeys(bench.families.values()) if family in best]


def plot_scatter(ax: Axes, bench: Bench, records: Sequence[Record], gaps: Gaps) -> None:
    """Instances: x the best row of the first family, y the best one of each other family, or else all other rows."""
    found = {row: {r.instance: gaps[r.key] for r in records if r.row == row} for row in bench.rows}
    base, *others = _best_of_families(bench, records, gaps)
    others = others or [row for row in bench.rows if found[row] and row != base]
    lowest = np.inf
    for number, row in enumerate(others):
        both = [name for name in found[row] if name in found[base]]
        if not both:
            continue
        x, y = [found[base][name] for name in both], [found[row][name] for name in both]
        lowest = min(lowest, *x, *y)
        mark = MARKS[number % len(MARKS)]
        ax.scatter(x, y, s=20, marker=mark, alpha=0.6, linewidths=0, color=f"C{(number + 1) % 10}", label=row)
    if np.isfinite(lowest):
        right, top = ax.get_xlim()[1], max(ax.get_xlim()[1], ax.get_ylim()[1])
        _gap_scale(ax, "x", lowest, top)
        _gap_scale(ax, "y", lowest, top)
        ends = np.array([lowest, top])
        ax.plot(ends, ends, color="#888", linewidth=0.8, zorder=0)
        ax.set_xlim(right=right)
    ax.set(xlabel=f"gap % with {base}", ylabel="gap % with another row", title=f"{bench.title}: instance by instance")
    _finish(ax)


def _gap_axis(ax: Axes, lowest: float) -> None:
    """The y axis of gaps, from `lowest` on."""
    _gap_scale(ax, "y", lowest, ax.get_ylim()[1])
    if lowest >= 0 and ax.get_yscale() != "log":
        ax.set_ylim(bottom=0)


def _gap_scale(ax: Axes, name: Literal["x", "y"], lowest: float, top: float) -> None:
    """A logarithmic axis where gaps span more than it takes to see them on a linear one; around 0 it stays linear."""
    if top < 20 * max(lowest, SMALL):
        return
    set_scale, axis = (ax.set_xscale, ax.xaxis) if name == "x" else (ax.set_yscale, ax.yaxis)
    if lowest > SMALL:
        set_scale("log")
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    else:
        set_scale("symlog", linthresh=SMALL, linscale=0.5)
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


def page(bench: Bench, table: Table, each: Table, pictures: dict[str, tuple[str, bytes]]) -> str:
    """The whole report as HTML; pictures are inside, nothing is fetched."""
    figures = "\n".join(
        f'<figure><img alt="{html.escape(caption)}" src="data:image/png;base64,{base64.b64encode(picture).decode()}">'
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
        for caption, picture in pictures.values()
    )
    if len(each.rows) <= MOST_LISTED:
        listed = f'<details><summary>Every instance</summary><div class="wide">{each.html()}</div></details>'
    else:
        listed = f"<p>The {len(each.rows)} instances are in results.csv.</p>"
    setup = json.dumps({"options": bench.options, "versions": bench.versions, "machine": bench.machine}, indent=2)
    title = html.escape(f"elgo bench {bench.set}")
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>{_STYLE}</style></head>
<body><h1>{title}</h1><p>{html.escape(bench.date)}</p>
<div class="wide">{table.html()}</div>
{figures}
{listed}
<details><summary>Setup</summary><pre>{html.escape(setup)}</pre></details>
</body></html>
"""
