"""Compiled kernels of training for the glimpse: the global policy's attention in many states, and its gradient.

The scores q.k of a state are the sum of two rows of tables that states share. So exp() is taken of the tables, the
gradient is added up in their rows, and both pass through queries and keys once per row instead of once per state.
R states of one task; N nodes padded to P; H heads of width d, D = H * d.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from elgo.decode.arithmetic import LANES, UNDERFLOW, Floats, Integers, exponentials, row_maximum
from elgo.decode.vectors import VectorType, exp, load, splat, store, sums


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


@njit(nogil=True)
def _factors(queries: Floats, keys: Floats, count: int) -> Floats:
    """Return exp(q.k - row maximum) as (H, rows, P) for queries (H, rows, d) and keys (H, P, d)."""
    heads, rows, _ = queries.shape
    out = np.empty((heads, rows, keys.shape[1]), np.float32)
    for h in range(heads):
        scores = out[h]
        np.dot(queries[h], keys[h].T, scores)
        for r in range(rows):
            top = splat(row_maximum(scores, r, 0, count))
            for at in range(r * scores.shape[1], (r + 1) * scores.shape[1], LANES):
                store(scores, at, exp(load(scores, at) - top))
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


@njit
def _product(last: Floats, c: int, other: Floats, o: int, is_open: Floats, i: int, out: Floats, n: int) -> VectorType:
    """out[i, n : n + 8] = last[c] * other[o] where open; return it."""
    width = out.shape[1]
    w = load(last, c * width + n) * load(other, o * width + n) * load(is_open, i * width + n)
    store(out, i * width + n, w)
    return w


@njit
def _multiply(last: Floats, current: Integers, other: Floats, others: Integers, is_open: Floats, out: Floats) -> Floats:
    """out[i] = last[current[i]] * other[others[i]] where open; return the sum of each row."""
    count, width, zero = len(current), out.shape[1], splat(np.float32(0.0))
    totals = np.empty(count, np.float32)
    for i in range(0, count, 4):  # sums of 4 rows share their additions; the last row stands in for missing ones
        j, k, m = min(i + 1, count - 1), min(i + 2, count - 1), min(i + 3, count - 1)
        a, b, c, d = zero, zero, zero, zero
        for n in range(0, width, LANES):
            a = a + _product(last, current[i], other, others[i], is_open, i, out, n)
            b = b + _product(last, current[j], other, others[j], is_open, j, out, n)
            c = c + _product(last, current[k], other, others[k], is_open, k, out, n)
            d = d + _product(last, current[m], other, others[m], is_open, m, out, n)
        totals[i], totals[j], totals[k], totals[m] = sums(a, b, c, d)
    return totals


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
        totals = _multiply(last, current, others, other, is_open, weights)
        for i in range(count):
            if totals[i] < UNDERFLOW:
                totals[i] = _weigh_again(tables, current[i], other[i], keys, h, is_open, i, weights)
            inverse[i, h] = np.float32(1.0) / totals[i]
        np.dot(weights[:count], glimpse.values[h], part)
        for i in range(count):
            for j in range(d):
                out[i, h * d + j] = part[i, j] * inverse[i, h]
    np.dot(out[:count], glimpse.readout.T, scores)


@njit
def _add_scores(
    last: Floats, current: Integers, other: Floats, others: Integers, weights: Floats, slopes: Floats, mean: Floats
) -> None:
    """Add the gradients of q.k to rows of last and other, given those of the weights and their means."""
    width = weights.shape[1]
    for i in range(len(current)):
        c, o, at, shift = current[i] * width, others[i] * width, i * width, splat(mean[i])
        for n in range(0, width, LANES):
            s = load(weights, at + n) * (load(slopes, at + n) - shift)
            store(last, c + n, load(last, c + n) + s)
            store(other, o + n, load(other, o + n) + s)


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
    mean, own = np.dot(slope[:count] * block.glimpse[:count], glimpse.head_sums), np.empty(count, np.float32)
    for h in range(heads):
        last, others, weights = grads.last[h], grads.other[h], block.weights[h]
        for i in range(count):
            own[i] = mean[i, h] * inverse[i, h]
            for j in range(d):
                part[i, j] = slope[i, h * d + j] * inverse[i, h]
        np.dot(part, glimpse.values[h].T, slopes)
        _add_scores(last, current, others, other, weights, slopes, own)
        np.dot(weights[:count].T, part, values)
        grads.values[h] += values
