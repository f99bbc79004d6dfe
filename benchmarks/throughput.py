"""Mean gap against instances per second on two cores: policies, heuristics, searches and other solvers in one run.

    python benchmarks/throughput.py [--count 1000] [--folder bench/throughput] [--methods elg:single,...,POMO=FILE]

The instances are the first of Kool's uniform TSP100 and CVRP100. Gaps are to the package's reference costs, or to the
best solution of the run where that is better. Rates count the time from the first batch to the last, with two workers
that are warm. POMO is measured if its weights are named: a file without a local policy.

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
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from elgo.bench.baselines import BASELINES
from elgo.bench.methods import SEARCH, Method, Options, check, family, parse_method, run_method, warm_up_methods
from elgo.bench.sets import Selection, load_set
from elgo.bench.tables import Table
from elgo.bulk.engine import Engine, run
from elgo.bulk.engines import open_engine
from elgo.model.checkpoint import as_policy
from elgo.problem.files import atomic_write
from elgo.problem.instance import Instance
from elgo.problem.task import PROBLEMS, ProblemName

CORES, N, BATCH = 2, 100, 50
METHODS = (
    "elg:single,elg:8x1,elg:starts,elg,nearest,insertion,savings,elgo@0.002,elgo@0.01,elgo@0.05,elgo@0.2,"
    "fast_tsp@0.01,hgs@0.01,hgs@0.1,pyvrp@0.01,ortools@0.01"
)
STEPS = {"tsp": 100, "cvrp": 111}  # of a rollout; CVRP: with about 11 returns to the depot
COLOURS = {
    "the policy": "tab:red",
    "our search": "tab:blue",
    "heuristics": "tab:green",
    "other solvers": "tab:purple",
}
LINEAR_BELOW = 0.1  # percent: the axis of gaps is linear around 0
PLACES: list[tuple[tuple[float, float], Any, Any]] = [  # of names, in points from their mark
    ((5, 3), "left", "bottom"),
    ((5, -3), "left", "top"),
    ((-5, 3), "right", "bottom"),
    ((-5, -3), "right", "top"),
    ((0, 7), "center", "bottom"),
    ((0, -7), "center", "top"),
    ((12, 12), "left", "bottom"),
    ((12, -12), "left", "top"),
    ((-12, 12), "right", "bottom"),
    ((-12, -12), "right", "top"),
]
PEAK_TFLOPS, USED_SHARE = 82.6, 0.3  # float32 of an RTX 4090 as its maker states; what decoders reach of it, assumed


class Measured(NamedTuple):
    """What a method made of the instances of a problem."""

    method: str
    problem: str
    seconds: float  # of the whole run, by the clock
    costs: list[float | None]  # of each instance; None where it failed


def solve_batch(method: Method, numbered: Sequence[tuple[int, Instance]]) -> list[float | None]:
    """Return the costs; called in a worker."""
    answers = run_method(method, [instance for _, instance in numbered], Options())
    return [answer.solution.cost if answer.solution else None for answer in answers]


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
    begin = time.perf_counter()
    for items, found in run(engine, partial(solve_batch, method), batches):
        if isinstance(found, Exception):
            raise found
        for (number, _), cost in zip(items, found, strict=True):
            costs[number] = cost
    return Measured(method.name, problem, time.perf_counter() - begin, costs)


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


def best_costs(measured: Sequence[Measured], known: Sequence[float]) -> np.ndarray:
    """Return the lowest cost of each instance: the reference, or what a method found."""
    table = [[np.inf if cost is None else cost for cost in one.costs] for one in measured]
    return np.array([known, *table], float).min(axis=0)


def make_table(sets: dict[ProblemName, list[Point]], names: Sequence[str]) -> Table:
    """Return a row for each method: rate and mean gap on each problem; * marks the Pareto front."""
    header, columns = ["method"], []
    for problem, found in sets.items():
        header += [f"{problem.upper()}{N} per second", "mean gap %"]
        front = {point.method for point in pareto_front(found)}
        cells = {}
        for point in found:
            more = " *" * (point.method in front) + f" ({point.failed} failed)" * (point.failed > 0)
            cells[point.method] = (
                f"{point.rate:.0f}" if point.rate >= 100 else f"{point.rate:.1f}",
                f"{point.gap:.2f}{more}",
            )
        columns.append(cells)
    rows = [(name, *(cell for cells in columns for cell in cells.get(name, ("-", "-")))) for name in names]
    return Table("Gap and rate of each method; * on the Pareto front", tuple(header), tuple(rows))


def kind_of(method: str) -> str:
    """Return what a method is, for its colour."""
    if family(method) in ("nearest", "insertion", "savings"):
        return "heuristics"
    if family(method) in BASELINES:
        return "other solvers"
    return "our search" if family(method) == SEARCH else "the policy"


def plot(
    path: Path, title: str, sets: dict[ProblemName, list[Point]], extra: dict[ProblemName, list[Point]] | None = None
) -> None:
    """Draw gap against rate for each problem, with the Pareto front as a line; `extra` are calculated points."""
    figure = Figure(figsize=(12, 6), layout="constrained")
    figure.suptitle(title)
    for axes, (problem, found) in zip(figure.subplots(1, len(sets), squeeze=False)[0], sets.items(), strict=True):
        shown = [point for point in found if np.isfinite(point.gap)]
        calculated = (extra or {}).get(problem, [])
        front = pareto_front(shown)
        axes.plot([p.rate for p in front], [p.gap for p in front], color="0.6", drawstyle="steps-post", zorder=1)
        for kind, colour in COLOURS.items():
            own = [p for p in shown if kind_of(p.method) == kind]
            axes.scatter([p.rate for p in own], [p.gap for p in own], color=colour, label=kind, zorder=2)
        if calculated:
            rates, gaps = [p.rate for p in calculated], [p.gap for p in calculated]
            axes.scatter(rates, gaps, facecolors="none", edgecolors=COLOURS["the policy"], label="on a GPU, calculated")
        axes.set_xscale("log")
        axes.set_yscale("symlog", linthresh=LINEAR_BELOW)
        axes.set_ylim(-0.02, 1.6 * max(p.gap for p in shown))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set(xlabel="instances per second", ylabel="mean gap %", title=f"{problem.upper()}{N}")
        axes.margins(x=0.15)
        axes.grid(alpha=0.3)
        axes.legend(loc="lower right", fontsize=8)
        annotate(axes, [*shown, *calculated])
    figure.savefig(path, dpi=110)


def annotate(axes: Axes, found: Sequence[Point]) -> None:
    """Write names beside points, where they cover neither another name nor a point."""
    figure = axes.get_figure()
    figure.draw_without_rendering()
    spots = [axes.transData.transform((point.rate, point.gap)) for point in found]
    taken = [Bbox.from_bounds(x - 5, y - 5, 10, 10) for x, y in spots]
    for own, point in enumerate(found):
        others = [box for number, box in enumerate(taken) if number != own]
        for (x, y), ha, va in PLACES:
            text = axes.annotate(
                point.method, (point.rate, point.gap), (x, y), textcoords="offset points", ha=ha, va=va
            )
            text.set_fontsize(8)
            box = text.get_window_extent()
            if not any(box.overlaps(other) for other in others) and axes.bbox.x1 > box.x1 and axes.bbox.x0 < box.x0:
                break
            text.remove()
        else:
            continue
        taken.append(box)


def on_gpu(problem: ProblemName, found: Sequence[Point], methods: dict[str, Method]) -> list[Point]:
    """Return what a GPU would make of the matrix products of the policies, by calculation."""
    from decode import matmul_flops

    out = []
    for point in found:
        method = methods[point.method]
        if method.model is not None and method.decodes:
            config = as_policy(method.model, problem, "cpu").config
            flops = matmul_flops(config, N, STEPS[problem], method.starts or N, method.symmetries)
            out.append(point._replace(rate=USED_SHARE * PEAK_TFLOPS * 1e12 / flops))
    return out


def load_instances(problem: ProblemName, count: int) -> list[Instance]:
    """Return the first of Kool's instances, with reference costs of the first 1,000."""
    return [entry.instance for entry in load_set("uniform", selection=Selection(problem, limit=count)).entries]


def measure_all(methods: Sequence[Method], count: int, file: Path) -> list[Measured]:
    """Measure what is missing in the file, which grows by one method at a time; return all."""
    stored = json.loads(file.read_text()) if file.exists() else {"count": count, "measured": []}
    if stored["count"] != count:
        raise SystemExit(f"{file}: has {stored['count']} instances, not {count}; name another --folder")
    measured = [Measured(**one) for one in stored["measured"]]
    done = {(one.method, one.problem) for one in measured}
    for problem in PROBLEMS:
        instances = load_instances(problem, count)
        for method in methods:
            if not method.supports(problem) or (method.name, problem) in done:
                continue
            with open_engine("local", CORES) as engine:
                measured.append(measure(engine, method, problem, instances))
            one = measured[-1]
            print(f"{problem} {one.method}: {count / one.seconds:.1f}/s, load {os.getloadavg()[0]:.1f}", flush=True)
            atomic_write(file, json.dumps({"count": count, "measured": [it._asdict() for it in measured]}))
    return measured


def write_results(
    folder: Path, measured: Sequence[Measured], methods: Sequence[Method], known: dict[ProblemName, list[float]]
) -> None:
    """Write the table and both plots; `known` are the reference costs of each problem."""
    named = {method.name: method for method in methods}
    sets: dict[ProblemName, list[Point]] = {}
    for problem in PROBLEMS:
        own = [one for one in measured if one.method in named and one.problem == problem]
        if own:
            sets[problem] = points(own, best_costs(own, known[problem]))
    table = make_table(
        sets, [name for name in named if any(point.method == name for own in sets.values() for point in own)]
    )
    atomic_write(folder / "throughput.md", table.markdown() + "\n")
    print(table.text())
    plot(folder / "throughput.png", "Two cores; the grey line is the Pareto front", sets)
    note = f"Rings are calculated, not measured: {100 * USED_SHARE:g} % of a GPU's peak of {PEAK_TFLOPS} TFLOP/s"
    gpu = {problem: on_gpu(problem, found, named) for problem, found in sets.items()}
    plot(folder / "throughput-gpu.png", note, sets, gpu)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--folder", type=Path, default=Path("bench/throughput"))
    parser.add_argument("--methods", default=METHODS)
    options = parser.parse_args()
    methods = [parse_method(name) for name in options.methods.split(",")]
    check(methods, PROBLEMS)
    options.folder.mkdir(parents=True, exist_ok=True)
    measured = measure_all(methods, options.count, options.folder / "throughput.json")
    known = {
        problem: [it.best_known or np.inf for it in load_instances(problem, options.count)] for problem in PROBLEMS
    }
    write_results(options.folder, measured, methods, known)


if __name__ == "__main__":
    main()
