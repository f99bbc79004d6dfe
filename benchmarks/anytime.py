"""Measure the search against baselines under time limits, and the effect of its start.

    python benchmarks/anytime.py x        ten instances of Set-X at 1, 5 and 20 s, beside all baselines
    python benchmarks/anytime.py xxl      Leuven and Antwerp at 60 s, beside PyVRP
    python benchmarks/anytime.py tsplib   the 49 instances of TSPLIB at 5 s
    python benchmarks/anytime.py large    a random TSP of 20,000 nodes at 60 s: cost and peak memory
    python benchmarks/anytime.py limits   200 random sizes and time limits: the largest overshoot
    python benchmarks/anytime.py starts   the same search from different starts, in the same total time

Options: --data FOLDER (benchmark files, default $ELGO_DATA), --folder FOLDER (results, default bench/anytime; an
interrupted run continues), --seeds 3, --threads 2, --limits 1,5 (seconds instead of those above), --solvers elgo,hgs
(only these). Gaps are percent above the best-known cost. All solvers get the same wall-clock time and threads.
"""

from __future__ import annotations

import argparse
import itertools
import math
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np

from elgo.bench.command import bench
from elgo.bench.methods import Options, parse_limits, parse_methods
from elgo.bench.run import read_records
from elgo.bench.sets import Selection, load_set
from elgo.bench.tables import Table
from elgo.cli.bench import bench_progress
from elgo.problem.generate import as_instance, generate
from elgo.problem.instance import Instance, Metric
from elgo.problem.solution import Solution
from elgo.search.annealing import LARGE, SLICE, improve
from elgo.search.construct import nearest_neighbour
from elgo.search.data import prepare
from elgo.search.giant_tour import to_giant_tour, to_routes
from elgo.search.savings import savings
from elgo.search.slices import time_slices
from elgo.solve.search import jit_warm_up
from elgo.solve.solver import solve

ROLLOUTS = 8
XXL = "Leuven1,Leuven2,Antwerp1,Antwerp2"


def compare(args: argparse.Namespace, name: str, instances: str | None, solvers: str) -> None:
    """Run a benchmark once per solver and seed, each in its own folder, and print mean gaps by size."""
    found = []
    search = ",".join(f"elgo@{limit:g}" for limit in args.limits)
    bench_set = load_set(name, args.data, Selection(None, instances, None))
    problems = {entry.instance.problem for entry in bench_set.entries}
    for solver, seed in itertools.product((args.solvers or solvers).split(","), range(args.seeds)):
        folder = args.folder / f"{bench_set.name}-{solver}-{seed}"
        chosen, baselines = (search, "") if solver == "elgo" else ("", solver)
        methods = parse_methods(chosen, baselines, args.limits, problems)
        with bench_progress(quiet=False) as show:
            bench(bench_set, methods, Options(seed, args.threads), folder, show, with_published=False)
        found += list(read_records(folder))
    classes = (("all", 0, math.inf), (f"N < {LARGE}", 0, LARGE), (f"N >= {LARGE}", LARGE, math.inf))
    lines = []
    for method in dict.fromkeys(record.method for record in found):
        own = [record for record in found if record.method == method]
        cells = [mean([r.gap for r in own if low <= r.nodes < high]) for _, low, high in classes]
        worst = max(record.seconds for record in own)
        lines.append((method, *cells, str(sum(record.cost is None for record in own)), f"{worst:.2f}"))
    header = ("", *(label for label, _, _ in classes), "failed", "longest s")
    title = f"{name}: mean gap % of {args.seeds} seeds, {args.threads} threads"
    print(Table(title, header, tuple(lines)).text())


def mean(gaps: Sequence[float | None]) -> str:
    known = [gap for gap in gaps if gap is not None]
    return f"{fmean(known):.2f}" if known else "-"


def large(args: argparse.Namespace) -> None:
    """A TSP of 20,000 uniform points; costs against the estimate 0.7124 sqrt(N A) of the optimum."""
    nodes, side = 20_000, 1_000_000
    points = np.random.default_rng(0).integers(0, side, (nodes, 2)).astype(float)
    instance = Instance("random-20000", points, Metric.EUC_2D)
    estimate = 0.7124 * math.sqrt(nodes) * side
    jit_warm_up("tsp")
    for limit, seed in itertools.product(args.limits, range(args.seeds)):
        begin = time.perf_counter()
        result = solve(instance, time_limit=limit, threads=args.threads, seed=seed)
        seconds = time.perf_counter() - begin
        above = 100 * (result.cost / estimate - 1)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"seed {seed}: cost {result.cost:.0f}, {above:.2f} % above the estimate, {seconds:.2f} s, {memory:.2f} GB"
        )


def limits(args: argparse.Namespace) -> None:
    """Random sizes from 20 to 20,000 and limits from 0.1 to 20 s, more often small ones."""
    rng = np.random.default_rng(1)
    for problem in ("tsp", "cvrp"):
        jit_warm_up(problem)
    worst: list[tuple[float, float, int, str, float]] = []
    for k in range(args.pairs):
        nodes, limit = int(20 * 1000 ** rng.random()), float(0.1 * 200 ** (rng.random() ** 2))
        problem = ("tsp", "cvrp")[k % 2]
        instance = as_instance(generate(rng, problem, nodes, "uniform" if problem == "tsp" else "set_x"))
        begin = time.perf_counter()
        result = solve(instance, time_limit=limit, threads=args.threads, seed=k)
        over = time.perf_counter() - begin - limit
        assert result.solution.feasible
        allowed = max(0.3, 0.03 * limit)
        worst.append((over - allowed, over, nodes, problem, limit))
        print(f"{k + 1}/{args.pairs} {problem} N = {nodes}, limit {limit:.2f} s: {over:+.3f} s", flush=True)
    _, over, nodes, problem, limit = max(worst)
    print(f"worst: {over:+.3f} s over {limit:.2f} s ({problem}, N = {nodes}); {sum(w[0] > 0 for w in worst)} too late")


def best_rollout(instance: Instance, threads: int) -> list[list[int]]:
    """Return the model's best of a few rollouts, however long they take."""
    result = solve(instance, policy_only=True, starts=ROLLOUTS, symmetries=1, threads=threads)
    return [list(route) for route in result.solution.routes]


def random_routes(instance: Instance, threads: int) -> list[list[int]]:
    """Return the customers in random order, with a new route whenever the next one does not fit."""
    demand, capacity = instance.units()
    routes: list[list[int]] = [[]]
    free = capacity
    for node in (1 + np.random.default_rng(0).permutation(instance.customers)).tolist():
        if demand[node] > free:
            routes.append([])
            free = capacity
        routes[-1].append(node)
        free -= int(demand[node])
    return routes


Start = Callable[[Instance, int], list[list[int]]]
STARTS: dict[str, Start] = {
    "elg": best_rollout,
    "savings": lambda instance, threads: savings(instance),
    "nearest neighbour": lambda instance, threads: nearest_neighbour(instance),
    "random": random_routes,
}


def starts(args: argparse.Namespace) -> None:
    """Generated instances like Set-X; gaps are to the best cost of all starts and limits."""
    sizes = (100, 200, 500, 1000, 2000)
    jit_warm_up("cvrp")
    best_rollout(as_instance(generate(np.random.default_rng(0), "cvrp", 50, "set_x")), args.threads)
    found: dict[tuple[int, int, str, float], tuple[float, float]] = {}
    for size in sizes:
        for seed in range(args.seeds):
            instance = as_instance(generate(np.random.default_rng([size, seed]), "cvrp", size, "set_x"))
            for limit in args.limits:
                for name, start in STARTS.items():
                    begin = time.perf_counter()
                    routes = start(instance, args.threads)
                    best = [to_giant_tour(routes)]
                    slices = time_slices(begin + limit, SLICE)
                    improve(prepare(instance), best[0], slices, args.threads, seed, best.append)
                    costs = [Solution(instance, tuple(map(tuple, x))).cost for x in (routes, to_routes(best[-1]))]
                    found[size, seed, name, limit] = (costs[0], costs[1])
                    print(f"N = {size}, seed {seed}, {limit:g} s, {name}: {costs[0]:.3f} -> {costs[1]:.3f}", flush=True)
    lines = []
    for name in STARTS:
        for limit in args.limits:
            cells = []
            for size in sizes:
                gaps = []
                for seed in range(args.seeds):
                    best_cost = min(cost[1] for key, cost in found.items() if key[:2] == (size, seed))
                    gaps.append([100 * (cost / best_cost - 1) for cost in found[size, seed, name, limit]])
                before, after = np.mean(gaps, axis=0)
                cells.append(f"{before:.1f} -> {after:.2f}")
            lines.append((name, f"{limit:g}", *cells))
    header = ("start", "s", *(f"N = {size}" for size in sizes))
    title = f"gap % of the start and of the end, mean of {args.seeds} instances, {args.threads} threads"
    print(Table(title, header, tuple(lines)).text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("x", "xxl", "tsplib", "large", "limits", "starts"))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--folder", type=Path, default=Path("bench/anytime"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limits", type=parse_limits)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--solvers", default="", help="only these of elgo, pyvrp, hgs, ortools, vroom")
    args = parser.parse_args()
    args.limits = args.limits or {"xxl": [60.0], "tsplib": [5.0], "large": [60.0]}.get(args.what, [1.0, 5.0, 20.0])
    if args.what == "x":
        compare(args, "cvrplib-x", "ten", "elgo,pyvrp,hgs,ortools,vroom")
    elif args.what == "xxl":
        compare(args, "cvrplib-xxl", XXL, "elgo,pyvrp")
    elif args.what == "tsplib":
        compare(args, "tsplib", None, "elgo")
    else:
        {"large": large, "limits": limits, "starts": starts}[args.what](args)


if __name__ == "__main__":
    main()
