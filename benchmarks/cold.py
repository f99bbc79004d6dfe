"""Measure first contact: size of the installation, loading, the first solve ever, and later solves as whole processes.

    python benchmarks/cold.py [FILE.vrp ...] [--limits 0.2 1 5] [--install]

All solvers have one thread. Seconds are the wall-clock time of the whole process, from its start to its end; for PyVRP
and OR-Tools without that for importing our adapter to them, which their users do not have.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import elgo
from elgo.solve.result import format_table

ROOT = Path(__file__).parents[1]
BASELINES = ("pyvrp", "ortools")
LOAD = """
import elgo, time
from elgo.solve.search import jit_warm_up
jit_warm_up("{problem}")
print(time.process_time())
"""
BASELINE = """
import sys, time
begin = time.perf_counter()
import elgo
from elgo.solve.external import Budget, {name}
adapter = time.perf_counter() - begin
instance = elgo.read(sys.argv[1])
routes = {name}(instance, Budget(float(sys.argv[2])))
cost = float("inf") if routes is None else elgo.Solution(instance, tuple(map(tuple, routes))).cost
print(cost, adapter)
"""


class Measured(NamedTuple):
    """Wall-clock seconds of a process, and the cost that it printed."""

    seconds: float
    cost: float


def run(*command: object, **environment: str) -> tuple[float, str]:
    """Return the wall-clock seconds of a process and what it printed."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    begin = time.perf_counter()
    done = subprocess.run(
        list(map(str, command)),
        env={**os.environ, "PYTHONPATH": path, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return time.perf_counter() - begin, done.stdout


def solve(file: Path, limit: float, **environment: str) -> Measured:
    """Run `elgo solve`."""
    options = ("--quiet", "--threads", 1, "--time-limit", limit)
    seconds, table = run(sys.executable, "-m", "elgo", "solve", file, *options, **environment)
    return Measured(seconds, float(table.splitlines()[2].split()[4]))


def solve_by(name: str, file: Path, limit: float) -> Measured:
    """Run a baseline in a process of its own."""
    seconds, printed = run(sys.executable, "-c", BASELINE.format(name=name), file, limit)
    cost, adapter = map(float, printed.split())
    return Measured(seconds - adapter, cost)


def report_loading() -> None:
    """Print the CPU seconds of a process that compiles the kernels, and of one that loads them."""
    for problem in ("tsp", "cvrp"):
        with tempfile.TemporaryDirectory() as cache:
            compiling, loading = (
                float(run(sys.executable, "-c", LOAD.format(problem=problem), XDG_CACHE_HOME=cache)[1])
                for _ in range(2)
            )
        print(f"{problem}: {compiling:.2f} CPU s with compiling, {loading:.2f} with kernels from the cache")


def report_install() -> None:
    """Print the size of a new environment with the package and its dependencies; needs a package index."""
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "venv", "--without-pip", folder)
        python = Path(folder) / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", ROOT)
        sizes = [path.lstat().st_size for path in Path(folder).rglob("*") if path.is_file() and not path.is_symlink()]
    print(f"a new environment with elgo: {sum(sizes) / 1e6:.0f} MB")


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, default=[ROOT / "examples" / "mixed-n116-k13.vrp"])
    parser.add_argument("--limits", nargs="+", type=float, default=[0.2, 1.0, 5.0])
    parser.add_argument("--install", action="store_true", help="measure the size of an installation, too")
    options = parser.parse_args()
    if options.install:
        report_install()
    report_loading()
    first, limit = options.files[0], max(options.limits)
    with tempfile.TemporaryDirectory() as cache:
        for which in ("first", "second"):
            found = solve(first, limit, XDG_CACHE_HOME=cache)
            print(f"{which} solve of {first.stem}, limit {limit:g} s: {found.seconds:.2f} s, cost {found.cost:g}")
    rows = [("file", "solver", "limit", "seconds", "gap %")]
    for file in options.files:
        best = elgo.read(file).best_known
        for seconds in options.limits:  # all solvers before the next limit, under the same load
            answers = {"elgo": solve(file, seconds)} | {name: solve_by(name, file, seconds) for name in BASELINES}
            for name, found in answers.items():
                gap = "" if best is None else f"{100 * (found.cost / best - 1):.2f}"
                rows.append((file.stem, name, f"{seconds:g}", f"{found.seconds:.2f}", gap))
    print("\n".join(format_table(rows)))


if __name__ == "__main__":
    main()
