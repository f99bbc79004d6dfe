"""The anytime solver against its peers, and what its parts contribute.

    python benchmarks/anytime.py x        ten instances of Set-X at 1, 5 and 20 s, three seeds, two threads, all peers
    python benchmarks/anytime.py xxl      Leuven and Antwerp at 60 s beside PyVRP
    python benchmarks/anytime.py tsplib   49 instances of TSPLIB at 5 s
    python benchmarks/anytime.py large    a random TSP of 20,000 nodes in 60 s: cost and peak memory
    python benchmarks/anytime.py limits   200 random sizes and limits: the worst overshoot
    python benchmarks/anytime.py starts   the same search from different starts, in the same total time

Options: --data FOLDER (benchmark files, default $ELGO_DATA), --folder FOLDER (results, default bench/anytime; a run that
was stopped goes on), --seeds 3, --threads 2, --limits 1,5,20, --who elgo,hgs (only these; who was run before is not run
again). Gaps are percent above the best-known cost. What has a time limit is given all of it, threads included, where it
can use them.
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
from elgo.bench.methods import Options, parse_limits, parse_rows
from elgo.bench.run import read_records
from elgo.bench.sets import Selection, load_set
from elgo.bench.tables import Table
from elgo.problem.generate import as_instance, generate
from elgo.problem.instance import Instance, Metric
from elgo.problem.solution import Solution
from elgo.search.annealing import LARGE, improve
from elgo.search.construct import nearest_neighbour
from elgo.search.data import prepare
from elgo.search.giant_tour import to_giant_tour, to_routes
from elgo.search.jit_warm_up import jit_warm_up
from elgo.search.savings import savings
from elgo.solve.solver import solve

POLICY_STARTS = 8
XXL = "Leuven1,Leuven2,Antwerp1,Antwerp2"


def compare(args: argparse.Namespace, name: str, instances: str | None, who: str, limits: Sequence[float]) -> None:
    """Run a benchmark once per contestant and seed, each in its own folder, and print mean gaps by size."""
    found = []
    at = ",".join(f"policy@{limit:g}" for limit in limits)
    for contestant, seed in itertools.product((args.who or who).split(","), range(args.seeds)):
        bench_set = load_set(name, args.data, Selection(None, instances, None))
        problems = {entry.instance.problem for entry in bench_set.entries}
        folder = args.folder / f"{bench_set.name}-{contestant}-{seed}"
        rows, peers = (at, "") if contestant == "elgo" else ("", contestant)
        bench(
            bench_set,
            parse_rows(rows, peers, limits, problems),
            Options(seed, args.threads),
            folder,
            with_published=False,
        )
        found += list(read_records(folder))
    names = list(dict.fromkeys(record.row for record in found))
    classes = (("all", 0, math.inf), (f"N < {LARGE}", 0, LARGE), (f"N >= {LARGE}", LARGE, math.inf))
    lines = []
    for row in names:
        own = [record for record in found if record.row == row]
        cells = [mean([r.gap for r in own if low <= r.nodes < high]) for _, low, high in classes]
        worst = max(record.seconds for record in own)
        lines.append((row, *cells, str(sum(record.cost is None for record in own)), f"{worst:.2f}"))
    header = ("", *(label for label, _, _ in classes), "failed", "longest s")
    title = f"{name}: mean gap % of {args.seeds} seeds, {args.threads} threads"
    print(Table(title, header, tuple(lines)).text())


def mean(gaps: Sequence[float | None]) -> str:
    known = [gap for gap in gaps if gap is not None]
    return f"{fmean(known):.2f}" if known else "-"


def large(args: argparse.Namespace) -> None:
    """A TSP of 20,000 uniform points, against what its optimum is known to be near."""
    nodes, side = 20_000, 1_000_000
    points = np.random.default_rng(0).integers(0, side, (nodes, 2))
    jit_warm_up("tsp")
    begin = time.perf_counter()
    result = solve(Instance("random-20000", points, Metric.EUC_2D), time_limit=60, threads=args.threads)
    seconds = time.perf_counter() - begin
    estimate = 0.7124 * math.sqrt(nodes) * side
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"cost {result.cost:.0f}, {100 * (result.cost / estimate - 1):.2f} % above 0.7124 sqrt(N A)")
    print(f"{seconds:.2f} s, {memory:.2f} GB at most, by {', '.join(dict.fromkeys(h.source for h in result.history))}")


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


def by_policy(instance: Instance, threads: int) -> list[list[int]]:
    """The policy's best of a few rollouts, however long they take."""
    result = solve(instance, policy_only=True, starts=POLICY_STARTS, symmetries=1, threads=threads)
    return [list(route) for route in result.solution.routes]


def by_chance(instance: Instance, threads: int) -> list[list[int]]:
    """Customers in random order, a new route whenever the next one does not fit."""
    demand, capacity = instance.units()
    routes: list[list[int]] = [[]]
    room = capacity
    for node in (1 + np.random.default_rng(0).permutation(instance.customers)).tolist():
        if demand[node] > room:
            routes.append([])
            room = capacity
        routes[-1].append(node)
        room -= int(demand[node])
    return routes


Start = Callable[[Instance, int], list[list[int]]]
STARTS: dict[str, Start] = {
    "policy": by_policy,
    "savings": lambda instance, threads: savings(instance),
    "nearest neighbour": lambda instance, threads: nearest_neighbour(instance),
    "random": by_chance,
}


def starts(args: argparse.Namespace) -> None:
    """Generated instances like Set-X; gaps are to the best cost of all starts and limits."""
    sizes = (100, 200, 500, 1000, 2000)
    jit_warm_up("cvrp")
    by_policy(as_instance(generate(np.random.default_rng(0), "cvrp", 50, "set_x")), args.threads)
    found: dict[tuple[int, int, str, float], tuple[float, float]] = {}
    for size in sizes:
        for seed in range(args.seeds):
            instance = as_instance(generate(np.random.default_rng([size, seed]), "cvrp", size, "set_x"))
            for limit in args.limits:
                for name, start in STARTS.items():
                    begin = time.perf_counter()
                    routes = start(instance, args.threads)
                    best = [to_giant_tour(routes)]
                    improve(prepare(instance), best[0], begin + limit, args.threads, seed, best.append)
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
    parser.add_argument("--limits", type=parse_limits, default=[1.0, 5.0, 20.0])
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--who", default="", help="only these of elgo, pyvrp, hgs, ortools, vroom")
    args = parser.parse_args()
    if args.what == "x":
        compare(args, "cvrplib-x", "ten", "elgo,pyvrp,hgs,ortools,vroom", args.limits)
    elif args.what == "xxl":
        compare(args, "cvrplib-xxl", XXL, "elgo,pyvrp", [60.0])
    elif args.what == "tsplib":
        compare(args, "tsplib", None, "elgo", [5.0])
    else:
        {"large": large, "limits": limits, "starts": starts}[args.what](args)


if __name__ == "__main__":
    main()
