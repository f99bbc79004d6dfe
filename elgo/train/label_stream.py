"""An endless, indexable sequence of labelled instances: instance i depends on the stream's fields and i alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from elgo.problem.generate import Sample, generate
from elgo.train.labelling import Labelled, label_cvrp, label_tsp

Sizes = tuple[tuple[int, int], ...]
"""Ranges of N, equally likely, log-uniform within: ((50, 1000), (100, 500)) puts weight on the middle."""


def parse_sizes(text: str) -> Sizes:
    """Return sizes from text: "100,200" are single sizes, "50-1000,100-500" ranges."""
    ranges = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        if not (low.isdigit() and (high or low).isdigit()):
            raise ValueError(f"sizes is {text!r}; write 100,200 or 50-1000")
        ranges.append((int(low), int(high or low)))
    return tuple(ranges)


@dataclass(frozen=True)
class LabelStream:
    """An endless, indexable sequence of labelled instances.

    sizes: see Sizes. group: number of consecutive instances that share N, for batches of one size.
    seconds: time per label; None: the default for N. validation: part of the seed, so that training never sees them.
    """

    problem: str
    sizes: Sizes
    distribution: str = "mixed"
    seed: int = 0
    group: int = 1
    seconds: float | None = None
    validation: bool = False

    def __post_init__(self) -> None:
        if self.problem not in ("tsp", "cvrp"):
            raise ValueError(f"problem is {self.problem!r}, not tsp or cvrp")
        if not self.sizes or any(not 1 <= low <= high for low, high in self.sizes):
            raise ValueError(f"sizes is {self.sizes}; every range needs 1 <= low <= high")
        if self.group < 1:
            raise ValueError(f"group is {self.group}, less than 1")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}, less than 0")

    def _rng(self, purpose: int, index: int) -> np.random.Generator:
        # Always four words: SeedSequence pads with zeros, so lists of different lengths could coincide.
        return np.random.default_rng([int(self.validation), self.seed, purpose, index])

    def size(self, index: int) -> int:
        """Return N of an instance."""
        rng = self._rng(0, index // self.group)
        low, high = self.sizes[int(rng.integers(len(self.sizes)))]
        # Log-uniform over low..high, each integer k standing for [k, k + 1).
        return min(high, int(math.exp(rng.uniform(math.log(low), math.log(high + 1)))) if low < high else low)

    def sample(self, index: int) -> Sample:
        """Return an instance without solving it."""
        return generate(self._rng(1, index), self.problem, self.size(index), self.distribution)

    def labelled(self, index: int) -> Labelled:
        """Return an instance with its solution."""
        sample = self.sample(index)
        if self.problem == "tsp":
            return label_tsp(sample, self.seconds)
        return label_cvrp(sample, self.seconds, index)
