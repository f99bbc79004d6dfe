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


def complete_means(config: BenchConfig) -> dict[str, float]:
    """Return the literature's mean costs of the groups that the benchmark has whole: they say nothing about a part."""
    counts = config.instances
    return {group: MEAN_COSTS[group] for group in MEAN_COSTS.keys() & counts if counts[group] == config.full.get(group)}


def reference_gaps(records: Sequence[Record], config: BenchConfig) -> dict[Key, float]:
    """Return the gaps in percent of the solved records that have a reference.

    It is the literature's mean cost of the whole group, if there is one (the mean of these gaps is the gap of the
    means), else the best-known cost of the instance.
    """
    gaps, means = {}, complete_means(config)
    for record in records:
        if record.cost is not None and record.group in means:
            gaps[record.key] = 100 * (record.cost / means[record.group] - 1)
        elif record.gap is not None:
            gaps[record.key] = record.gap
    return gaps


def relative_gaps(records: Sequence[Record], config: BenchConfig) -> dict[Key, float]:
    """Return `reference_gaps`; where there is no reference, gaps to the best cost of this run, if there are several."""
    gaps = reference_gaps(records, config)
    costs: dict[str, list[float]] = {}
    for record in records:
        if record.cost is not None:
            costs.setdefault(record.instance, []).append(record.cost)
    for record in records:
        own = costs.get(record.instance, [])
        if record.key not in gaps and record.cost is not None and len(own) > 1 and min(own) > 0:
            gaps[record.key] = 100 * (record.cost / min(own) - 1)
    return gaps


def main_table(config: BenchConfig, records: Sequence[Record], with_published: bool = True) -> Table:
    """Return the table in the paper's layout: a row for each method, then the published ones, marked.

    A group without a reference shows the mean cost instead of the mean gap.
    """
    by_method = {name: [record for record in records if record.method == name] for name in config.methods}
    gaps = reference_gaps(records, config)
    known = complete_means(config).keys()
    costed = {x.group for x in records} - {x.group for x in records if x.best_known or x.group in known}
    with_total = config.set not in GENERATED and len(config.instances) > 1 and len(costed) < len(config.instances)
    any_failed = any(record.cost is None for record in records)
    header = [""]
    for group in config.instances:
        header += [f"{group} cost"] * (group in costed or group in MEAN_COSTS)
        header += [f"{group} gap" if group in MEAN_COSTS else group] * (group not in costed)
    header += [*["all"] * with_total, "seconds", *["failed"] * any_failed]
    rows = []
    for name, own in by_method.items():
        cells = []
        for group in config.instances:
            inside = [record for record in own if record.group == group]
            cells += [_mean_cost(inside)] * (group in costed or group in MEAN_COSTS)
            cells += [mean_gap(inside, gaps)] * (group not in costed)
        cells += [mean_gap(own, gaps)] * with_total
        cells.append(format_mean_seconds(own) if own else "-")
        cells += [str(sum(record.cost is None for record in own))] * any_failed
        rows.append((_progress_name(config, name, own), *cells))
    literature = published.published(config.set) if with_published else {}
    literature = {name: figures for name, figures in literature.items() if figures.keys() & config.instances.keys()}
    for name, figures in literature.items():
        cells = []
        for group in config.instances:
            cells += ["-"] * (group in costed or group in MEAN_COSTS)
            cells += [figures.get(group, "-")] * (group not in costed)
        cells += [figures.get("all", "-")] * with_total
        cells += [figures.get("seconds", "-"), *["-"] * any_failed]
        rows.append((f"{name} {PUBLISHED}", *cells))
    notes = _notes(config, by_method, bool(literature))
    if costed and len(by_method) > 1:
        notes.append("where there is no best-known cost, pictures show gaps to the best cost of this run")
    title = f"{config.title}: mean {'cost' if len(costed) == len(config.instances) else 'gap %'}"
    return Table(title, tuple(header), tuple(rows), tuple(notes))


def _mean_cost(records: Sequence[Record]) -> str:
    costs = [record.cost for record in records if record.cost is not None]
    return f"{fmean(costs):.4f}" if costs else "-"


def mean_gap(records: Sequence[Record], gaps: Mapping[Key, float]) -> str:
    """Return the mean gap of the records that have one, as text."""
    found = [gaps[record.key] for record in records if record.key in gaps]
    return f"{fmean(found):z.2f}" if found else "-"


def format_mean_seconds(records: Sequence[Record]) -> str:
    """Return the mean seconds of records as text."""
    seconds = fmean(record.seconds for record in records)
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


def _notes(config: BenchConfig, by_method: Mapping[str, Sequence[Record]], with_published: bool) -> list[str]:
    threads = int(config.options["threads"])
    notes = [
        f"{sum(config.instances.values())} instances, {'one thread' if threads == 1 else f'{threads} threads'}, "
        f"seed {int(config.options['seed'])}; {config.machine['processor']}, {config.date[:10]}; "
        "seconds are the mean per instance",
        *config.notes,
    ]
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
    gaps = reference_gaps(records, config)
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
