"""Compiled kernels of training for the glimpse: the global policy's attention in many states, and its gradient.

The scores q.k of a state are the sum of two rows of tables that states share. So exp() is taken of the tables, the
gradient is added up in their rows, and both pass through queries and keys once per row instead of once per state.
R states of one task; N nodes padded to P; H heads of width d, D = H * d.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from elgo.decode.arithmetic import FAST, UNDERFLOW, Floats, Integers, exp32, exponentials, row_maximum


class Tables(NamedTuple):
    """What the network has computed for the nodes of one task, or the gradient of that; see `Encoding`."""

    query_last: Floats  # (N, D) part of the query that depends on the current node
    query_other: Floats  # (O, D) the other part: one row per sequence (TSP: its first node) or per load (CVRP)
    keys: Floats  # (N, D)
    values: Floats  # (N, D)
    readout: Floats  # (N, D)
    offset: Floats  # (N,)


class Glimpse(NamedTuple):
    """Tables per head. The weight of a node in the glimpse is the product of two factors that states share."""

    last: Floats  # (H, N, P) exp(q_last.k - row maximum)
    other: Floats  # (H, O, P) exp(q_other.k - row maximum)
    keys: Floats  # (H, P, d) divided by sqrt(d)
    values: Floats  # (H, P, d)
    readout: Floats  # (P, D)
    offset: Floats  # (P,)
    head_sums: Floats  # (D, H) of ones and zeros: adds up the entries of each head


class GlimpseGradient(NamedTuple):
    """The gradient of the sum with respect to what `Glimpse` is made of."""

    last: Floats  # (H, N, P) of q_last.k
    other: Floats  # (H, O, P) of q_other.k
    values: Floats  # (H, P, d)
    readout: Floats  # (P, D)
    offset: Floats  # (P,)


class GlimpseBlock(NamedTuple):
    """Arrays of a block of R states."""

    is_open: Floats  # (R, P) 1 for nodes that may come next, 0 for others
    weights: Floats  # (H, R, P) of the nodes, up to a factor
    inverse: Floats  # (R, H) 1 / their sum
    glimpse: Floats  # (R, D)
    slope: Floats  # (R, D) gradient of the glimpse, for look_back


@njit(nogil=True)
def new_block(glimpse: Glimpse, size: int) -> GlimpseBlock:
    """Return arrays for so many states."""
    (heads, padded, _), width = glimpse.values.shape, glimpse.readout.shape[1]
    return GlimpseBlock(
        np.empty((size, padded), np.float32),
        np.empty((heads, size, padded), np.float32),
        np.empty((size, heads), np.float32),
        np.empty((size, width), np.float32),
        np.empty((size, width), np.float32),
    )


# --- tables ----------------------------------------------------------------------------------------------------------


@njit(nogil=True)
def _split_heads(x: Floats, heads: int, rows: int) -> Floats:
    """(N, D) -> (H, rows, d), padded with zeros."""
    d = x.shape[1] // heads
    out = np.zeros((heads, rows, d), np.float32)
    for n in range(x.shape[0]):
        for h in range(heads):
            for j in range(d):
                out[h, n, j] = x[n, h * d + j]
    return out


@njit(nogil=True)
def _join_heads(x: Floats, factor: np.float32, out: Floats) -> None:
    """Write the rows of x (H, rows, d), times a factor, into out (N, D)."""
    heads, _, d = x.shape
    for n in range(out.shape[0]):
        for h in range(heads):
            for j in range(d):
                out[n, h * d + j] = factor * x[h, n, j]


@njit(fastmath=FAST)
def _exponentials(scores: Floats, r: int, count: int) -> None:
    """Replace scores[r] by exp(scores[r] - maximum of the first `count`)."""
    top = row_maximum(scores, r, 0, count)
    for n in range(scores.shape[1]):
        scores[r, n] = exp32(scores[r, n] - top)


@njit(nogil=True)
def _factors(queries: Floats, keys: Floats, count: int) -> Floats:
    """Return exp(q.k - row maximum) as (H, rows, P) for queries (H, rows, d) and keys (H, P, d)."""
    heads, rows, _ = queries.shape
    out = np.empty((heads, rows, keys.shape[1]), np.float32)
    for h in range(heads):
        scores = out[h]
        np.dot(queries[h], keys[h].T, scores)
        for r in range(rows):
            _exponentials(scores, r, count)
    return out


@njit(nogil=True)
def new_glimpse(tables: Tables, heads: int, padded: int) -> Glimpse:
    """Return the tables per head, nodes padded to so many."""
    count, width = tables.keys.shape
    keys = _split_heads(tables.keys, heads, padded)
    keys *= np.float32(1.0 / math.sqrt(keys.shape[2]))
    last = _factors(_split_heads(tables.query_last, heads, count), keys, count)
    other = _factors(_split_heads(tables.query_other, heads, len(tables.query_other)), keys, count)
    readout, offset = np.zeros((padded, width), np.float32), np.zeros(padded, np.float32)
    readout[:count], offset[:count] = tables.readout, tables.offset
    head_sums = np.zeros((width, heads), np.float32)
    for j in range(width):
        head_sums[j, j // keys.shape[2]] = np.float32(1.0)
    return Glimpse(last, other, keys, _split_heads(tables.values, heads, padded), readout, offset, head_sums)


@njit(nogil=True)
def new_gradient(glimpse: Glimpse) -> GlimpseGradient:
    """Return zeros."""
    return GlimpseGradient(
        np.zeros_like(glimpse.last),
        np.zeros_like(glimpse.other),
        np.zeros_like(glimpse.values),
        np.zeros_like(glimpse.readout),
        np.zeros_like(glimpse.offset),
    )


@njit(nogil=True)
def write_gradient(tables: Tables, glimpse: Glimpse, slopes: GlimpseGradient, grads: Tables) -> None:
    """Write the gradient of the tables into grads."""
    keys, one, scale = glimpse.keys, np.float32(1.0), np.float32(1.0 / math.sqrt(glimpse.keys.shape[2]))
    heads, _, d = keys.shape
    slope = np.zeros_like(keys)
    for query, scores, into in (
        (tables.query_last, slopes.last, grads.query_last),
        (tables.query_other, slopes.other, grads.query_other),
    ):
        queries, own = _split_heads(query, heads, query.shape[0]), np.empty((heads, query.shape[0], d), np.float32)
        for h in range(heads):
            np.dot(scores[h], keys[h], own[h])
            slope[h] += np.dot(scores[h].T, queries[h])
        _join_heads(own, one, into)
    _join_heads(slope, scale, grads.keys)
    _join_heads(slopes.values, one, grads.values)
    grads.readout[:] = slopes.readout[: len(grads.readout)]
    grads.offset[:] = slopes.offset[: len(grads.offset)]


# --- the glimpse -----------------------------------------------------------------------------------------------------
# Kernels that run once per state take whole arrays: views and fields of tuples would be counted atomically.


@njit(fastmath=FAST)
def _multiply(last: Floats, c: int, other: Floats, o: int, is_open: Floats, i: int, out: Floats) -> np.float32:
    """out[i] = last[c] * other[o] where open; return their sum."""
    total = np.float32(0.0)
    for n in range(out.shape[1]):
        w = last[c, n] * other[o, n] * is_open[i, n]
        out[i, n] = w
        total += w
    return total


@njit(nogil=True)
def _weigh_again(tables: Tables, c: int, o: int, keys: Floats, h: int, is_open: Floats, i: int, out: Floats) -> float:
    """The same straight from query and keys, for when the product of factors underflows."""
    d = keys.shape[1]
    query = tables.query_last[c, h * d : (h + 1) * d] + tables.query_other[o, h * d : (h + 1) * d]
    out[i] = np.dot(keys, query)
    return float(exponentials(out, i, is_open, i))


@njit(nogil=True, error_model="numpy")
def look(
    tables: Tables, glimpse: Glimpse, current: Integers, other: Integers, block: GlimpseBlock, scores: Floats
) -> None:
    """Write the glimpse of each state and the scores (R, P) that follow from it, without the offset."""
    is_open, inverse, out = block.is_open, block.inverse, block.glimpse
    count, (heads, _, d) = len(current), glimpse.values.shape
    part = np.empty((count, d), np.float32)
    for h in range(heads):
        last, others, keys, weights = glimpse.last[h], glimpse.other[h], glimpse.keys[h], block.weights[h]
        for i in range(count):
            inverse[i, h] = _multiply(last, current[i], others, other[i], is_open, i, weights)
        for i in range(count):
            if inverse[i, h] < UNDERFLOW:
                inverse[i, h] = _weigh_again(tables, current[i], other[i], keys, h, is_open, i, weights)
            inverse[i, h] = np.float32(1.0) / inverse[i, h]
        np.dot(weights[:count], glimpse.values[h], part)
        for i in range(count):
            for j in range(d):
                out[i, h * d + j] = part[i, j] * inverse[i, h]
    np.dot(out[:count], glimpse.readout.T, scores)


@njit(fastmath=FAST)
def _add_scores(
    last: Floats, c: int, other: Floats, o: int, weights: Floats, slopes: Floats, i: int, mean: np.float32
) -> None:
    """Add the gradient of a state's q.k to last[c] and other[o], given that of its weights in slopes[i]."""
    for n in range(weights.shape[1]):
        s = weights[i, n] * (slopes[i, n] - mean)
        last[c, n] += s
        other[o, n] += s


@njit(nogil=True)
def look_back(
    glimpse: Glimpse, current: Integers, other: Integers, block: GlimpseBlock, scores: Floats, grads: GlimpseGradient
) -> None:
    """Add the gradient of the block to grads, given that of its scores (R, P)."""
    inverse, slope, count, (heads, padded, d) = block.inverse, block.slope, len(current), glimpse.values.shape
    part, slopes = np.empty((count, d), np.float32), np.empty((count, padded), np.float32)
    values = np.empty((padded, d), np.float32)
    np.dot(scores, glimpse.readout, slope[:count])
    grads.readout[:] += np.dot(scores.T, block.glimpse[:count])
    grads.offset[:] += scores.sum(axis=0)
    # The mean gradient of a head's weights is the product of its glimpse and the gradient of that.
    mean = np.dot(slope[:count] * block.glimpse[:count], glimpse.head_sums)
    for h in range(heads):
        last, others, weights = grads.last[h], grads.other[h], block.weights[h]
        for i in range(count):
            for j in range(d):
                part[i, j] = slope[i, h * d + j] * inverse[i, h]
        np.dot(part, glimpse.values[h].T, slopes)
        for i in range(count):
            _add_scores(last, current[i], others, other[i], weights, slopes, i, mean[i, h] * inverse[i, h])
        np.dot(weights[:count].T, part, values)
        grads.values[h] += values
