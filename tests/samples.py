"""Small random tasks, instances and policies for the tests."""

import math
from collections.abc import Iterator, Sequence

import naive
import numpy as np
import torch
from torch import Tensor

from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy
from elgo.model.env import Batch, Environment, State, make_batch
from elgo.model.global_policy import Encoding
from elgo.problem.instance import Instance, Metric
from elgo.problem.task import ProblemName, Task

torch.set_num_threads(1)  # the tensors here are so small that threads would only wait for each other

KINDS = ("uniform", "clustered", "lattice")
LATE = 3.0  # seconds that a busy machine may take longer


def random_points(rng: np.random.Generator, n: int, kind: str = "uniform") -> np.ndarray:
    """(n, 2) points in the unit square, all different. A lattice has many equal distances."""
    if kind == "lattice":
        side = math.isqrt(n) + 1
        return np.stack(np.divmod(rng.permutation(side**2)[:n], side), axis=1) / (side - 1)
    if kind == "clustered":
        centres = rng.random((4, 2))
        return (centres[rng.integers(0, 4, n)] + rng.normal(0, 0.03, (n, 2))).clip(0, 1)
    return rng.random((n, 2))


def random_task(rng: np.random.Generator, problem: ProblemName, n: int, kind: str = "uniform") -> Task:
    """A task of n nodes, the depot included; some customers have no demand and some fill a vehicle."""
    coords = random_points(rng, n, kind)
    if problem == "tsp":
        return Task(coords, None, None)
    capacity = int(rng.integers(9, 60))
    demand = rng.integers(0, 10, n)
    demand[rng.random(n) < 0.03] = capacity
    demand[0] = 0
    return Task(coords, demand, capacity)


def random_instance(problem: ProblemName, n: int, metric: Metric = Metric.EUC_2D, seed: int = 0) -> Instance:
    """The same as an Instance with whole coordinates up to 1000, without names from a file."""
    task = random_task(np.random.default_rng(seed), problem, n)
    coords = np.rint(1000 * task.coords)
    return Instance(f"{problem}{n}", coords, metric, demand=task.demand, capacity=task.capacity)


def small_config(problem: ProblemName, **changes: object) -> PolicyConfig:
    """A network that is quick to run."""
    sizes = {"width": 32, "heads": 4, "layers": 2, "hidden": 64, "local_width": 16, "local_heads": 2}
    return PolicyConfig(problem, **{**sizes, **changes})  # type: ignore[arg-type]


def random_policy(config: PolicyConfig, seed: int = 0, scale: float = 1.0) -> Policy:
    """Parameters drawn with the seed. A scale above 1 enlarges them, so that scores differ by more than a little."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        policy = Policy(config)
        for name, parameter in policy.named_parameters():
            if "norm" in name or "scale" in name:  # these start as constants, which hides mistakes
                parameter.add_(torch.randn_like(parameter) / 4)
            parameter.mul_(scale)
    return policy.eval()


def random_walk(rng: np.random.Generator, task: Task, steps: int | None = None) -> list[int]:
    """Random allowed moves from a start: `steps` of them in all, or a complete solution."""
    walk = [int(rng.integers(0 if task.demand is None else 1, len(task.coords)))]
    while not naive.is_over(task, walk) if steps is None else len(walk) < steps:
        walk.append(int(rng.choice(naive.valid_nodes(task, walk))))
    return walk


def walk_states(rules: Environment, batch: Batch, walks: Tensor) -> Iterator[State]:
    """The states after 1, 2, ..., T moves of walks (B, M, T)."""
    state = rules.start(batch, walks[:, :, 0])
    yield state
    for t in range(1, walks.shape[2]):
        state = rules.step(batch, state, walks[:, :, t])
        yield state


def after(policy: Policy, task: Task, walk: Sequence[int]) -> tuple[Encoding, State]:
    """What `Policy.scores` and `logits` take: one encoded task and the state after a walk."""
    batch = make_batch([task])
    *_, state = walk_states(policy.env, batch, torch.tensor([[walk]]))
    return policy.encode(batch), state


def pad_walks(walks: Sequence[Sequence[Sequence[int]]]) -> Tensor:
    """Walks of each task as (B, M, T): the shorter ones stay where they are, which at the end is the only move."""
    longest = max(len(walk) for rows in walks for walk in rows)
    return torch.tensor([[[*walk, *walk[-1:] * (longest - len(walk))] for walk in rows] for rows in walks])
