"""Decoding speed: (a) a straightforward torch decoder and (b) ours, on the same weights and instances.

    python benchmarks/decode.py [--sizes 100 200 500 1000] [--problems tsp cvrp] [--threads 2] [--json FILE]

The paper's network with random weights, unless --weights names others. One uniform instance per row, under the 8
symmetries, one greedy rollout from each of its N nodes (CVRP: customers).
(a) is benchmarks/baseline.py, which says what it does at each step; (b) is elgo's decoder. Both include encoding and
take the median of --repeat runs. Each runs in a process of its own, so that peak memory is its own.

Beyond --full nodes (a) is timed on its first --steps steps and scaled to all of them: a step of (a) costs the same
from first to last, because it looks at all N nodes every time. Where (a) runs in full, the column "timed on" also has
what scaling would have given. "same tours" compares as many steps as (a) has done; the last bits of float32 may differ.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import baseline
import numpy as np
import torch
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_info, threadpool_limits

from elgo.decode.decoder import DecodeConfig, decode
from elgo.decode.types import Rollouts
from elgo.model.checkpoint import load_policy
from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy
from elgo.problem import generate
from elgo.problem.augment import SYMMETRIES, symmetry
from elgo.problem.task import ProblemName, Task

T = TypeVar("T")
SEED = 0


@dataclass(frozen=True)
class Case:
    """What a row of the table measures."""

    problem: ProblemName
    size: int  # N: nodes of a TSP, customers of a CVRP
    weights: Path | None  # None: random weights of a fixed seed
    threads: int
    repeat: int


@dataclass(frozen=True)
class Timed:
    """The measurement of a child process."""

    seconds: float  # median run
    steps: int  # of the longest rollout, after its start
    timed_steps: int
    scaled: float  # seconds estimated from the first steps alone
    memory: int  # peak of the process in bytes, libraries included
    libraries: int  # part of it that was used before the first run
    first_call: float  # loading or compiling the kernels; 0 for the baseline
    actions: NDArray[np.int32]  # (8, N, timed_steps + 1)


@dataclass(frozen=True)
class Row:
    """The results of a case."""

    problem: ProblemName
    size: int
    steps: int
    baseline_seconds: float
    baseline_timed_steps: int
    baseline_scaled_seconds: float
    ours_seconds: float
    ratio: float
    baseline_memory: int
    ours_memory: int
    libraries_memory: int
    core_microseconds: float  # of ours per rollout and step: seconds * threads / (rollouts * steps)
    flops: float
    peak_share: float
    same_tours: float


# --- what is measured ------------------------------------------------------------------------------------------------


def make_tasks(problem: ProblemName, size: int) -> tuple[list[Task], NDArray[np.int64]]:
    """Return a uniform instance under its 8 symmetries, and all its starts."""
    sample = generate.generate(np.random.default_rng([SEED, size]), problem, size, "uniform")
    tasks = [Task(symmetry(sample.coords, i), sample.demand, sample.capacity) for i in range(SYMMETRIES)]
    return tasks, np.arange(sample.size - size, sample.size)


def make_policy(problem: ProblemName, weights: Path | None) -> Policy:
    if weights is not None:
        return load_policy(weights, problem)
    torch.manual_seed(SEED)
    return Policy(PolicyConfig(problem)).eval()


def time_ours(case: Case) -> Timed:
    """Time our decoder on all tasks. A tiny case loads (or compiles) the kernels first and is not counted."""
    policy, config = make_policy(case.problem, case.weights), DecodeConfig(threads=case.threads)
    libraries = peak_memory()
    tiny, few = make_tasks(case.problem, 10)
    first_call, _ = clock(lambda: decode(policy, tiny, [few] * len(tiny), config))
    tasks, starts = make_tasks(case.problem, case.size)
    runs = [clock(lambda: decode(policy, tasks, [starts] * len(tasks), config)) for _ in range(case.repeat)]
    seconds = float(np.median([run[0] for run in runs]))
    together = stack(runs[0][1])
    steps = together.shape[2] - 1
    return Timed(seconds, steps, steps, seconds, peak_memory(), libraries, first_call, together)


def time_baseline(case: Case, steps: int, timed_steps: int, first_steps: int) -> Timed:
    """Time the baseline on the first `timed_steps` of `steps` steps, and scale to all of them."""
    baseline.use_plain_torch()
    policy = make_policy(case.problem, case.weights)
    libraries = peak_memory()
    tasks, starts = make_tasks(case.problem, case.size)
    torch.set_num_threads(case.threads)
    runs: list[tuple[float, float]] = []  # seconds of all steps, and those that the first steps alone would give
    marks: list[float] = []
    for _ in range(case.repeat):
        marks[:] = [time.perf_counter()]
        actions = baseline.decode(policy, tasks, starts, timed_steps, lambda: marks.append(time.perf_counter()))
        encode, each = marks[1] - marks[0], np.diff(marks[1:])
        runs.append((encode + float(each.mean()) * steps, encode + float(each[:first_steps].mean()) * steps))
    seconds, scaled = (float(x) for x in np.median(runs, axis=0))
    return Timed(seconds, steps, len(each), scaled, peak_memory(), libraries, 0.0, actions.astype(np.int32))


def clock(work: Callable[[], T]) -> tuple[float, T]:
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def stack(rollouts: Sequence[Rollouts]) -> NDArray[np.int32]:
    """(8, N, T) of 8 times (N, T_i): shorter ones stay at the depot."""
    width = max(part.shape[1] for part, _ in rollouts)
    return np.stack([np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part, _ in rollouts])


def peak_memory() -> int:
    """Return bytes. ru_maxrss would be inherited from the parent process, VmHWM is not."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if line.startswith("VmHWM"))


def matmul_peak(threads: int) -> float:
    """Return the best FLOP/s of float32 matrix products that torch or numpy reach on this many threads."""
    torch.set_num_threads(threads)
    best = 0.0
    for n in (1024, 2048):
        a = np.random.default_rng(SEED).random((n, n), dtype=np.float32)
        t = torch.from_numpy(a)
        with threadpool_limits(threads, user_api="blas"):
            runs = [clock(lambda a=a: a @ a)[0] for _ in range(10)]  # type: ignore[misc]
        runs += [clock(lambda t=t: torch.mm(t, t))[0] for _ in range(10)]  # type: ignore[misc]
        best = max(best, 2.0 * n**3 / min(runs))
    return best


def blas_kernels() -> str:
    """Return a line on the BLAS of numpy and the compiled kernels: OPENBLAS_CORETYPE may hold it back, not torch."""
    import scipy.linalg.cython_blas  # noqa: F401  to be found

    found = {f"{x['internal_api']} for {x.get('architecture')}" for x in threadpool_info() if x["user_api"] == "blas"}
    return f"BLAS of the compiled kernels: {', '.join(sorted(found))}."


def matmul_flops(config: PolicyConfig, size: int, steps: int, starts: int, symmetries: int) -> float:
    """Return the floating-point operations of our matrix products for an instance.

    Counted: the encoder; the tables made once per task; glimpse and scores of every step, over all nodes, visited
    or not. Not counted: what is no matrix product (row products of the glimpse, exponentials, neighbours, arg-max)
    and the local policy, whose products are below 3 % of a step at N = 100.
    """
    n = size + (config.problem == "cvrp")
    width, square = config.width, 2.0 * n * config.width**2
    layer = 4 * square + 2 * 2.0 * n * n * width + 2 * 2.0 * n * width * config.hidden
    made_once = (4 if config.problem == "cvrp" else 5) * square  # keys, values, readout, queries
    made_once += 2.0 * n * n * width  # q_last . k
    made_once += 0 if config.problem == "cvrp" else 2.0 * size * n * width  # q_first . k
    step = 2.0 * n * width + 2.0 * n * width  # glimpse, scores
    return symmetries * (config.layers * layer + made_once + starts * steps * step)


# --- the run ---------------------------------------------------------------------------------------------------------


def in_child(function: Callable[..., T], *arguments: Any) -> T:
    """Return function(*arguments), computed in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def measure(case: Case, first_steps: int, full: int, peak: float) -> Row:
    name = f"{case.problem} N={case.size}"
    say(f"{name}: ours")
    ours = in_child(time_ours, case)
    say(f"{name}: ours {ours.seconds:.2f} s (first call {ours.first_call:.2f} s, not counted); baseline")
    timed = ours.steps if case.size <= full else min(first_steps, ours.steps)
    base = in_child(time_baseline, case, ours.steps, timed, first_steps)
    say(f"{name}: baseline {base.seconds:.2f} s from {base.timed_steps} of {base.steps} steps")
    flops = matmul_flops(make_policy(case.problem, case.weights).config, case.size, ours.steps, case.size, SYMMETRIES)
    rollouts = SYMMETRIES * case.size
    return Row(
        case.problem,
        case.size,
        ours.steps,
        base.seconds,
        base.timed_steps,
        base.scaled,
        ours.seconds,
        base.seconds / ours.seconds,
        base.memory,
        ours.memory,
        ours.libraries,
        1e6 * ours.seconds * case.threads / (rollouts * ours.steps),
        flops,
        flops / ours.seconds / peak,
        float((base.actions == ours.actions[:, :, : base.actions.shape[2]]).all(axis=2).mean()),
    )


def show(rows: Sequence[Row], case: Case, peak: float) -> None:
    """Print the table and how to read it."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("problem")
    for header in ("N", "steps", "(a) s", "(b) s", "a / b", "(a) MB", "(b) MB", "(b) core-µs", "of peak"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("(a) timed on", no_wrap=True)
    table.add_column("same tours", justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.problem,
            str(row.size),
            str(row.steps),
            f"{row.baseline_seconds:.2f}",
            f"{row.ours_seconds:.2f}",
            f"{row.ratio:.1f}",
            f"{row.baseline_memory / 1e6:.0f}",
            f"{row.ours_memory / 1e6:.0f}",
            f"{row.core_microseconds:.1f}",
            f"{row.peak_share:.0%}",
            timed_on(row),
            f"{row.same_tours:.1%}",
        )
    console = Console(width=max(110, Console().width))
    console.print(table)
    console.print(
        f"(a) straightforward torch decoder, (b) ours; {case.threads} thread(s) each, median of {case.repeat}, "
        f"{SYMMETRIES} symmetries x N starts, encoding included.\n"
        f"MB: peak of the whole process, of which {max(row.libraries_memory for row in rows) / 1e6:.0f} are libraries "
        "and weights. core-µs: per rollout and step, times threads.\n"
        f"of peak: matrix products of (b) per second, of {peak / 1e9:.0f} GFLOP/s that torch.mm or numpy reach "
        f"(float32, 1024 and 2048 squared). {blas_kernels()}",
        highlight=False,
    )


def timed_on(row: Row) -> str:
    """Return whether (a) is scaled, and otherwise what scaling would have given."""
    if row.baseline_timed_steps < row.steps:
        return f"{row.baseline_timed_steps} steps, scaled"
    return f"all; scaled {row.baseline_scaled_seconds:.2f}"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Decoding speed against a straightforward torch decoder.")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 200, 500, 1000], metavar="N")
    parser.add_argument("--problems", nargs="+", choices=["tsp", "cvrp"], default=["tsp", "cvrp"])
    parser.add_argument("--threads", type=int, default=2, help="for both decoders; default 2")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each, the median counts; default 5")
    parser.add_argument("--steps", type=int, default=5, help="steps that the baseline is timed on; default 5")
    parser.add_argument("--full", type=int, default=100, help="largest N at which the baseline runs in full")
    parser.add_argument(
        "--weights", type=Path, nargs="+", default=[], help="default: random ones of the paper's network"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to FILE")
    options = parser.parse_args(arguments)
    for name in ("threads", "repeat", "steps"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} is {getattr(options, name)}, must be at least 1")
    if min(options.sizes) < 10:
        parser.error(f"--sizes has {min(options.sizes)}, must be at least 10")
    return options


def choose_weights(files: Sequence[Path]) -> dict[ProblemName, Path | None]:
    """Return the weights file of each problem; None for random weights of the paper's network."""
    none: dict[ProblemName, Path | None] = {"tsp": None, "cvrp": None}
    return none | {load_policy(file).config.problem: file for file in files}


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    weights = choose_weights(options.weights)
    for problem in options.problems:
        file = weights[problem]
        say(f"{problem}: {f'random weights, seed {SEED}' if file is None else file.name}")
    if os.getloadavg()[0] > 1:
        say(f"the machine is busy (load {os.getloadavg()[0]:.1f}): expect slow and uneven figures")
    peak = in_child(matmul_peak, options.threads)
    say(f"matrix-multiply peak on {options.threads} threads: {peak / 1e9:.1f} GFLOP/s")
    case = Case("tsp", 0, None, options.threads, options.repeat)
    cases = [replace(case, problem=p, size=n, weights=weights[p]) for p in options.problems for n in options.sizes]
    rows = [measure(each, options.steps, options.full, peak) for each in cases]
    show(rows, case, peak)
    if options.json is not None:
        content = {
            "threads": case.threads,
            "repeat": case.repeat,
            "peak_flops": peak,
            "rows": [asdict(r) for r in rows],
        }
        options.json.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
