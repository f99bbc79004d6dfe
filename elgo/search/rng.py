"""Random numbers for the compiled kernels: each thread has its own state, so that a seed determines the search."""

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

RandomState = NDArray[np.uint64]  # (1,): the state of one generator, advanced by every draw


def random_states(seed: int, count: int) -> list[RandomState]:
    """Return `count` independent states."""
    return list(np.random.default_rng(seed).integers(1, 2**63, (count, 1), dtype=np.uint64))


@njit(inline="always")
def uniform(random_state: RandomState) -> float:
    """Draw a number from [0, 1) by xorshift64 (Marsaglia, 2003)."""
    x = random_state[0]
    x ^= x << uint64(13)
    x ^= x >> uint64(7)
    x ^= x << uint64(17)
    random_state[0] = x
    return (x >> uint64(11)) * (1.0 / 9007199254740992.0)
