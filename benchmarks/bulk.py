"""What `elgo bulk` makes of two cores: batches against one instance alone, Ray against the local engine, memory.

    python benchmarks/bulk.py [--count 10000] [--searches 400] [--only policy ray cluster]

Rates are by wall-clock time, on a quiet machine. Under load look at the column of CPU time: alone / in the run, where
the run counts workers and the process that feeds them, and leaves out their start.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from elgo.bulk.engine import Engine, run
from elgo.bulk.engines import open_engine
from elgo.bulk.inputs import open_inputs
from elgo.bulk.local_engine import LocalEngine
from elgo.bulk.many import describe_settings, solve_inputs, solve_many
from elgo.bulk.outputs import Output
from elgo.bulk.ray_engine import RayEngine
from elgo.decode.blas import one_blas_thread
from elgo.decode.compiled import Block, Demands, run_block
from elgo.decode.encoder import encode
from elgo.decode.local_kernels import neighbour_lists
from elgo.decode.multistart import make_task
from elgo.decode.tables import global_tables, kernel_config, local_tables
from elgo.model.checkpoint import load_weights
from elgo.problem.generate import as_instance, kool_test_set
from elgo.solve.config import SolveConfig
from elgo.solve.policy import load_policy, policy_batch
from elgo.solve.solver import solve, warm_up
from elgo.solve.stop import MaxIterations

CORES = 2
SINGLE = SolveConfig(policy_only=True, starts=1, symmetries=1, threads=1)
EIGHTFOLD = SolveConfig(policy_only=True, starts=100, symmetries=8, threads=1)
STORE = 80 * 2**20  # bytes of Ray's object store
TICKS = os.sysconf("SC_CLK_TCK")


class Run(NamedTuple):
    """What a run took."""

    seconds: float
    cpu: float  # seconds of all processes
    memory: tuple[float, float]  # MB of all processes, after a tenth of the instances and at the end
    answers: dict[int, Any]


def cpu_seconds(work: Callable[[], object], repeat: int) -> float:
    """Return the CPU seconds of one call: the least of three means."""
    work()
    means = []
    for _ in range(3):
        begin = time.process_time()
        for _ in range(repeat):
            work()
        means.append((time.process_time() - begin) / repeat)
    return min(means)


def process_numbers(engine: Engine) -> list[int]:
    """Return this process and the workers of an engine."""
    if isinstance(engine, LocalEngine):
        return [os.getpid(), *(worker.process.pid or 0 for worker in engine._pool._workers)]
    assert isinstance(engine, RayEngine)
    return [os.getpid(), *(engine._ray.get([actor.handle.ready.remote() for actor in engine._actors]))]


def cpu_of(processes: Sequence[int]) -> float:
    fields = [Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split() for number in processes]
    return sum(int(own[11]) + int(own[12]) for own in fields) / TICKS


def memory_of(processes: Sequence[int]) -> float:
    pages = [int(Path(f"/proc/{number}/statm").read_text().split()[1]) for number in processes]
    return sum(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20


def warm(numbers: Sequence[int]) -> list[int]:
    """Load what workers need; slow enough for each worker to be called."""
    warm_up()
    time.sleep(1.0)
    return list(numbers)


@contextmanager
def opened(name: Any, jobs: int, address: str | None = None) -> Iterator[Engine]:
    """Yield an engine whose workers are ready and warm."""
    with open_engine(name, jobs, address) as engine:
        for _ in run(engine, warm, [[i] for i in range(4 * jobs)]):
            pass
        process_numbers(engine)
        yield engine


def bulk(engine: Engine, text: str, config: SolveConfig) -> Run:
    """Solve an input into a file, as `elgo bulk` does."""
    processes, memory = process_numbers(engine), list[float]()
    with TemporaryDirectory() as folder, Output(Path(folder) / "out.jsonl", describe_settings(config)) as output:
        before = cpu_of(processes)
        progress = solve_inputs(
            open_inputs([text]),
            output,
            config,
            engine=engine,
            on_progress=lambda _: memory.append(memory_of(processes)),
        )
    assert progress.failed == 0
    return Run(progress.seconds, cpu_of(processes) - before, (memory[len(memory) // 10], memory[-1]), {})


def many(engine: Engine, count: int, config: SolveConfig) -> Run:
    """Solve CVRP100 and keep the answers."""
    instances = [as_instance(task, f"{i}") for i, task in enumerate(kool_test_set("cvrp", count))]
    processes = process_numbers(engine)
    begin, before = time.perf_counter(), cpu_of(processes)
    found = list(solve_many(instances, config, engine=engine))
    seconds, cpu = time.perf_counter() - begin, cpu_of(processes) - before
    return Run(seconds, cpu, (0.0, 0.0), {one.number: one.result and one.result.solution.routes for one in found})


def parts_alone() -> tuple[float, float, float]:
    """Return the CPU seconds of one CVRP100's encoding, of its tables and lists, and of one rollout."""
    weights = load_weights("elg", "cvrp")
    task = make_task(as_instance(kool_test_set("cvrp", 1)[0]))
    assert task.demand is not None
    config, local, demands = kernel_config(weights.config), local_tables(weights), Demands(task.demand, 50)
    starts, none = np.array([1]), np.zeros((0, 0), np.float32)

    def tables() -> Any:
        lists = neighbour_lists(task.coords, config.has_depot, config.euclidean)
        return lists, global_tables(weights, encoding, True)

    with one_blas_thread():
        encoding = encode(weights, task)
        lists, made = tables()

        def roll_out() -> None:
            block = Block(starts, none, np.zeros((1, 200), np.int32), np.zeros((1, 200), np.float32))
            run_block(made, local, lists, config, demands, block, np.zeros(2, np.int64))

        return cpu_seconds(lambda: encode(weights, task), 300), cpu_seconds(tables, 300), cpu_seconds(roll_out, 1000)


def parts_in_worker(numbers: Sequence[int]) -> list[tuple[float, float, float]]:
    """Return parts_alone, measured in a worker while the others do the same."""
    return [parts_alone() for _ in numbers]


def measure_policy(count: int) -> None:
    """Compare batches with one instance alone."""
    load_policy("elg", "cvrp")
    encoder, tables, rollout = parts = parts_alone()
    alone = encoder + rollout
    print(f"CVRP100 alone, CPU ms: {_format_parts(parts)}")
    with opened("local", CORES) as engine:
        both = [found[0] for _, found in run(engine, parts_in_worker, [[i] for i in range(CORES)])]  # type: ignore[index]
        print(f"  on both cores at once: {'; '.join(map(_format_parts, both))}")
        one = bulk(engine, f"kool:cvrp:{count}", SINGLE)
        _print(f"{count} CVRP100, one rollout, 2 jobs (at least 0.80)", count, one, alone)
        overhead = one.cpu / count - alone - tables
        print(
            f"  overhead per instance beyond encoder, tables and rollout: {1e3 * overhead:.2f} ms of CPU (at most 0.3)"
        )
        print(f"  memory of all processes: {one.memory[0]:.0f} MB after a tenth, {one.memory[1]:.0f} MB at the end")
        load_policy("elg", "tsp")
        instance = as_instance(kool_test_set("tsp", 1)[0])
        alone = cpu_seconds(lambda: policy_batch([instance], EIGHTFOLD), 5)
        some = max(100, count // 20)
        _print(
            f"{some} TSP100, 100 starts x 8 (at least 0.90)", some, bulk(engine, f"kool:tsp:{some}", EIGHTFOLD), alone
        )


def _format_parts(parts: Sequence[float]) -> str:
    encoder, tables, rollout = (f"{1e3 * seconds:.2f}" for seconds in parts)
    return f"encoder {encoder}, tables {tables}, rollout {rollout}"


def _print(title: str, count: int, done: Run, alone: float) -> None:
    wall = alone * count / done.seconds / CORES
    share = alone * count / done.cpu
    print(f"{title}: {count / done.seconds:.1f}/s; of 2 / alone: {wall:.2f} by the clock, {share:.2f} by CPU time")


def measure_ray(count: int, searches: int, nodes: int) -> None:
    """Compare Ray with the local engine, and one actor with two."""
    iterations = _iterations(0.05)
    configs = {"policy, one rollout": (SINGLE, count), f"{iterations} iterations of search": (
        SolveConfig(stop=MaxIterations(iterations), threads=1), searches)}  # fmt: skip
    local, times = {}, {}
    with opened("local", CORES) as engine:
        for title, (config, number) in configs.items():
            local[title] = many(engine, number, config)
    with _ray(nodes) as address:
        for jobs in (2, 1):
            with opened("ray", jobs, address) as engine:
                for title, (config, number) in configs.items():
                    times[title, jobs] = many(engine, number, config)
    for title, (_, number) in configs.items():
        ours, two, one = local[title], times[title, 2], times[title, 1]
        print(f"Ray, {nodes} node(s), {number} CVRP100, {title}: equal answers: {ours.answers == two.answers}")
        wall, cpu = two.seconds / ours.seconds - 1, two.cpu / ours.cpu - 1
        print(f"  overhead over the local engine (at most 5 %): {wall:.1%} by the clock, {cpu:.1%} by CPU time")
        print(f"  1 -> 2 actors (at least 1.9): {one.seconds / two.seconds:.2f}")


def _iterations(seconds: float) -> int:
    """Return the iterations of search that take about so long on a CVRP100."""
    instance = as_instance(kool_test_set("cvrp", 1)[0])
    solve(instance, stop=MaxIterations(10), threads=1)
    begin = time.process_time()
    solve(instance, stop=MaxIterations(20_000), threads=1)
    return max(100, round(20_000 * seconds / (time.process_time() - begin)))


@contextmanager
def _ray(nodes: int) -> Iterator[str | None]:
    """Start Ray with two CPUs on so many nodes of this machine; yield its address, None where this process has it."""
    import ray
    from ray.cluster_utils import Cluster

    os.environ.setdefault("RAY_worker_niceness", "0")
    if nodes == 1:
        ray.init(
            address="local", num_cpus=CORES, include_dashboard=False, object_store_memory=STORE, log_to_driver=False
        )
        try:
            yield None
        finally:
            ray.shutdown()
        return
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": STORE})
    try:
        cluster.add_node(num_cpus=1, object_store_memory=STORE)
        yield cluster.address
    finally:
        cluster.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="instances of policies")
    parser.add_argument("--searches", type=int, default=400, help="instances of the search")
    parser.add_argument("--only", nargs="+", choices=["policy", "ray", "cluster"], default=["policy", "ray", "cluster"])
    options = parser.parse_args()
    warm_up()
    print(f"load of the machine before: {os.getloadavg()[0]:.1f}")
    if "policy" in options.only:
        measure_policy(options.count)
    if "ray" in options.only:
        measure_ray(options.count, options.searches, nodes=1)
    if "cluster" in options.only:
        measure_ray(options.count, options.searches, nodes=2)


if __name__ == "__main__":
    main()
