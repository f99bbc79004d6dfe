"""Arithmetic of the compiled kernels: float32 functions that vectorise, and fast-math flags."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

# `reassoc` lets sums be vectorised; `nnan` stays out except where the input is known to be finite.
FAST = {"reassoc", "contract", "nsz", "arcp"}
LANES = 8  # nodes and tokens are padded to a multiple of this, so that vector loops have no remainder
CLOSED = np.float32(-1e30)  # a finite minus infinity, safe for compilers that assume there are no infinities
UNDERFLOW = np.float32(1e-25)  # attention whose weights sum to less is recomputed from its scores


@njit(fastmath={"contract"})  # reassociation would cancel the rounding trick
def exp32(x: np.float32) -> np.float32:
    """Return exp of a float32 to within 2 ulp, in arithmetic that vectorises (the C library's does not)."""
    x = min(max(x, np.float32(-87.0)), np.float32(88.0))
    shifted = x * np.float32(1.4426950408889634) + np.float32(12582912.0)
    k = shifted - np.float32(12582912.0)
    f = (x - k * np.float32(0.693359375)) - k * np.float32(-2.12194440e-4)
    p = np.float32(1.9875691500e-4)
    p = p * f + np.float32(1.3981999507e-3)
    p = p * f + np.float32(8.3334519073e-3)
    p = p * f + np.float32(4.1665795894e-2)
    p = p * f + np.float32(1.6666665459e-1)
    p = p * f + np.float32(5.0000001201e-1)
    p = p * f * f + f + np.float32(1.0)
    return p * np.int32((np.int32(k) + np.int32(127)) << np.int32(23)).view(np.float32)


@njit(fastmath={"contract"}, error_model="numpy")  # a check of the divisor would keep it from vectorising
def tanh32(x: np.float32) -> np.float32:
    """Return tanh of a float32."""
    return np.float32(1.0) - np.float32(2.0) / (exp32(x + x) + np.float32(1.0))


@njit(fastmath=FAST | {"nnan"})
def row_maximum(rows: Floats, r: int, begin: int, count: int) -> np.float32:
    """Return the maximum of rows[r, begin : begin + count]."""
    best = CLOSED
    for i in range(begin, begin + count):
        best = max(best, rows[r, i])
    return best


@njit(fastmath=FAST)
def exponentials(rows: Floats, i: int, is_open: Floats, r: int) -> np.float32:
    """Replace rows[i] by exp(rows[i] - its maximum over open nodes) where is_open[r], 0 elsewhere; return its sum."""
    for n in range(rows.shape[1]):
        rows[i, n] = rows[i, n] if is_open[r, n] > 0 else CLOSED
    top = row_maximum(rows, i, 0, rows.shape[1])
    total = np.float32(0.0)
    for n in range(rows.shape[1]):
        w = exp32(rows[i, n] - top) * is_open[r, n]
        rows[i, n] = w
        total += w
    return total
