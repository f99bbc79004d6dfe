"""Tables of records in the paper's layout: mean gaps by group and over all instances, and seconds per instance."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from elgo.bench import published
from elgo.bench.methods import time_limit
from elgo.bench.run import BenchConfig, Key, Record
from elgo.bench.sets import GENERATED, MEAN_COSTS
from elgo.problem.solution import format_cost
from elgo.solve.result import format_table

PUBLISHED = "(published)"


@dataclass(frozen=True)
class Table:
    """Text in rows and columns, with a title above and notes below."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the table for a terminal: columns aligned, the first one to the left."""
        return self._join(self.title, *format_table([self.header, *self.rows]))

    def markdown(self) -> str:
        """Return the table as Markdown."""

        def line(cells: Sequence[str]) -> str:
            return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"

        rule = "|---|" + "---:|" * (len(self.header) - 1)
        return self._join(f"## {self.title}", line(self.header), rule, *map(line, self.rows))

    def _join(self, title: str, *table: str) -> str:
        """Return the lines of a table below its title and above its notes."""
        return "\n".join([title, "", *table, *([""] if self.notes else []), *(f"- {note}" for note in self.notes)])

    def html(self) -> str:
        """Return the table as HTML, published rows marked by a class."""

        def line(cells: Sequence[str], kind: str) -> str:
            marked = ' class="published"' if cells[0].endswith(PUBLISHED) else ""
            return f"<tr{marked}>" + "".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in cells) + "</tr>"

        body = "\n".join(line(row, "td") for row in self.rows)
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        head = f"<h2>{html.escape(self.title)}</h2>"
        return f"{head}\n<table><thead>{line(self.header, 'th')}</thead>\n<tbody>{body}</tbody></table><ul>{notes}</ul>"


def reference_gaps(records: Sequence[Record]) -> tuple[dict[Key, float], bool]:
    """Return the gap of each solved record in percent, and whether some are to the best cost of this run.

    The reference is the best-known cost; else the mean cost of the group in the literature (the mean of these gaps is
    the gap of the means); else the best cost of this run, if several methods have solved the instance.
    """
    solved = [(record, record.cost) for record in records if record.cost is not None]
    costs: dict[str, list[float]] = {}
    for record, cost in solved:
        costs.setdefault(record.instance, []).append(cost)
    gaps: dict[Key, float] = {}
    uses_best_of_run = False
    for record, cost in solved:
        best = min(costs[record.instance])
        if record.gap is not None:
            gaps[record.key] = record.gap
        elif record.group in MEAN_COSTS:
            gaps[record.key] = 100 * (cost / MEAN_COSTS[record.group] - 1)
        elif len(costs[record.instance]) > 1 and best > 0:
            gaps[record.key] = 100 * (cost / best - 1)
            uses_best_of_run = True
    return gaps, uses_best_of_run


def main_table(config: BenchConfig, records: Sequence[Record], with_published: bool = True) -> Table:
    """Return the table in the paper's layout: a row for each method, then the published ones, marked."""
    with_total = config.set not in GENERATED and len(config.instances) > 1
    by_method = {name: [record for record in records if record.method == name] for name in config.methods}
    gaps, uses_best_of_run = reference_gaps(records)
    any_failed = any(record.cost is None for record in records)
    header = [""]
    for group in config.instances:
        header += [f"{group} cost", f"{group} gap"] if group in MEAN_COSTS else [group]
    header += [*["all"] * with_total, "seconds", *["failed"] * any_failed]
    rows = []
    for name, own in by_method.items():
        cells = [cell for group in config.instances for cell in _cells(own, gaps, group)]
        cells += [mean_gap(own, gaps)] * with_total
        cells.append(_seconds(fmean(record.seconds for record in own)) if own else "-")
        cells += [str(sum(record.cost is None for record in own))] * any_failed
        rows.append((_progress_name(config, name, own), *cells))
    literature = published.published(config.set) if with_published else {}
    for name, figures in literature.items():
        cells = []
        for group in config.instances:
            cells += [*["-"] * (group in MEAN_COSTS), figures.get(group, "-")]
        cells += [figures.get("all", "-")] * with_total
        rows.append((f"{name} {PUBLISHED}", *cells, *["-"] * (1 + any_failed)))
    notes = _notes(config, by_method, uses_best_of_run, bool(literature))
    return Table(f"{config.title}: mean gap %", tuple(header), tuple(rows), tuple(notes))


def _cells(own: Sequence[Record], gaps: Mapping[Key, float], group: str) -> list[str]:
    """Return the mean gap in a group, after the mean cost where the literature gives mean costs."""
    inside = [record for record in own if record.group == group]
    costs = [record.cost for record in inside if record.cost is not None]
    mean_cost = [f"{fmean(costs):.4f}" if costs else "-"] * (group in MEAN_COSTS)
    return [*mean_cost, mean_gap(inside, gaps)]


def mean_gap(records: Sequence[Record], gaps: Mapping[Key, float]) -> str:
    """Return the mean gap of the records that have one, as text."""
    found = [gaps[record.key] for record in records if record.key in gaps]
    return f"{fmean(found):.2f}" if found else "-"


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}" if seconds < 1 else f"{seconds:.2f}" if seconds < 100 else f"{seconds:.0f}"


def _progress_name(config: BenchConfig, name: str, own: Sequence[Record]) -> str:
    """Return the method's name, with the number of results while some are missing.

    A method for one problem has results in the groups of that problem only.
    """
    groups = {record.group for record in own}
    expected = sum(count for group, count in config.instances.items() if group in groups)
    if own and len(own) == expected:
        return name
    return f"{name} ({len(own)} of {expected or sum(config.instances.values())})"


def _notes(
    config: BenchConfig, by_method: Mapping[str, Sequence[Record]], uses_best_of_run: bool, with_published: bool
) -> list[str]:
    threads = int(config.options["threads"])
    notes = [
        f"{sum(config.instances.values())} instances, {'one thread' if threads == 1 else f'{threads} threads'}, "
        f"seed {int(config.options['seed'])}; {config.machine['processor']}, {config.date[:10]}; "
        "seconds are the mean per instance",
        *config.notes,
    ]
    if uses_best_of_run:
        notes.append("instances without a best-known cost: gaps are to the best cost of this run")
    counts = [(count, config.full[group]) for group, count in config.instances.items() if group in config.full]
    if any(count < full for count, full in counts):
        parts = ", ".join(f"{count} of {full}" for count, full in counts)
        notes.append(f"a part of the set ({parts}); published figures are for all of it")
    if with_published and config.set in published.NOTES:
        notes.append(published.NOTES[config.set])
    for name, own in by_method.items():
        limit, spent = time_limit(name), [record.seconds for record in own]
        if limit and spent and fmean(spent) > 1.05 * limit + 0.05:
            seconds = f"{fmean(spent):.2f} s on average, at most {max(spent):.2f} s"
            notes.append(f"{name} took longer than its limit: {seconds}")
    for name, own in by_method.items():
        failed = [record for record in own if record.error]
        if failed:
            notes.append(f"{name} failed on {len(failed)}, first on {failed[0].instance}: {failed[0].error}")
    return notes


def instance_table(config: BenchConfig, records: Sequence[Record]) -> Table:
    """Return a table with a row per instance: N, best-known cost, and the gap (or else the cost) of each method."""
    gaps, _ = reference_gaps(records)
    by_key = {record.key: record for record in records}
    instances = {record.instance: record for record in records}
    rows = []
    for name, first in instances.items():
        cells = [_instance_cell(by_key.get((method, name)), gaps) for method in config.methods]
        rows.append((name, str(first.nodes), format_cost(first.best_known), *cells))
    return Table("Gap % of each instance", ("", "N", "best known", *config.methods), tuple(rows))


def _instance_cell(record: Record | None, gaps: Mapping[Key, float]) -> str:
    if record is None:
        return ""
    if record.cost is None:
        return "failed"
    return f"{gaps[record.key]:.2f}" if record.key in gaps else f"cost {format_cost(record.cost)}"
