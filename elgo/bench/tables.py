"""Records -> tables in the paper's layout: mean gaps by group, over all, and seconds per instance."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from elgo.bench import published
from elgo.bench.run import Bench, Record
from elgo.problem.solution import format_cost

Gaps = Mapping[tuple[str, str], float]  # (row, instance) -> percent


@dataclass(frozen=True)
class Table:
    """Text in rows and columns, with a line above and remarks below."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def text(self) -> str:
        """For a terminal: columns aligned, the first one to the left."""
        widths = [max(map(len, column)) for column in zip(self.header, *self.rows, strict=True)]

        def line(cells: Sequence[str]) -> str:
            first, *rest = zip(cells, widths, strict=True)
            return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]).rstrip()

        rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
        notes = [f"- {note}" for note in self.notes]
        return "\n".join(
            [self.title, "", line(self.header), rule, *map(line, self.rows), *([""] if notes else []), *notes]
        )

    def markdown(self) -> str:
        def line(cells: Sequence[str]) -> str:
            return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"

        rule = "|---|" + "---:|" * (len(self.header) - 1)
        notes = [f"- {note}" for note in self.notes]
        table = [line(self.header), rule, *map(line, self.rows)]
        return "\n".join([f"## {self.title}", "", *table, *([""] if notes else []), *notes])

    def html(self) -> str:
        def line(cells: Sequence[str], kind: str) -> str:
            marked = ' class="published"' if cells[0].endswith(PUBLISHED) else ""
            return f"<tr{marked}>" + "".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in cells) + "</tr>"

        body = "\n".join(line(row, "td") for row in self.rows)
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        head = f"<h2>{html.escape(self.title)}</h2>"
        return f"{head}\n<table><thead>{line(self.header, 'th')}</thead>\n<tbody>{body}</tbody></table><ul>{notes}</ul>"


PUBLISHED = "(published)"


def reference_gaps(bench: Bench, records: Sequence[Record]) -> tuple[Gaps, bool]:
    """Gap of each record to the best-known cost, and whether some are to the best of this run for want of one.

    Where the literature only knows the mean cost of a group, that is what single costs are held against: their mean gap
    is that of the means. An instance of another kind that only one row has solved has no gap.
    """
    solved = [(record, record.cost) for record in records if record.cost is not None]
    best: dict[str, float] = {}
    count: dict[str, int] = {}
    for record, cost in solved:
        best[record.instance] = min(cost, best.get(record.instance, cost))
        count[record.instance] = count.get(record.instance, 0) + 1
    gaps: dict[tuple[str, str], float] = {}
    borrowed = False
    for record, cost in solved:
        if record.gap is not None:
            gaps[record.key] = record.gap
        elif record.group in bench.means:
            gaps[record.key] = 100 * (cost / bench.means[record.group] - 1)
        elif count[record.instance] > 1 and best[record.instance] > 0:
            gaps[record.key] = 100 * (cost / best[record.instance] - 1)
            borrowed = True
    return gaps, borrowed


def main_table(bench: Bench, records: Sequence[Record], with_published: bool = True) -> Table:
    """The paper's layout: a row for each row of the benchmark, and the published ones behind them, marked."""
    groups = list(bench.instances)
    columns = [column for group in groups for column in _columns(bench, group)]
    header = ["", *(title for title, _, _ in columns)]
    if bench.total and len(groups) > 1:
        header.append("all")
    by_row = {name: [record for record in records if record.row == name] for name in bench.rows}
    gaps, borrowed = reference_gaps(bench, records)
    failed = {name: sum(record.cost is None for record in own) for name, own in by_row.items()}
    rows = []
    for name, own in by_row.items():
        cells = [_cell(own, gaps, group, kind) for _, group, kind in columns]
        if bench.total and len(groups) > 1:
            cells.append(_mean_gap(own, gaps))
        seconds = _seconds(fmean(record.seconds for record in own)) if own else "-"
        rows.append(
            (_row_name(bench, name, own), *cells, seconds, *([str(failed[name])] if any(failed.values()) else []))
        )
    header += ["seconds", *(["failed"] if any(failed.values()) else [])]
    theirs = published.published(bench.set) if with_published else {}
    for name, figures in theirs.items():
        cells = [figures.get(group, "-") if kind == "gap" else "-" for _, group, kind in columns]
        if bench.total and len(groups) > 1:
            cells.append(figures.get("all", "-"))
        rows.append((f"{name} {PUBLISHED}", *cells, *["-"] * (len(header) - 1 - len(cells))))
    notes = _notes(bench, by_row, borrowed, bool(theirs))
    return Table(f"{bench.title}: mean gap %", tuple(header), tuple(rows), tuple(notes))


def _columns(bench: Bench, group: str) -> list[tuple[str, str, str]]:
    """Title, group and kind of a group's columns: the mean cost too where the literature gives mean costs."""
    if group in bench.means:
        return [(f"{group} cost", group, "cost"), (f"{group} gap", group, "gap")]
    return [(group, group, "gap")]


def _cell(own: Sequence[Record], gaps: Gaps, group: str, kind: str) -> str:
    inside = [record for record in own if record.group == group]
    costs = [record.cost for record in inside if record.cost is not None]
    if kind == "gap":
        return _mean_gap(inside, gaps)
    return f"{fmean(costs):.4f}" if costs else "-"


def _mean_gap(records: Sequence[Record], gaps: Gaps) -> str:
    found = [gaps[record.key] for record in records if record.key in gaps]
    return f"{fmean(found):.2f}" if found else "-"


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}" if seconds < 1 else f"{seconds:.2f}" if seconds < 100 else f"{seconds:.0f}"


def _row_name(bench: Bench, name: str, own: Sequence[Record]) -> str:
    """The row, and how far it is while the benchmark runs. (A row for one problem only takes that one's groups.)"""
    problems = {record.group for record in own}
    wanted = sum(count for group, count in bench.instances.items() if group in problems)
    return name if own and len(own) == wanted else f"{name} ({len(own)} of {wanted or sum(bench.instances.values())})"


def _notes(bench: Bench, by_row: Mapping[str, Sequence[Record]], borrowed: bool, theirs: bool) -> list[str]:
    threads = int(bench.options["threads"])
    cores = "one thread" if threads == 1 else f"{threads} threads"
    notes = [
        f"{sum(bench.instances.values())} instances, {cores}, seed {int(bench.options['seed'])}; "
        f"{bench.machine['processor']}, {bench.date[:10]}; seconds are the mean per instance"
    ]
    notes += bench.notes
    if borrowed:
        notes.append("instances without a best-known cost: gaps are to the best of this run's rows")
    part = [f"{bench.instances[group]} of {bench.full[group]}" for group in bench.instances if group in bench.full]
    if part and any(bench.instances[group] < bench.full[group] for group in bench.instances if group in bench.full):
        notes.append(f"a part of the set ({', '.join(part)}); published figures are for all of it")
    if theirs and bench.set in published.NOTES:
        notes.append(published.NOTES[bench.set])
    for name, limit in bench.limits.items():
        spent = [record.seconds for record in by_row[name]]
        if spent and fmean(spent) > 1.05 * limit + 0.05:
            mean, most = fmean(spent), max(spent)
            notes.append(f"{name} took longer than its limit: {mean:.2f} s on average, at most {most:.2f} s")
    for name, own in by_row.items():
        faults = [record for record in own if record.fault]
        if faults:
            notes.append(f"{name} failed on {len(faults)}, first on {faults[0].instance}: {faults[0].fault}")
    return notes


def instance_table(bench: Bench, records: Sequence[Record]) -> Table:
    """One line per instance: N, best-known cost, and the gap (or else the cost) of each row."""
    gaps, _ = reference_gaps(bench, records)
    by_key = {record.key: record for record in records}
    instances = {record.instance: record for record in records}
    rows = []
    for name, first in instances.items():
        cells = [_outcome(by_key.get((row, name)), gaps) for row in bench.rows]
        rows.append((name, str(first.nodes), format_cost(first.best_known), *cells))
    return Table("Gap % of each instance", ("", "N", "best known", *bench.rows), tuple(rows))


def _outcome(record: Record | None, gaps: Gaps) -> str:
    if record is None:
        return ""
    if record.cost is None:
        return "failed"
    return f"{gaps[record.key]:.2f}" if record.key in gaps else f"cost {format_cost(record.cost)}"
