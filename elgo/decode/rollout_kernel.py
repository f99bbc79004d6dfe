"""One compiled function that rolls out a block of starts of one task to the end, without the interpreter's lock."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from elgo.decode.arithmetic import CLOSED, FAST, Floats, Integers, exp32, tanh32
from elgo.decode.global_kernels import GlimpseContext, GlobalTables, first_factor, glimpse
from elgo.decode.local_kernels import (
    KernelConfig,
    LocalState,
    LocalTables,
    NeighbourLists,
    add_local_scores,
    new_observation,
)


class Demands(NamedTuple):
    """What the customers of a task need, and what a vehicle can carry."""

    demand: Integers  # (N,) with the depot's 0 first; empty in TSP
    capacity: int


class Block(NamedTuple):
    """R rollouts: where they start, and where their actions are written."""

    starts: Integers  # (R,)
    uniforms: Floats  # (R, T) numbers that decide sampled moves, or (0, 0) for greedy rollouts
    actions: NDArray[np.int32]  # (R, T)
    confidence: Floats  # (R, T) probability of the likeliest node at each sampled move


class RolloutState(NamedTuple):
    """R partial solutions of one task."""

    context: GlimpseContext
    local: LocalState
    unserved: Integers  # (R, P) CVRP: the demand of customers that are not served yet, more than the capacity elsewhere
    remaining: Integers  # (R,) nodes that are not visited yet, without the depot


@njit(nogil=True)
def _start(tables: GlobalTables, nodes: int, demands: Demands, starts: Integers) -> RolloutState:
    """Return the state after the first move to each start."""
    demand, capacity = demands
    rollouts, padded, heads = starts.shape[0], tables.offset.shape[0], tables.query_load.shape[0]
    depot = demand.shape[0] > 0
    is_open = np.zeros((rollouts, padded), np.float32)
    is_open[:, :nodes] = np.float32(1.0)
    keep_first = tables.last.shape[0] > 0 and not depot
    masked_first = np.empty((rollouts if keep_first else 0, heads, padded), np.float32)
    if keep_first:
        first_factor(tables, starts, is_open, masked_first)
    current, units = starts.copy(), np.zeros(rollouts, np.int64)
    unserved = np.full((rollouts if depot else 0, padded), capacity + 1)
    for r in range(rollouts):
        if depot:
            units[r] = capacity
            unserved[r, 1:nodes] = demand[1:]
    context = GlimpseContext(starts, current, np.zeros(rollouts, np.float32), is_open, masked_first)
    local = LocalState(current, units, np.empty(rollouts, np.int64), is_open)
    state = RolloutState(context, local, unserved, np.full(rollouts, nodes - (1 if depot else 0)))
    _move(state, demands, starts)
    return state


@njit(nogil=True)
def _move(state: RolloutState, demands: Demands, chosen: Integers) -> None:
    """Move each rollout to its chosen node."""
    _, _, _, is_open, masked_first = state.context
    unserved, remaining = state.unserved, state.remaining
    current, units, (demand, capacity) = state.local.current, state.local.units, demands
    depot, heads = unserved.shape[0] > 0, masked_first.shape[1] if masked_first.shape[0] > 0 else 0
    for r in range(chosen.shape[0]):
        node = chosen[r]
        current[r] = node
        if depot and node == 0:
            units[r] = capacity
            continue
        remaining[r] -= 1
        is_open[r, node] = np.float32(0.0)
        if depot:
            unserved[r, node] = capacity + 1
            units[r] -= demand[node]
        for h in range(heads):
            masked_first[r, h, node] = np.float32(0.0)


@njit(nogil=True)
def _open_by_load(unserved: Integers, units: int, is_open: Floats, r: int) -> int:
    """Open the customers whose demand fits into the units left; return how many there are."""
    count = 0
    for i in range(unserved.shape[1]):
        fits = unserved[r, i] <= units
        is_open[r, i] = np.float32(fits)
        count += fits
    return count


@njit(nogil=True)
def _open_nodes(state: RolloutState, demands: Demands) -> bool:
    """Find the nodes that may come next in each rollout; return False once all rollouts are finished."""
    current, units, open_count, is_open = state.local
    remaining, load, unserved = state.remaining, state.context.load, state.unserved
    depot = unserved.shape[0] > 0
    busy = False
    for r in range(current.shape[0]):
        if depot:
            load[r] = np.float32(units[r]) / np.float32(demands.capacity)
            open_count[r] = _open_by_load(unserved, units[r], is_open, r)
            is_open[r, 0] = np.float32(1.0) if current[r] != 0 or remaining[r] == 0 else np.float32(0.0)
            busy = busy or current[r] != 0 or remaining[r] > 0
        else:
            open_count[r] = remaining[r]
            busy = busy or remaining[r] > 0
    return busy


@njit(fastmath=FAST | {"nnan"})
def _mask(scores: Floats, r: int, base: Floats, is_open: Floats) -> np.float32:
    """scores[r] += base where open, CLOSED elsewhere; return its maximum."""
    top = CLOSED
    for n in range(scores.shape[1]):
        u = scores[r, n] + base[n]
        u = u if is_open[r, n] > 0 else CLOSED
        scores[r, n] = u
        top = max(top, u)
    return top


@njit
def _best(scores: Floats, r: int, top: np.float32, is_open: Floats) -> int:
    """Return the lowest index with the highest score, without an early exit so that it vectorises."""
    none = np.int32(scores.shape[1])
    best = none
    for n in range(none):
        best = min(best, np.int32(n) if scores[r, n] == top and is_open[r, n] > 0 else none)
    if best < none:
        return int(best)
    for n in range(none):  # not a number anywhere: some open node, never an index out of bounds
        if is_open[r, n] > 0:
            return n
    return -1


@njit(nogil=True, fastmath=FAST)
def _sample(row: Floats, best: int, is_open: Floats, clip: float, uniform: np.float32) -> tuple[int, np.float32]:
    """Draw a node from softmax(clip * tanh(row)) over the open nodes by inverting the distribution at `uniform`.

    Return it with the probability of the best node.
    """
    top = tanh32(row[best])
    total = np.float32(0.0)
    for n in range(row.shape[0]):
        row[n] = exp32(np.float32(clip) * (tanh32(row[n]) - top)) * is_open[n]
        total += row[n]
    target = uniform * total
    chosen, mass = best, np.float32(0.0)
    for n in range(row.shape[0]):
        if row[n] > 0:
            chosen = n
            mass += row[n]
            if mass > target:
                break
    return chosen, np.float32(1.0) / total


@njit(nogil=True, cache=True)
def run_block(
    tables: GlobalTables,
    local: LocalTables,
    lists: NeighbourLists,
    config: KernelConfig,
    demands: Demands,
    block: Block,
    control: Integers,
) -> None:
    """Roll out the starts of a block to the end.

    control[0] counts the steps for progress reports; the rollouts are abandoned once control[1] is not 0.
    """
    starts, uniforms, actions, confidence = block
    state = _start(tables, lists.coords.shape[0], demands, starts)
    is_open, rollouts = state.context.is_open, starts.shape[0]
    actions[:, 0] = starts
    base = tables.offset.copy()
    if config.penalty:
        base[1 if config.has_depot else 0 :] -= config.xi
    scores, rows = np.zeros(is_open.shape, np.float32), np.zeros((4, is_open.shape[1]), np.float32)
    glimpses = np.empty((rollouts, tables.query_load.size), np.float32)
    seen, chosen = new_observation(local, rollouts), np.empty(rollouts, np.int64)
    t = 1
    while _open_nodes(state, demands) and control[1] == 0:
        if config.use_global:
            glimpse(tables, state.context, rows, glimpses)
            np.dot(glimpses, tables.readout, scores)
        else:
            scores[:] = np.float32(0.0)
        if config.penalty or config.use_local:
            add_local_scores(local, lists, config, demands.demand, state.local, scores, seen)
        for r in range(rollouts):
            node = _best(scores, r, _mask(scores, r, base, is_open), is_open)
            if uniforms.shape[0] > 0:
                node, confidence[r, t] = _sample(scores[r], node, is_open[r], config.clip, uniforms[r, t])
            actions[r, t] = chosen[r] = node
        _move(state, demands, chosen)
        t += 1
        control[0] = t
