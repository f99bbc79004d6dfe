"""The paper's ablation and sensitivity tables: train every variant briefly on the same data, then measure each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from elgo.bench.command import bench
from elgo.bench.methods import Options, Row, parse_row
from elgo.bench.published import ABLATIONS
from elgo.bench.run import read_bench, read_records
from elgo.bench.sets import BenchSet
from elgo.bench.tables import Gaps, Table, reference_gaps
from elgo.problem.files import atomic_write
from elgo.train.config import Config, load_config

# config -> what the tables call it
VARIANTS = {
    "paper-tsp": "ELG (xi = 1, K = 30)",
    "ablation-no-penalty": "no penalty",
    "ablation-no-positional": "no positional encoding",
    "ablation-euclidean": "Euclidean, not polar",
    "ablation-local-only": "local policy only",
    "ablation-global-only": "global policy only (POMO)",
    "ablation-xi-1.5": "xi = 1.5",
    "ablation-xi-2": "xi = 2",
    "ablation-k-20": "K = 20",
    "ablation-k-40": "K = 40",
    "ablation-k-50": "K = 50",
}
# What a small budget can afford: imitation of fast_tsp's tours, in small batches.
SMALL = (
    "train.method=imitate",
    "data.batch=16",
    "data.starts=4",
    "train.lr=5e-4",
    "train.clip_norm=1.0",
    "validation.sets=[]",
)
# Its attention over the neighbours of every state costs thirty times as much as all the rest: it learns from some.
COSTLY = {"ablation-local-only": ("data.states=4",)}


def variant(name: str, steps: int, overrides: Sequence[str]) -> Config:
    """The config of a variant for that many steps: half of them for each stage, or few would be left for the second."""
    stage = steps // 2 if load_config(name).train.global_steps else 0
    budget = [f"train.steps={steps}", "train.minutes=0.0", f"train.global_steps={stage}"]
    return load_config(name, [*SMALL, *budget, *COSTLY.get(name, ()), *overrides])


def ablations(
    names: Sequence[str],
    steps: int,
    overrides: Sequence[str],
    bench_set: BenchSet,
    options: Options,
    protocol: str,
    path: Path,
    quiet: bool,
) -> Table:
    """Train the variants, one after the other, and measure them together; both go on after a stop."""
    import torch

    from elgo.train.command import run as train

    for name in names:
        if name not in VARIANTS:
            raise ValueError(f"--variants has {name!r}; there are {', '.join(VARIANTS)}")
    configs = {name: variant(name, steps, overrides) for name in names}  # all of them are read before the first hour
    torch.set_num_threads(options.threads)
    rows: list[Row] = []
    for name, config in configs.items():
        weights = train(config, path / "training" / name, path / "data", quiet)
        rows.append(parse_row(f"{name}={weights}:{protocol}"))
    bench(bench_set, rows, options, path / "results", quiet, with_published=False)
    table = layout(rows, configs, path / "results", bench_set.title)
    atomic_write(path / "ablations.txt", f"{table.text()}\n")
    atomic_write(path / "ablations.md", f"{table.markdown()}\n")
    return table


def layout(rows: Sequence[Row], configs: dict[str, Config], results: Path, title: str) -> Table:
    """The paper's rows, its figures beside ours."""
    records = list(read_records(results))
    gaps, _ = reference_gaps(read_bench(results), records)
    groups = list(dict.fromkeys(record.group for record in records))
    lines = []
    for row, name in zip(rows, configs, strict=True):
        cells = [_mean([r.key for r in records if r.row == row.name and r.group == group], gaps) for group in groups]
        total = _mean([r.key for r in records if r.row == row.name], gaps)
        lines.append((VARIANTS[name], ABLATIONS.get(name, "-"), *cells, total))
    first = next(iter(configs.values()))
    train, data = first.train, first.data
    note = (
        f"measured: {train.method}, {train.steps} steps of {data.batch} instances with N = {data.sizes}, "
        f"{data.distribution}, seed {train.seed}, the same for all; published: 350,000 steps of 120 on a GPU"
    )
    less = ", ".join(f"{VARIANTS[name]} ({' '.join(COSTLY[name])})" for name in configs if name in COSTLY)
    notes = (note, f"but for what costs too much: {less}") if less else (note,)
    header = ("", "all 49 (published)", *groups, "all")
    return Table(f"Ablations on {title}: mean gap %", header, tuple(lines), notes)


def _mean(keys: Sequence[tuple[str, str]], gaps: Gaps) -> str:
    found = [gaps[key] for key in keys if key in gaps]
    return f"{sum(found) / len(found):.2f}" if found else "-"
