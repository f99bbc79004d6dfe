"""Random numbers for the kernels: each thread has a state of its own, so that the same seed gives the same search."""

from __future__ import annotations

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

Seed = NDArray[np.uint64]  # (1,): the state, which every draw moves on


def states(seed: int, count: int) -> list[Seed]:
    """So many states that have nothing to do with each other."""
    return list(np.random.default_rng(seed).integers(1, 2**63, (count, 1), dtype=np.uint64))


@njit(inline="always")
def draw(seed: Seed) -> float:
    """From 0 to 1 (without): xorshift64."""
    x = seed[0]
    x ^= x << uint64(13)
    x ^= x >> uint64(7)
    x ^= x << uint64(17)
    seed[0] = x
    return (x >> uint64(11)) * (1.0 / 9007199254740992.0)
