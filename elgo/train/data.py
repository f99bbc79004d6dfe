"""Random instances of a step. They follow from the seed and the step alone, so a resumed run sees the same data."""

from __future__ import annotations

import numpy as np

from elgo.problem.generate import generate
from elgo.problem.task import ProblemName, Task
from elgo.train.config import DataConfig
from elgo.train.label_stream import parse_sizes
from elgo.train.labelling import as_task


def step_rng(seed: int, step: int, purpose: int = 0) -> np.random.Generator:
    """Return the generator for one purpose in a step; no other randomness exists, so resuming needs no saved state."""
    return np.random.default_rng([seed, step, purpose])


def batch_size(config: DataConfig, nodes: int) -> int:
    """Return how many instances of `nodes` nodes make a batch."""
    return min(config.batch, max(1, config.nodes // nodes)) if config.nodes else config.batch


def random_tasks(problem: ProblemName, config: DataConfig, distribution: str, rng: np.random.Generator) -> list[Task]:
    """Return a batch of unlabelled instances of one size."""
    ranges = parse_sizes(config.sizes)
    low, high = ranges[rng.integers(len(ranges))]
    customers = int(rng.integers(low, high + 1))
    samples = [generate(rng, problem, customers, distribution) for _ in range(batch_size(config, customers))]
    return [as_task(sample) for sample in samples]
