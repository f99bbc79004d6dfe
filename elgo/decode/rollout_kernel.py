"""One compiled function that rolls out a block of starts of one task to the end, without the interpreter's lock."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from elgo.decode.arithmetic import CLOSED, FAST, Floats, Integers, exp32, tanh32
from elgo.decode.global_kernels import (
    GlimpseContext,
    GlimpseWork,
    GlobalTables,
    NodeLists,
    add_scores,
    first_factor,
    glimpse,
    list_open,
    new_lists,
    remove_node,
)
from elgo.decode.local_kernels import (
    KernelConfig,
    LocalState,
    LocalTables,
    NeighbourLists,
    add_local_scores,
    new_observation,
)
from elgo.decode.tiles import PARTS, ROOM
from elgo.jit.cache import cached_njit


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
    unvisited: NodeLists  # with the depot, which may always be visited again; in TSP these are the open nodes
    unserved: Integers  # (R, P) CVRP: the demand of customers that are not served yet, more than the capacity elsewhere
    remaining: Integers  # (R,) nodes that are not visited yet, without the depot


@njit(nogil=True)
def _start(tables: GlobalTables, nodes: int, demands: Demands, starts: Integers) -> RolloutState:
    """Return the state after the first move to each start."""
    demand, capacity = demands
    rollouts, padded = starts.shape[0], tables.offset.shape[0]
    depot = demand.shape[0] > 0
    is_open = np.zeros((rollouts, padded), np.float32)
    is_open[:, :nodes] = np.float32(1.0)
    has_first = tables.last.shape[0] > 0 and not depot
    factor = np.zeros((rollouts if has_first else 0, tables.values.shape[0], padded, PARTS), np.float32)
    if has_first:
        first_factor(tables, starts, is_open, factor)
    unvisited = new_lists(rollouts, nodes)
    open_nodes = new_lists(rollouts, nodes) if depot else unvisited
    current, units = starts.copy(), np.zeros(rollouts, np.int64)
    unserved = np.zeros((rollouts if depot else 0, padded), np.int64)
    remaining = np.zeros(rollouts, np.int64)
    for r in range(rollouts):
        remaining[r] = nodes - int(depot)
        if depot:
            units[r] = capacity
            for n in range(padded):
                unserved[r, n] = demand[n] if 0 < n < nodes else capacity + 1
    context = GlimpseContext(starts, current, np.zeros(rollouts, np.float32), is_open, open_nodes, factor)
    local = LocalState(current, units, np.empty(rollouts, np.int64), is_open)
    state = RolloutState(context, local, unvisited, unserved, remaining)
    _move(state, demands, starts)
    return state


@njit(nogil=True)
def _move(state: RolloutState, demands: Demands, chosen: Integers) -> None:
    """Move each rollout to its chosen node."""
    is_open, unserved, remaining = state.local.is_open, state.unserved, state.remaining
    current, units, (demand, capacity) = state.local.current, state.local.units, demands
    depot, (unvisited, edges) = unserved.shape[0] > 0, state.unvisited
    for r in range(chosen.shape[0]):
        node = chosen[r]
        current[r] = node
        if depot and node == 0:
            units[r] = capacity
            continue
        remaining[r] -= 1
        is_open[r, node] = np.float32(0.0)
        remove_node(unvisited, edges, r, node)
        if depot:
            unserved[r, node] = capacity + 1
            units[r] -= demand[node]


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
    if depot:
        list_open(state.unvisited, is_open, state.context.open_nodes)
    return busy


@njit(fastmath=FAST)
def _base_scores(base: Floats, is_open: Floats, r: int, scores: Floats) -> None:
    """scores[r] = base where open, CLOSED elsewhere."""
    for n in range(scores.shape[1]):
        scores[r, n] = base[n] if is_open[r, n] > 0 else CLOSED


@njit
def _best(scores: Floats, r: int, nodes: NDArray[np.int32], count: int) -> int:
    """Return the first of the nodes with the highest score, or the first of all if none is a number."""
    best, top = nodes[r, 0], CLOSED
    for k in range(count):
        if scores[r, nodes[r, k]] > top:
            best, top = nodes[r, k], scores[r, nodes[r, k]]
    return best


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


@cached_njit(nogil=True)
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
    nodes, edges = state.context.open_nodes
    actions[:, 0] = starts
    base = tables.offset.copy()
    for n in range(int(config.has_depot), base.shape[0] if config.penalty else 0):
        base[n] -= np.float32(config.xi)
    scores, padded = np.empty(is_open.shape, np.float32), is_open.shape[1]
    glimpses = np.empty((rollouts, tables.values.shape[0], ROOM), np.float32)
    work = GlimpseWork(np.empty(padded * PARTS, np.float32), np.empty((1, padded), np.float32))
    seen, chosen = new_observation(local, rollouts), np.empty(rollouts, np.int64)
    t = 1
    while _open_nodes(state, demands) and control[1] == 0:
        for r in range(rollouts):
            _base_scores(base, is_open, r, scores)
        if config.use_global:
            glimpse(tables, state.context, work, glimpses)
            add_scores(tables, state.context, glimpses, scores)
        if config.penalty or config.use_local:
            add_local_scores(local, lists, config, demands.demand, state.local, scores, seen)
        for r in range(rollouts):
            node = _best(scores, r, nodes, edges[r, -1])
            if uniforms.shape[0] > 0:
                node, confidence[r, t] = _sample(scores[r], node, is_open[r], config.clip, uniforms[r, t])
            actions[r, t] = chosen[r] = node
        _move(state, demands, chosen)
        t += 1
        control[0] = t
