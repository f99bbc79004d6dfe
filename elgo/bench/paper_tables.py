"""The tables of the paper, numbered as there: our rows measured, then the published ones.

A column is a set, or a part of one; a row is a method in the folder of that set's benchmark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Literal, NamedTuple

from elgo.bench.ablations import VARIANTS
from elgo.bench.compare import compare
from elgo.bench.hyperparameters import hyperparameter_table
from elgo.bench.paper import POMO, RUNS, Study
from elgo.bench.published import NOTES, facts, published
from elgo.bench.run import BenchConfig, Record, read_config, read_records
from elgo.bench.tables import PUBLISHED, Table, complete_means, format_mean_seconds
from elgo.model.cards import read_cards
from elgo.model.checkpoint import SHIPPED, read_weights
from elgo.problem.errors import ElgoError
from elgo.problem.files import atomic_write

Kind = Literal["gap", "gap of means", "seconds"]


class Column(NamedTuple):
    """Figures of one benchmark: the mean of the gaps, the gap of the mean costs, or the mean seconds."""

    title: str
    run: str  # a key of RUNS
    section: str  # of the published figures
    group: str  # in that section
    keep: Callable[[Record], bool] = lambda record: True
    kind: Kind = "gap"


class Row(NamedTuple):
    """A method of ours: a pattern of its names, and the end of its folders' names."""

    label: str
    pattern: str
    suffix: str = ""
    card: str = ""  # model whose card says what it was trained on


class Layout(NamedTuple):
    """A table: its columns, and the rows whose figures are measured."""

    title: str
    columns: Sequence[Column]
    variants: Sequence[str] = ()  # rows of ablations; else the usual methods
    notes: tuple[str, ...] = ()


ROWS = (
    Row("ELG", r"elg:\d+x8", card="elg"),
    Row("ELG, one rollout", "elg:single", card="elg"),
    Row("POMO", r"pomo:\d+x8", f"-{POMO}", POMO),
    Row("POMO, one rollout", "pomo:single", f"-{POMO}", POMO),
    Row("savings", "savings"),
    Row("search (elgo) in ELG's time", "elgo@.*"),
    Row("fast_tsp in ELG's time", "fast_tsp@.*"),
)


def _by_group(run: str, section: str, groups: Sequence[str], kind: Kind = "gap") -> list[Column]:
    return [Column(group, run, section, group, lambda x, group=group: x.group == group, kind) for group in groups]  # type: ignore[misc]


def _benchmark(run: str, groups: Sequence[str]) -> list[Column]:
    whole = [Column("all", run, run, "all"), Column("seconds", run, run, "seconds", kind="seconds")]
    return [*_by_group(run, run, groups), *whole]


def _synthetic(problem: str) -> list[Column]:
    columns: list[Column] = []
    for size in (100, 200):
        run, names = f"synthetic-{problem}-{size}", RUNS[f"synthetic-{problem}-{size}"].selection.groups or ()
        for column in _by_group(run, "synthetic", names, "gap of means"):
            columns.append(column._replace(title=f"{column.group.split('_')[1]} {size}"))
        columns.append(Column(f"seconds {size}", run, "synthetic", "seconds", kind="seconds"))
    return columns


def _uniform(parts: bool) -> list[Column]:
    columns = []
    for problem in ("tsp", "cvrp"):
        name, run = f"{problem.upper()}100", f"uniform-{problem}"
        whole = Column(name, run, "uniform", name, kind="gap of means")
        part = Column(f"{name}, first 1,000", f"{run}-part", "uniform", "", kind="gap of means")
        seconds = Column(f"seconds {name}", f"{run}-part", "uniform", "seconds", kind="seconds")
        columns += [whole, part, seconds] if parts else [part]
    return columns


def _ablation_columns(*sets: str) -> list[Column]:
    of = {
        "TSP100": Column("TSP100", "uniform-tsp-part", "ablations", "TSP100", kind="gap of means"),
        "CVRP100": Column("CVRP100", "uniform-cvrp-part", "ablations", "CVRP100", kind="gap of means"),
        "TSPLIB": Column("TSPLIB", "tsplib", "ablations", "TSPLIB"),
        "Set-X": Column("Set-X", "cvrplib-x", "ablations", "Set-X"),
    }
    return [of[name] for name in sets]


def _large(record: Record) -> bool:
    return record.nodes >= 500


_BRIEF = (
    "measured: variants trained alike and briefly; TSP100 and CVRP100 are their first 1,000, compared with the "
    "references of these; published: trained to the end, all 10,000",
)
_OF_MEANS = "gaps are those of mean costs, as in the paper"
LAYOUTS = {
    1: Layout("CVRPLIB Set-X", _benchmark("cvrplib-x", ["<=200", "200-1000"])),
    2: Layout("TSPLIB", _benchmark("tsplib", ["<=200", "200-1002"]), notes=(NOTES["tsplib"],)),
    3: Layout("CVRPLIB Set-XXL", _benchmark("cvrplib-xxl", ["A1", "A2", "L1", "L2"])),
    4: Layout("Synthetic TSP", _synthetic("tsp"), notes=(_OF_MEANS, "N = 200: the first 100 of each set")),
    5: Layout("Uniform instances, N = 100", _uniform(True), notes=(_OF_MEANS,)),
    7: Layout(
        "Components",
        _ablation_columns("TSP100", "CVRP100", "TSPLIB", "Set-X"),
        ("paper-tsp", "ablation-no-penalty", "ablation-no-positional", "ablation-euclidean"),
        _BRIEF,
    ),
    8: Layout(
        "Penalty xi outside of the neighbourhood",
        _ablation_columns("TSP100", "TSPLIB"),
        ("paper-tsp", "ablation-xi-1.5", "ablation-xi-2"),
        _BRIEF,
    ),
    9: Layout(
        "Size K of the neighbourhood",
        _ablation_columns("TSP100", "TSPLIB"),
        ("ablation-k-20", "paper-tsp", "ablation-k-40", "ablation-k-50"),
        _BRIEF,
    ),
    10: Layout(
        "Comparison with TAM",
        [
            Column("Set-X, N >= 500", "cvrplib-x", "tam", "Set-X", _large),
            Column("seconds Set-X", "cvrplib-x", "tam", "Set-X-seconds", _large, "seconds"),
            Column("XXL", "cvrplib-xxl", "tam", "XXL"),
            Column("seconds XXL", "cvrplib-xxl", "tam", "XXL-seconds", kind="seconds"),
        ],
        notes=("measured seconds are those of N >= 500; the published ones are over all of Set-X",),
    ),
    11: Layout("Synthetic CVRP", _synthetic("cvrp"), notes=(_OF_MEANS, "N = 200: the first 100 of each set")),
    12: Layout(
        "Only the local policy",
        _ablation_columns("TSP100", "TSPLIB"),
        ("ablation-local-only", "ablation-global-only", "paper-tsp"),
        _BRIEF,
    ),
}
NUMBERS = tuple(range(1, 13))


def parse_tables(text: str) -> list[int]:
    """Return the numbers of tables in a text such as "1,2,10-12" or "all"."""
    if text.strip() == "all":
        return list(NUMBERS)
    found: list[int] = []
    for part in text.split(","):
        low, _, high = part.strip().partition("-")
        if not (low.isdigit() and (high or low).isdigit() and 1 <= int(low) <= int(high or low) <= NUMBERS[-1]):
            raise ElgoError(f"--table has {part.strip()!r}; write numbers from 1 to {NUMBERS[-1]}, 1-3, or all")
        found += range(int(low), int(high or low) + 1)
    return list(dict.fromkeys(found))


def paper_table(number: int, study: Study) -> Table:
    """Measure what a table of the paper needs, or what is missing of it; write and return the table."""
    table = hyperparameter_table() if number == 6 else _measured_table(number, LAYOUTS[number], study)
    atomic_write(study.folder / f"table-{number}.txt", f"{table.text()}\n")
    atomic_write(study.folder / f"table-{number}.md", f"{table.markdown()}\n")
    return table


# --- our rows --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Results:
    """The folder of a benchmark."""

    path: Path

    @cached_property
    def config(self) -> BenchConfig:
        return read_config(self.path)

    @cached_property
    def records(self) -> list[Record]:
        return list(read_records(self.path))

    def figure(self, column: Column, pattern: str) -> tuple[str, list[Record]]:
        """Return a cell of the table, and the records that it is made of."""
        found = [x for x in self.records if re.fullmatch(pattern, x.method) and column.keep(x)]
        solved = [x for x in found if x.cost is not None]
        if column.kind == "seconds" or not solved:
            return (format_mean_seconds(found) if found else "-"), found
        if column.kind == "gap":
            gaps = [x.gap for x in solved if x.gap is not None]
            return (f"{fmean(gaps):z.2f}" if len(gaps) == len(solved) else "-"), found
        means = complete_means(self.config)
        references = [means.get(x.group, x.best_known) for x in solved]
        known = [reference for reference in references if reference]
        if len(known) < len(solved):
            return f"cost {fmean(x.cost for x in solved if x.cost is not None):.4f}", found
        return f"{100 * (sum(x.cost for x in solved if x.cost is not None) / sum(known) - 1):z.2f}", found


def _measured_table(number: int, layout: Layout, study: Study) -> Table:
    runs = list(dict.fromkeys(column.run for column in layout.columns))
    folders: dict[str, Results] = {}  # run + suffix
    missing, training = list[str](), list[str]()

    def add(run: str, suffix: str, path: Path | None, what: str) -> None:
        if path is None:
            missing.append(what)
        else:
            folders[run + suffix] = Results(path)

    for run in runs:
        if layout.variants:
            for variant in layout.variants:
                what = f"{VARIANTS[variant]} ({RUNS[run].problem.upper()})"
                add(run, f"-{variant}", study.measure_ablation(run, variant), what)
                file = study.ablation_weights(variant, RUNS[run].problem)
                training += [f"{what}: {read_weights(file).training}"] if file else []
        else:
            add(run, "", study.measure(run), "")
            if not RUNS[run].only_elg:
                add(run, f"-{POMO}", study.measure_pomo(run), f"POMO ({RUNS[run].problem.upper()})")
    rows: Sequence[Row] = ROWS
    if layout.variants:
        rows = tuple(Row(VARIANTS[variant], f"{variant}.*", f"-{variant}") for variant in layout.variants)
    lines = [line for row in rows if (line := _row(row, layout.columns, folders))]
    header = ("", "trained on", "starts x symmetries", *(column.title for column in layout.columns))
    notes = [*layout.notes, *dict.fromkeys(training), *_notes(folders.values(), missing, study)]
    if any(cell.startswith("cost") for line in lines for cell in line):
        notes.append("a mean cost where there are no reference costs for all instances: run elgo data reference")
    notes += [] if layout.variants else _paired_tests(runs, folders)
    title = f"Table {number}. {layout.title}: mean gap %"
    return Table(title, header, (*lines, *_published_rows(layout)), tuple(notes))


def _row(row: Row, columns: Sequence[Column], folders: dict[str, Results]) -> tuple[str, ...] | None:
    """Return the cells of a method; None if nothing of it was measured."""
    cells, used = [], list[Record]()
    for column in columns:
        results = folders.get(column.run + row.suffix)
        cell, records = results.figure(column, row.pattern) if results else ("-", [])
        cells.append(cell)
        used += records
    if not used:
        return None
    data = _trained_on(row.card, {x.problem for x in used}) if row.card else "-"
    if row.suffix and not row.card:
        data = "see notes"
    return row.label, data, protocol(used), *cells


def protocol(records: Sequence[Record]) -> str:
    """Return starts x symmetries of a model's records: N x 8 where every node is a start."""
    models = [x for x in records if x.starts]
    if not models:
        return "-"
    starts = {x.starts for x in models}
    every = all(x.starts == x.nodes for x in models) and max(starts) > 1
    most = str(max(starts)) if len(starts) == 1 else f"N, at most {max(starts)},"
    return f"{'N' if every else most} x {max(x.symmetries for x in models)}"


def _trained_on(model: str, problems: Iterable[str]) -> str:
    cards = {card.name: card.facts.data for card in read_cards(SHIPPED)}
    found = {problem: cards[f"{model}-{problem}"] for problem in sorted(problems)}
    return next(iter(found.values())) if len(found) == 1 else "; ".join(f"{p.upper()}: {x}" for p, x in found.items())


def _notes(folders: Iterable[Results], missing: Sequence[str], study: Study) -> list[str]:
    notes: list[str] = []
    for results in folders:
        config = results.config
        threads = int(config.options["threads"])
        machine = f"{config.machine['processor']}, {'one thread' if threads == 1 else f'{threads} threads'}"
        notes.append(f"seconds per instance: {machine}, {config.date[:10]}; published: RTX 4090, heuristics 64 cores")
        notes += config.notes
        counts = [f"{group} {n} of {config.full[group]}" for group, n in config.instances.items()]
        if study.limit and counts:
            notes.append(f"{results.path.name}: only a part of each set: {', '.join(counts)}")
    if missing:
        notes.append(f"left out, because there are no weights: {', '.join(dict.fromkeys(missing))}")
    return list(dict.fromkeys(notes))


def _paired_tests(runs: Sequence[str], folders: dict[str, Results]) -> list[str]:
    """Return a line for each set on which ELG and our POMO were measured: what the local policy gains."""
    lines = []
    for run in runs:
        if f"{run}-{POMO}" in folders:
            starts = RUNS[run].starts
            a, b = folders[run].path, folders[f"{run}-{POMO}"].path
            found = compare(f"{a}:elg:{starts}x8", f"{b}:{POMO}:{starts}x8")
            cells = dict(zip(found.header, found.rows[0], strict=True))
            change = f"POMO's cost {cells['B - A %']} % against ELG's"
            sides = f"better on {cells['B better']}, worse on {cells['B worse']} of {cells['instances']}"
            lines.append(f"{run}: {change}, {sides}, p = {cells['p']} (Wilcoxon's signed-rank test)")
    return lines


# --- published rows --------------------------------------------------------------------------------------------------


def _published_rows(layout: Layout) -> list[tuple[str, ...]]:
    sections = dict.fromkeys(column.section for column in layout.columns)
    names = dict.fromkeys(name for section in sections for name in published(section))
    data, how = facts("data"), facts("protocol")
    rows = []
    for name in layout.variants or names:
        cells = [published(column.section).get(name, {}).get(column.group, "-") for column in layout.columns]
        if set(cells) != {"-"}:
            method = "ELG" if layout.variants else name
            row = (data.get(method, "-"), how.get(method, "-"), *cells)
            rows.append((f"{VARIANTS.get(name, name)} {PUBLISHED}", *row))
    return rows
