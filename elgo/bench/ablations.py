"""The paper's ablation and sensitivity tables: train each variant briefly on the same data, then measure all."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from elgo.bench.command import OnProgress, bench
from elgo.bench.methods import Options, parse_method
from elgo.bench.published import published
from elgo.bench.run import read_config, read_records
from elgo.bench.sets import BenchSet
from elgo.bench.tables import Table, mean_gap, reference_gaps
from elgo.problem.errors import ElgoError
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
# Overrides for a small budget: imitation of fast_tsp's tours, in small batches.
SMALL = (
    *("method=imitate", "data.batch=16", "imitate.sequences=4"),
    *("train.lr=5e-4", "train.clip_norm=1.0", "train.minutes=0.0", "validation.sets=[]"),
)
# Attention layers over the neighbours of every state cost thirty times as much as all the rest: learn from few states.
COSTLY = {"ablation-local-only": ("imitate.states=4",)}


def make_variants(names: Sequence[str], steps: int, overrides: Sequence[str]) -> dict[str, Config]:
    """Return the configs of variants for a number of steps, half of them for each stage of those with two stages."""
    configs = {}
    for name in names:
        if name not in VARIANTS:
            raise ElgoError(f"--variants has {name!r}; there are {', '.join(VARIANTS)}")
        stage = steps // 2 if load_config(name).train.global_steps else 0
        budget = (f"train.steps={steps}", f"train.global_steps={stage}")
        configs[name] = load_config(name, [*SMALL, *budget, *COSTLY.get(name, ()), *overrides])
    return configs


def measure_variants(
    configs: Mapping[str, Config],
    weights: Mapping[str, Path],
    protocol: str,
    bench_set: BenchSet,
    options: Options,
    path: Path,
    on_progress: OnProgress | None = None,
) -> Table:
    """Run the benchmark of the trained variants; write and return the paper's table with its figures beside ours."""
    methods = {name: parse_method(f"{name}={file}:{protocol}") for name, file in weights.items()}
    bench(bench_set, list(methods.values()), options, path / "results", on_progress, with_published=False)
    records = list(read_records(path / "results"))
    gaps = reference_gaps(records, read_config(path / "results"))
    rows = []
    for name, method in methods.items():
        own = [record for record in records if record.method == method.name]
        cells = [mean_gap([record for record in own if record.group == group], gaps) for group in bench_set.groups]
        rows.append((VARIANTS[name], published("ablations")[name]["TSPLIB"], *cells, mean_gap(own, gaps)))
    header = ("", "all 49 (published)", *bench_set.groups, "all")
    table = Table(f"Ablations on {bench_set.title}: mean gap %", header, tuple(rows), _notes(configs))
    atomic_write(path / "ablations.txt", f"{table.text()}\n")
    atomic_write(path / "ablations.md", f"{table.markdown()}\n")
    return table


def _notes(configs: Mapping[str, Config]) -> tuple[str, ...]:
    first = next(iter(configs.values()))
    train, data = first.train, first.data
    note = (
        f"measured: {first.method_name}, {train.steps} steps of {data.batch} instances with N = {data.sizes}, "
        f"{data.distribution}, seed {train.seed}, the same for all; published: 350,000 steps of 120 on a GPU"
    )
    less = ", ".join(f"{VARIANTS[name]} ({' '.join(COSTLY[name])})" for name in configs if name in COSTLY)
    return (note, f"except for what would take too long: {less}") if less else (note,)
