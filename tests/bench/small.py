"""Small instances, folders of them, and records, for the tests of `elgo bench`."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from elgo.bench.run import BenchConfig, Record
from elgo.problem.files import write_instance
from elgo.problem.instance import Instance, Metric

TSPLIB = ("eil51", "berlin52", "pr226")  # names only: the points are ours


def instance(problem: str, n: int = 14, seed: int = 0, name: str = "", metric: Metric = Metric.EUC_2D) -> Instance:
    """n random nodes, the depot included; some customers nearly fill a vehicle."""
    rng = np.random.default_rng(seed)
    coords = rng.integers(0, 1000, (n, 2)).astype(float)
    if metric is Metric.EXACT:
        coords /= 1000
    if problem == "tsp":
        return Instance(name or f"tsp{n}", coords, metric)
    demand = np.concatenate([[0], rng.integers(1, 10, n - 1)]).astype(float)
    return Instance(name or f"cvrp{n}", coords, metric, demand=demand, capacity=12.0)


def tsplib(folder: Path, names: Sequence[str] = TSPLIB, best: float = 100.0) -> Path:
    """A folder like tsplib/: NAME.tsp and optima.csv."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(names):
        write_instance(folder / f"{name}.tsp", instance("tsp", 202 if name == "pr226" else 14, seed, name))
    (folder / "optima.csv").write_text("name,n,optimum\n" + "".join(f"{name},14,{best:g}\n" for name in names))
    return folder


def record(method: str, name: str, cost: float | None, **changes: object) -> Record:
    """A result with best-known cost 100."""
    usual = {"group": "<=200", "problem": "tsp", "nodes": 50, "best_known": 100.0, "routes": 1, "seconds": 0.5}
    values = usual | changes
    best = values["best_known"]
    gap = None if cost is None or best is None else 100 * (cost - best) / best  # type: ignore[operator]
    return Record(method=method, instance=name, cost=cost, gap=gap, **values)  # type: ignore[arg-type]


def config(methods: Sequence[str], **changes: object) -> BenchConfig:
    """The config of a benchmark on two groups of two instances each."""
    values: dict[str, object] = {
        "set": "tsplib",
        "methods": list(methods),
        "weights": {},
        "instances": {"<=200": 2, "200-1002": 1},
        "data": "",
        "options": {"seed": 0, "threads": 1, "memory_gb": 4.0},
        "title": "TSPLIB",
        "full": {"<=200": 2, "200-1002": 1},
        "notes": [],
        "versions": {},
        "machine": {"processor": "a processor"},
        "date": "2026-01-02T03:04:05+00:00",
    }
    return BenchConfig(**(values | changes))  # type: ignore[arg-type]
