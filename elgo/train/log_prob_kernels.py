"""Compiled kernels of training: weighted sums of log-probabilities and their gradient. See `elgo.train.log_prob`.

S states of one task, R of them in a block; N nodes padded to P; H heads of width d, D = H * d; T tokens of the local
policy; M sequences of nodes.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from elgo.decode.arithmetic import CLOSED, FAST, Floats, Integers, exp32, row_maximum, tanh32
from elgo.decode.local_kernels import (
    KernelConfig,
    LocalState,
    LocalTables,
    NeighbourLists,
    Observation,
    add_local_scores,
    new_observation,
)
from elgo.jit.cache import cached_njit
from elgo.train.glimpse_kernels import Tables, look, look_back, new_block, new_glimpse, new_gradient, write_gradient

BLOCK = 256  # most states at once: enough for BLAS, few enough for the cache
ANY_END = -1  # instead of a move: any route end that may come next is right


class States(NamedTuple):
    """S states and the move in each of them."""

    sequence: Integers  # (S,) row of `when`
    step: Integers  # (S,)
    current: Integers  # (S,)
    units: Integers  # (S,) left in the vehicle
    chosen: Integers  # (S,) the move, or ANY_END
    weight: Floats  # (S,) of its log-probability in the sum
    when: Integers  # (M, P) step at which a node is visited, T if it is not, -1 for padding


class Context(NamedTuple):
    """What the kernels know of the task and of the policy besides the weights."""

    demand: Integers  # (P,) 0 in TSP
    route_ends: Floats  # (P,) 1 for nodes that ANY_END may mean
    lists: NeighbourLists
    config: KernelConfig
    heads: int


@cached_njit(nogil=True)
def list_states(actions: Integers, weight: Floats, size: int, demand: Integers, capacity: int, any_end: bool) -> States:
    """Return the states before those moves of sequences (M, T) whose weight is not 0.

    With any_end, a move away from the depot is to any route end.
    """
    (sequences, length), padded = actions.shape, demand.shape[0]
    count, s = np.count_nonzero(weight), 0
    sequence, step, current, units, chosen = np.empty((5, count), np.int64)
    weights, when = np.empty(count, np.float32), np.full((sequences, padded), -1)
    when[:, :size] = length
    for m in range(sequences):
        left = capacity
        for t in range(length):
            node = actions[m, t]
            if weight[m, t] != 0:
                sequence[s], step[s], current[s], units[s], weights[s] = m, t, actions[m, t - 1], left, weight[m, t]
                chosen[s] = ANY_END if any_end and current[s] == 0 else node
                s += 1
            when[m, node] = min(when[m, node], t)
            left = capacity if node == 0 else left - demand[node]
    return States(sequence, step, current, units, chosen, weights, when)


# --- the choice ------------------------------------------------------------------------------------------------------


@njit(fastmath=FAST, error_model="numpy")
def _softmax(scores: Floats, i: int, allowed: Floats, r: int, clip: np.float32, p: Floats, k: int) -> float:
    """p[k] = softmax of clip * scores[i] over the nodes of allowed[r]; return the log of the sum of exponentials."""
    for n in range(p.shape[1]):
        p[k, n] = scores[i, n] if allowed[r, n] > 0 else CLOSED
    top, total = row_maximum(p, k, 0, p.shape[1]), np.float32(0.0)
    for n in range(p.shape[1]):
        w = exp32(clip * (p[k, n] - top)) * allowed[r, n]
        p[k, n] = w
        total += w
    inverse = np.float32(1.0) / total
    for n in range(p.shape[1]):
        p[k, n] *= inverse
    return float(clip * top) + math.log(total)


@njit(fastmath=FAST)
def _squash(scores: Floats, i: int, base: Floats) -> None:
    """scores[i] = tanh(scores[i] + base)."""
    for n in range(scores.shape[1]):
        scores[i, n] = tanh32(scores[i, n] + base[n])


@njit(fastmath=FAST)
def _squash_back(scores: Floats, i: int, p: Floats, factor: np.float32) -> None:
    """Replace tanh(u) in scores[i] by the gradient of u, factor * (1 - tanh(u)^2) * (p[1] - p[0])."""
    for n in range(p.shape[1]):
        x = scores[i, n]
        scores[i, n] = factor * (np.float32(1.0) - x * x) * (p[1, n] - p[0, n])


@njit(nogil=True)
def _choose(
    chosen: Integers,
    weight: Floats,
    is_open: Floats,
    route_ends: Floats,
    clip: np.float32,
    base: Floats,
    scores: Floats,
) -> float:
    """Return the weighted sum of log p of the moves; its gradient replaces the scores (R, P), to which base is added.

    The gradient of log p is that of the logits of right moves by their shares, minus that of all by theirs.
    """
    total = 0.0
    p, right = np.empty((2, scores.shape[1]), np.float32), np.empty((1, scores.shape[1]), np.float32)
    for i in range(len(chosen)):
        _squash(scores, i, base)
        all_moves = _softmax(scores, i, is_open, i, clip, p, 0)
        if chosen[i] == ANY_END:
            right[0] = is_open[i] * route_ends
            right_moves = _softmax(scores, i, right, 0, clip, p, 1)
        else:
            p[1] = np.float32(0.0)
            p[1, chosen[i]] = np.float32(1.0)
            right_moves = float(clip * scores[i, chosen[i]])
        total += weight[i] * (right_moves - all_moves)
        _squash_back(scores, i, p, clip * weight[i])
    return total


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


@njit(nogil=True, fastmath=FAST)
def _local_back(local: LocalTables, depot: bool, scores: Floats, seen: Observation, grads: LocalTables) -> None:
    """Add the gradient of the local tables, given that of the scores (R, P)."""
    x, index, found, weights, out = seen.features, seen.node, seen.found, seen.weights, seen.scores
    tokens, shift = x.shape[2], 1 if depot else 0
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
        _attend_back(weights, slopes, x, r, grads.attend, grads.attend_rank)
    grads.readout[:] += np.dot(weights.T, out)


# --- states in blocks ------------------------------------------------------------------------------------------------


@njit(nogil=True)
def _open_row(when: Integers, m: int, step: int, demand: Integers, units: int, is_open: Floats, i: int) -> int:
    """Write which nodes are not visited before a step and fit into the units left; return how many."""
    count = 0
    for n in range(demand.shape[0]):
        fits = (when[m, n] >= step) & (demand[n] <= units)
        is_open[i, n] = np.float32(fits)
        count += fits
    return count


@njit(nogil=True)
def _open_nodes(states: States, begin: int, context: Context, is_open: Floats, open_count: Integers) -> None:
    """Write which nodes may come next in the states from `begin` on, and how many without the depot."""
    depot, demand = context.config.has_depot, context.demand
    sequence, step, current, units, when = states.sequence, states.step, states.current, states.units, states.when
    for i in range(len(open_count)):
        s = begin + i
        open_count[i] = _open_row(when, sequence[s], step[s], demand, units[s], is_open, i)
        if depot:
            open_count[i] -= int(is_open[i, 0])
            is_open[i, 0] = np.float32(current[s] != 0)


@cached_njit(nogil=True)
def task_gradient(
    tables: Tables, local: LocalTables, states: States, other: Integers, context: Context, grads: Tables
) -> tuple[float, LocalTables]:
    """Return the weighted sum of log p over the states of a task, and its gradient for the local tables.

    Its gradient for the task's own tables is written into grads. `other` (S,) are rows of tables.query_other.
    """
    config, clip, padded, total = context.config, np.float32(context.config.clip), len(context.demand), 0.0
    glimpse = new_glimpse(tables, context.heads, padded)
    slopes = new_gradient(glimpse)
    own = LocalTables(np.zeros_like(local.attend), np.zeros_like(local.attend_rank), np.zeros_like(local.readout))
    base = glimpse.offset.copy()
    if config.penalty:
        base[1 if config.has_depot else 0 :] -= np.float32(config.xi)
    blocks = max(1, -(-len(other) // BLOCK))
    most = -(-len(other) // blocks)
    block, seen, whole = new_block(glimpse, most), new_observation(local, most), np.empty((most, padded), np.float32)
    for k in range(blocks):
        part = slice(len(other) * k // blocks, len(other) * (k + 1) // blocks)
        size, current, others = part.stop - part.start, states.current[part], other[part]
        is_open, open_count, scores = block.is_open[:size], np.empty(size, np.int64), whole[:size]
        _open_nodes(states, part.start, context, is_open, open_count)
        look(tables, glimpse, current, others, block, scores)
        if config.penalty or config.use_local:
            state = LocalState(current, states.units[part], open_count, is_open)
            add_local_scores(local, context.lists, config, context.demand, state, scores, seen)
        total += _choose(states.chosen[part], states.weight[part], is_open, context.route_ends, clip, base, scores)
        if config.use_local:
            _local_back(local, config.has_depot, scores, seen, own)
        look_back(glimpse, current, others, block, scores, slopes)
    write_gradient(tables, glimpse, slopes, grads)
    return total, own
