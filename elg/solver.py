"""Instance + SolveConfig -> Result."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elg.checkpoint import load_policy, shipped_weights
from elg.decode import Actions, DecodeConfig, Progress, decode
from elg.geometry import SYMMETRIES, normalise, symmetry
from elg.instance import Instance
from elg.policy import Policy, PolicyConfig
from elg.problems import ProblemName, Task
from elg.solution import Solution, gap

MOST_STARTS = 1000  # of a CVRP unless asked for more, as in the paper
WINDOW_MOVES = 60_000  # of a window policy per symmetry unless asked for more: a few seconds on two cores


@dataclass(frozen=True)
class SolveConfig:
    """What to spend on an instance. More starts and symmetries give better solutions and take longer."""

    starts: int | None = None  # default: every node; fewer on large instances, so that it takes seconds
    symmetries: int = SYMMETRIES
    seed: int = 0  # chooses the starts when they are fewer than the nodes
    threads: int | None = None
    weights: str | Path | None = None  # default: those in the package
    policy_only: bool = False
    memory_gb: float = 4.0

    def __post_init__(self) -> None:
        if self.starts is not None and self.starts < 1:
            raise ValueError(f"starts is {self.starts}, must be at least 1")
        if not 1 <= self.symmetries <= SYMMETRIES:
            raise ValueError(f"symmetries is {self.symmetries}, must be 1..{SYMMETRIES}")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}, must not be negative")
        self.decoding()

    def decoding(self) -> DecodeConfig:
        return DecodeConfig(threads=self.threads, memory_gb=self.memory_gb)


@dataclass(frozen=True)
class Timings:
    """Seconds per stage. `decode` is the policy's work, `choose` the costing of its rollouts."""

    load: float
    decode: float
    choose: float
    total: float


@dataclass(frozen=True)
class Result:
    """The best solution found, and how it was found."""

    solution: Solution
    seconds: Timings
    seed: int
    starts: int
    symmetries: int

    @property
    def instance(self) -> Instance:
        return self.solution.instance

    @property
    def cost(self) -> float:
        return self.solution.cost

    @property
    def gap(self) -> float | None:
        """Percent above the best known cost, if there is one."""
        return gap(self.cost, self.instance.best_known)


def solve(instance: Instance, config: SolveConfig | None = None, on_progress: Progress | None = None) -> Result:
    """The policy's best solution over all starts and symmetries. `on_progress` is told the fraction done."""
    config = config or SolveConfig()
    begin = time.perf_counter()
    policy = _policy(instance, config)
    loaded = time.perf_counter()
    starts = choose_starts(instance, config, policy.config)
    tasks = [make_task(instance, index) for index in distinct_symmetries(config.symmetries, policy.config)]
    rollouts = decode(policy, tasks, [starts] * len(tasks), config.decoding(), on_progress=on_progress)
    decoded = time.perf_counter()
    solution = best_solution(instance, rollouts)
    end = time.perf_counter()
    seconds = Timings(loaded - begin, decoded - loaded, end - decoded, end - begin)
    return Result(solution, seconds, config.seed, len(starts), config.symmetries)


def choose_starts(instance: Instance, config: SolveConfig, policy: PolicyConfig) -> NDArray[np.int64]:
    """First nodes of the rollouts: all, or a seeded sample. CVRP starts at customers, never at the depot."""
    nodes = np.arange(instance.size - instance.customers, instance.size)
    if policy.local == "window":
        most = max(8, WINDOW_MOVES // len(nodes))
    else:
        most = MOST_STARTS if instance.problem == "cvrp" else len(nodes)
    count = min(config.starts or most, len(nodes))
    if count == len(nodes):
        return nodes
    return np.sort(np.random.default_rng(config.seed).choice(nodes, count, replace=False))


def distinct_symmetries(count: int, policy: PolicyConfig) -> list[int]:
    """Which of the first `count` symmetries to decode: a window alone sees rotations as the same instance."""
    only_window = policy.local == "window" and not policy.global_policy
    return list(range(count))[:2] if only_window else list(range(count))  # 1 is a reflection


def make_task(instance: Instance, index: int = 0) -> Task:
    """The instance as the policy sees it under symmetry `index`."""
    coords = symmetry(normalise(instance.plane()), index)
    return Task(coords, *instance.units()) if instance.problem == "cvrp" else Task(coords, None, None)


def best_solution(instance: Instance, rollouts: list[Actions]) -> Solution:
    """The cheapest of all rollouts (lists of (M, T)), costed by the instance's own distance rule."""
    best = min(((costs(instance, actions), actions) for actions in rollouts), key=lambda pair: pair[0].min())
    return Solution(instance, routes(instance, best[1][best[0].argmin()]))


def costs(instance: Instance, actions: Actions) -> NDArray[np.float64]:
    """(M,) costs of rollouts (M, T)."""
    total = np.empty(len(actions))
    for rows in _chunks(len(actions), max(1, 2**22 // actions.shape[1])):
        walk = actions[rows]
        if instance.problem == "cvrp":
            walk = np.pad(walk, ((0, 0), (1, 0)))
        total[rows] = instance.distances(walk, np.roll(walk, -1, axis=1)).sum(axis=1)
    return total


def routes(instance: Instance, actions: NDArray[np.int32]) -> tuple[tuple[int, ...], ...]:
    """A rollout (T,) as routes: cut at the depot in CVRP, one tour in TSP."""
    if instance.problem == "tsp":
        return (tuple(actions.tolist()),)
    pieces = np.split(actions, np.flatnonzero(actions == 0))
    return tuple(route for piece in pieces if (route := tuple(piece[piece != 0].tolist())))


def _chunks(count: int, size: int) -> Iterator[slice]:
    for begin in range(0, count, size):
        yield slice(begin, min(begin + size, count))


def _policy(instance: Instance, config: SolveConfig) -> Policy:
    path = Path(config.weights) if config.weights is not None else shipped_weights(instance.problem)
    return _load(path, path.stat().st_mtime_ns if path.is_file() else 0, instance.problem)


@lru_cache(maxsize=4)
def _load(path: Path, modified: int, problem: ProblemName) -> Policy:
    """Weights are read once per file and version of it, however many instances are solved."""
    return load_policy(path, problem)
