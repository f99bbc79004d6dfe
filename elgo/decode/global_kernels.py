"""The global policy's decoder as compiled kernels: u_global of a block of rollouts from tables made once per task.

The weights of the glimpse split into factors that do not change: exp(q.k) = exp(q_last.k) * exp(q_first.k) in TSP and
exp(q_last.k) * exp(load * q_load.k) in CVRP. The first is an N x N table per head, so a step only multiplies rows.
H heads of width d; N nodes padded to P.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from elgo.decode.arithmetic import FAST, UNDERFLOW, Floats, Integers, exp32, exponentials


class GlobalTables(NamedTuple):
    """One task's share of the global policy."""

    last: Floats  # (N, H, P) exp(q_last.k - row maximum), or (0, 0, 0) when it does not fit into memory
    query_first: Floats  # (N, H, d) TSP; (0, H, d) in CVRP
    query_last: Floats  # (N, H, d), scaled by 1 / sqrt(d)
    query_load: Floats  # (H, d) CVRP: what a full load adds to the query; zeros in TSP
    keys: Floats  # (H, d, P)
    values: Floats  # (H, d, P), d even
    slope: Floats  # (H, P) query_load . keys - row maximum
    readout: Floats  # (H * d, P) combine and node embeddings folded: glimpse @ readout + offset = u_global
    offset: Floats  # (P,)


class GlimpseContext(NamedTuple):
    """What the glimpse depends on in R rollouts."""

    first: Integers  # (R,) first node
    current: Integers  # (R,)
    load: Floats  # (R,) what is left in the vehicle as a share of its capacity
    is_open: Floats  # (R, P) 1 for nodes that may come next, 0 for others
    masked_first: Floats  # (R, H, P) TSP with a table: exp(q_first.k) of open nodes, 0 for others; else (0, H, P)


@njit(nogil=True, fastmath=FAST)
def first_factor(tables: GlobalTables, starts: Integers, is_open: Floats, out: Floats) -> None:
    """Write exp(q_first.k - row maximum) of each start into out (R, H, P)."""
    row = np.empty((1, out.shape[2]), np.float32)
    for r in range(out.shape[0]):
        for h in range(out.shape[1]):
            np.dot(tables.query_first[starts[r], h : h + 1], tables.keys[h], row)
            exponentials(row, 0, is_open, r)
            out[r, h] = row[0]


# Kernels that run once per rollout and head take whole arrays: views and fields of tuples would be counted atomically.


@njit(fastmath=FAST)
def _multiply(first: Floats, r: int, last: Floats, c: int, h: int, rows: Floats) -> np.float32:
    """rows[r % 4] = first[r, h] * last[c, h]; return their sum."""
    i, total = r % 4, np.float32(0.0)
    for n in range(rows.shape[1]):
        w = first[r, h, n] * last[c, h, n]
        rows[i, n] = w
        total += w
    return total


@njit(fastmath=FAST)
def _multiply_load(
    last: Floats, c: int, h: int, slope: Floats, load: np.float32, is_open: Floats, r: int, rows: Floats
) -> np.float32:
    """rows[r % 4] = last[c, h] * exp(load * slope[h]) where open; return their sum."""
    i, total = r % 4, np.float32(0.0)
    for n in range(rows.shape[1]):
        w = last[c, h, n] * exp32(load * slope[h, n]) * is_open[r, n]
        rows[i, n] = w
        total += w
    return total


@njit(nogil=True, fastmath=FAST)
def _from_scores(tables: GlobalTables, context: GlimpseContext, h: int, r: int, rows: Floats) -> np.float32:
    """rows[r % 4] = the weights straight from query and keys, when tables underflow or are missing; their sum."""
    i, first, current, load = r % 4, context.first[r], context.current[r], context.load[r]
    rows[i] = np.float32(0.0)
    for j in range(tables.query_load.shape[1]):
        query = tables.query_last[current, h, j] + load * tables.query_load[h, j]
        if tables.query_first.shape[0] > 0:
            query += tables.query_first[first, h, j]
        rows[i] += query * tables.keys[h, j]
    return exponentials(rows, i, context.is_open, r)


@njit(fastmath=FAST)
def _four_by_two(rows: Floats, values: Floats, h: int, j: int, out: Floats) -> None:
    """out[:, j : j + 2] = rows . values[h, j : j + 2]: 8 sums in registers share the loads, at BLAS speed."""
    a0, a1, b0, b1 = np.float32(0.0), np.float32(0.0), np.float32(0.0), np.float32(0.0)
    c0, c1, d0, d1 = np.float32(0.0), np.float32(0.0), np.float32(0.0), np.float32(0.0)
    for n in range(rows.shape[1]):
        x, y = values[h, j, n], values[h, j + 1, n]
        a0 += rows[0, n] * x
        a1 += rows[0, n] * y
        b0 += rows[1, n] * x
        b1 += rows[1, n] * y
        c0 += rows[2, n] * x
        c1 += rows[2, n] * y
        d0 += rows[3, n] * x
        d1 += rows[3, n] * y
    out[0, j], out[0, j + 1], out[1, j], out[1, j + 1] = a0, a1, b0, b1
    out[2, j], out[2, j + 1], out[3, j], out[3, j + 1] = c0, c1, d0, d1


@njit(nogil=True, fastmath=FAST)
def glimpse(tables: GlobalTables, context: GlimpseContext, rows: Floats, out: Floats) -> None:
    """Write the glimpse of R rollouts into out (at least R, H * d). rows (4, P) is scratch memory."""
    current, load, is_open, masked_first = context.current, context.load, context.is_open, context.masked_first
    rollouts, d = current.shape[0], tables.query_load.shape[1]
    inverse = np.empty(4, np.float32)
    part = np.empty((4, tables.values.shape[1]), np.float32)
    last, slope, values = tables.last, tables.slope, tables.values
    has_table, has_first = last.shape[0] > 0, masked_first.shape[0] > 0
    for h in range(tables.query_load.shape[0]):
        for begin in range(0, rollouts, 4):
            count = min(4, rollouts - begin)
            for i in range(count):
                r = begin + i
                if has_first:
                    total = _multiply(masked_first, r, last, current[r], h, rows)
                elif has_table:
                    total = _multiply_load(last, current[r], h, slope, load[r], is_open, r, rows)
                else:
                    total = np.float32(0.0)
                if total < UNDERFLOW:
                    total = _from_scores(tables, context, h, r, rows)
                inverse[i] = np.float32(1.0) / total
            for j in range(0, part.shape[1], 2):
                _four_by_two(rows, values, h, j, part)
            for i in range(count):
                for j in range(d):
                    out[begin + i, h * d + j] = part[i, j] * inverse[i]
