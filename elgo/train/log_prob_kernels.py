"""Compiled kernels of training: log-probabilities of given moves, and their gradient. See `elgo.train.log_prob`.

S states of one task, its N nodes padded to P; H heads of width d; T tokens of the local policy.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from elgo.decode.arithmetic import (
    CLOSED,
    FAST,
    UNDERFLOW,
    Floats,
    Integers,
    exp32,
    exponentials,
    row_maximum,
    tanh32,
)
from elgo.decode.local_kernels import (
    KernelConfig,
    LocalState,
    LocalTables,
    NeighbourLists,
    Observation,
    add_local_scores,
    new_observation,
)

BLOCK = 128  # states whose weights are in the cache together


class States(NamedTuple):
    """S states of one task, its N nodes padded to P."""

    current: Integers  # (S,)
    other: Integers  # (S,) row of the second table: the first node, or the rank of the load
    units: Integers  # (S,) left in the vehicle
    chosen: Integers  # (S,) the move
    open_count: Integers  # (S,) nodes that may come next, without the depot
    is_open: Floats  # (S, P) 1 for those nodes and, if it may be next, the depot; 0 for others

    def part(self, rows: slice) -> States:
        return States._make(x[rows] for x in self)


class Context(NamedTuple):
    """What `Choice` knows of the task and of the policy besides the weights."""

    demand: Integers  # (N,), or empty in TSP
    lists: NeighbourLists
    config: KernelConfig


class GlimpseTables(NamedTuple):
    """What the glimpse is made of, for H heads of width d, or the gradient of that; for one head without the H."""

    last: Floats  # (H, N, P) scores of all nodes for a current node
    other: Floats  # (H, O, P) what the first node or the load adds to them
    values: Floats  # (H, d, P)

    def head(self, h: int) -> GlimpseTables:
        return GlimpseTables(*(x[h] for x in self))


@njit(fastmath=FAST)
def _multiply(last: Floats, c: int, other: Floats, o: int, is_open: Floats, r: int, rows: Floats, i: int) -> np.float32:
    """rows[i] = last[c] * other[o] where open; their sum."""
    total = np.float32(0.0)
    for n in range(rows.shape[1]):
        w = last[c, n] * other[o, n] * is_open[r, n]
        rows[i, n] = w
        total += w
    return total


@njit(fastmath=FAST)
def _weigh_again(
    last: Floats, c: int, other: Floats, o: int, is_open: Floats, r: int, rows: Floats, i: int
) -> np.float32:
    """The same from scores, for when the product of their factors underflows."""
    for n in range(rows.shape[1]):
        rows[i, n] = last[c, n] + other[o, n]
    return exponentials(rows, i, is_open, r)


@njit(nogil=True, fastmath=FAST)
def _weigh(
    scores: GlimpseTables, factors: GlimpseTables, states: States, begin: int, rows: Floats, total: Floats
) -> None:
    """rows = the weights in the states from `begin` on, up to a factor; total = their sums."""
    last, other, current, others, is_open = factors.last, factors.other, states.current, states.other, states.is_open
    for i in range(rows.shape[0]):
        r = begin + i
        total[i] = _multiply(last, current[r], other, others[r], is_open, r, rows, i)
        if total[i] < UNDERFLOW:
            total[i] = _weigh_again(scores.last, current[r], scores.other, others[r], is_open, r, rows, i)


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def glimpse(scores: GlimpseTables, factors: GlimpseTables, states: States, out: Floats) -> None:
    """One head's glimpse into out (S, d)."""
    count, d = out.shape
    rows, total = np.empty((BLOCK, scores.last.shape[1]), np.float32), np.empty(BLOCK, np.float32)
    for begin in range(0, count, BLOCK):
        size = min(BLOCK, count - begin)
        _weigh(scores, factors, states, begin, rows[:size], total)
        np.dot(rows[:size], scores.values.T, out[begin : begin + size])
        for i in range(size):
            for j in range(d):
                out[begin + i, j] /= total[i]


@njit(fastmath=FAST)
def _add_scores(
    last: Floats, c: int, other: Floats, o: int, rows: Floats, slopes: Floats, i: int, mean: np.float32
) -> None:
    """Add the gradient of a state's scores to last[c] and other[o], given that of its weights in slopes[i]."""
    for n in range(rows.shape[1]):
        s = rows[i, n] * (slopes[i, n] - mean)
        last[c, n] += s
        other[o, n] += s


@njit(fastmath=FAST, error_model="numpy")
def _share(grad: Floats, r: int, glimpse: Floats, total: np.float32, part: Floats, i: int) -> np.float32:
    """part[i] = grad[r] / total, by which weights need not sum to 1; its product with the glimpse, which is the mean
    of the weights' gradient.
    """
    mean = np.float32(0.0)
    for j in range(grad.shape[1]):
        share = grad[r, j] / total
        part[i, j] = share
        mean += share * glimpse[r, j]
    return mean


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def glimpse_back(
    scores: GlimpseTables, factors: GlimpseTables, states: States, glimpse: Floats, grad: Floats, grads: GlimpseTables
) -> None:
    """Add the gradient of one head's scores and values into grads, given its glimpse (S, d) and that one's gradient."""
    count, width = len(grad), scores.last.shape[1]
    rows, total = np.empty((BLOCK, width), np.float32), np.empty(BLOCK, np.float32)
    slopes, values = np.empty_like(rows), np.empty((width, grad.shape[1]), np.float32)
    part, mean = np.empty((BLOCK, grad.shape[1]), np.float32), np.empty(BLOCK, np.float32)
    last, other, current, others = grads.last, grads.other, states.current, states.other
    for begin in range(0, count, BLOCK):
        size = min(BLOCK, count - begin)
        _weigh(scores, factors, states, begin, rows[:size], total)
        for i in range(size):
            mean[i] = _share(grad, begin + i, glimpse, total[i], part, i)
        np.dot(part[:size], scores.values, slopes[:size])
        for i in range(size):
            _add_scores(last, current[begin + i], other, others[begin + i], rows, slopes, i, mean[i])
        np.dot(rows[:size].T, part[:size], values)
        grads.values[:] += values.T


@njit(fastmath=FAST, error_model="numpy")
def _log_p(scores: Floats, r: int, is_open: Floats, chosen: int, clip: np.float32, p: Floats) -> np.float32:
    """Return log p of the chosen node; its gradient replaces scores[r]. p (1, P) is scratch memory."""
    one = np.float32(1.0)
    for n in range(scores.shape[1]):
        t = tanh32(scores[r, n])
        scores[r, n] = t
        p[0, n] = t if is_open[r, n] > 0 else CLOSED
    top = row_maximum(p, 0, 0, p.shape[1])
    total = np.float32(0.0)
    for n in range(p.shape[1]):
        w = exp32(clip * (p[0, n] - top)) * is_open[r, n]
        p[0, n] = w
        total += w
    t, inverse = scores[r, chosen], one / total
    for n in range(p.shape[1]):
        x = scores[r, n]
        scores[r, n] = clip * (x * x - one) * p[0, n] * inverse
    scores[r, chosen] += clip * (one - t * t)
    return clip * (t - top) - np.float32(math.log(total))


@njit(nogil=True, cache=True, fastmath=FAST)
def choose(local: LocalTables, states: States, context: Context, scores: Floats, out: Floats) -> Observation:
    """Write log p of every state; its gradient replaces the scores (S, P). Return what `local_back` needs."""
    demand, lists, config = context
    seen = new_observation(local, len(out))
    if config.penalty or config.use_local:
        state = LocalState(states.current, states.units, states.open_count, states.is_open)
        add_local_scores(local, lists, config, demand, state, scores, seen)
    is_open, chosen, clip = states.is_open, states.chosen, np.float32(config.clip)
    p = np.empty((1, scores.shape[1]), np.float32)
    for r in range(out.shape[0]):
        out[r] = _log_p(scores, r, is_open, chosen[r], clip, p)
    return seen


@njit(fastmath=FAST)
def _attend_back(weights: Floats, slopes: Floats, x: Floats, r: int, attend: Floats, rank: Floats) -> None:
    """Add the gradient of what features and rank add to the scores, given slopes[r] of what `_attend` made."""
    tokens = x.shape[2]
    for h in range(attend.shape[0]):
        at = h * (tokens + 4)
        a, b, c = slopes[r, at + tokens], slopes[r, at + tokens + 1], slopes[r, at + tokens + 2]
        mean = np.float32(0.0)
        for t in range(tokens):
            s = slopes[r, at + t] + a * x[r, 0, t] + b * x[r, 1, t] + c * x[r, 2, t]
            slopes[r, at + t] = s
            mean += weights[r, at + t] * s
        s0, s1, s2 = np.float32(0.0), np.float32(0.0), np.float32(0.0)
        for t in range(tokens):
            s = weights[r, at + t] * (slopes[r, at + t] - mean)
            rank[h, t] += s
            s0 += s * x[r, 0, t]
            s1 += s * x[r, 1, t]
            s2 += s * x[r, 2, t]
        attend[h, 0] += s0
        attend[h, 1] += s1
        attend[h, 2] += s2


@njit(nogil=True, cache=True, fastmath=FAST)
def local_back(local: LocalTables, depot: bool, scores: Floats, seen: Observation) -> tuple[Floats, Floats, Floats]:
    """Return the gradient of the local tables, given that of the scores (S, P)."""
    x, index, found, weights, out = seen.features, seen.node, seen.found, seen.weights, seen.scores
    tokens, shift = x.shape[2], 1 if depot else 0
    attend, rank = np.zeros_like(local.attend), np.zeros_like(local.attend_rank)
    out[:] = np.float32(0.0)
    for r in range(scores.shape[0]):
        if depot:
            out[r, 0] = scores[r, 0]
        for t in range(found[r]):
            out[r, shift + t] = scores[r, index[r, t]]
        for f in range(3):
            for t in range(tokens):
                out[r, tokens + f] += out[r, t] * x[r, f, t]
    slopes = np.dot(out, local.readout.T)
    for r in range(scores.shape[0]):
        _attend_back(weights, slopes, x, r, attend, rank)
    return attend, rank, np.dot(weights.T, out)
