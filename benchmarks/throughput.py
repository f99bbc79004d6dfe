"""Mean gap against instances per second on two cores: policies, heuristics, searches and other solvers in one run.

    python benchmarks/throughput.py [--count 1000] [--folder bench/throughput] [--methods elg:single,...] [--pomo FILE]

The instances are the first of Kool's uniform TSP100 and CVRP100. Gaps are to the best solution that any method of the
run found for an instance, so a run should have one strong method, such as hgs@1. Rates count the time from the first
batch to the last, with two workers that are warm.

It writes throughput.json (continued if it exists), throughput.md and throughput.png with the Pareto front: methods that
none beats in both. throughput-gpu.png is calculated, not measured: the operations of the policy's matrix products, at
a share of a GPU's stated peak.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elgo.bench.methods import Method, Options, check, parse_method, run_method, warm_up_methods
from elgo.bulk.engine import Engine, run
from elgo.bulk.engines import open_engine
from elgo.model.checkpoint import load_weights
from elgo.model.config import PolicyConfig
from elgo.problem.files import atomic_write
from elgo.problem.generate import as_instance, kool_test_set
from elgo.problem.instance import Instance
from elgo.problem.task import PROBLEMS, ProblemName
from elgo.solve.result import format_table

CORES, N, BATCH = 2, 100, 50
METHODS = (
    "elg:single,elg:8x1,elg:starts,elg,nearest,insertion,savings,elgo@0.002,elgo@0.01,elgo@0.05,elgo@0.2,"
    "fast_tsp@0.01,hgs@0.01,pyvrp@0.01,ortools@0.01,hgs@1,fast_tsp@0.2"
)
PEAK_TFLOPS, USED_SHARE = 82.6, 0.3  # float32 of an RTX 4090 as its maker states; what decoders reach of it, assumed


class Measured(NamedTuple):
    """What a method made of the instances of a problem."""

    method: str
    problem: str
    seconds: float  # of the whole run, by the clock
    cpu: float  # seconds of all workers
    costs: list[float | None]  # of each instance; None where it failed


def solve_batch(method: Method, options: Options, instances: Sequence[Instance]) -> list[tuple[float | None, float]]:
    """Return cost and CPU seconds of each instance; called in a worker."""
    begin = time.process_time()
    answers = run_method(method, instances, options)
    share = (time.process_time() - begin) / len(instances)
    return [(answer.solution.cost if answer.solution else None, share) for answer in answers]


def warm(method: Method, problem: ProblemName, numbers: Sequence[int]) -> list[int]:
    """Load what a method needs in a worker; slow enough for each worker to be called."""
    warm_up_methods([method], [problem], Options())
    time.sleep(0.5)
    return list(numbers)


def measure(engine: Engine, method: Method, problem: ProblemName, instances: Sequence[Instance]) -> Measured:
    """Solve all instances by two workers; those of policies in batches, others by as many as take half a second."""
    for _ in run(engine, partial(warm, method, problem), [[i] for i in range(2 * CORES)]):
        pass
    size = BATCH if method.seconds is None else max(1, min(BATCH, round(0.5 / method.seconds)))
    numbered = list(enumerate(instances))
    batches = [numbered[begin : begin + size] for begin in range(0, len(numbered), size)]
    costs: list[float | None] = [None] * len(instances)
    cpu, begin = 0.0, time.perf_counter()
    for items, found in run(engine, partial(_solve_numbered, method), batches):
        if isinstance(found, Exception):
            raise found
        for (number, _), (cost, seconds) in zip(items, found, strict=True):
            costs[number] = cost
            cpu += seconds
    return Measured(method.name, problem, time.perf_counter() - begin, cpu, costs)


def _solve_numbered(method: Method, numbered: Sequence[tuple[int, Instance]]) -> list[tuple[float | None, float]]:
    return solve_batch(method, Options(), [instance for _, instance in numbered])


class Point(NamedTuple):
    """A method in the plane of the curve."""

    method: str
    rate: float  # instances per second
    gap: float  # mean, percent
    failed: int


def points(measured: Sequence[Measured], best: np.ndarray) -> list[Point]:
    """Return the methods of one problem, the fastest first; `best` are the costs that gaps are to."""
    found = []
    for one in measured:
        costs = np.array([np.nan if cost is None else cost for cost in one.costs], float)
        gap = float(np.nanmean(100 * (costs / best - 1))) if np.isfinite(costs).any() else float("nan")
        found.append(Point(one.method, len(costs) / one.seconds, gap, int(np.isnan(costs).sum())))
    return sorted(found, key=lambda point: -point.rate)


def pareto_front(found: Sequence[Point]) -> list[Point]:
    """Return the methods that no other one beats in both rate and gap, the fastest first; failures do not count."""
    front: list[Point] = []
    for point in sorted((p for p in found if not p.failed), key=lambda point: (-point.rate, point.gap)):
        if not front or point.gap < front[-1].gap:
            front.append(point)
    return front


def best_costs(measured: Sequence[Measured]) -> np.ndarray:
    """Return the lowest cost that any method found for each instance."""
    table = np.array([[np.inf if cost is None else cost for cost in one.costs] for one in measured], float)
    return table.min(axis=0)


def operations(config: PolicyConfig, n: int, starts: int, symmetries: int) -> float:
    """Return the floating-point operations of the policy's matrix products on one instance; a rollout has n steps."""
    width, hidden = config.width, config.hidden
    layer = 8.0 * n * width**2 + 4.0 * n * n * width + 4.0 * n * width * hidden
    once = config.layers * layer + 10.0 * n * width**2
    step = 2.0 * width**2 + 4.0 * n * width
    return symmetries * (once + starts * n * step)


def table_lines(found: Sequence[Point]) -> list[str]:
    """Return the table of one problem; * marks the Pareto front."""
    front = {point.method for point in pareto_front(found)}
    rows = [("method", "instances/s", "mean gap %", "failed", "front")]
    for point in found:
        mark = "*" if point.method in front else ""
        rows.append((point.method, f"{point.rate:.1f}", f"{point.gap:.3f}", str(point.failed), mark))
    return format_table(rows)


def plot(path: Path, title: str, sets: dict[str, list[Point]], extra: dict[str, list[Point]] | None = None) -> None:
    """Draw gap against rate for each problem, with the Pareto front as a line; `extra` are calculated points."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 5.5), layout="constrained")
    figure.suptitle(title)
    for axes, (problem, found) in zip(figure.subplots(1, len(sets), squeeze=False)[0], sets.items(), strict=True):
        shown = [point for point in found if np.isfinite(point.gap)]
        front = pareto_front(shown)
        axes.plot([p.rate for p in front], [max(p.gap, 1e-3) for p in front], color="0.6", zorder=1)
        for group, colour in ((shown, "tab:blue"), ((extra or {}).get(problem, []), "tab:orange")):
            axes.scatter([p.rate for p in group], [max(p.gap, 1e-3) for p in group], color=colour, zorder=2)
            for p in group:
                axes.annotate(p.method, (p.rate, max(p.gap, 1e-3)), (4, 4), textcoords="offset points", fontsize=8)
        axes.set(xscale="log", yscale="log", title=f"{problem.upper()}100")
        axes.set(xlabel="instances per second", ylabel="mean gap %")
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=150)


def on_gpu(problem: ProblemName, found: Sequence[Point], methods: dict[str, Method]) -> list[Point]:
    """Return what a GPU would make of the policies' operations, by calculation."""
    config = load_weights("elg", problem).config
    out = []
    for point in found:
        method = methods[point.method]
        if method.decodes:
            flops = operations(config, N + (problem == "cvrp"), method.starts or N, method.symmetries)
            out.append(point._replace(method=f"{point.method} (GPU)", rate=USED_SHARE * PEAK_TFLOPS * 1e12 / flops))
    return out


def measure_all(methods: Sequence[Method], count: int, file: Path) -> list[Measured]:
    """Measure what is missing in the file, which grows by one method at a time; return all."""
    stored = json.loads(file.read_text()) if file.exists() else {"count": count, "measured": []}
    if stored["count"] != count:
        raise SystemExit(f"{file}: has {stored['count']} instances, not {count}; name another --folder")
    measured = [Measured(**one) for one in stored["measured"]]
    done = {(one.method, one.problem) for one in measured}
    for problem in PROBLEMS:
        instances = [as_instance(task, f"{problem}-{i}") for i, task in enumerate(kool_test_set(problem, count))]
        for method in methods:
            if not method.supports(problem) or (method.name, problem) in done:
                continue
            with open_engine("local", CORES) as engine:
                measured.append(measure(engine, method, problem, instances))
            one = measured[-1]
            print(f"{problem} {one.method}: {count / one.seconds:.1f}/s, load {os.getloadavg()[0]:.1f}", flush=True)
            atomic_write(file, json.dumps({"count": count, "measured": [it._asdict() for it in measured]}))
    return measured


def write_results(folder: Path, measured: Sequence[Measured], methods: Sequence[Method], count: int) -> None:
    """Write the table and both plots."""
    named, lines = {method.name: method for method in methods}, list[str]()
    shown = [one for one in measured if one.method in named]
    sets: dict[Any, list[Point]] = {}
    for problem in PROBLEMS:
        own = [one for one in shown if one.problem == problem]
        if own:
            sets[problem] = points(own, best_costs(own))
            lines += [f"{count} {problem.upper()}100", "", "```text", *table_lines(sets[problem]), "```", ""]
    atomic_write(folder / "throughput.md", "\n".join(lines))
    print("\n".join(lines))
    plot(folder / "throughput.png", f"{count} instances, two cores; the line is the Pareto front", sets)
    note = f"calculated, not measured: {USED_SHARE:.0%} of a GPU's peak of {PEAK_TFLOPS} TFLOP/s (orange)"
    gpu = {problem: on_gpu(problem, found, named) for problem, found in sets.items()}
    plot(folder / "throughput-gpu.png", note, sets, gpu)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--folder", type=Path, default=Path("bench/throughput"))
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--pomo", nargs="+", default=[], help="weights without a local policy, a file for each problem")
    options = parser.parse_args()
    names = [*options.methods.split(","), *(f"POMO-{i}={file}" for i, file in enumerate(options.pomo, 1))]
    methods = [parse_method(name) for name in names]
    check(methods, PROBLEMS)
    options.folder.mkdir(parents=True, exist_ok=True)
    measured = measure_all(methods, options.count, options.folder / "throughput.json")
    write_results(options.folder, measured, methods, options.count)


if __name__ == "__main__":
    main()
