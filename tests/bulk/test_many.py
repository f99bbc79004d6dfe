"""Many instances: the answers of `solve`, errors as rows, and runs that are continued."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import bulk_work
import pytest
from bulk_work import rows_of
from samples import random_instance

import elgo
from elgo.bulk.engines import open_engine
from elgo.bulk.inputs import Source, open_inputs
from elgo.bulk.many import BulkProgress, batch_size, describe_settings, solve_inputs, solve_many
from elgo.bulk.outputs import Output
from elgo.bulk.work import Item, solve_instances
from elgo.solve.config import SolveConfig

ROOT = Path(__file__).parents[2]
SEARCH = SolveConfig(stop=elgo.MaxIterations(50), threads=1)


def policy(file: Path, **options: int) -> SolveConfig:
    return SolveConfig(policy_only=True, model=file, starts=2, symmetries=2, threads=1, **options)


def test_policies_decode_mixed_batches_as_one_by_one(weights: Callable[[str], Path]) -> None:
    config = policy(weights("cvrp"))
    instances = [random_instance("cvrp", n, seed=n) for n in (12, 3, 20, 12, 2, 20)]
    for instance, found in zip(instances, solve_instances(config, instances), strict=True):
        alone = elgo.solve(instance, config)
        assert isinstance(found, elgo.Result)
        assert found.solution.routes == alone.solution.routes
        assert (found.source, found.starts, found.symmetries) == (alone.source, alone.starts, alone.symmetries)


def test_an_instance_that_fails_fails_alone(weights: Callable[[str], Path]) -> None:
    instances = [random_instance("cvrp", 12), random_instance("tsp", 12), random_instance("cvrp", 13)]
    first, other, third = solve_instances(policy(weights("cvrp")), instances)
    assert isinstance(first, elgo.Result)
    assert isinstance(third, elgo.Result)
    assert "problem is 'cvrp', but the instance needs 'tsp'" in str(other)
    few = solve_instances(policy(weights("cvrp"), vehicles=1), instances[:1])
    assert "vehicles is 1, but every rollout has more routes" in str(few[0])


def test_results_come_as_they_are_ready() -> None:
    instances = [random_instance("tsp", 12, seed=seed) for seed in range(5)]
    progress: list[BulkProgress] = []
    found = list(solve_many(iter(instances), SEARCH, jobs=2, batch=2, on_progress=progress.append))
    assert sorted(one.number for one in found) == list(range(5))
    for one in found:
        assert one.instance is instances[one.number]
        assert one.result is not None
        assert one.result.solution.routes == elgo.solve(one.instance, SEARCH).solution.routes
    assert [x.done for x in progress][-1] == 5
    assert progress[-1].total is None  # a generator
    assert progress[-1].left is None


def test_an_error_is_a_result() -> None:
    instances = [random_instance("cvrp", 12), random_instance("cvrp", 12, seed=1)]
    config = SolveConfig(stop=elgo.MaxIterations(5), vehicles=1)
    found = list(solve_many(instances, config, jobs=1))
    assert [one.result for one in found] == [None, None]
    assert all("vehicles" in one.error for one in found)


def test_remaining_time() -> None:
    assert BulkProgress(20, 0, 100, 5.0).left == 20.0
    assert BulkProgress(0, 0, 100, 5.0).left is None


@pytest.mark.parametrize(
    ("config", "given", "size"),
    [
        (SolveConfig(policy_only=True), None, 50),
        (SolveConfig(time_limit=0.1), None, 10),
        (SolveConfig(time_limit=0.001), None, 50),
        (SolveConfig(time_limit=30), None, 1),
        (SolveConfig(), None, 1),
        (SolveConfig(), 7, 7),
    ],
)
def test_sizes_of_batches(config: SolveConfig, given: int | None, size: int) -> None:
    assert batch_size(config, given) == size
    with pytest.raises(ValueError, match="batch is 0"):
        batch_size(config, 0)


def test_settings_name_what_decides_the_answers(weights: Callable[[str], Path]) -> None:
    assert describe_settings(SolveConfig(time_limit=0.1)) == "time_limit=0.1, threads=1"
    text = describe_settings(SolveConfig(policy_only=True, seed=3, memory_gb=1))
    assert text.startswith("policy_only=True, seed=3, threads=1, model=elg:")
    other = describe_settings(policy(weights("tsp")))
    assert other.split(":")[1] != text.split(":")[1]


def test_runs_are_continued(tmp_path: Path, weights: Callable[[str], Path]) -> None:
    config, path = policy(weights("cvrp")), tmp_path / "out.jsonl"
    settings = describe_settings(config)
    with open_engine("local", 1) as engine:
        for count, new in ((7, 7), (12, 5), (12, 0)):
            with Output(path, settings) as output:
                sources = open_inputs([f"random:cvrp:12:{count}"])
                progress = solve_inputs(sources, output, config, engine=engine, batch=5)
            assert (progress.done, progress.failed, progress.total) == (new, 0, new)
        with Output(tmp_path / "once.jsonl", settings) as output:
            solve_inputs(open_inputs(["random:cvrp:12:12"]), output, config, engine=engine, batch=5)
    parts, once = ({row["number"]: row["routes"] for row in rows_of(tmp_path / name)} for name in (path, "once.jsonl"))
    assert sorted(parts) == list(range(12))
    assert parts == once


def test_poisoned_instances_are_error_rows(tmp_path: Path) -> None:
    """Of one worker processes die, another cannot be read; the other instances of their batch are solved."""
    good = random_instance("tsp", 12)
    data = [good, bulk_work.poisoned, good, ValueError("x.tsp: is broken")]
    source = Source("mixed", 4, lambda: (Item("mixed", i, it) for i, it in enumerate(data)))
    with open_engine("local", 2) as engine, Output(tmp_path / "out.jsonl", "") as output:
        progress = solve_inputs([source], output, SEARCH, engine=engine, batch=4)
    assert (progress.done, progress.failed) == (4, 2)
    rows = {row["number"]: row for row in rows_of(tmp_path / "out.jsonl")}
    assert [rows[i]["error"] == "" for i in range(4)] == [True, False, True, False]
    assert "its process was ended by SIGKILL" in rows[1]["error"]
    assert rows[3]["error"] == "x.tsp: is broken"
    assert rows[0]["cost"] == elgo.Solution(good, tuple(map(tuple, rows[0]["routes"]))).cost


def command(out: Path, count: int, *options: str) -> list[str]:
    given = ["--policy-only", "--starts", "1", "--symmetries", "1", "--jobs", "2", "--batch", "10", "-q", *options]
    return [sys.executable, "-m", "elgo", "bulk", f"random:cvrp:30:{count}", "--out", str(out), *given]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_a_killed_run_is_continued(tmp_path: Path, engine: str) -> None:
    """kill -9 of a worker, then of the command: each instance once, the answers of an undisturbed run."""
    if engine == "ray":
        pytest.importorskip("ray")
    killed, undisturbed = tmp_path / "killed.jsonl", tmp_path / "undisturbed.jsonl"
    process = subprocess.Popen(command(killed, 2000, "--engine", engine), cwd=ROOT)
    _wait_for_rows(killed, 100, process)
    os.kill(_worker_of(process.pid), signal.SIGKILL)
    _wait_for_rows(killed, 600, process)
    process.kill()
    process.wait()
    assert 600 <= len(rows_of(killed)) < 2000
    for path in (killed, undisturbed):
        subprocess.run(command(path, 2000, "--engine", engine), cwd=ROOT, check=True)
    found, expected = (rows_of(path) for path in (killed, undisturbed))
    assert sorted(row["number"] for row in found) == list(range(2000))
    assert {row["number"]: row["routes"] for row in found} == {row["number"]: row["routes"] for row in expected}


def _wait_for_rows(path: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        assert process.poll() is None
        time.sleep(0.02)


def _worker_of(parent: int) -> int:
    """Return a worker process of a command, or an actor, which is a grandchild."""
    commands = {child: Path(f"/proc/{child}/cmdline").read_text() for child in _descendants(parent)}
    return next(child for child, text in commands.items() if "spawn_main" in text or text.startswith("ray::_Work"))


def _descendants(parent: int) -> Iterator[int]:
    for thread in Path(f"/proc/{parent}/task").iterdir():
        for child in map(int, (thread / "children").read_text().split()):
            yield child
            yield from _descendants(child)


@pytest.mark.slow
def test_memory_is_flat() -> None:
    """A million instances could stream: what a run holds does not grow with their number."""
    script = """
import resource, elgo
from elgo.bulk.many import solve_many
square = elgo.Instance.from_coords([[0, 0], [0, 1], [1, 1]])
def instances(count):
    for number in range(count):
        yield square
def peak(count):
    for _ in solve_many(instances(count), elgo.SolveConfig(policy_only=True), jobs=1):
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
if __name__ == "__main__":
    first = peak(2000)
    print(peak(20000) - first)
"""
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(ended.stdout) < 10_000  # kB
